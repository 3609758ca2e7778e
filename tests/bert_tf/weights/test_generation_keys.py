"""Settings of generation in folders of Hugging Face, which are reported."""

import json

import pytest

from bert_tf.weights.huggingface import generation
from bert_tf.weights.huggingface.keys import GENERATION


@pytest.mark.parametrize(
    ("stated", "forced", "found"),
    [
        # BART's for summaries.
        (
            {"num_beams": 4, "length_penalty": 2.0, "min_length": 56, "forced_bos_token_id": 0,
             "forced_eos_token_id": 2, "_from_model_config": True, "eos_token_id": 2},
            True,
            "length_penalty 2.0, min_length 56, num_beams 4",
        ),
        ({"forced_eos_token_id": 2}, False, "forced_eos_token_id 2"),
        ({"temperature": 0.6, "num_beams": 1, "repetition_penalty": 1.0}, False, ""),
        ({"do_sample": True, "temperature": 0.6}, False, "do_sample True, temperature 0.6"),
        ({"eos_token_id": [2, 3], "use_cache": True}, False, r"eos_token_id [2, 3]"),
        ({"my_key": 5}, False, "my_key"),
    ],
)  # fmt: skip
def test_settings_of_generation_are_reported(tmp_path, caplog, stated, forced, found):
    config = {"bos_token_id": 0, "eos_token_id": 2}
    (tmp_path / "generation_config.json").write_text(json.dumps(stated))
    generation.report(config, str(tmp_path), forced)
    assert found in caplog.text and bool(found) == bool(caplog.text)
    caplog.clear()
    (tmp_path / "generation_config.json").unlink()  # older folders have them in config.json
    known = {key: value for key, value in stated.items() if key in GENERATION}
    generation.report(config | known, str(tmp_path), forced)
    assert bool(caplog.text) == (bool(found) and bool(known))
