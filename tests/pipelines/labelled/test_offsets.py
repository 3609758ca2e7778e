"""Starts of answers that were counted in other units than characters."""

import pytest

from pipelines.labelled import offsets
from pipelines.labelled.schema import AnswerSpan, SpanExample

CONTEXT = "Es regnet \U0001f327 oft.\nDann schneit es \u2014 im Wald.\nUnd am Ende taut es."
LINES = CONTEXT.replace("\U0001f327", "stark")
ANSWERS = ("regnet", "Dann", "Wald", "Ende")


def example(context, answer, start):
    return SpanExample("0", "x", "?", context, (AnswerSpan(answer, start),))


def corrected(context, counted):
    """The examples, and the number of characters by which their starts were wrong."""
    starts = [context.index(answer) for answer in ANSWERS]
    given = [
        example(context, answer, counted(context[:start]))
        for answer, start in zip(ANSWERS, starts, strict=True)
    ]
    found = offsets.corrected(given, "dev.json")
    assert [e.answers[0].start for e in found] == starts


@pytest.mark.parametrize(
    ("context", "counted", "message"),
    [
        (CONTEXT, lambda text: len(text.encode("utf-16-le")) // 2, "3 answers of 4 count UTF-16"),
        (CONTEXT, lambda text: len(text.encode()), "3 answers of 4 count bytes of UTF-8"),
        (LINES, lambda text: len(text) + text.count("\n"), "3 answers of 4 count line breaks twice"),
        (
            LINES.replace("\n", "\r\n"),
            lambda text: len(text) - text.count("\r"),
            "3 answers of 4 count line breaks once",
        ),
        (CONTEXT, lambda text: len(text) + 1, "4 answers of 4 count +1 throughout"),
        (CONTEXT, len, None),
    ],
)  # fmt: skip
def test_starts_in_other_units_are_corrected(context, counted, message, caplog):
    corrected(context, counted)
    if message:
        assert f"dev.json: the starts of {message}" in caplog.text
    else:
        assert not caplog.text


def test_a_single_wrong_start_stays(caplog):
    right = [example(CONTEXT, answer, CONTEXT.index(answer)) for answer in ANSWERS[:3]]
    wrong = example(CONTEXT, "regnet", CONTEXT.index("regnet") + 1)
    nothing = SpanExample("1", "x", "?", CONTEXT, ())
    assert offsets.corrected([*right, wrong, nothing], "x") == [*right, wrong, nothing]
    assert not caplog.text
