"""Numbers of pieces in place of ids: packing treats them alike, and each leads back to its text."""

import collections

import numpy as np
import pytest

from bert_tf.tasks.numbered import NumberedTokenizer
from pipelines.tokenizers import registry
from pipelines.tokenizers.bpe_vocabulary import BPEVocabulary
from pipelines.tokenizers.wordpiece_vocabulary import WordPieceVocabulary
from tests.pipelines.tokenizers import byte_bpe_reference

TEXTS = ["The small model's layer, 한국어 é!", "", "unrelated masks"]
SECOND = ["A token", "the mask", ""]


@pytest.fixture(scope="module", params=["wordpiece", "byte_bpe", "bpe"])
def tokenizer(request, vocab_path):
    if request.param == "wordpiece":
        vocabulary = WordPieceVocabulary.load(vocab_path)
    elif request.param == "bpe":
        words = collections.Counter({word.encode(): 3 for text in TEXTS for word in text.split()})
        vocabulary = BPEVocabulary.learn(words, 120)
    else:
        vocabulary = byte_bpe_reference.learn(byte_bpe_reference.CORPUS, 400)
    return registry.make(vocabulary, vocabulary.resolve({}))


@pytest.mark.parametrize("max_seq_length", [8, 100])
def test_numbers_are_packed_like_ids(tokenizer, max_seq_length):
    numbered = NumberedTokenizer(tokenizer)
    numbers, _ = numbered.pack_texts(TEXTS, SECOND, max_seq_length)
    wanted, _ = tokenizer.pack_texts(TEXTS, SECOND, max_seq_length)
    assert numbered.ids_of(numbers.word_ids.flat_values.numpy()).tolist() == (
        wanted.word_ids.flat_values.numpy().tolist()
    )
    for row, ids in enumerate(wanted.word_ids.to_list()):
        sequence = numbered.sequence(numbers.word_ids[row].numpy(), numbers.type_ids[row].numpy())
        assert sequence.ids.tolist() == ids
        assert sequence.types.tolist() == wanted.type_ids[row].numpy().tolist()
        texts = (TEXTS[row].encode(), SECOND[row].encode())
        ends = [0, 0]
        for at in np.flatnonzero(~sequence.special):
            start, end, segment = sequence.starts[at], sequence.ends[at], sequence.segments[at]
            assert texts[segment][start:end].decode()  # whole characters
            assert end >= ends[segment]
            ends[segment] = end


def test_words_without_pieces_are_unknown_tokens(tokenizer):
    numbered = NumberedTokenizer(tokenizer)
    words = ["the", "\u200b", "mask"]
    numbers = numbered.tokenize_words(words)
    assert (numbers.row_lengths() > 0).numpy().all()
    pieces = tokenizer.tokenize_words(words).to_list()
    wanted = [piece for ids in pieces for piece in ids or [tokenizer.unknown_id]]
    assert numbered.ids.tolist() == wanted and numbered.begins.sum() == 3


def test_words_of_a_text_keep_their_places(tokenizer):
    text = TEXTS[0]
    numbered = NumberedTokenizer(tokenizer)
    words = numbered.split_words(text)
    assert words[:3] == ["The", "small", "model"] and "한국어" in words
    numbers = numbered.tokenize_words(words)
    for word, row in zip(words, numbers.to_list(), strict=True):
        assert text.encode()[numbered.starts[row[0]] : numbered.ends[row[-1]]].decode() == word
