"""What TensorFlow prints at its start, and which of it is shown."""

import os
import subprocess
import sys

import pytest

import bert_tf
from pipelines.common import quiet_start

_CUDA = "E0000 00:00:1 1 cuda_platform.cc:52] failed call to cuInit: INTERNAL\n"


def _printed(code):
    root = os.path.dirname(os.path.dirname(bert_tf.__file__))
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.more
@pytest.mark.skipif(quiet_start._has_gpu(), reason="there is a GPU")
def test_a_program_sees_no_error_where_there_is_no_gpu():
    code = "import bert_tf, tensorflow as tf; bert_tf.BertEncoder; print(tf.constant(1))"
    assert "cuInit" not in _printed(code)


@pytest.mark.more
@pytest.mark.skipif(quiet_start._has_gpu(), reason="there is a GPU")
def test_a_program_that_begins_with_this_package_sees_no_messages():
    assert _printed("import bert_tf; bert_tf.BertConfig") == ""


def _start(monkeypatch, devices, found, said):
    """What is shown where a machine has these devices, and TensorFlow found those GPUs."""
    import tensorflow as tf

    def look(kind=None):
        os.write(2, said.encode())
        return found

    monkeypatch.setattr(quiet_start.glob, "glob", lambda pattern: devices)
    monkeypatch.setenv("XLA_FLAGS", "")
    monkeypatch.setattr(tf.config, "list_physical_devices", look)


@pytest.mark.parametrize(
    ("devices", "visible", "found", "shown"),
    [
        ([], None, [], False),
        (["/dev/nvidia0"], None, ["GPU:0"], False),
        (["/dev/nvidia0"], None, [], True),
        (["/dev/nvidia0"], "", [], False),
    ],
    ids=["no GPU", "a GPU", "a GPU that is not used", "a GPU that is hidden"],
)
def test_why_a_gpu_is_not_used_is_shown(monkeypatch, capfd, devices, visible, found, shown):
    _start(monkeypatch, devices, found, _CUDA)
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    quiet_start.import_silently()
    assert ("cuInit" in capfd.readouterr().err) is shown


@pytest.mark.parametrize(
    ("devices", "flags", "expected"),
    [
        ([], "", ""),
        (["/dev/nvidia0"], "", "--xla_gpu_enable_triton_gemm=false"),
        (["/dev/nvidia0"], "--xla_a=1", "--xla_a=1 --xla_gpu_enable_triton_gemm=false"),
        (["/dev/nvidia0"], *["--xla_gpu_enable_triton_gemm=true"] * 2),
    ],
    ids=["no GPU", "a GPU", "other flags are kept", "the user's choice is kept"],
)
def test_products_are_left_to_cublas(monkeypatch, devices, flags, expected):
    _start(monkeypatch, devices, devices, "")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("XLA_FLAGS", flags)
    quiet_start.import_silently()
    assert os.environ["XLA_FLAGS"] == expected


@pytest.mark.parametrize(("end", "status"), [("os.abort()", -6), ("os._exit(3)", 3)])
def test_a_process_that_ends_in_the_import_says_why(capfd, end, status):
    code = f"""
import os, sys
sys.path.insert(0, {os.path.dirname(os.path.dirname(bert_tf.__file__))!r})
from pipelines.common import quiet_start
with quiet_start._stderr_filtered(lambda text: b"") as descriptors:
    with quiet_start._shown_after_abort(*descriptors):
        os.write(2, b"I0000 00:00:1 1 port.cc:153] news\\nF0000 cpu.cc:1] needs AVX.\\n")
        {end}
"""
    done = subprocess.run([sys.executable, "-S", "-c", code], stderr=subprocess.PIPE)
    assert done.returncode == status
    assert done.stderr == b"F0000 cpu.cc:1] needs AVX.\n"


def test_nothing_else_is_hidden_from_a_program(monkeypatch, capfd):
    _start(monkeypatch, [], [], f"one\n{_CUDA}two\n")
    quiet_start.look_for_devices.__wrapped__()
    assert capfd.readouterr().err == "one\ntwo\n"
