"""Which files are which split."""

import pytest

from bert_tf.tasks import make
from pipelines.common.errors import InputError
from pipelines.labelled import splits
from tests.pipelines.labelled.labelled_files import write


def test_splits_are_found_by_name(tmp_path):
    (tmp_path / "MRPC").mkdir()
    for name in ("train.tsv", "dev.tsv"):
        write(tmp_path / "MRPC" / name, "x")
    source = make("mrpc").source
    found = splits.find(str(tmp_path), source.splits, source.folder)
    assert found == {name: f"{tmp_path}/MRPC/{name}.tsv" for name in ("train", "dev")}
    one = f"{tmp_path}/MRPC/train.tsv"
    assert splits.find(one, source.splits, source.folder) == {"all": one}
    with pytest.raises(InputError, match=r"such as train\.tsv, dev\.tsv, test\.tsv; it has MRPC\."):
        splits.find(str(tmp_path), source.splits, None)
    with pytest.raises(InputError, match="no such file or folder"):
        splits.find(f"{tmp_path}/none", source.splits, None)


def test_two_files_for_one_split_are_named(tmp_path):
    source = make("classification").source
    write(tmp_path / "train.csv", "text,label\n")
    assert splits.find(str(tmp_path), source.splits) == {"train": f"{tmp_path}/train.csv"}
    write(tmp_path / "train.csv.gz", "")  # the same, packed
    assert splits.find(str(tmp_path), source.splits) == {"train": f"{tmp_path}/train.csv"}
    for other in ("train.tsv", "train.tsv.gz", "train.jsonl"):
        write(tmp_path / other, "")
        with pytest.raises(InputError, match="could both be the train file; keep one"):
            splits.find(str(tmp_path), source.splits)
        (tmp_path / other).unlink()
    write(tmp_path / "dev.csv", "")
    write(tmp_path / "validation.csv", "")
    with pytest.raises(InputError, match="dev.csv and .*validation.csv could both be the dev file"):
        splits.find(str(tmp_path), source.splits)


def test_lists_of_a_file_in_another_encoding_are_splits(tmp_path):
    path = tmp_path / "data.json"
    path.write_text('{"train": [["ä", "x"]], "val": [["ö", "x"]]}', "utf-16")
    source = make("classification").source
    found = splits.find(str(path), source.splits, encoding="utf-16")
    assert found == {"train": f"{path}#train", "dev": f"{path}#val"}


def test_names_may_have_capitals_and_tables_that_are_not_read_are_logged(tmp_path, caplog):
    caplog.set_level("INFO", logger="absl")
    for name in ("train.csv", "Dev.CSV", "Test.csv.gz", "eval.csv", "label_map.tsv", "README.md"):
        write(tmp_path / name, "text,label\n")
    splits_of = make("classification").source.splits
    found = splits.find(str(tmp_path), splits_of)
    names = {"train": "train.csv", "dev": "Dev.CSV", "test": "Test.csv.gz"}
    assert found == {split: f"{tmp_path}/{name}" for split, name in names.items()}
    assert f"{tmp_path}: not read: eval.csv" in caplog.messages
    write(tmp_path / "dev.csv", "")
    with pytest.raises(InputError, match="could both be the dev file"):
        splits.find(str(tmp_path), splits_of)


@pytest.mark.parametrize("name", ["data [1]", "a\\b", "a*b", "a,b c"])
def test_folders_may_have_any_name(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    for kind, file in (
        ("classification", "train.csv"),
        ("ner", "eng.train"),
        ("squad1", "train-v1.1.json"),
    ):
        write(folder / file, "")
        source = make(kind).source
        assert splits.find(str(folder), source.splits) == {"train": f"{folder}/{file}"}


@pytest.mark.parametrize("dev", ["devel.tsv", "dev.tsv", "valid.tsv", "validation.txt"])
def test_the_names_of_dev_files(tmp_path, dev):
    """NCBI's tagged files, next to which train and dev are together in train_dev.tsv."""
    for name in ("train.tsv", "train_dev.tsv", dev, "test.tsv"):
        write(tmp_path / name, "x")
    found = splits.find(str(tmp_path), make("ner").source.splits)
    assert found == {
        split: f"{tmp_path}/{name}"
        for split, name in (("train", "train.tsv"), ("dev", dev), ("test", "test.tsv"))
    }
    found = splits.find(str(tmp_path), make("classification").source.splits)
    assert found["dev"] == f"{tmp_path}/{dev}"
