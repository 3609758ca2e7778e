"""A server of the tests' export."""

import contextlib
import os
import shutil
import socket
import time
import urllib.error
import urllib.request

import pytest

from bert_tf.export import saved_model, sources
from tests import commands


class Served:
    """A server that runs, and its addresses.

    Args:
      folder: of versions.
      *flags: of the command.
    """

    def __init__(self, folder, *flags):
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in range(2)]
            for each in sockets:
                each.bind(("127.0.0.1", 0))
            self.grpc_port, self.rest_port = (each.getsockname()[1] for each in sockets)
        ports = (f"--grpc_port={self.grpc_port}", f"--rest_port={self.rest_port}")
        # Nothing is measured, nothing compiled: tests say what they want.
        fixed = ("--engine=tensorflow", "--threads=1", "--lengths=0")
        self.process = commands.Running("serve", f"--model={folder}", *ports, *fixed, *flags)

    @property
    def grpc(self):
        """The address for clients of gRPC."""
        return f"grpc://127.0.0.1:{self.grpc_port}"

    @property
    def rest(self):
        """The address for clients of REST."""
        return f"http://127.0.0.1:{self.rest_port}"

    def get(self, path, data=None, trust=None, **headers):
        """The status and the text of an answer over HTTP, or by TLS with whom one trusts."""
        base = self.rest.replace("http:", "https:") if trust else self.rest
        request = urllib.request.Request(f"{base}{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=60, context=trust) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def wait(self, trust=None):
        """Waits until it answers."""
        end = time.monotonic() + 400
        while time.monotonic() < end and self.process.poll() is None:
            with contextlib.suppress(OSError):
                if self.get("/healthz", trust=trust)[0] == 200:
                    return self
            time.sleep(0.1)
        raise AssertionError(self.process.wait(1).stderr[-3000:])

    def stop(self):
        """Asks it to end, and returns how it did."""
        if self.process.poll() is None:
            self.process.send_signal(15)
        return self.process.wait(60)


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
