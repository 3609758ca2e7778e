"""Servers of the tests' export, and of nothing."""

import contextlib
import os
import shutil

import pytest

from bert_tf.export import saved_model, sources
from tests.bert_tf.serving.server.served import Served
from tests.bert_tf.serving.server.stub import Stub


@pytest.fixture(scope="session")
def served(export):
    """A server of the export with all tasks."""
    server = Served(os.path.dirname(export)).wait()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def two_tasks(folders, tmp_path_factory):
    """An export of two tasks, which is loaded sooner than that of all."""
    folder = tmp_path_factory.mktemp("two_tasks")
    found = sources.find([f"{name}={folders[name]}" for name in ("mood", "tags")])
    return saved_model.export(found, f"{folder}/bert")


@pytest.fixture
def serve(tmp_path, two_tasks):
    """Starts servers of copies of the export of two tasks, which end with the test."""
    started = []
    folder = tmp_path / "bert"
    shutil.copytree(two_tasks, folder / "1")

    def start(*flags, trust=None):
        started.append(Served(folder, *flags).wait(trust))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@contextlib.contextmanager
def _started(**options):
    """A stub, which must not have logged a traceback at the end."""
    server = Stub(**options).wait()
    yield server
    log = server.log
    server.process.kill()
    server.process.wait(60)
    assert "Traceback" not in log, log[-3000:]


@pytest.fixture
def stub():
    """Starts stubs with options, which end with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda **options: stack.enter_context(_started(**options))


@pytest.fixture(scope="module")
def module_stub():
    """Starts stubs with options, which end with the module."""
    with contextlib.ExitStack() as stack:
        yield lambda **options: stack.enter_context(_started(**options))


@pytest.fixture(scope="session")
def usual_stub():
    """A stub without options, for tests that do not measure its memory."""
    with _started() as server:
        yield server
