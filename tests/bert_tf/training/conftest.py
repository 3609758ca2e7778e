"""A model for runs of several workers."""

import dataclasses

import pytest

from tests.bert_tf.pretraining import runs


@pytest.fixture(scope="module")
def model_path(tmp_path_factory, vocab_path):
    """The configuration of a very small model, of as many tokens as the vocabulary has."""
    tokens = len(open(vocab_path).read().splitlines())
    path = str(tmp_path_factory.mktemp("model") / "bert_config.json")
    dataclasses.replace(runs.MODEL, vocab_size=tokens).save(path)
    return path
