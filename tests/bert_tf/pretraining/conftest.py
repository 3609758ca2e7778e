"""A whole run of pre-training, for the tests of what it leaves and of what begins with it."""

import pathlib

import pytest

from tests.bert_tf.pretraining import runs
from tests.conftest import made_once


@pytest.fixture(scope="session")
def model_path(tmp_path_factory):
    """A bert_config.json of a very small model."""
    folder = made_once(
        tmp_path_factory, "config", lambda folder: runs.MODEL.save(f"{folder}/bert_config.json")
    )
    return f"{folder}/bert_config.json"


@pytest.fixture(scope="session")
def finished(tfrecords, model_path, tmp_path_factory):
    """The output folder of a whole run."""

    def make(folder):
        runs.done(tfrecords, model_path, f"{folder}/pretrained", "--saved_model")

    return pathlib.Path(made_once(tmp_path_factory, "run", make), "pretrained")
