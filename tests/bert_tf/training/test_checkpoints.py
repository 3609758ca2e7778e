"""Checkpoints: whole, checked, the newest few."""

import errno
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.training import checkpoints
from bert_tf.training.checkpoints import Checkpoints
from pipelines.common import files
from pipelines.common.errors import InputError


@pytest.fixture
def state(tmp_path):
    """A variable and its checkpoints."""
    variable = tf.Variable([1.0, 2.0])
    return variable, Checkpoints(str(tmp_path), {"model/a": variable}, keep=2)


def test_the_newest_few_are_kept_and_restored_bit_by_bit(state):
    variable, checkpoints = state
    for step in (1, 2, 3):
        variable.assign([step / 3, float("1e-45")])
        checkpoints.save(step)
    assert checkpoints.steps() == [2, 3]
    wanted = variable.numpy().tobytes()
    variable.assign([0.0, 0.0])
    assert checkpoints.restore_newest() == 3
    assert variable.numpy().tobytes() == wanted


def test_without_a_checkpoint_nothing_is_restored(state):
    assert state[1].restore_newest() is None


@pytest.mark.parametrize("damage", ["flip", "cut", "missing", "no_checksums"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(state, damage, caplog):
    variable, checkpoints = state
    for step in (1, 2):
        variable.assign([float(step), 0.0])
        checkpoints.save(step)
    folder = checkpoints.path(2)
    data = f"{folder}/state.data-00000-of-00001"
    if damage == "missing":
        os.remove(data)
    elif damage == "no_checksums":
        os.remove(f"{folder}/checksums.json")
    else:
        content = bytearray(pathlib.Path(data).read_bytes())
        content[3] ^= 1
        with open(data, "wb") as file:
            file.write(content if damage == "flip" else content[:-4])
    with caplog.at_level("WARNING"):
        assert checkpoints.restore_newest() == 1
    assert "checkpoint-00000002: is damaged" in caplog.text
    assert variable.numpy()[0] == 1
    assert checkpoints.resume() == 1
    assert checkpoints.steps() == [1]


def test_a_checkpoint_that_cannot_be_read_now_is_not_given_up(state, monkeypatch):
    """Storage that fails for a moment must not cost a run its checkpoints."""
    _, checkpoints = state
    for step in (1, 2):
        checkpoints.save(step)

    def fail(path):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(files, "sha256", fail)
        with pytest.raises(InputError, match="0002/.* cannot be read .*Input/output error.*remove"):
            checkpoints.resume()
    assert checkpoints.resume() == 2
    assert checkpoints.steps() == [1, 2]


@pytest.mark.parametrize("writes", [True, False])
def test_a_kill_before_the_oldest_was_removed_leaves_no_more_than_usual(state, tmp_path, writes):
    variable, _ = state
    more = Checkpoints(str(tmp_path), {"model/a": variable}, keep=9)
    for step in (1, 2, 3, 4):
        more.save(step)
    again = Checkpoints(
        str(tmp_path), {"model/a": variable}, keep=2, write=writes, kept=frozenset({1})
    )
    (tmp_path / "checkpoint-00000005.partial").mkdir()
    assert again.resume() == 4
    assert (tmp_path / "checkpoint-00000005.partial").exists() == (not writes)
    assert again.steps() == ([1, 3, 4] if writes else [1, 2, 3, 4])


def test_a_half_written_checkpoint_is_not_seen(state, monkeypatch):
    variable, checkpoints = state
    checkpoints.save(1)
    monkeypatch.setattr("pipelines.common.json_files.write", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        checkpoints.save(2)
    assert checkpoints.steps() == [1]
    variable.assign([5.0, 5.0])
    assert checkpoints.restore_newest() == 1


def test_a_full_disk_is_named(state, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pipelines.common.json_files.write", full)
    with pytest.raises(InputError, match="checkpoint-00000001: no space left"):
        state[1].save(1)
    assert not [name for name in os.listdir(state[1].folder) if "partial" in name]


def test_a_checkpoint_of_another_model_is_refused(state, tmp_path):
    state[1].save(1)
    other = Checkpoints(str(tmp_path), {"model/a": tf.Variable([1.0, 2.0, 3.0])})
    with pytest.raises(InputError, match="is of another model"):
        other.restore_newest()
    model = Checkpoints(str(tmp_path), {"model/b": tf.Variable(0.0)})
    with pytest.raises(InputError, match=r"is of another model \(.*\)\. Choose another one\."):
        model.restore_weights(state[1].path(1))


def test_infinite_values_are_seen(state):
    variable, checkpoints = state
    assert checkpoints.all_finite()
    variable.assign([1.0, float("nan")])
    assert not checkpoints.all_finite()


def test_the_weights_alone_can_be_taken_from_another_run(tmp_path):
    def variables(value):
        return {"model/a": tf.Variable([value]), "optimizer/b": tf.Variable([value])}

    Checkpoints(str(tmp_path / "first"), variables(7.0)).save(3)
    mine = variables(1.0)
    Checkpoints(str(tmp_path / "second"), mine).restore_weights(
        str(tmp_path / "first" / "checkpoint-00000003")
    )
    assert [float(variable[0]) for variable in mine.values()] == [7.0, 1.0]


def test_some_steps_are_kept_for_good(tmp_path):
    variable = tf.Variable(0.0)
    saved = Checkpoints(str(tmp_path), {"model/a": variable}, keep=2, kept=frozenset((2, 5)))
    for step in range(1, 9):
        variable.assign(float(step))
        saved.save(step)
    assert saved.steps() == [2, 5, 7, 8]
    later = Checkpoints(str(tmp_path), {"model/a": variable}, keep=2)  # resumed without a word
    later.resume()
    later.save(9)
    assert later.steps() == [2, 5, 8, 9]
    saved.restore(5)
    assert variable.numpy() == 5.0


def test_a_path_that_would_be_a_pattern_is_refused(tmp_path):
    """TensorFlow writes such checkpoints, and does not find them."""
    with pytest.raises(InputError, match=r"cannot be read from a path with \[; name another"):
        Checkpoints(f"{tmp_path}/a[1]/checkpoints", {})
    with pytest.raises(InputError, match=r"with \*"):
        checkpoints.write_arrays(f"{tmp_path}/a*", {"x": np.zeros(1)})
