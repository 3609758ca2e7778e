"""Models and exports that several test files use."""

import pytest

from bert_tf.exports import saved_model, sources
from bert_tf.predictor import Predictor
from tests.bert_tf import exported, labelled_data


@pytest.fixture(scope="session")
def init(tmp_path_factory) -> str:
    """A folder of a small model of random weights, to fine-tune."""
    return labelled_data.write_init(str(tmp_path_factory.mktemp("init") / "model"))


@pytest.fixture(scope="session")
def folders(vocab_path, tmp_path_factory) -> dict[str, str]:
    """Folders of small models by the names of their tasks."""
    return exported.write_folders(vocab_path, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def export(folders, tmp_path_factory) -> str:
    """All of them in one export."""
    entries = [f"{name}={folder}" for name, folder in folders.items()]
    return saved_model.export(sources.find(entries), str(tmp_path_factory.mktemp("e") / "bert"))


@pytest.fixture(scope="session")
def predictor(export) -> Predictor:
    """The export, loaded."""
    return Predictor(export)
