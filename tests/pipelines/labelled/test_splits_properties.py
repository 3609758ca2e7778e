"""Which files are train, dev and test, whatever stands in their folder."""

import fnmatch
import os

from hypothesis import given
from hypothesis import strategies as st

from pipelines.common.errors import InputError
from pipelines.labelled import splits

_PATTERNS = {
    "train": ("train.tsv", "train*.csv"),
    "dev": ("dev.tsv", "[dv]*.csv"),
    "test": ("test.tsv",),
}
_NAMES = st.sampled_from(
    [
        *("train.tsv", "train.csv", "train-1.csv", "train.tsv.gz", "train.csv.gz", "trainer.txt"),
        *("dev.tsv", "dev.csv", "valid.csv", "dev.csv.gz", "test.tsv", "test.csv", "TRAIN.tsv"),
    ]
)


def _candidates(names, patterns):
    """Files of a split: of the first pattern with any, plain before packed; and all whole names."""
    first, whole = [], []
    for pattern in patterns:
        plain = [name for name in names if fnmatch.fnmatchcase(name.lower(), pattern)]
        packed = [name for name in names if fnmatch.fnmatchcase(name.lower(), f"{pattern}.gz")]
        first = first or plain or packed
        if not set(pattern) & set("*?["):
            whole += plain or packed
    return {*first, *whole}


@given(
    st.sets(_NAMES, max_size=6),
    st.sampled_from(["data", "d*ta", "[data]"]),
    st.booleans(),
    st.sets(st.sampled_from(sorted(_PATTERNS)), max_size=2),
)
def test_files_by_split(tmp_path_factory, names, folder, within, named):
    root = tmp_path_factory.mktemp("splits") / folder
    place = root / "inner" if within else root
    place.mkdir(parents=True)
    for name in names:
        (place / name).touch()
    wanted = {s: _candidates(names, p) for s, p in _PATTERNS.items() if s not in named}
    try:
        found = splits.find(f"{root}/", _PATTERNS, "inner", named)
    except InputError as error:
        several = any(len(files) > 1 for files in wanted.values())
        assert several or not (named or any(wanted.values()))
        assert str(place) in str(error)
        return
    assert {s: [os.path.basename(path)] for s, path in found.items()} == {
        split: list(files) for split, files in wanted.items() if files
    }
    assert all(os.path.exists(path) for path in found.values())
    for path in found.values():
        assert splits.find(path, _PATTERNS) == {"all": path}
