"""Help: flags by group, with defaults and ranges, as wide as it should be."""

from typing import Annotated

import pytest

from pipelines.common import flag_help, flag_types
from pipelines.common.flag_types import Flag, Group, Range

ABOUT = """Does something with files that are long enough for a paragraph of more than one line.

  bert-tf something --count=1 \\
      --name=a-name-that-is-so-long-that-no-terminal-of-a-hundred-columns-could-hold-it-at-all

Then ends.
"""


KNOWN = [
    Flag(name, kind, default, text, group)
    for name, kind, default, text, group in (
        ("count", Annotated[int, Range(minimum=1, below=1 << 31)], 3, "How many.", Group.MACHINE),
        ("rates", Annotated[tuple[float, ...], Range(above=0)], (5e-5, 1.0), "Rates.", Group.DATA),
        ("quick", bool, False, "Be quick, " * 30, Group.DATA),
        ("letter", Annotated[str, flag_types.choice(("a", "b"))], "a", "A letter.", Group.DATA),
        ("names", list, ["x", "y"], "Names.", Group.DATA),
        ("input", str, flag_types.REQUIRED, "A file.", Group.DATA),
        ("place", flag_types.Path, None, "Where. Not given: here.", Group.DATA),
    )
]


@pytest.fixture
def page(monkeypatch):
    """The help in a terminal of so many columns."""

    def shown(columns):
        monkeypatch.setenv("COLUMNS", str(columns))
        return flag_help.page("bert-tf something", ABOUT, KNOWN)

    return shown


def test_flags_stand_by_group_and_required_ones_first(page):
    lines = page(80).splitlines()
    assert lines[0] == "usage: bert-tf something [--flag=value ...]"
    heads = [line for line in lines if line.startswith("  --") or line.endswith(":")]
    assert heads == [
        "Input and output:",
        "  --input=TEXT  (required)",
        "  --rates=X,X,...  (default: 5e-05,1; each above 0)",
        "  --[no_]quick  (default: --no_quick)",
        "  --letter=a|b  (default: a)",
        "  --names=A,B,...  (default: x,y)",
        "  --place=PATH",
        "Hardware and speed:",
        "  --count=N  (default: 3; at least 1, below 2,147,483,648)",
    ]
    assert lines[lines.index("  --place=PATH") + 1] == "      Where. Not given: here."


@pytest.mark.parametrize(("columns", "width"), [(40, 60), (60, 60), (88, 88), (300, 100)])
def test_text_is_as_wide_as_the_terminal_within_reason_and_examples_are_kept(page, columns, width):
    shown = page(columns)
    example = ABOUT.split("\n\n")[1]
    assert example in shown
    lines = shown.replace(example, "").splitlines()
    assert width - 10 < max(map(len, lines)) <= width
