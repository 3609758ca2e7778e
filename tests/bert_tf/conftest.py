"""Models and exports that several test files use."""

import pytest

from bert_tf.export import saved_model, sources
from bert_tf.serving.predictor import Predictor
from tests.bert_tf import exported, labelled_data
from tests.conftest import made_once


@pytest.fixture(scope="session")
def init(tmp_path_factory) -> str:
    """A folder of a small model of random weights, to fine-tune."""
    return labelled_data.write_init(str(tmp_path_factory.mktemp("init") / "model"))


@pytest.fixture(scope="session")
def folders(vocab_path, tmp_path_factory) -> dict[str, str]:
    """Folders of small models by the names of their tasks."""
    place = made_once(
        tmp_path_factory, "models", lambda folder: exported.write_folders(vocab_path, folder)
    )
    return exported.folders_in(place)


@pytest.fixture(scope="session")
def export(folders, tmp_path_factory) -> str:
    """All of them in one export."""

    def make(folder):
        entries = [f"{name}={place}" for name, place in folders.items()]
        saved_model.export(sources.find(entries), f"{folder}/bert")

    return f"{made_once(tmp_path_factory, 'export', make)}/bert/1"


@pytest.fixture(scope="session")
def bfloat16_export(folders, tmp_path_factory) -> str:
    """The task `mood` in bfloat16."""

    def make(folder):
        found = sources.find([f"mood={folders['mood']}"])
        saved_model.export(found, f"{folder}/bert", dtype="bfloat16")

    return f"{made_once(tmp_path_factory, 'bfloat16', make)}/bert/1"


@pytest.fixture(scope="session")
def predictor(export) -> Predictor:
    """The export, loaded."""
    return Predictor(export)


@pytest.fixture(scope="session")
def engine_cache(tmp_path_factory) -> str:
    """A folder of models that engines have converted, which is kept by export and engine."""
    return made_once(tmp_path_factory, "engines", lambda folder: None)
