"""The built-in labelled texts."""

import itertools
from collections import Counter

import pytest

from pipelines.common.errors import InputError
from pipelines.corpus import builtin_labels

_SAME = "This paragraph is in every module of the library, word by word."


def _library(folder, modules, texts):
    """A library of packages, one of each topic, with modules that have texts."""
    for names, number in itertools.product(builtin_labels.TOPICS.values(), range(modules)):
        package = names.split()[-1]
        path = folder / package / f"part{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        own = [
            f"In {package} part{number} says that this is paragraph {i} of it."
            for i in range(texts)
        ]
        path.write_text('"""' + "\n\n".join([*own, own[0], "Too short.", _SAME]) + '\n"""\n')
    return str(folder)


def _rows(folder):
    for name in builtin_labels.FILES:
        head, *lines = (folder / name).read_text().splitlines()
        assert head == "text\tlabel"
        yield name, [line.split("\t") for line in lines]


def test_topics_are_balanced_and_files_share_no_module(tmp_path):
    root = _library(tmp_path / "lib", modules=20, texts=10)
    (tmp_path / "lib" / "other.py").write_text(
        '"""A paragraph of a module that has no topic, for all I know."""'
    )
    counts = builtin_labels.make(f"{tmp_path}/out", root)
    modules, texts = {}, []
    for name, rows in _rows(tmp_path / "out"):
        assert len(rows) == counts[name]
        each = Counter(label for _, label in rows)
        assert each == dict.fromkeys(builtin_labels.TOPICS, builtin_labels.FILES[name])
        own = [(text, label) for text, label in rows if text != _SAME]
        assert len(own) >= len(rows) - 1  # the paragraph of all modules is there once, if at all
        assert all(text.split()[1] in builtin_labels.TOPICS[label].split() for text, label in own)
        modules[name] = {(label, text.split()[2]) for text, label in own}
        texts += [text for text, _ in rows]
    assert len(set(texts)) == len(texts) and "Too short." not in texts
    assert all(not a & b for a, b in itertools.combinations(modules.values(), 2))


def test_the_same_library_gives_the_same_texts_once(tmp_path):
    root = _library(tmp_path / "lib", modules=5, texts=4)
    counts = builtin_labels.make(f"{tmp_path}/out", root)
    assert builtin_labels.make(f"{tmp_path}/out", root) is None
    assert builtin_labels.make(f"{tmp_path}/again", root) == counts
    assert list(_rows(tmp_path / "out")) == list(_rows(tmp_path / "again"))


def test_a_library_without_docstrings_is_reported(tmp_path):
    (tmp_path / "lib").mkdir()
    with pytest.raises(InputError, match="lib: has no docstrings about concurrency"):
        builtin_labels.make(f"{tmp_path}/out", f"{tmp_path}/lib")
    assert not (tmp_path / "out").exists()


@pytest.mark.more
def test_this_python_has_enough_texts_of_each_topic(tmp_path):
    counts = builtin_labels.make(f"{tmp_path}/out")
    per_topic = {name: count / len(builtin_labels.TOPICS) for name, count in counts.items()}
    assert all(per_topic[name] >= 0.8 * most for name, most in builtin_labels.FILES.items())
