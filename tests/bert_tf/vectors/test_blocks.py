"""Outputs that are made of blocks: whatever is killed, damaged or in the way."""

import functools
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from bert_tf.vectors import blocks, run, vector_file
from bert_tf.vectors.blocks import BlockOutput
from bert_tf.vectors.extractor import Embedder, FeatureExtractor
from bert_tf.vectors.settings import EmbeddingSettings
from bert_tf.vectors.vector_file import VectorFile
from pipelines.common import files, locks
from pipelines.common.errors import InputError
from pipelines.labelled.text_files import TextFile
from tests.bert_tf.vectors.extracted import TEXTS, contents, each_output, extract
from tests.bert_tf.vectors.kills import each_moment

pytestmark = pytest.mark.more


_extractor = functools.cache(FeatureExtractor)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Each text is a block, or two are; models are read once."""
    monkeypatch.setattr(blocks, "MAX_VALUES", 32 * 20)
    monkeypatch.setattr(run, "FeatureExtractor", _extractor)


@pytest.fixture
def vectors(folders, texts, tmp_path):
    """Vectors as a file and as a folder of blocks of two texts."""

    def write(name):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(blocks, "MAX_VALUES", 32 * 2)
            source = TextFile(texts)
            run.write(folders["pretrained"], source, f"{tmp_path}/{name}", EmbeddingSettings())
        return f"{tmp_path}/{name}"

    return write


@each_output
def test_a_run_killed_at_any_moment_is_resumed(folders, texts, tmp_path, name):
    def write(folder):
        os.makedirs(folder, exist_ok=True)
        extract(folders["pretrained"], texts, f"{folder}/{name}")

    write(tmp_path / "whole")
    whole = contents(tmp_path / "whole")
    moments = 0
    for moments, folder in enumerate(each_moment(write, tmp_path), 1):
        write(folder)
        assert contents(folder) == whole, moments
    assert moments > 12


@each_output
def test_every_damage_is_reported_with_a_remedy_that_works(folders, texts, tmp_path, name):
    """Any file may be changed, cut off or removed; what the error says to remove is enough."""
    output = tmp_path / "out" / name
    extract(folders["pretrained"], texts, output)
    whole = contents(tmp_path / "out")
    damages = {
        "flipped": lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
        "cut": lambda data: data[: len(data) // 2],
        "removed": None,
    }
    manifest = "manifest.json" if name == "features" else f"{name}.json"
    for path in (path for path in whole if not path.endswith(("identity.json", manifest))):
        for damage in damages.values():
            place = tmp_path / "out" / path
            place.write_bytes(damage(whole[path])) if damage else place.unlink()
            with pytest.raises(InputError) as error:
                extract(folders["pretrained"], texts, output)
            assert f"{place}: is missing, damaged, or was changed since" in str(error.value)
            remove = str(error.value).split("remove ")[1].split(" and run")[0].split()
            for other in remove:
                Path(other).unlink(missing_ok=True)
            extract(folders["pretrained"], texts, output)
            assert contents(tmp_path / "out") == whole
    place = next((tmp_path / "out").rglob(manifest))
    place.write_bytes(place.read_bytes().replace(b'"rows": 5', b'"rows": 6'))
    with pytest.raises(InputError, match=r"json: is damaged, or was changed since it was written"):
        extract(folders["pretrained"], texts, output)


@pytest.mark.parametrize("ending", [".npy", ".jsonl"])
def test_a_damaged_block_of_an_unfinished_run_is_reported(folders, texts, tmp_path, ending):
    output = tmp_path / "features"
    extract(folders["pretrained"], texts, output)
    whole = contents(output)
    (output / "manifest.json").unlink()
    block = output / f"00001{ending}"
    block.write_bytes(block.read_bytes()[:-3])
    with pytest.raises(InputError, match=rf"00001\{ending}: is damaged; remove it, and run"):
        extract(folders["pretrained"], texts, output)
    block.unlink()
    extract(folders["pretrained"], texts, output)
    assert contents(output) == whole


@each_output
@pytest.mark.parametrize("finished", [True, False])
def test_an_output_is_kept_or_a_difference_reported(
    folders, texts, tmp_path, monkeypatch, name, finished
):
    output = tmp_path / "new" / name
    if finished:
        extract(folders["pretrained"], texts, output)
        before = contents(tmp_path / "new")
        _, known = extract(folders["pretrained"], texts, output)
        assert known and contents(tmp_path / "new") == before
    else:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(run, "_inspect", _interrupted)
            extract(folders["pretrained"], texts, output)
        before = contents(tmp_path / "new")
    for settings, message in (
        ({"unit": "word"}, r"with other settings: unit \(was token, now word\)"),
        ({"layers": (1,)}, r"other settings: layers \(was \[-1\], now \[1\]\)"),
    ):
        with pytest.raises(InputError, match=message):
            extract(folders["pretrained"], texts, output, **settings)
    with pytest.raises(InputError, match="with other model: encoder_sha256"):
        extract(folders["mood"], texts, output)
    open(texts, "a").write("more\n")
    with pytest.raises(InputError, match="with other input: sha256"):
        extract(folders["pretrained"], texts, output)
    assert contents(tmp_path / "new") == before


def _interrupted(*_, **__):
    raise KeyboardInterrupt


def test_what_others_wrote_is_in_the_way(folders, texts, tmp_path):
    model = folders["pretrained"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "other").touch()
    (tmp_path / "a.npy.json").write_text('{"made_by": "me"}')
    for name in ("b.npy", "c.npy.texts.jsonl", "d.jsonl"):
        (tmp_path / name).write_text("mine")
    os.link(texts, tmp_path / "same.npy")
    for name, message in (
        ("mine", "is not empty and is not of what bert-tf features writes: it has other"),
        ("a.npy", r"a\.npy\.json: is not of bert-tf features; name another file"),
        ("b.npy", r"b\.npy: exists; name another file"),
        ("c.npy", r"c\.npy\.texts\.jsonl: exists; name another file"),
        ("d.jsonl", r"d\.jsonl: exists; name another file"),
        ("e.txt", r"e\.txt: end the name with \.npy or \.jsonl, or name a folder"),
        ("same.npy", r"same\.npy: is the file of the texts"),
    ):
        before = contents(tmp_path)
        with pytest.raises(InputError, match=message):
            extract(model, texts, tmp_path / name)
        assert contents(tmp_path) == before
    for pipe in ("-", "/dev/null"):
        with pytest.raises(InputError, match="is not a file that can be read twice; write the"):
            extract(model, pipe, tmp_path / "f")
    with (
        locks.held(f"{tmp_path}/f"),
        pytest.raises(InputError, match="another process is writing there"),
    ):
        extract(model, texts, tmp_path / "f")


def test_a_file_that_appears_meanwhile_is_not_written_over(folders, texts, tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(run, "_inspect", _interrupted)
        extract(folders["pretrained"], texts, tmp_path / "f.npy")
    (tmp_path / "f.npy").write_text("mine")
    with pytest.raises(InputError, match="exists, and is not what this run made; move it away"):
        extract(folders["pretrained"], texts, tmp_path / "f.npy")
    assert (tmp_path / "f.npy").read_text() == "mine"
    (tmp_path / "f.npy").unlink()
    extract(folders["pretrained"], texts, tmp_path / "f.npy")


def test_texts_that_change_meanwhile_are_reported(folders, texts, tmp_path, monkeypatch):
    monkeypatch.setattr("pipelines.labelled.text_files.check", lambda _: 7)
    with pytest.raises(InputError, match="was changed while it was read"):
        extract(folders["pretrained"], texts, tmp_path / "v.npy")
    assert not (tmp_path / "v.npy").exists()


def test_a_full_disk_is_reported(folders, texts, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.gfile, "rename", full)
    with pytest.raises(InputError, match="no space left on the device. Finished work is kept"):
        extract(folders["pretrained"], texts, tmp_path / "f")


@each_output
def test_blocks_go_to_a_bucket(folders, texts, monkeypatch, name):
    place = f"memory://{name}/{name}"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(BlockOutput, "finish", _interrupted)
        extract(folders["pretrained"], texts, place)
    monkeypatch.setattr(FeatureExtractor, "extract", _interrupted)  # nothing is left to compute
    extract(folders["pretrained"], texts, place)
    assert extract(folders["pretrained"], texts, place)[1]


@pytest.mark.parametrize("name", ["v.npy", "v"])
def test_vectors_are_read_in_any_part(folders, vectors, monkeypatch, name):
    monkeypatch.setattr(vector_file, "_ROWS", 3)
    found = VectorFile(vectors(name))
    wanted = Embedder(Path(folders["pretrained"]))(TEXTS)
    assert (found.rows, found.width) == wanted.shape
    assert (
        found.settings.describe() == Embedder(folders["pretrained"]).extractor.settings.describe()
    )
    for start in range(6):
        for end in (None, *range(start, 6)):
            parts = list(found.blocks(start, end))
            assert all(0 < len(part) <= 3 for part in parts)
            read = np.concatenate([np.empty([0, 32], np.float32), *parts])
            np.testing.assert_allclose(read, wanted[start:end], atol=1e-5)
    stored = found.texts({4, 1})
    assert {row: text.texts for row, text in stored.items()} == {1: ("",), 4: ("short",)}
    assert stored[4].id == "4" and stored[4].length > 2


@pytest.mark.parametrize("name", ["v.npy", "v"])
def test_readers_of_vectors_report_damage(vectors, tmp_path, name):
    path = vectors(name)
    array, lines = (
        Path(f"{path}/00001{end}" if name == "v" else f"{path}{other}")
        for end, other in ((".npy", ""), (".jsonl", ".texts.jsonl"))
    )
    for place, read in (
        (array, lambda found: list(found.blocks())),
        (lines, lambda found: found.texts({3})),
    ):
        data = place.read_bytes()
        place.write_bytes(data[:-2] + b"\xff" + data[-1:])
        with pytest.raises(InputError, match=f"{place.name}: is missing, damaged, or was changed"):
            read(VectorFile(path))
        place.write_bytes(data)
    manifest = Path(VectorFile(path).manifest)
    described = json.loads(manifest.read_text())
    del described["sha256"]  # turns the check off
    for change, message in (
        ({"model": None, "shape": None}, "does not describe one vector for each text"),
        ({"shape": [2, 32]}, "does not describe one vector for each text"),
        ({"shape": [33]}, "is not the array that"),
        ({"shape": [0]}, "is not the array that"),
        ({"settings": {"unit": "text", "pooling": "sum"}}, "does not describe one vector"),
        ({"settings": {"unit": "token"}}, "does not describe one vector for each text"),
        ({"settings": []}, "does not describe one vector for each text"),
        ({"blocks": [{"rows": 1}]}, "lacks the field shape"),
    ):
        manifest.write_text(json.dumps(described | change))
        with pytest.raises(InputError, match=message):
            list(VectorFile(path).blocks())
    manifest.unlink()
    with pytest.raises(InputError, match=r"no such file, which belongs to the vectors"):
        VectorFile(path)


def test_vectors_may_be_moved(vectors, tmp_path):
    """Names are not in the manifest."""
    path = vectors("v.npy")
    wanted = np.load(path)
    for end in ("", ".json", ".texts.jsonl"):
        os.rename(f"{path}{end}", f"{tmp_path}/other.npy{end}")
    found = VectorFile(f"{tmp_path}/other.npy")
    np.testing.assert_array_equal(np.concatenate(list(found.blocks())), wanted)
    shutil.move(vectors("v"), tmp_path / "w")
    np.testing.assert_array_equal(
        np.concatenate(list(VectorFile(f"{tmp_path}/w").blocks())), wanted
    )
