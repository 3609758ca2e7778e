"""A server of an export, in a process of its own."""

import contextlib
import json
import resource
import time
import urllib.error
import urllib.request

from tests import commands
from tests.ports import free_ports


class Served:
    """A server that runs, and its addresses.

    Args:
      folder: of versions.
      *flags: of the command.
    """

    def __init__(self, folder, *flags):
        self.grpc_port, self.rest_port = free_ports(2)
        ports = (f"--grpc_port={self.grpc_port}", f"--rest_port={self.rest_port}")
        # Nothing is measured: tests say what they want.
        fixed = ("--engine=tensorflow", "--threads=1")
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

    def check_refusal(self, path, body, status, words):
        """Checks that a request is refused with a status, and with these words in one line."""
        found, text = self.get(path, body)
        error = json.loads(text)["error"]
        message = error if isinstance(error, str) else error["message"]
        assert (found, words in message) == (status, True), (found, message)
        assert "\n" not in message

    @property
    def log(self):
        """What it has logged so far."""
        return self.process.log

    @property
    def memory(self):
        """Its resident memory, in bytes."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

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
