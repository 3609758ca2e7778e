"""Packed sequences: full to the last place, and nothing lost but the end of a shard."""

import dataclasses
import itertools

import numpy as np
import pytest

from pipelines.common.errors import InputError
from pipelines.pretraining import example_folder, example_reader, example_writer
from pipelines.pretraining.makers.running_text import PackedText, TextStream
from pipelines.pretraining.settings import ExampleSettings, Masking, Objective, SequenceKind
from tests import tokenizers
from tests.pipelines.pretraining import written

LENGTH = 16
TOKENIZER = tokenizers.wordpiece(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"t{i}" for i in range(2000))]
)
SETTINGS = ExampleSettings(
    objective=Objective.MLM,
    max_seq_length=LENGTH,
    max_predictions_per_seq=2,
    dupe_factor=2,
    sequences=SequenceKind.PACKED,
)


def documents(*lengths):
    """Documents of a sentence of so many tokens each."""
    return written.documents([[length] for length in lengths])


def sequences(data):
    maker = PackedText(SETTINGS, TOKENIZER)
    filled = maker.fill(data, maker.plan(data, np.random.default_rng(0)))
    assert (filled.lengths == LENGTH).all() and (filled.a_lengths == LENGTH).all()
    return filled.word_ids.tolist()


def test_documents_follow_each_other_behind_a_separator():
    assert sequences(documents(4, 20, 8)) == [
        [2, *range(5, 9), 3, *range(9, 18), 3],
        [2, *range(18, 29), 3, 29, 30, 3],
    ]


def test_a_separator_in_the_last_place_is_followed_by_that_of_the_sequence():
    assert sequences(documents(13, 14, 14, 3)) == [
        [2, *range(5, 18), 3, 3],
        [2, *range(18, 32), 3],
        [2, *range(32, 46), 3],
    ]


@pytest.mark.parametrize("seed", range(3))
def test_a_stream_has_all_tokens_and_a_separator_after_each_document(seed):
    rng = np.random.default_rng(seed)
    data = documents(*rng.integers(1, 40, 60).tolist())
    settings = dataclasses.replace(
        SETTINGS, objective=Objective.LEFT_TO_RIGHT, sequences=SequenceKind.STREAM
    )
    maker = TextStream(settings, TOKENIZER)
    plan = maker.plan(data, rng)
    filled = maker.fill(data, plan)
    assert (filled.lengths == LENGTH).all()
    bounds = data.sentence_starts
    whole = [[*data.ids[a:b], 3] for a, b in itertools.pairwise(bounds)]
    stream = [token for document in whole for token in document]
    assert filled.word_ids.ravel().tolist() == stream[: len(stream) // LENGTH * LENGTH]
    chosen = rng.permutation(len(plan))[:3]
    np.testing.assert_array_equal(maker.fill(data, plan[chosen])[0], filled.word_ids[chosen])


def test_text_that_fills_no_sequence_gives_none():
    assert sequences(documents(13)) == sequences(documents(6, 5)) == []


@pytest.mark.parametrize(
    ("changes", "times"),
    [
        ({}, 2),
        ({"objective": Objective.LEFT_TO_RIGHT}, 1),
        ({"masking": Masking.DYNAMIC}, 1),
        ({"objective": Objective.DENOISING}, 2),
    ],
)
def test_text_is_used_again_where_something_differs(changes, times):
    assert PackedText(dataclasses.replace(SETTINGS, **changes), TOKENIZER).times == times


@pytest.mark.parametrize("seed", range(3))
def test_every_token_is_there_once_in_order(seed):
    rng = np.random.default_rng(seed)
    data = documents(*rng.integers(1, 40, 60).tolist())
    found = sequences(data)
    tokens = [token for row in found for token in row if token > 4]
    assert tokens == data.ids[: len(tokens)].tolist()
    assert len(data.ids) - len(tokens) < LENGTH - 2
    firsts = set(data.ids[data.sentence_starts[1:-1]].tolist())
    for row in found:
        assert row[0] == 2 and row[-1] == 3 and 0 not in row and row[1] > 4
        inner = [row[i + 1] for i, token in enumerate(row[:-2]) if token == 3 and row[i + 1] != 3]
        assert set(inner) == firsts & set(row[2:])


def test_examples_are_full(corpus_path, vocab_path, tmp_path, monkeypatch):
    written.cut_finely(monkeypatch, unit_bytes=20_000)
    output = str(tmp_path / "o")
    request = example_writer.ExampleRequest(corpus_path, vocab_path, output, SETTINGS)
    whole = example_writer.write(request, written.HERE)
    examples = example_reader.open_examples(output)
    for batch in example_reader.evaluation_batches(examples, 64):
        assert batch["input_mask"].numpy().all()
        assert not batch["input_type_ids"].numpy().any()
        assert "next_sentence_labels" not in batch
    train = whole["train"]
    assert train["full_length"] == train["records"] and train["tokens"] == LENGTH * train["records"]
    # Used twice, all but the end of each shard; separators between documents take places too.
    places, text = train["records"] * (LENGTH - 2), whole["text"]
    assert places <= 2 * (text["tokens"] + text["documents"])
    assert places > 2 * (text["tokens"] - len(train["shards"]) * LENGTH)
    assert example_folder.segments(example_folder.read_manifest(output)) == 1


def test_less_text_than_a_sequence_is_named(vocab_path, tmp_path):
    path = tmp_path / "short.txt"
    path.write_text("A few words.\n")
    request = example_writer.ExampleRequest(str(path), vocab_path, str(tmp_path / "o"), SETTINGS)
    with pytest.raises(InputError, match="do not fill one sequence of --max_seq_length=16"):
        example_writer.write(request, written.HERE)


def test_next_sentence_prediction_takes_no_packed_sequences():
    with pytest.raises(InputError, match="--sequences=packed: does not go with"):
        ExampleSettings(sequences=SequenceKind.PACKED).check()
    ExampleSettings(
        objective=Objective.MLM, sequences=SequenceKind.PACKED, masking=Masking.DYNAMIC
    ).check()
