"""Other libraries as references, in an environment of their own that `make test-all` makes."""

import os
import subprocess
from pathlib import Path

import pytest

_TRANSFORMERS = Path(__file__).parent / "hugging_face_outputs.py"


def python(library):
    """The Python that has a library; where there is none, the test is skipped."""
    found = os.environ.get("PEER_PYTHON")
    if not found:
        pytest.skip(f"PEER_PYTHON names no Python with {library}; make test-all sets it")
    return found


def output(*command, given=None):
    """What a command prints that must end well; `given` is its input."""
    done = subprocess.run(command, input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def transformers(*arguments):
    """What the script of outputs of Hugging Face transformers prints."""
    return output(python("transformers"), "-P", str(_TRANSFORMERS), *arguments)
