"""The example writer as a whole: bytes, resumption, manifest, bad input."""

import dataclasses
import glob
import json
import os

import pytest
import tensorflow as tf

from pipelines.common import files, locks
from pipelines.common.errors import InputError
from pipelines.pretraining import example_folder, example_reader, example_writer
from pipelines.pretraining.example_folder import UNFINISHED
from pipelines.pretraining.settings import Objective
from tests import commands
from tests.conftest import make_documents, write_documents
from tests.pipelines.pretraining.written import HERE, cut_finely, digests, request


@pytest.fixture
def small_shards(monkeypatch):
    """Many shards from little text."""
    cut_finely(monkeypatch, unit_bytes=20_000)


def command(corpus_path, vocab_path, output, *extra):
    return [
        "write-examples", f"--corpus={corpus_path}",
        f"--vocab={vocab_path}", f"--output={output}", "--max_seq_length=32",
        "--max_predictions_per_seq=5", *extra,
    ]  # fmt: skip


def test_the_same_bytes_with_one_worker_and_with_three(corpus_path, vocab_path, tmp_path):
    for workers in (1, 3):
        output = tmp_path / str(workers)
        commands.done(*command(corpus_path, vocab_path, output, f"--workers={workers}"))
    assert digests(tmp_path / "1") == digests(tmp_path / "3")


def test_what_lost_workers_left_is_removed(corpus_path, vocab_path, tmp_path):
    (tmp_path / "o" / UNFINISHED).mkdir(parents=True)
    (tmp_path / "o" / "train-00000-of-00009.tfrecord.partial-01234567").touch()
    example_writer.write(request(corpus_path, vocab_path, tmp_path / "o"), HERE)
    assert not glob.glob(f"{tmp_path}/o/*.partial*") and not (tmp_path / "o" / UNFINISHED).exists()


def test_shards_and_splits_do_not_lose_documents(corpus_path, vocab_path, tmp_path, small_shards):
    manifest = example_writer.write(request(corpus_path, vocab_path, tmp_path / "o"), HERE)
    assert len(manifest["train"]["shards"]) > 3
    assert manifest["text"]["documents"] == 300
    assert 20 <= manifest["text"]["held_out_documents"] <= 40
    shards = [*manifest["train"]["shards"], *manifest["held_out"]["shards"]]
    names = [shard["file"] for shard in shards]
    assert sorted(os.listdir(tmp_path / "o")) == sorted(["manifest.json", "vocab.txt", *names])
    for shard in shards:
        assert example_reader.count_records(str(tmp_path / "o" / shard["file"])) == shard["records"]


def test_the_manifest_tells_the_statistics(tfrecords):
    manifest = example_folder.read_manifest(tfrecords)
    train = manifest["train"]
    assert train["masked_fraction"] == pytest.approx(0.8, abs=0.02)
    assert train["random_token_fraction"] == pytest.approx(0.1, abs=0.02)
    assert train["kept_fraction"] == pytest.approx(0.1, abs=0.02)
    assert train["predictions_per_token"] == pytest.approx(0.15, abs=0.02)
    assert 0.45 < train["random_next_fraction"] < 0.65
    assert manifest["text"]["unknown_fraction"] == 0
    assert manifest["inputs"][0]["sha256"]
    assert manifest["versions"]["tensorflow"] == tf.__version__


def test_held_out_documents_are_in_no_training_example(corpus_path, vocab_path, tmp_path):
    # With words of its own for each document, any overlap shows.
    documents = [[f"w{i} w{i} w{i} w{i}" for _ in range(6)] for i in range(60)]
    path = write_documents(tmp_path / "c.txt", documents)
    vocab = tmp_path / "v.txt"
    vocab.write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(60))])
    )
    wanted = request(path, str(vocab), tmp_path / "o")
    example_writer.write(dataclasses.replace(wanted, file_format="sentences"), HERE)
    tokens = {}
    for held_out in (True, False):
        found = example_reader.open_examples(str(tmp_path / "o"), held_out)
        ids = set()
        for batch in example_reader.evaluation_batches(found, 64):
            labels = tf.boolean_mask(batch["masked_lm_ids"], batch["masked_lm_weights"] > 0)
            ids |= set(labels.numpy().tolist())
        tokens[held_out] = ids - {0, 1, 2, 3, 4}
    assert tokens[True]
    assert not tokens[True] & tokens[False]


