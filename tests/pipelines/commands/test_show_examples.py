"""Examples that are printed."""

import shutil

from tests import commands


def test_a_damaged_record_is_named(tfrecords, tmp_path):
    folder = shutil.copytree(tfrecords, tmp_path / "examples")
    path = min(folder.glob("train-*"))
    assert "tokens, " in commands.done("show-examples", f"--tfrecords={folder}").stdout
    data = bytearray(path.read_bytes())
    data[40] ^= 0xFF
    path.write_bytes(data)
    error = commands.error_of(commands.run("show-examples", f"--tfrecords={folder}"))
    assert f"{path}: record 0 is damaged" in error
