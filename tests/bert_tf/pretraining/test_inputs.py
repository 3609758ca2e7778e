"""Examples against what the objective needs of them."""

import types

import pytest

from bert_tf.objectives.masked_lm_next_sentence import MaskedLMNextSentence
from bert_tf.pretraining import inputs
from pipelines.common.errors import InputError
from tests.bert_tf.helpers import CONFIG
from tests.bert_tf.pretraining.runs import write_examples


def test_examples_without_the_features_are_refused():
    model = MaskedLMNextSentence(CONFIG)
    settings = types.SimpleNamespace(phases=[types.SimpleNamespace(tfrecords="folder")])
    examples = types.SimpleNamespace(names=model.features - {"next_sentence_labels"})
    data = types.SimpleNamespace(training=[examples], objective="mlm_nsp")
    with pytest.raises(InputError, match="folder: the examples lack next_sentence_labels"):
        inputs.check_features(model, settings, data)


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (("--masked_lm_prob=0.3", "--max_seq_length=48"), "masked_lm_prob"),
        (("--mask_share=0.5", "--max_seq_length=48"), "mask_share"),
        (("--max_predictions_per_seq=9",), "max_predictions_per_seq"),
        (("--max_predictions_per_seq=9", "--max_seq_length=48"), None),
    ],
)
def test_phases_that_draw_masks_need_the_same_rates(corpus_path, vocab_path, tmp_path, flags, name):
    dynamic = (
        "--objective=mlm", "--masking=dynamic", "--max_seq_length=32", "--max_predictions_per_seq=5",
    )  # fmt: skip
    for folder, more in (("a", ()), ("b", flags)):
        write_examples(corpus_path, vocab_path, tmp_path / folder, *dynamic, *more)
    phases = [types.SimpleNamespace(tfrecords=f"{tmp_path}/{folder}") for folder in "ab"]
    settings = types.SimpleNamespace(phases=phases)
    if name is None:
        assert inputs.masking(inputs.open_data(settings)).max_predictions == {32: 5, 48: 9}
        return
    with pytest.raises(InputError, match=rf"/b: was written with --{name}=.*/a with .* again"):
        inputs.open_data(settings)