def test_fewer_masks_than_asked_for_are_told(corpus_path, vocab_path, tmp_path, caplog):
    more = {"masked_lm_prob": 0.4, "max_predictions_per_seq": 7, "max_seq_length": 32}
    example_writer.write(request(corpus_path, vocab_path, str(tmp_path / "o"), **more), HERE)
    assert "of 32 tokens, 7 are masked (--max_predictions_per_seq) and not 13" in caplog.text
    caplog.clear()
    more["max_predictions_per_seq"] = 13
    example_writer.write(request(corpus_path, vocab_path, str(tmp_path / "p"), **more), HERE)
    assert "are masked" not in caplog.text


def test_held_out_examples_have_the_masks_of_the_paper(corpus_path, vocab_path, tmp_path):
    output = str(tmp_path / "o")
    more = {"masked_lm_prob": 0.4, "max_predictions_per_seq": 20}
    example_writer.write(request(corpus_path, vocab_path, output, **more), HERE)
    manifest = example_folder.read_manifest(output)
    found = {name: manifest[name]["predictions_per_token"] for name in ("train", "held_out")}
    assert found == pytest.approx({"train": 0.4, "held_out": 0.15}, abs=0.02)


@pytest.mark.parametrize("objective", list(Objective))
def test_objectives_have_the_features_they_need(corpus_path, vocab_path, tmp_path, objective):
    output = tmp_path / "o"
    example_writer.write(request(corpus_path, vocab_path, output, objective=objective), HERE)
    names = example_reader.open_examples(str(output)).names
    masked = {"masked_lm_positions", "masked_lm_ids", "masked_lm_weights"}
    assert (names & masked == masked) == (
        objective in (Objective.MLM, Objective.MLM_NSP, Objective.MLM_SOP)
    )
    assert ("next_sentence_labels" in names) == objective.paired


@pytest.mark.more
def test_a_killed_writer_goes_on_without_redoing_shards(corpus_path, vocab_path, tmp_path):
    many = write_documents(tmp_path / "many.txt", make_documents(8000))
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    extra = ("--dupe_factor=5", "--workers=2")
    commands.done(*command(many, vocab_path, whole, *extra))
    process = commands.Running(*command(many, vocab_path, killed, *extra))
    # A unit is finished when its summary is there, a moment after its records.
    assert process.kill_when(lambda: glob.glob(f"{killed}/{UNFINISHED}/0*.json"))
    assert not (killed / "manifest.json").exists()
    finished = {path: os.stat(path).st_mtime_ns for path in glob.glob(f"{killed}/*.tfrecord")}
    commands.done(*command(many, vocab_path, killed, *extra))
    assert digests(whole) == digests(killed)
    kept = [path for path, when in finished.items() if os.stat(path).st_mtime_ns == when]
    assert kept


def test_a_finished_output_is_left_alone(corpus_path, vocab_path, tmp_path):
    wanted = request(corpus_path, vocab_path, tmp_path / "o")
    first = example_writer.write(wanted, HERE)
    before = {path: os.stat(path).st_mtime_ns for path in glob.glob(f"{tmp_path}/o/*")}
    assert example_writer.write(wanted, HERE) == first
    assert before == {path: os.stat(path).st_mtime_ns for path in before}


@pytest.mark.parametrize("damage", ["removed", "cut"])
def test_a_finished_output_that_lost_a_file_is_written_again(
    corpus_path, vocab_path, tmp_path, small_shards, damage, caplog
):
    wanted = request(corpus_path, vocab_path, tmp_path / "o")
    example_writer.write(wanted, HERE)
    before = digests(tmp_path / "o")
    path = sorted(glob.glob(f"{tmp_path}/o/train-*"))[1]
    if damage == "removed":
        os.remove(path)
    else:
        os.truncate(path, 40)
    with pytest.raises(InputError, match=rf"{os.path.basename(path)}: .*[Ww]rite the examples"):
        example_reader.open_examples(str(tmp_path / "o"))
    example_writer.write(wanted, HERE)
    assert f"{path}: is missing or truncated" in caplog.text
    assert digests(tmp_path / "o") == before


