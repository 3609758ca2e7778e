"""Full sentences across documents."""

import numpy as np

from pipelines.pretraining import masking
from pipelines.pretraining.makers.base import TokenizedDocuments
from pipelines.pretraining.makers.running_text import FullSentences
from pipelines.pretraining.settings import ExampleSettings, Objective, SequenceKind
from tests import tokenizers

LENGTH = 16
TOKENIZER = tokenizers.wordpiece(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"t{i}" for i in range(500))]
)


def documents(*lengths):
    """Documents of sentences of so many tokens, which are numbered through."""
    sentences = [length for document in lengths for length in document]
    return TokenizedDocuments(
        np.arange(5, 5 + sum(sentences), dtype=np.int32),
        np.cumsum([0, *sentences]),
        np.cumsum([0, *map(len, lengths)]),
        np.arange(len(lengths), dtype=np.uint64),
    )


def sequences(data):
    settings = ExampleSettings(
        objective=Objective.MLM,
        max_seq_length=LENGTH,
        max_predictions_per_seq=2,
        sequences=SequenceKind.FULL_SENTENCES,
    )
    maker = FullSentences(settings, TOKENIZER)
    plan = maker.plan(data, np.random.default_rng(0))
    filled: masking.SequenceBlock = maker.fill(data, plan)
    rows = zip(filled.word_ids.tolist(), filled.lengths, strict=True)
    found = [row[:length] for row, length in rows]
    assert all(row.count(0) == 0 for row in found)
    assert (filled.a_lengths == filled.lengths).all()
    return found


def test_sentences_are_whole_and_documents_are_separated():
    assert sequences(documents([4, 3], [2], [9, 8])) == [
        [2, *range(5, 12), 3, 12, 13, 3],
        [2, *range(14, 23), 3],
        [2, *range(23, 31), 3],
    ]


def test_the_separators_count():
    """Fourteen tokens fit; with a separator between documents, thirteen."""
    assert len(sequences(documents([7, 7]))) == 1
    assert len(sequences(documents([7], [7]))) == 2
    assert len(sequences(documents([7], [6]))) == 1


def test_a_sentence_that_is_too_long_is_cut():
    found = sequences(documents([2], [31], [3]))
    assert [len(row) - 2 for row in found] == [2, 14, 14, 7]
    assert found[-1] == [2, 35, 36, 37, 3, 38, 39, 40, 3]
