"""Help: flags by group, with defaults and ranges, as wide as it should be."""

import pytest
from absl import flags

from pipelines.common import flag_help, flag_types
from pipelines.common.flag_types import Group

ABOUT = """Does something with files that are long enough for a paragraph of more than one line.

  bert-tf something --count=1 \\
      --name=a-name-that-is-so-long-that-no-terminal-of-a-hundred-columns-could-hold-it-at-all

Then ends.
"""


@pytest.fixture
def known(monkeypatch):
    """Flags of two groups, defined in no order."""
    monkeypatch.setattr(flags, "FLAGS", values := flags.FlagValues())

    def define(parser, name, default, text, **kind):
        flags.DEFINE(parser, name, default, text, flag_values=values, **kind)

    with flag_types.group(Group.MACHINE):
        define(flag_types.NumberParser(int, minimum=1, below=1 << 31), "count", 3, "How many.")
    with flag_types.group(Group.DATA):
        define(
            flag_types.NumberParser(float, several=True, above=0), "rates", (5e-5, 1.0), "Rates."
        )
        flags.DEFINE_bool("quick", False, "Be quick, " * 30, flag_values=values)
        define(flag_types.ChoiceParser(("a", "b")), "letter", "a", "A letter.")
        flags.DEFINE_list("names", ["x", "y"], "Names.", flag_values=values)
        define(flags.ArgumentParser(), "input", None, "A file.", required=True)
    define(flag_types.PathParser(), "place", None, "Where. Not given: here.")
    return [values[name] for name in values]


def test_flags_stand_by_group_and_required_ones_first(known):
    lines = flag_help.page("bert-tf something", ABOUT, known, 80).splitlines()
    assert lines[0] == "usage: bert-tf something [--flag=value ...]"
    heads = [line for line in lines if line.startswith("  --") or line.endswith(":")]
    assert heads == [
        "Input and output:",
        "  --corpus=TEXT  (required)",
        "  --rates=X,X,...  (default: 5e-05,1; each above 0)",
        "  --[no_]quick  (default: --no_quick)",
        "  --letter=a|b  (default: a)",
        "  --names=A,B,...  (default: x,y)",
        "  --place=PATH",
        "Hardware and speed:",
        "  --count=N  (default: 3; at least 1, below 2,147,483,648)",
    ]
    assert lines[lines.index("  --place=PATH") + 1] == "      Where. Not given: here."


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_text_is_wrapped_and_examples_are_not(known, columns):
    page = flag_help.page("bert-tf something", ABOUT, known, columns)
    example = ABOUT.split("\n\n")[1]
    assert example in page
    lines = page.replace(example, "").splitlines()
    assert max(map(len, lines)) <= columns
    assert max(map(len, lines)) > columns - 10  # what is long is as wide as may be


@pytest.mark.parametrize(("columns", "width"), [("40", 60), ("88", 88), ("300", 100)])
def test_help_is_as_wide_as_the_terminal_within_reason(monkeypatch, columns, width):
    monkeypatch.setenv("COLUMNS", columns)
    assert flag_help.width() == width
