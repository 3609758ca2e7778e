"""What learned vocabularies promise, whatever they are learned from."""

import collections
import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.common.errors import InputError
from pipelines.tokenizers import (
    bpe_vocabulary,
    byte_bpe_words,
    registry,
    whole_words,
    wordpiece,
    wordpiece_vocabulary,
)
from tests import strategies
from tests.pipelines.tokenizers import reference_tokenizer

_UNASSIGNED = "\U0010ffff"  # stands for all code points that are
_SPLITTERS = {
    lower: functools.partial(wordpiece.split_words, lower_case=lower, strip_accents=lower)
    for lower in (False, True)
}
_TEXTS = st.lists(strategies.long_texts(), min_size=1, max_size=12)


def _counts(texts, lower_case):
    return collections.Counter(_SPLITTERS[lower_case](texts * 2).numpy().tolist())


@given(_TEXTS, st.booleans())
def test_words_are_those_of_the_rules(texts, lower_case):
    words = [w for text in texts for w in reference_tokenizer.basic_words(text, lower_case)]
    found = [word.decode() for word in _SPLITTERS[lower_case](texts).numpy()]
    assert list(map(_shown, words)) == found


def _shown(word):
    """A word as the tokenizer has it: what is not assigned cannot be told apart."""
    is_known = reference_tokenizer.is_assigned
    return "".join(c if is_known(c) else _UNASSIGNED for c in word)


@given(_TEXTS, st.booleans(), st.integers(6, 400))
def test_wordpiece_knows_all_characters_and_keeps_to_its_size(texts, lower_case, size):
    counts = _counts(texts, lower_case)
    words = [_known(word) for word in counts]
    words = [word for word in words if word]
    alphabet = {w[0] for w in words} | {f"##{c}" for w in words for c in w[1:]}
    if not words or len(alphabet) + 5 > size:
        with pytest.raises(InputError, match="no words|raise the size"):
            wordpiece_vocabulary.WordPieceVocabulary.learn(counts, size)
        return
    learned = wordpiece_vocabulary.WordPieceVocabulary.learn(counts, size)
    assert alphabet <= set(learned.tokens) and len(learned) <= size
    _check_pieces(learned, "##")
    inside = " ".join(words)
    assert all(token.removeprefix("##") in inside for token in learned.tokens[5:])
    tokenizer = registry.make(learned, {"lower_case": lower_case, "strip_accents": lower_case})
    # Nothing that was seen is unknown, unless the word is too long or not assigned.
    for text, ids in zip(texts, tokenizer.tokenize(texts).to_list(), strict=True):
        wanted = reference_tokenizer.basic_words(text, lower_case)
        unknown = [w for w in wanted if len(w) > 200 or not _known(_shown(w).encode())]
        assert ids.count(tokenizer.unknown_id) == len(unknown)


def _known(word: bytes) -> str:
    """The text of a word; none of one that no vocabulary has."""
    text = word.decode()
    return "" if _UNASSIGNED in text else text


def _check_pieces(learned, suffix):
    assert learned.tokens[:5] == tuple(learned.roles.values())
    assert len(set(learned.tokens)) == len(learned.tokens)
    for token in learned.tokens:
        assert len(token.removeprefix(suffix).encode()) <= 256
        assert _UNASSIGNED not in token
        assert token == "".join(token.split())


@given(_TEXTS, st.booleans(), st.integers(6, 40))
def test_words_are_the_most_frequent_ones(texts, lower_case, size):
    counts = _counts(texts, lower_case)
    short = {
        text: count
        for word, count in counts.items()
        if (text := _known(word)) and len(text) <= 100 and len(word) <= 256
    }
    if not short:
        with pytest.raises(InputError, match="no words"):
            whole_words.WordVocabulary.learn(counts, size)
        return
    learned = whole_words.WordVocabulary.learn(counts, size)
    _check_pieces(learned, "")
    taken = learned.tokens[5:]
    assert len(taken) == min(size - 5, len(short)) and set(taken) <= short.keys()
    left = [count for text, count in short.items() if text not in taken]
    frequencies = [short[text] for text in taken]
    assert frequencies == sorted(frequencies, reverse=True)
    assert not left or max(left) <= frequencies[-1]
    tokenizer = registry.make(learned, {"lower_case": lower_case})
    ids = {token: index for index, token in enumerate(learned.tokens)}
    assert tokenizer.tokenize(texts).to_list() == [
        [ids.get(word, 1) for word in reference_tokenizer.basic_words(text, lower_case)]
        for text in texts
    ]


@given(_TEXTS, st.integers(261, 300))
def test_byte_bpe_keeps_to_its_size_and_spells_every_text(texts, size):
    counts = collections.Counter(byte_bpe_words.split_words(texts * 2).numpy().tolist())
    if not counts:
        with pytest.raises(InputError, match="no words"):
            bpe_vocabulary.ByteBPEVocabulary.learn(counts, size)
        return
    learned = bpe_vocabulary.ByteBPEVocabulary.learn(counts, size)
    assert len(learned) <= size and len(set(learned.tokens)) == len(learned)
    assert {left + right for left, right in learned.merges} <= set(learned.tokens)
    tokenizer = registry.make(learned)
    assert tokenizer.decode(tokenizer.tokenize(texts)) == texts


@given(
    st.lists(
        st.text(st.sampled_from("ab#é한 .[]\t\u2028"), max_size=4)
        | st.sampled_from(["a" * 256, "##" + "é" * 128, "é" * 129, "##" + "a" * 257]),
        max_size=5,
        unique=True,
    ),
    st.sampled_from(["\n", "\r\n"]),
)
def test_a_vocabulary_that_is_read_can_be_used(tmp_path_factory, tokens, end):
    """Whatever stands in it: a tokenizer, or one line that says what is wrong with it."""
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    tokens = ["a", *wordpiece_vocabulary.SPECIAL_TOKENS, *tokens]
    path.write_text("".join(f"{token}{end}" for token in tokens), encoding="utf-8", newline="")
    try:
        found = registry.load(str(path))
    except InputError as error:
        assert str(path) in str(error)
        return
    assert len(found) == len(tokens)
    assert registry.make(found).tokenize(["a a"]).to_list() == [[0, 0]]
    again = path.with_name("again.txt")
    found.write(str(again))
    assert registry.load(str(again)) == found
