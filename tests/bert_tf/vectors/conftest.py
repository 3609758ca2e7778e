"""Files of texts and of words to extract features of."""

import pytest

from tests.bert_tf.vectors.extracted import CONLL, TEXTS
from tests.bert_tf.vectors.sentence_models import sentence_model  # noqa: F401  # a fixture


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS), "utf-8")
    return f"{tmp_path}/texts.txt"


@pytest.fixture
def words(tmp_path):
    (tmp_path / "words.conll").write_text(CONLL, "utf-8")
    return f"{tmp_path}/words.conll"
