"""Signatures that are cut: each half has what it needs, and no more."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.export import halves
from bert_tf.tasks.signatures import Computation, Signature
from pipelines.tokenizers.packing import MODEL_INPUTS

DOUBLE = Computation("double", (tf.TensorSpec([None], tf.int32),), lambda rows, drop: None)


def _cut(before, after):
    """The halves of a signature of numbers; between them they are doubled, by whom we like.

    Args:
      before: gives what is doubled, and what the second half gets besides.
      after: gives the outputs, of the numbers that were doubled, and of that.
    """
    cuts = []
    engine = halves.CutEngine.__new__(halves.CutEngine)
    engine._cuts = cuts

    def function(inputs):
        numbers, rest = before(inputs["numbers"])
        (doubled,) = engine.compute(DOUBLE, dict.fromkeys(MODEL_INPUTS, numbers))
        return after(doubled, rest)

    signature = Signature("numbers", {"numbers": tf.TensorSpec([None], tf.int32)}, function, {})
    return halves._halves(signature, cuts)


def _run(cut, numbers):
    """What both halves, and what is computed between them, make of some numbers."""
    state = cut.prepare(numbers=tf.constant(numbers, tf.int32))
    ids = state[MODEL_INPUTS[0]]
    kept = {name: value for name, value in state.items() if name.startswith("state_")}
    found = cut.finish(**kept, **{halves.RESULT.format(0): 2 * ids})
    return {name: value.numpy().tolist() for name, value in found.items()}


def _types(function):
    """The operations of a concrete function, and of those that it calls."""
    definition = function.graph.as_graph_def()
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    return {node.op for node in nodes}


def test_each_half_has_its_own_operations():
    cut = _cut(lambda x: (x + 1, tf.cumsum(x)), lambda y, rest: {"sum": y * rest})
    assert _run(cut, [1, 2, 3]) == {"sum": [4, 18, 48]}
    assert "Cumsum" in _types(cut.prepare) and "Mul" not in _types(cut.prepare)
    assert "Mul" in _types(cut.finish) and "Cumsum" not in _types(cut.finish)


def test_inputs_and_constants_may_be_outputs():
    cut = _cut(
        lambda x: (x, x), lambda y, rest: {"given": rest, "two": y, "three": tf.constant([3])}
    )
    assert _run(cut, [5, 7]) == {"given": [5, 7], "two": [10, 14], "three": [3]}


def test_some_outputs_of_an_operation_may_be_of_either_half():
    def before(x):
        found = tf.unique_with_counts(x)
        return found.y, (found.idx, found.count)

    cut = _cut(before, lambda y, rest: {"all": tf.gather(y, rest[0]), "counts": rest[1]})
    assert _run(cut, [4, 4, 9]) == {"all": [8, 8, 18], "counts": [2, 1]}
    assert "UniqueWithCounts" not in _types(cut.finish)


def test_what_the_second_half_waits_for_is_checked_in_the_first():
    """A check has no output: only those that wait for it have it done."""

    def before(x):
        return x, tf.debugging.Assert(tf.reduce_all(x >= 0), ["numbers must be from 0."])

    def after(y, check):
        with tf.control_dependencies([check]):
            return {"found": tf.identity(y)}

    cut = _cut(before, after)
    assert _run(cut, [0, 3]) == {"found": [0, 6]}
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"numbers must be from 0\."):
        cut.prepare(numbers=tf.constant([1, -1]))
    assert _types(cut.finish).isdisjoint({"Assert", "If", "StatelessIf"})


def test_checks_of_the_second_half_stay_there():
    def after(y, rest):
        check = tf.debugging.Assert(tf.reduce_all(y < 100), ["results must be below 100."])
        with tf.control_dependencies([check]):
            return {"found": tf.identity(y)}

    cut = _cut(lambda x: (x, None), after)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"results must be below 100\."):
        _run(cut, [1, 70])
    assert _run(cut, [1, 7]) == {"found": [2, 14]}


def test_a_check_may_compare_both_halves():
    """And constants may wait for checks of either."""

    def before(x):
        return x, (tf.cumsum(x), tf.debugging.Assert(tf.size(x) > 0, ["give a number."]))

    def after(y, rest):
        total, some = rest
        check = tf.debugging.Assert(tf.reduce_all(y <= 2 * total), ["too many."])
        with tf.control_dependencies([check, some]):
            return {"found": tf.identity(y), "one": tf.constant([1])}

    cut = _cut(before, after)
    assert _run(cut, [1, 2]) == {"found": [2, 4], "one": [1]}
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"too many\."):
        _run(cut, [-1, 2])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"give a number\."):
        cut.prepare(numbers=tf.zeros([0], tf.int32))


def test_tables_are_those_of_the_graph():
    """Of either half, also within functions that it calls."""
    initial = tf.lookup.KeyValueTensorInitializer(tf.range(4), tf.range(10, 14))
    table = tf.lookup.StaticHashTable(initial, -1)
    weights = tf.Variable([1, 100])
    looked_up = tf.function(table.lookup, [tf.TensorSpec([None], tf.int32)])
    cut = _cut(
        lambda x: (looked_up(x), table.lookup(x + 1)),
        lambda y, rest: {"found": looked_up(y - 20) + rest, "weighed": y * weights},
    )
    assert _run(cut, [0, 1]) == {"found": [21, 24], "weighed": [20, 2200]}
    weights.assign([0, 1])
    assert _run(cut, [0, 1])["weighed"] == [0, 22]


def test_only_functions_that_are_called_are_kept():
    first = tf.function(lambda x: tf.bitwise.invert(x), [tf.TensorSpec([None], tf.int32)])
    second = tf.function(lambda x: tf.math.sign(x), [tf.TensorSpec([None], tf.int32)])
    cut = _cut(lambda x: (first(x), None), lambda y, rest: {"found": second(y)})
    assert _run(cut, [5, -5]) == {"found": [-1, 1]}
    assert "Invert" in _types(cut.prepare) and "Sign" not in _types(cut.prepare)
    assert "Sign" in _types(cut.finish) and "Invert" not in _types(cut.finish)


def test_loops_and_branches_are_cut_whole():
    def before(x):
        _, total = tf.while_loop(
            lambda i, _: i < tf.size(x), lambda i, t: (i + 1, t + x[i]), [0, 0]
        )
        return x, total

    def after(y, total):
        return {"found": tf.cond(total > 3, lambda: y + total, lambda: y)}

    cut = _cut(before, after)
    assert _run(cut, [1, 1]) == {"found": [2, 2]}
    assert _run(cut, [1, 9]) == {"found": [12, 28]}
    assert np.array_equal(_run(cut, [])["found"], [])
