"""The built-in labelled texts."""

from collections import Counter

import pytest

from pipelines.corpus import builtin_labels

_WORDS = ("apple", "river", "stone", "cloud", "paper")


@pytest.fixture
def roots(tmp_path):
    """Modules of three packages, two of which are relatives, and of a standard library."""
    for folder, package in (
        *(("site", name) for name in ("alpha", "beta", "beta_extra")),
        ("standard", ""),
    ):
        for number in range(60 if package != "beta_extra" else 40):
            place = tmp_path / folder / package / f"part{number}.py"
            place.parent.mkdir(parents=True, exist_ok=True)
            own = "".join(word[number % 5] for word in _WORDS)
            texts = [f"Part {own} number {number} of {folder} says {w} and much more on {package or 'it'}."
                     for w in _WORDS]  # fmt: skip
            plain = [f"In part {number} there is {w} {own}, for {folder} {len(package)} and others too."
                     for w in _WORDS]  # fmt: skip
            same = "This paragraph is in every module of every package here, word by word."
            place.write_text('"""' + "\n\n".join([*texts, *plain, same]) + '\n"""\n')
    return {str(tmp_path / "standard"): "python", str(tmp_path / "site"): ""}


def test_classes_are_packages_and_files_share_no_module(roots, tmp_path):
    counts = builtin_labels.make(f"{tmp_path}/out", roots, texts=100)
    rows = {}
    for name in builtin_labels.FILES:
        head, *lines = open(f"{tmp_path}/out/{name}").read().splitlines()
        assert head == "text\tlabel" and len(lines) == counts[name]
        rows[name] = [line.split("\t") for line in lines]
        found = Counter(label for _, label in rows[name])
        assert found.keys() == {"alpha", "beta", "python"}  # not beta's relative
        assert len(set(found.values())) == 1  # balanced
        assert not any(label in text for text, label in rows[name])
    numbers = {
        name: {(text.split(" part ")[-1].split()[0], label) for text, label in each if "In part" in text}
        for name, each in rows.items()
    }  # fmt: skip
    assert not numbers["train.tsv"] & (numbers["dev.tsv"] | numbers["test.tsv"])
    texts = [text for each in rows.values() for text, _ in each]
    assert len(set(texts)) == len(texts)
    before = open(f"{tmp_path}/out/train.tsv").read()
    assert builtin_labels.make(f"{tmp_path}/out", roots) is None
    assert builtin_labels.make(f"{tmp_path}/again", roots, texts=100) == counts
    assert open(f"{tmp_path}/again/train.tsv").read() == before
