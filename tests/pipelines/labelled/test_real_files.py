"""The published files, where they are at hand: DATA_ROOT names a folder of them."""

import pytest

from bert_tf import tasks
from pipelines.labelled import splits
from pipelines.labelled.source import Source
from tests.real_data import data_of

pytestmark = pytest.mark.slow


@pytest.fixture
def root():
    return data_of()


@pytest.mark.parametrize(
    ("kind", "folder", "counts"),
    [
        ("cola", "glue", {"train": 8551, "dev": 1043, "test": 1063}),
        ("sst2", "glue", {"train": 67349, "dev": 872}),
        ("mrpc", "glue", {"train": 3668, "dev": 408, "test": 1725}),
        ("stsb", "glue", {"train": 5749, "dev": 1500, "test": 1379}),
        ("rte", "glue", {"train": 2490, "dev": 277, "test": 3000}),
        ("wnli", "glue", {"train": 635, "dev": 71, "test": 146}),
        ("qnli", "glue", {"dev": 5463, "test": 5463}),
        ("squad1", "squad", {"train": 11877, "dev": 10570}),
        ("squad2", "squad", {"dev": 11873}),
        ("pos", "ud_ewt", {"train": 12544, "dev": 2001, "test": 2077}),
    ],
)
def test_all_examples_are_read_and_in_order(root, kind, folder, counts):
    if not (root / folder).is_dir():
        pytest.skip(f"{root}/{folder} is not there")
    task = tasks.make(kind)
    found = splits.find(str(root / folder), task.source.splits, task.source.folder)
    for split, count in counts.items():
        skipped = []
        examples = task.source.read(Source(found[split]), split, split != "test", skipped)
        assert len(examples) == count and not skipped
        if split == "train":
            fitted = task.fit(examples)
            fitted.check(examples)
            assert not [p for p in map(fitted.problem, examples) if p]


def test_questions_of_arc_without_their_right_choice_are_skipped(root):
    counts = {}
    for name in ("easy_train", "easy_dev", "challenge_train", "challenge_dev"):
        path = root / "multichoice" / f"arc_{name}.csv"
        if not path.exists():
            pytest.skip(f"{path} is not there")
        skipped = []
        task = tasks.make("choice")
        examples = task.source.read(Source(str(path)), "train", True, skipped)
        empty = sum(not "".join(example.choices) for example in examples)
        assert sum(map(bool, map(task.problem, examples))) == empty
        counts[name] = (len(examples), len(skipped), empty)
    assert sum(skipped for _, skipped, _ in counts.values()) == 3
    # Some have no choices at all; those of three choices are whole.
    assert counts["easy_train"][2:] == (102,) and counts["easy_dev"] == (570, 0, 21)
