"""Tokens that a WordPiece tokenizer keeps whole, against the tokenizers library."""

import itertools
import random

import pytest
import tensorflow as tf
import tokenizers

from pipelines.common.errors import InputError
from pipelines.tokenizers.wordpiece_vocabulary import SPECIAL_TOKENS
from tests.tokenizers import library_wordpiece, wordpiece

KEPT = ["<e1>", "</e1>", "[unused3]", "[E2]", "<e1>>"]
LETTERS = [*"abde13</>[]-é中E", "unused"]
TOKENS = [*SPECIAL_TOKENS, *LETTERS, *(f"##{letter}" for letter in LETTERS), *KEPT]


def random_texts(count):
    rng = random.Random(1)
    parts = [*KEPT, *LETTERS, " ", "<E1>", "[e2]", "unused3", "\u0301", "\u0000", "\u2028"]
    return ["".join(rng.choices(parts, k=rng.randint(0, 12))) for _ in range(count)]


@pytest.mark.parametrize("lower_case", [True, False])
def test_pieces_are_those_of_the_library(lower_case):
    tokenizer = wordpiece(TOKENS, lower_case=lower_case, kept_tokens=" ".join(KEPT))
    library = library_wordpiece(TOKENS, lowercase=lower_case)
    library.add_tokens([tokenizers.AddedToken(token) for token in KEPT])
    texts = random_texts(4000)
    ids, starts, ends = (each.to_list() for each in tokenizer.tokenize_with_offsets(texts))
    expected = [each.ids for each in library.encode_batch(texts, add_special_tokens=False)]
    assert ids == expected == tokenizer.tokenize(texts).to_list()
    seen = set()
    for text, row, begin, end in zip(texts, ids, starts, ends, strict=True):
        places = [text.encode()[a:b].decode() for a, b in zip(begin, end, strict=True)]
        for number, place in zip(row, places, strict=True):
            if TOKENS[number] in KEPT:
                seen.add(number)
                found, token = place.translate({0: None, 0x301: None}), TOKENS[number]
                assert found == token or (lower_case and found.lower() == token.lower())
    assert len(seen) == len(KEPT)
    flat, splits = tokenizer.tokenize_running_text(texts)
    assert [flat[a:b].tolist() for a, b in itertools.pairwise(splits)] == ids
    for text, row in zip(texts, ids, strict=True):
        plain = tokenizer.plain_ids(text)
        assert plain is None or plain == row
    assert tokenizer.plain_ids("a <e1>") is None and tokenizer.plain_ids("a1") is not None


def test_bytes_that_are_no_text_do_not_move_the_tokens():
    tokenizer = wordpiece(TOKENS, kept_tokens="<e1>")
    ids, starts, ends = tokenizer.tokenize_with_offsets([b"\xff<e1>a\xff\xff", b"<e1>"])
    assert [[TOKENS[i] for i in row] for row in ids.to_list()] == [["<e1>", "a"], ["<e1>"]]
    assert starts.to_list()[1] == [0] and ends.to_list()[1] == [4]


def test_in_graphs_and_for_given_words():
    tokenizer = wordpiece(TOKENS, kept_tokens=" ".join(KEPT))
    texts = random_texts(50)
    data = tf.data.Dataset.from_tensor_slices(texts).batch(50).map(tokenizer.tokenize)
    assert next(iter(data)).to_list() == tokenizer.tokenize(texts).to_list()
    ids = tokenizer.tokenize_words(["<e1>", "ab", "[E2]"]).to_list()
    assert [[TOKENS[i] for i in row] for row in ids] == [["<e1>"], ["a", "##b"], ["[E2]"]]
    pieces = tokenizer.tokenize_by_word(["ab<e1>a"])
    assert pieces.begins.to_list() == [[True, False, True, True]]
    assert tokenizer.settings["kept_tokens"] == " ".join(KEPT)


def test_a_token_that_the_vocabulary_lacks_is_reported():
    with pytest.raises(InputError, match=r"the vocabulary lacks the kept tokens <e9>, <e8>\."):
        wordpiece(TOKENS, kept_tokens="<e9> <e1> <e8>")
