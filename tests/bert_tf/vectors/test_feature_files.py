"""What the features in each format hold."""

import json
import os

import numpy as np
import pytest

from bert_tf.vectors import extractor
from bert_tf.vectors.extractor import FeatureExtractor
from bert_tf.vectors.settings import FeatureSettings
from bert_tf.vectors.shards import map_shard
from pipelines.common.errors import InputError
from pipelines.labelled.text_files import TextFile, WordsFile
from tests.bert_tf.vectors.extracted import NAMES, TEXTS, each_format, extract, read


@each_format
@pytest.mark.parametrize("unit", ["token", "word", "text"])
def test_each_format_has_the_features_in_order(folders, texts, tmp_path, kind, unit):
    found, known = extract(folders["pretrained"], texts, tmp_path / NAMES[kind], unit=unit)
    assert not known and found["rows"] == 5 and found["shape"] == [1, 32]
    wanted = FeatureExtractor(folders["pretrained"], FeatureSettings(unit=unit))(TEXTS)
    rows = read(kind, tmp_path / NAMES[kind])
    assert [row["text"] for _, row in rows] == TEXTS
    assert [row["id"] for _, row in rows] == ["0", "1", "2", "3", "4"]
    for (values, row), one in zip(rows, wanted, strict=True):
        assert values.size == one.values.size
        np.testing.assert_allclose(values.reshape(one.values.shape), one.values, atol=1e-6)
        if unit == "text":
            assert not {"tokens", "starts"} & row.keys()
            continue
        if len(one.values):
            assert row["tokens"] == one.units.tokens
            for name in ("starts", "ends", "segments"):
                assert row[name] == getattr(one.units, name).tolist()


@each_format
@pytest.mark.parametrize("unit", ["token", "word", "text"])
def test_words_keep_their_tags(folders, words, tmp_path, kind, unit):
    extract(folders["tags"], WordsFile(words), tmp_path / NAMES[kind], unit=unit)
    (_, first), (values, second) = read(kind, tmp_path / NAMES[kind])
    assert (first["text"], second["text"]) == ("The small model", "한국어 \u200b")
    if unit == "token":
        assert second["labels"][0] == second["labels"][-1] == ""
        labels = {(a, b) for a, b in zip(second["words"], second["labels"], strict=True)}
        assert labels == {(-1, ""), (0, "B-Y"), (1, "O")}
    else:
        assert first["labels"] == ["O", "B-X", "I-X"] and second["labels"] == ["B-Y", "O"]
    if unit == "word":
        assert second["tokens"] == ["한국어", "\u200b"]
        assert (second["starts"], second["ends"]) == ([0, 10], [9, 13])
        assert "words" not in second and len(values) == 2


@each_format
def test_tables_keep_labels_and_ids(folders, tmp_path, kind):
    (tmp_path / "a.csv").write_text("key,body,label\nx,the layer,good\ny,a token,\n")
    columns = {"text": "body", "id": "key"}
    source = TextFile(f"{tmp_path}/a.csv", columns, labelled=True)
    extract(folders["pretrained"], source, tmp_path / NAMES[kind], unit="text")
    rows = [row for _, row in read(kind, tmp_path / NAMES[kind])]
    assert rows == [
        {"id": "x", "text": "the layer", "label": "good"},
        {"id": "y", "text": "a token"},
    ]


@each_format
def test_pairs_of_lines(folders, tmp_path, kind):
    (tmp_path / "p.txt").write_text("the layer ||| a ||| b\nalone\n")
    source = TextFile(f"{tmp_path}/p.txt", pair_separator=" ||| ")
    extract(folders["same"], source, tmp_path / NAMES[kind], unit="word")
    rows = [row for _, row in read(kind, tmp_path / NAMES[kind])]
    assert (rows[0]["text_a"], rows[0]["text_b"]) == ("the layer ||| a", "b")
    assert rows[0]["segments"] == [0] * 6 + [1] and rows[1]["text"] == "alone"


def test_json_has_the_layout_of_extract_features(folders, texts, tmp_path):
    extract(folders["pretrained"], texts, tmp_path / "f.jsonl", layers=(-1, -2))
    row = json.loads((tmp_path / "f.jsonl").read_text("utf-8").splitlines()[0])
    assert row["linex_index"] == 0
    first = row["features"][0]
    assert first["token"] == "[CLS]" and [part["index"] for part in first["layers"]] == [-1, -2]
    assert len(first["layers"][0]["values"]) == 32
    assert all(round(value, 6) == value for value in first["layers"][0]["values"])
    extract(
        folders["pretrained"], texts, tmp_path / "s.jsonl", layers=None, combine="sum", unit="text"
    )
    row = json.loads((tmp_path / "s.jsonl").read_text("utf-8").splitlines()[0])
    (whole,) = row["features"]
    assert whole.keys() == {"layers"} and whole["layers"][0]["index"] == [0, 1, 2]


def test_shards_are_mapped(folders, texts, tmp_path, monkeypatch):
    monkeypatch.setattr(extractor, "BLOCK", 32 * 40)
    extract(folders["pretrained"], texts, tmp_path / "f")
    names = sorted(os.listdir(tmp_path / "f"))
    count = len(names) - 1
    assert count > 1 and names == [
        *(f"features-{n:05d}-of-{count:05d}.npz" for n in range(count)),
        "manifest.json",
    ]
    for name in names[:-1]:
        path = f"{tmp_path}/f/{name}"
        mapped = map_shard(path)
        assert isinstance(mapped["values"], np.memmap)
        with np.load(path) as arrays:
            assert arrays.files == list(mapped)
            for key, array in arrays.items():
                np.testing.assert_array_equal(mapped[key], array)
    with pytest.raises(InputError, match=r"texts\.txt: is not a shard of features"):
        map_shard(texts)
    np.savez_compressed(tmp_path / "c.npz", a=np.zeros(3))
    with pytest.raises(InputError, match="it is compressed"):
        map_shard(f"{tmp_path}/c.npz")
    np.savez(tmp_path / "d.npz", a=np.zeros(3))
    data = (tmp_path / "d.npz").read_bytes()
    (tmp_path / "d.npz").write_bytes(data.replace(b"{'descr'", b"(((((((("))
    with pytest.raises(InputError, match=r"d\.npz: is not a shard of features that can be mapped"):
        map_shard(f"{tmp_path}/d.npz")


def test_no_words_at_all_are_features_of_nothing(folders, tmp_path):
    (tmp_path / "e.txt").write_text("\n \n")
    for kind, name in NAMES.items():
        extract(folders["pretrained"], f"{tmp_path}/e.txt", tmp_path / name, unit="word")
        assert [len(values) for values, _ in read(kind, tmp_path / name)] == [0, 0]
    assert map_shard(f"{tmp_path}/features/features-00000-of-00001.npz")["values"].shape == (
        *(0, 1, 32),
    )


def test_unusual_texts_are_counted(folders, texts, tmp_path, caplog):
    found, _ = extract(folders["pretrained"], texts, tmp_path / "f", max_seq_length=16)
    assert found["counts"]["cut"] == 1 and found["counts"]["empty"] == 1
    assert "1 of 5 texts had more than max_seq_length=16 tokens and were cut" in caplog.text
    assert "1 of 5 texts are empty; they have features too" in caplog.text
