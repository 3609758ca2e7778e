"""How two outputs differ, in a few words."""

import pytest

from pipelines.common import manifest

TASK = {
    "name": "mood",
    "columns": {"text": "review"},
    "inputs": {"train": "a" * 64, "dev": "b" * 64},
}


@pytest.mark.parametrize(
    ("found", "wanted", "difference"),
    [
        ({"tasks": [TASK], "more": 1}, {"tasks": [TASK]}, None),
        ({"tasks": [TASK]}, {"tasks": [TASK | {"columns": {"text": "title"}}]},
         "tasks: mood.columns.text (was review, now title)"),
        ({"tasks": [TASK]}, {"tasks": [TASK | {"inputs": TASK["inputs"] | {"train": "c" * 64}}]},
         "tasks: mood.inputs.train"),
        ({"tasks": [TASK]}, {"tasks": [TASK | {"label_map": {"0": "bad"}}]},
         "tasks: mood.label_map (was None, now {'0': 'bad'})"),
        ({"settings": {"epochs": 1, "old": 2}}, {"settings": {"epochs": 1}},
         "settings: old (was 2, now None)"),
        ({"seed": 1}, {"seed": 2}, "seed (was 1, now 2)"),
        ({"settings": dict.fromkeys("abcde", 1)}, {"settings": dict.fromkeys("abcde", 2)},
         "settings: a (was 1, now 2), b (was 1, now 2), c (was 1, now 2) and 2 more"),
    ],
)  # fmt: skip
def test_the_difference_names_the_fields(found, wanted, difference):
    assert manifest.difference(found, wanted) == difference
