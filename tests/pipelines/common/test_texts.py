"""Text from outside, and how it is shown."""

import numpy as np
import pytest

from pipelines.common import texts
from pipelines.common.errors import InputError


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\n lines\u2028more", "two lines more"),
        ("\u202eturned\u2066 \u200fround\x07\ud800", "turned round"),
        ("한국어 😀: é", "한국어 😀: é"),
        ("word " * 1000, f"{'word ' * 15}word…"),
        ("x" * 80, "x" * 80),
    ],
)
def test_a_label_is_short_and_has_no_control_characters(text, shown):
    assert texts.label(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines\r\n", r"two\nlines\r\n"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("a\u2028b\u2029c\x85d", r"a\u2028b\u2029c\x85d"),
        ("turned \u202eround", r"turned \u202eround"),
        ("half \ud800", r"half \ud800"),
        ("as it is: é 中 \u3000 \\n", "as it is: é 中 \u3000 \\n"),
    ],
)
def test_what_would_end_a_line_is_shown_as_an_escape(text, shown):
    assert texts.one_line(text) == shown
    assert str(InputError(f"{text}: is bad.")) == f"{shown}: is bad."
    assert len(f"{shown}".splitlines()) == 1
    shown.encode()  # it can be printed


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0 steps"),
        (1, "1 step"),
        (1.0, "1 step"),
        (0.5, "0.5 steps"),
        (2000, "2,000 steps"),
        (np.int64(1), "1 step"),
        (np.int64(1234567), "1,234,567 steps"),
    ],
)
def test_one_thing_is_in_the_singular(number, shown):
    assert texts.counted(number, "step") == shown
