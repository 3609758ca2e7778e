"""Workers that were not started alike: all of them say so, and nothing is trained."""

import glob

import pytest

from tests import commands
from tests.bert_tf.helpers import cluster_of
from tests.bert_tf.pretraining import runs

pytestmark = pytest.mark.more


def _errors(*each):
    """What two workers say that are started with different words."""
    workers = [
        commands.Running(*words, env={"TF_CONFIG": config})
        for words, config in zip(each, cluster_of(2), strict=True)
    ]
    return [commands.error_of(worker.wait()) for worker in workers]


def test_other_settings(tfrecords, model_path, tmp_path):
    words = runs.command(tfrecords, model_path, tmp_path / "out")
    found = _errors(words, [*words, "--learning_rate=1e-3"])
    assert (
        found[0]
        == found[1]
        == (
            "error: the workers differ in their settings, data or models; run the same command on all "
            "of them, with the same files."
        )
    )
    assert not glob.glob(f"{tmp_path}/out/checkpoints/*")


@pytest.mark.slow
def test_folders_that_are_not_shared(tfrecords, model_path, tmp_path):
    one, other = (runs.command(tfrecords, model_path, tmp_path / name) for name in "ab")
    begun = commands.Running(*one)
    assert begun.kill_when(lambda: glob.glob(f"{tmp_path}/a/checkpoints/checkpoint-*[0-9]"))
    found = _errors(one, other)
    assert found[0] == found[1]
    assert found[0].startswith("error: the workers differ in the checkpoints that they see; ")
