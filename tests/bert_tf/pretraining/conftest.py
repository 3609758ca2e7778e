"""A whole run of pre-training, for the tests of what it leaves and of what begins with it."""

import pytest

from tests.bert_tf.pretraining import runs


@pytest.fixture(scope="session")
def model_path(tmp_path_factory):
    """A bert_config.json of a very small model."""
    path = str(tmp_path_factory.mktemp("model") / "bert_config.json")
    runs.MODEL.save(path)
    return path


@pytest.fixture(scope="session")
def finished(tfrecords, model_path, tmp_path_factory):
    """The output folder of a whole run."""
    output = tmp_path_factory.mktemp("out") / "pretrained"
    runs.done(tfrecords, model_path, output, "--saved_model")
    return output
