"""Paths and patterns of any names: they name the files that they are meant to, and no others."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.common import files, path_lists

_NAMES = st.text(st.sampled_from("ab .,=*?[]'\"\\\n\té한-_"), min_size=1, max_size=8).filter(
    lambda name: name not in (".", "..")
)


@given(st.lists(_NAMES, min_size=1, max_size=5, unique=True))
def test_the_path_of_a_file_names_it_whatever_it_is_called(tmp_path_factory, names):
    folder = tmp_path_factory.mktemp("names")
    for name in names:
        (folder / name).touch()
    assert files.names_in(str(folder)) == sorted(names)
    for name in names:
        if name == name.strip():  # a flag has no white space round it
            assert path_lists.expand_globs(f"{folder}/{name}") == [f"{folder}/{name}"]
    # Quoted as patterns, in which a name without signs of patterns is itself.
    quoted = {n: '"' if '"' not in n else "'" for n in names if not set(n) & set("*?[]\\")}
    quoted = {n: q for n, q in quoted.items() if q not in n}
    if quoted:
        text = ", ".join(f"{q}{folder}/{n}{q}" for n, q in quoted.items())
        assert path_lists.expand_globs(text) == sorted(f"{folder}/{n}" for n in quoted)


@given(st.lists(_NAMES, max_size=5, unique=True), st.binary(max_size=50), st.booleans())
def test_files_are_written_whole_or_not_at_all(tmp_path_factory, names, data, fails):
    folder = tmp_path_factory.mktemp("written")
    for name in names:
        path = f"{folder}/{name}"
        if not fails:
            with files.write_aside(path) as partial, open(partial, "wb") as file:
                file.write(data)
            assert files.sha256(path) and open(path, "rb").read() == data
            continue
        with (
            pytest.raises(KeyError),
            files.write_aside(path) as partial,
            open(partial, "wb") as file,
        ):
            file.write(data)
            raise KeyError
    assert sorted(os.listdir(folder)) == ([] if fails else sorted(names))
