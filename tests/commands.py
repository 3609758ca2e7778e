"""Commands in processes of their own that start at once.

Each is forked from a server that has imported TensorFlow and this package, as the workers of the
example writer are; only flags and the command itself are imported anew.
"""

import contextlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time

from bert_tf import __main__

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["pipelines.common.quiet_worker", "tests.preloaded"])
# A process that is started looks after all others, and an exit status can be read once.
_LOCK = threading.Lock()


class Running:
    """A command that runs.

    Args:
      module: the name of a command, or a module of the tests.
      *flags: its flags.
      cwd: the folder to run in.
      env: variables of the environment besides.
    """

    def __init__(self, module, *flags, cwd=None, env=None):
        self.args = [module, *map(str, flags)]
        self._files = [tempfile.NamedTemporaryFile() for _ in range(2)]
        names = [file.name for file in self._files]
        environment = {**os.environ, **(env or {})}
        self._process = _CONTEXT.Process(
            target=_command, args=(self.args, cwd or os.getcwd(), environment, *names)
        )
        with _LOCK:
            self._process.start()

    @property
    def pid(self):
        """Its process."""
        return self._process.pid

    @property
    def log(self):
        """Its stderr so far."""
        return open(self._files[1].name, errors="replace").read()

    def poll(self):
        """The exit status, None while it runs."""
        with _LOCK:
            return self._process.exitcode

    def send_signal(self, number):
        """Sends a signal."""
        os.kill(self.pid, number)

    def kill(self):
        """Kills it."""
        self.send_signal(signal.SIGKILL)

    def kill_when(self, condition, timeout=1200):
        """Kills it when a condition holds; says whether that came before its end."""
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                self._hangs()
            if condition():
                with contextlib.suppress(ProcessLookupError):  # it ends at this moment
                    self.kill()
                return self.wait().returncode == -signal.SIGKILL
            time.sleep(0.002)
        return False

    def _hangs(self):
        self.kill()
        raise AssertionError(f"{self.args} did not end")

    def wait(self, timeout=1200):
        """The exit status, stdout and stderr, when it has ended."""
        end = time.monotonic() + timeout
        while self.poll() is None and time.monotonic() < end:
            time.sleep(0.005)
        if self.poll() is None:
            self._hangs()
        out, err = (open(file.name, errors="replace").read() for file in self._files)
        return subprocess.CompletedProcess(self.args, self.poll(), out, err)


def run(module, *flags, **where):
    """Runs a command to its end; arguments as for `Running`."""
    return Running(module, *flags, **where).wait()


def done(module, *flags, **where):
    """Runs a command that must end well."""
    process = run(module, *flags, **where)
    assert process.returncode == 0, process.stderr[-3000:]
    return process


def error(module, *flags, **where):
    """Runs a command that must refuse its input in one line, and returns that."""
    return error_of(run(module, *flags, **where))


def error_of(process):
    """The one line of a command that refused its input."""
    assert process.returncode == 2, process.stderr[-3000:]
    assert "Traceback" not in process.stderr, process.stderr[-3000:]
    return process.stderr.strip().splitlines()[-1]


def _command(args, cwd, environment, out, err):
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdout.flush()
    sys.stderr.flush()
    for name, descriptor in ((out, 1), (err, 2)):
        file = os.open(name, os.O_WRONLY)
        os.dup2(file, descriptor)
        os.close(file)
    name, *rest = args
    if "." in name:  # a module of the tests
        sys.argv = list(args)
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        sys.argv = ["bert-tf", name, *rest]
        __main__.main()
