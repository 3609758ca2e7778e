"""Pictures that several shapes of tasks share."""

import logging
import warnings

import matplotlib.figure
import numpy as np

from bert_tf.tasks import fonts, plots


def test_labels_that_no_font_has_are_numbers_and_a_legend(monkeypatch, caplog):
    monkeypatch.setattr(fonts, "_has", lambda _: frozenset(range(128)))
    axes = matplotlib.figure.Figure().subplots()
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")  # of glyphs that are missing
        plots.draw_matrix(axes, np.eye(2, dtype=int), ["\u77ed", "a"])
        axes.figure.canvas.draw()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1"]
    assert "0: \u77ed, 1: a" in caplog.text
