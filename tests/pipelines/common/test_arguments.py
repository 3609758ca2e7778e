"""Command lines become flags with values; each error is one line with the remedy."""

import enum
import os
from types import SimpleNamespace
from typing import Annotated

import pytest

from pipelines.common import arguments, flag_types
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Flag, Group, Range


class Fruit(enum.StrEnum):
    APPLE = "apple"
    PEAR = "pear"


@pytest.fixture
def known():
    """Flags of each type, of no command."""
    kinds = {
        "steps": (flag_types.Count, 10),
        "share": (Annotated[float | None, Range(above=0, below=1)], None),
        "seeds": (Annotated[tuple[int, ...], Range(minimum=0)], (1,)),
        "fruit": (Fruit, Fruit.APPLE),
        "letters": (Annotated[tuple, flag_types.choices(("a", "b"))], ("a", "b")),
        "max_path": (flag_types.Path | None, None),
        "init": (str, flag_types.REQUIRED),
        "data": (list, []),
        "columns": (dict[str, str] | None, None),
        "query": (Annotated[str, flag_types.REPEATED], None),
        "header": (bool | None, None),
        "pipeline": (Annotated[tuple, flag_types.WORDS], None),
    }
    return {name: Flag(name, *about, "", Group.DATA) for name, about in kinds.items()}


def _parsed(known, *words):
    arguments.parse(["--init=m", *words], known)
    return SimpleNamespace(**{name: flag.value for name, flag in known.items()})


def test_values_are_those_that_are_written(known):
    found = _parsed(
        known, "--steps", "5", "--share=0.5", "--seeds=1,2", "--fruit=pear", "--letters=b",
        "--max-path=a b/", "--data=x,y", "-no-header", "--columns=text=a,label=b",
    )  # fmt: skip
    assert (found.steps, found.share, found.seeds) == (5, 0.5, (1, 2))
    assert found.fruit is Fruit.PEAR and found.letters == ("b",)
    assert (found.max_path, found.data, found.header) == ("a b", ["x", "y"], False)
    assert found.columns == {"text": "a", "label": "b"}
    # A shell leaves the ~ of a flag's value as it is.
    assert _parsed(known, "--max_path=~/a").max_path == os.path.expanduser("~/a")


def test_what_follows_two_dashes_is_for_another_program(known):
    words = ("--steps=many", "--a b", "x", "--", "")
    assert _parsed(known, "--steps=5", "--", *words).pipeline == words
    assert known["steps"].value == 5
    assert _parsed(known, "--pipeline=--a='b c' --d").pipeline == ("--a=b c", "--d")
    assert _parsed(known, "--").pipeline == ()
    with pytest.raises(InputError, match="--pipeline='a: unclosed quote"):
        _parsed(known, "--pipeline='a")


def test_what_is_not_given_is_the_default(known):
    found = _parsed(known)
    assert (found.steps, found.share, found.seeds, found.fruit) == (10, None, (1,), Fruit.APPLE)
    assert (found.letters, found.data, found.header) == (("a", "b"), [], None)


