"""Packages are installed with all their files that are not Python's."""

import pathlib
import tomllib

_ROOT = pathlib.Path(__file__).parents[1]


def test_every_file_belongs_to_a_package():
    settings = tomllib.loads((_ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packed = {
        path
        for package, patterns in settings["package-data"].items()
        for pattern in patterns
        for path in (_ROOT / package.replace(".", "/")).glob(pattern)
    }
    files = [p for name in ("bert_tf", "pipelines") for p in (_ROOT / name).rglob("*")]
    data = {path for path in files if path.is_file() and path.suffix not in (".py", ".pyc")}
    # What was compiled is kept in folders of its own.
    assert packed == {path for path in data if path.parent.name != "__pycache__"} and packed
