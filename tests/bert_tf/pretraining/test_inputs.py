"""Examples against what the objective needs of them."""

import types

import pytest

from bert_tf.objectives.masked_lm_next_sentence import MaskedLMNextSentence
from bert_tf.pretraining import inputs
from pipelines.common.errors import InputError
from tests.bert_tf.helpers import CONFIG


def test_examples_without_the_features_are_refused():
    model = MaskedLMNextSentence(CONFIG)
    settings = types.SimpleNamespace(phases=[types.SimpleNamespace(tfrecords="folder")])
    examples = types.SimpleNamespace(names=model.features - {"next_sentence_labels"})
    data = types.SimpleNamespace(training=[examples], objective="mlm_nsp")
    with pytest.raises(InputError, match="folder: the examples lack next_sentence_labels"):
        inputs.check_features(model, settings, data)
