"""Pictures that several shapes of tasks share."""

import dataclasses
import itertools
import logging
import warnings

import matplotlib.figure
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from bert_tf import tasks
from bert_tf.tasks import labels as labels_module
from bert_tf.tasks import plots
from bert_tf.tasks.classification.task import ClassPrediction
from pipelines.labelled.schema import TextExample


def _drawn(matrix, labels):
    """The axes of a confusion matrix, laid out as it is saved."""
    figure = matplotlib.figure.Figure(figsize=(8, 6), layout="constrained")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of glyphs that are missing
        plots.draw_confusion(figure, np.array(matrix), labels)
        FigureCanvasAgg(figure).draw()  # another canvas makes a renderer for each size asked for
    return figure.axes


def _names(ticks):
    return [label.get_text() for label in ticks]


def _overlap(labels):
    boxes = [label.get_window_extent() for label in labels]
    return any(a.overlaps(b) for a, b in itertools.pairwise(boxes))


def test_labels_that_no_font_has_are_numbers_and_a_legend(monkeypatch, caplog):
    monkeypatch.setattr(plots, "_has", lambda _: frozenset(range(128)))
    with caplog.at_level(logging.WARNING):
        (axes,) = _drawn(np.eye(2, dtype=int), ["\u77ed", "a"])
    assert _names(axes.get_xticklabels()) == ["0", "a"]
    assert "the picture has 0: \u77ed. pip install" in caplog.messages[-1]


def test_names_are_drawn_as_they_are():
    names = ["$5 to $10", "a_b^c", "x\ny", "z" * 100]
    (axes,) = _drawn(np.eye(4, dtype=int), names)
    assert _names(axes.get_yticklabels()) == ["$5 to $10", "a_b^c", r"x\ny", "z" * 39 + "…"]
    assert not any(label.get_parse_math() for label in axes.get_yticklabels())


@pytest.mark.parametrize("count", [5, 77])
def test_names_of_many_labels_do_not_overlap(count):
    rng = np.random.default_rng(0)
    matrix = rng.poisson(0.05, (count, count)) + np.diag(rng.poisson(30, count))
    *_, axes = _drawn(matrix, [f"card_payment_{index}_not_recognised" for index in range(count)])
    assert len(axes.get_yticks()) == count
    assert not _overlap(axes.get_xticklabels()) and not _overlap(axes.get_yticklabels())


def test_the_pairs_of_many_labels_that_are_confused_most_are_shown():
    matrix = 50 * np.eye(120, dtype=int)
    matrix[7, 3], matrix[119, 118], matrix[0, 1] = 9, 30, 2
    pairs, axes = _drawn(matrix, [f"label {index}" for index in range(120)])
    shown = ["label 119 → label 118", "label 7 → label 3", "label 0 → label 1"]
    assert _names(pairs.get_yticklabels()) == shown
    assert [text.get_text() for text in pairs.texts] == ["30 of 80", "9 of 59", "2 of 52"]
    assert axes.get_title() == "the 100 of 120 labels that are confused most"
    named = _names(axes.get_yticklabels())
    assert {"label 0", "label 1", "label 3", "label 7", "label 118", "label 119"} <= set(named)


def test_of_many_labels_those_that_are_confused_are_drawn(monkeypatch):
    monkeypatch.setattr(labels_module, "_MOST_COMPARED", 3)
    names = tuple("abcdef")
    task = dataclasses.replace(tasks.make("classification"), labels=names)
    examples = [TextExample(name, name, name, None, name) for name in names]

    def drawn(guesses):
        predictions = [ClassPrediction(guess, np.zeros(6)) for guess in guesses]
        figure = matplotlib.figure.Figure()
        task.draw(figure, examples, predictions)
        return _names(figure.axes[-1].get_yticklabels())

    assert drawn("abcdfe") == ["e", "f"]
    assert drawn("abcdef") == ["a"]
