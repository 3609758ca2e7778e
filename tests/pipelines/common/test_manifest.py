"""How two outputs differ, in a few words."""

import pytest

from pipelines.common import manifest
from pipelines.common.errors import InputError

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


def test_checksums_tell_every_changed_byte(tmp_path):
    seal = f"{tmp_path}/checksums.json"
    (tmp_path / "parts").mkdir()
    for name in ("a.txt", "parts/b.bin"):
        (tmp_path / name).write_bytes(bytes(range(64)))
    manifest.check(seal)  # there are none
    manifest.write_sealed(seal, {}, ["a.txt", "parts", "none"])
    manifest.check(seal)
    for name in ("a.txt", "parts/b.bin"):
        data = (tmp_path / name).read_bytes()
        for spoilt in (data[:-1], data[:9] + b"\xff" + data[10:], None):
            (tmp_path / name).write_bytes(spoilt) if spoilt else (tmp_path / name).unlink()
            with pytest.raises(InputError, match=f"{name}: is damaged, or was changed"):
                manifest.check(seal)
        (tmp_path / name).write_bytes(data)
    (tmp_path / "checksums.json").write_text('{"files": {"../other": "00"}}')
    with pytest.raises(InputError, match="is not the path of a file in its folder"):
        manifest.check(seal)
