"""Which fonts show a text."""

import warnings

import matplotlib.figure
import pytest
from matplotlib import font_manager

from bert_tf.tasks import plots


def test_usual_letters_need_the_usual_font_only():
    assert plots.fonts_for("neg pos, größer") == list(matplotlib.rcParams["font.family"])


def test_other_fonts_help_out(monkeypatch):
    path = font_manager.findfont("DejaVu Sans")
    entry = font_manager.FontEntry(fname=path, name="Other")
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [entry])
    monkeypatch.setattr(plots, "_has", lambda name: {0x77ED} if name == path else set())
    monkeypatch.setattr(font_manager, "findfont", lambda _: "default")
    monkeypatch.setattr(plots, "_of_packages", lambda: iter([]))
    assert plots.fonts_for("\u77ed")[-1] == "Other"
    assert plots.fonts_for("\u77ed\u957f") is None


def test_boxes_are_no_letters(monkeypatch):
    entries = font_manager.fontManager.ttflist
    boxes = [entry for entry in entries if entry.name.startswith("Last Resort")]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", boxes)
    monkeypatch.setattr(plots, "_of_packages", lambda: iter([]))
    assert plots.fonts_for("\u77ed") is None


def test_fonts_that_are_gone_are_passed_over(monkeypatch):
    entry = font_manager.FontEntry(fname="/nowhere/gone.ttf", name="Gone")
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [entry])
    monkeypatch.setattr(plots, "_of_packages", lambda: iter([]))
    assert plots.fonts_for("\u77ed") is None


LANGUAGES = {
    "Korean": "긍정", "Chinese": "正面", "traditional Chinese": "影特", "long Chinese": "肯定的",
    "Japanese": "ポジ", "Persian": "ایجابی", "Hindi": "सकारात्मक", "Thai": "ดี", "thumb up": "👍",
}  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_labels_of_many_languages_are_drawn_where_only_latin_fonts_are_installed(
    monkeypatch, language
):
    label = LANGUAGES[language]
    usual = [e for e in font_manager.fontManager.ttflist if e.name.startswith("DejaVu")]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", usual)
    families = plots.fonts_for(label)
    assert families is not None
    figure = matplotlib.figure.Figure()
    figure.subplots().set_title(label, fontfamily=families)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of glyphs that are missing
        figure.canvas.draw()