def test_the_date_of_a_file_makes_no_difference(corpus_path, vocab_path, tmp_path, monkeypatch):
    """Its bytes decide, which are read only then."""
    corpus = tmp_path / "c.txt"
    corpus.write_bytes(open(corpus_path, "rb").read())
    wanted = request(str(corpus), vocab_path, tmp_path / "o")
    first = example_writer.write(wanted, HERE)
    assert first["inputs"][0]["sha256"] == files.sha256(corpus_path)
    with monkeypatch.context() as patch:
        patch.setattr(files, "sha256", None)
        assert example_writer.write(wanted, HERE) == first
    os.utime(corpus, ns=(1, 1))
    assert example_writer.write(wanted, HERE) == first
    corpus.write_bytes(corpus.read_bytes().replace(b"the", b"The", 1))
    with pytest.raises(InputError, match=r"made with other inputs: .*c\.txt"):
        example_writer.write(wanted, HERE)


def test_other_settings_for_the_same_output_are_refused(corpus_path, vocab_path, tmp_path):
    example_writer.write(request(corpus_path, vocab_path, tmp_path / "o"), HERE)
    with pytest.raises(InputError, match=r"made with other settings: seed \(was 12345, now 7\)"):
        example_writer.write(request(corpus_path, vocab_path, tmp_path / "o", seed=7), HERE)
    other = write_documents(tmp_path / "other.txt", make_documents(40))
    with pytest.raises(InputError, match="made with other inputs: "):
        example_writer.write(request(other, vocab_path, tmp_path / "o"), HERE)


@pytest.mark.more
def test_bad_input_in_a_worker_reaches_the_user_as_one_line(tmp_path, vocab_path):
    (tmp_path / "c.txt").write_bytes(b"Good.\nBad \xff.\n")
    # One unit would not be worth two processes.
    (tmp_path / "d.txt").write_bytes(b"Good, too. Good again.\n" * 200_000)
    corpus = f"{tmp_path}/[cd].txt"
    last = commands.error(*command(corpus, vocab_path, tmp_path / "o", "--workers=2"))
    assert last.startswith("error: ") and "line 2, byte 10: byte 0xff" in last
    assert not glob.glob(f"{tmp_path}/o/manifest.json")


def test_a_full_disk_is_named_and_leaves_no_half_file(
    corpus_path, vocab_path, tmp_path, monkeypatch
):
    def full(*_):
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr("pipelines.pretraining.tf_example.encode", full)
    with pytest.raises(
        InputError, match=r"train-.*no space left on the device.*run the same command"
    ):
        example_writer.write(request(corpus_path, vocab_path, tmp_path / "o"), HERE)
    assert not glob.glob(f"{tmp_path}/o/train*")


def test_padding_has_the_id_that_the_vocabulary_gives_it(corpus_path, tmp_path):
    vocab = tmp_path / "v.txt"
    vocab.write_text("[UNK]\n[PAD]\n[CLS]\n[SEP]\n[MASK]\nthe\n")
    example_writer.write(request(corpus_path, str(vocab), tmp_path / "o"), HERE)
    examples = example_reader.open_examples(f"{tmp_path}/o")
    batch = next(iter(example_reader.evaluation_batches(examples, 64)))
    padding = batch["input_word_ids"].numpy()[batch["input_mask"].numpy() == 0]
    assert len(padding) and (padding == 1).all()


def test_documents_are_left_to_train_on(vocab_path, tmp_path):
    corpus = write_documents(tmp_path / "c.txt", make_documents(20))
    changes = {"held_out_fraction": 0.9999, "objective": Objective.MLM}
    wanted = request(corpus, vocab_path, tmp_path / "o", **changes)
    with pytest.raises(InputError, match=r"0\.9999: leaves 0 documents to train on"):
        example_writer.write(wanted, HERE)