@pytest.mark.parametrize("word", ["--header", "--header=true", "--no_header", "--noheader"])
def test_booleans_are_said_in_several_ways(known, word):
    assert _parsed(known, word).header is ("no" not in word)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--stesp=5"], "unknown flag --stesp"),
        (["--no_steps"], "unknown flag --no_steps"),
        (["--steps"], "--steps has no value; write --steps=VALUE"),
        (["--max_path", "--steps=5"], "--max_path has no value; write --max_path=VALUE"),
        (["5"], "unexpected argument: 5; write --flag=value, and put a value with blanks or * in quotes"),
        (["--steps", "=", "5"], "--steps has no value; write --steps=VALUE"),
        (["steps=5"], "unexpected argument: steps=5; write --flag=value"),
        (["--steps 5"], "unknown flag --steps 5"),
        (["--steps="], "--steps=: it must be a whole number, at least 1"),
        (["--steps=0"], "--steps=0: it must be a whole number, at least 1"),
        ([f"--steps={1 << 63}"], f"--steps={1 << 63}: it does not fit into 64 bits"),
        (["--share=much"], "--share=much: it must be a number, above 0, below 1"),
        (["--share=nan"], "--share=nan: it must be a finite number"),
        (["--seeds=1,x"], "--seeds=1,x: it must be whole numbers separated by commas, each at least 0"),
        (["--fruit=paer"], "--fruit=paer: it must be one of apple, pear; did you mean pear?"),
        (["--letters=a,z"], "--letters=a,z: it must be one of a, b"),
        (["--max_path= "], "--max_path= : it must be the path of a file or folder"),
        (["--header=perhaps"], "--header=perhaps: it must be true or false"),
        (["--no_header=true"], "--no_header=true: --no_header takes no value"),
        (["--columns=text"], "--columns=text: 'text' is not of the form ROLE=NAME"),
        (["--columns=text=a,text=b"], "--columns=text=a,text=b: text is given twice"),
        (["--data=\udc80"], "--data='\\udc80': it is not UTF-8"),
        (["--more_flags=--steps='7"], "unclosed quote in --steps='7"),
        (["--flagfile=none"], "--flagfile=none: No such file or directory"),
    ],
)  # fmt: skip
def test_an_error_names_the_remedy(known, words, message):
    with pytest.raises(InputError) as error:
        _parsed(known, *words)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_missing_flags_are_named(known):
    with pytest.raises(InputError, match="^missing --init$"):
        arguments.parse(["--steps=5"], known)
    with pytest.raises(InputError, match="^missing --init$"):
        arguments.parse(["--init="], known)  # as `make` passes a variable that has no value


def test_the_last_value_of_a_flag_is_used_with_a_warning(known, caplog):
    assert _parsed(known, "--steps=5", "--steps=5", "--steps=6").steps == 6
    assert caplog.messages == ["--steps=5 is ignored for --steps=6"]
    caplog.clear()
    assert _parsed(known, "--data=x", "--data=y").data == ["y"]
    assert caplog.messages[0].endswith("(separate several values with commas)")


def test_more_flags_override_those_before_them(known, caplog):
    found = _parsed(known, "--steps=5", "--more_flags=--steps=6 --data='a b'")
    assert (found.steps, found.data) == (6, ["a b"])
    assert caplog.messages == ["--steps=5 is ignored for --steps=6"]


def test_flags_that_may_be_repeated_have_all_values(known, caplog):
    assert _parsed(known, "--query=a", "--query=b").query == ["a", "b"]
    assert caplog.messages == []


def test_flags_override_those_of_files_wherever_they_are(known, tmp_path, caplog):
    (tmp_path / "inner.flags").write_text("--seeds=3\n")
    path = tmp_path / "a.flags"
    path.write_text(f"\ufeff# Comment\n\n--steps=7\n--flagfile={tmp_path}/inner.flags\n--header")
    for words in ([f"--flagfile={path}", "--steps=8"], ["--steps=8", f"--flagfile={path}"]):
        found = _parsed(known, *words)
        assert (found.steps, found.seeds, found.header) == (8, (3,), True)
    assert _parsed(known, "--steps=8", f"--more_flags=--flagfile={path}").steps == 8
    path.write_text("--more_flags=--steps=9 --seeds=4\n")
    found = _parsed(known, f"--flagfile={path}")
    assert (found.steps, found.seeds) == (9, (4,))
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--stesp=5", "unknown flag --stesp"),
        ("--steps 5", "unknown flag --steps 5"),
        ("--steps=x", "--steps=x: it must be a whole number"),
    ],
)
def test_an_error_in_a_file_names_the_line(known, tmp_path, line, message):
    path = tmp_path / "a.flags"
    path.write_text(f"# Steps\n{line}\n")
    with pytest.raises(InputError) as error:
        _parsed(known, f"--flagfile={path}")
    assert str(error.value).startswith(f"{path}: line 2: {message}")


def test_files_that_cannot_be_read(known, tmp_path):
    path = tmp_path / "a.flags"
    for line in (f"--flagfile={path}", f"--more_flags=--flagfile={path}"):
        path.write_text(line)
        with pytest.raises(InputError, match="this flag file includes itself"):
            _parsed(known, f"--flagfile={path}")
    path.write_bytes(b"\xff")
    with pytest.raises(InputError, match="it is not UTF-8"):
        _parsed(known, f"--flagfile={path}")
