"""Which fonts show a text."""

import warnings

import matplotlib.figure
import numpy as np
from matplotlib import font_manager

from bert_tf.tasks import base, plots


def test_usual_letters_need_the_usual_font_only():
    assert plots.covering("neg pos, größer") == list(matplotlib.rcParams["font.family"])


def test_other_fonts_help_out(monkeypatch):
    path = font_manager.findfont("DejaVu Sans")
    entry = font_manager.FontEntry(fname=path, name="Other")
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [entry])
    monkeypatch.setattr(plots, "_has", lambda name: {0x77ED} if name == path else set())
    monkeypatch.setattr(font_manager, "findfont", lambda _: "default")
    assert plots.covering("\u77ed")[-1] == "Other"
    assert plots.covering("\u77ed\u957f") is None


def test_boxes_are_no_letters(monkeypatch):
    entries = font_manager.fontManager.ttflist
    boxes = [entry for entry in entries if entry.name.startswith("Last Resort")]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", boxes)
    assert plots.covering("\u77ed") is None


def test_fonts_that_are_gone_are_passed_over(monkeypatch):
    entry = font_manager.FontEntry(fname="/nowhere/gone.ttf", name="Gone")
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [entry])
    assert plots.covering("\u77ed") is None


def test_labels_that_no_font_has_are_numbers(monkeypatch):
    monkeypatch.setattr(plots, "_has", lambda _: frozenset(range(128)))
    axes = matplotlib.figure.Figure().subplots()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of glyphs that are missing
        base.draw_matrix(axes, np.eye(2, dtype=int), ["\u77ed", "a"])
        axes.figure.canvas.draw()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1"]