def test_a_folder_with_files_of_others_is_refused(corpus_path, vocab_path, tmp_path):
    output = tmp_path / "o"
    output.mkdir()
    (output / "vocab.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty and is not of examples: it has vocab.txt"):
        example_writer.write(request(corpus_path, vocab_path, output), HERE)
    assert os.listdir(output) == ["vocab.txt"]
    # Its own inputs may lie there, and what `make` puts there.
    (output / "vocab.txt").write_text(open(vocab_path).read())
    (output / "builtin_corpus.txt").write_text(open(corpus_path).read())
    here = request(f"{output}/builtin_corpus.txt", f"{output}/vocab.txt", output)
    assert example_writer.write(here, HERE)["train"]["records"]
    example_folder.remove(str(output))
    assert sorted(os.listdir(output)) == ["builtin_corpus.txt", "vocab.txt"]


def test_one_writer_at_a_time(corpus_path, vocab_path, tmp_path):
    wanted = request(corpus_path, vocab_path, tmp_path / "o")
    with (
        locks.held(str(tmp_path / "o")),
        pytest.raises(InputError, match="o: another process is writing there"),
    ):
        example_writer.write(wanted, HERE)
    assert example_writer.write(wanted, HERE)


def test_damage_to_what_was_finished_is_mended(
    corpus_path, vocab_path, tmp_path, small_shards, monkeypatch
):
    """Between two starts: summaries, shards."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    example_writer.write(request(corpus_path, vocab_path, whole), HERE)

    def stop(*_):
        raise KeyError("stopped")

    for pattern, spoil in (
        (f"{UNFINISHED}/0000[01]*.json", lambda data: data[:-9]),
        (f"{UNFINISHED}/0*.json", lambda data: data.replace(b'"records"', b'"no"')),
        ("train-*", lambda data: data[:-5]),
    ):
        with monkeypatch.context() as patch, pytest.raises(KeyError, match="stopped"):
            patch.setattr(example_writer, "_refusal_of_all", stop)
            example_writer.write(request(corpus_path, vocab_path, broken), HERE)
        paths = glob.glob(f"{broken}/{pattern}")
        assert paths, pattern
        for path in paths:
            data = open(path, "rb").read()
            assert spoil(data) != data
            open(path, "wb").write(spoil(data))
    example_writer.write(request(corpus_path, vocab_path, broken), HERE)
    assert digests(whole) == digests(broken)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"bytes"', '"byte5"', "lacks the field bytes"),
        ('"file": "train', '"file": "../train', "is not the path of a file in its folder"),
        ('"mlm_nsp"', '"mlm"x', "is not JSON"),
        ('"mlm_nsp"', '"nothing"', "at settings.objective"),
        ('"max_seq_length": 32', '"max_seq_length": "32"', "expected a whole number, got text"),
    ],
)
def test_a_damaged_manifest_is_named(tfrecords, tmp_path, old, new, message):
    text = open(f"{tfrecords}/manifest.json").read()
    text = text.replace(json.loads(text)["sha256"], "").replace(',\n  "sha256": ""', "")
    assert old in text and "sha256" not in json.loads(text)
    (tmp_path / "manifest.json").write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        example_folder.read_manifest(str(tmp_path))


def test_a_manifest_with_other_values_is_told(tfrecords, tmp_path):
    """They would change the order of the examples, or how masks are drawn."""
    path = tmp_path / "manifest.json"
    written = json.loads(open(f"{tfrecords}/manifest.json").read())
    changed = json.loads(json.dumps(written))
    changed["train"]["shards"][0]["records"] += 1
    path.write_text(json.dumps(changed))
    with pytest.raises(InputError, match=r"manifest\.json: is damaged, or was changed"):
        example_folder.read_manifest(str(tmp_path))
    for values in (changed, written):  # older manifests have no checksum; whoever changes one
        del values["sha256"]  # removes it
        path.write_text(json.dumps(values))
        assert example_folder.read_manifest(str(tmp_path)) == values


@pytest.mark.parametrize("end", ["", "\r\n"])
def test_a_vocabulary_with_other_line_ends_is_the_same(corpus_path, vocab_path, tmp_path, end):
    vocab = tmp_path / "v.txt"
    tokens = open(vocab_path).read().split()
    vocab.write_bytes((end or "\n").join(tokens).encode())
    manifest = example_writer.write(request(corpus_path, str(vocab), tmp_path / "o"), HERE)
    assert manifest["vocabulary_sha256"] == files.sha256(f"{tmp_path}/o/vocab.txt")
