"""The code of the guide for Keras users runs as it stands there."""

import pathlib
import re

import pytest

from tests.bert_tf import labelled_data

GUIDE = pathlib.Path(__file__).parents[1] / "docs" / "guides" / "keras.md"
RELEASED = "uncased_L-12_H-768_A-12"


@pytest.mark.more
def test_the_guide_for_keras_users_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    labelled_data.write_init(str(tmp_path / RELEASED))
    first, data, lora, int8 = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.S)
    # The small model of the tests has fewer positions than the released one.
    first, data = (code.replace("128", "32") for code in (first, data))
    names = {}
    exec(first, names)
    assert names["classifier"].history.history["loss"]
    assert (tmp_path / "classifier.keras").exists()
    exec(data, names)
    exec(int8, names)
    exec(lora, names)
