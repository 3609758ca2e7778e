"""WordPiece of any text and any vocabulary, against the rules in plain Python."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from pipelines.tokenizers.wordpiece import WordPieceTokenizer
from pipelines.tokenizers.wordpiece_vocabulary import SPECIAL_TOKENS, WordPieceVocabulary
from tests import strategies
from tests.pipelines.tokenizers import reference_tokenizer

_TEXTS = strategies.texts()
_MOST_BYTES = 256  # of a token


@st.composite
def _cases(draw, of=_TEXTS):
    """Texts, a vocabulary of pieces of their words and others, and whether it is uncased."""
    texts = draw(strategies.batches(of))
    lower_case = draw(st.booleans())
    words = [w for text in texts for w in reference_tokenizer.basic_words(text, lower_case)]
    # Some may come from no text: with spaces, signs or ideographs in them, upper case, controls.
    strange = st.text(
        st.sampled_from("abA #.中é\u0301\u200d\u2028\u0378[]"), min_size=1, max_size=5
    )
    pieces = dict.fromkeys(["a", "##a", *draw(st.lists(strange, max_size=4))])
    for word in draw(st.lists(st.sampled_from(words), max_size=12)) if words else ():
        start = draw(st.integers(0, len(word) - 1))
        end = draw(st.integers(start + 1, len(word)))
        pieces["##" * (draw(st.booleans()) or start > 0) + word[start:end]] = None
    if draw(st.booleans()):  # else most words are unknown
        pieces.update(dict.fromkeys(f"{sign}{c}" for w in words for c in w for sign in ("", "##")))
    known = [piece for piece in pieces if len(piece.encode()) <= _MOST_BYTES]
    return texts, list(dict.fromkeys([*SPECIAL_TOKENS, *known])), lower_case


def _tokenizer(tokens, lower_case):
    # Parts of Korean syllables in a vocabulary would decompose texts, which BERT does not.
    vocabulary = WordPieceVocabulary(tuple(tokens))
    return WordPieceTokenizer(vocabulary, lower_case=lower_case, decompose=False)


def _expected(texts, tokens, lower_case):
    ids = {token: index for index, token in enumerate(tokens)}
    return [
        [ids[piece] for piece in reference_tokenizer.tokenize(text, ids, lower_case)]
        for text in texts
    ]


@given(_cases())
def test_ids_are_those_of_the_rules(case):
    texts, tokens, lower_case = case
    found = _tokenizer(tokens, lower_case).tokenize(texts).to_list()
    assert found == _expected(texts, tokens, lower_case)


@given(_cases(strategies.long_texts()))
def test_ids_of_long_words_are_those_of_the_rules(case):
    texts, tokens, lower_case = case
    tokenizer = _tokenizer(tokens, lower_case)
    ids, starts, ends = (value.to_list() for value in tokenizer.tokenize_with_offsets(texts))
    assert ids == tokenizer.tokenize(texts).to_list() == _expected(texts, tokens, lower_case)
    for text, row, first, last in zip(texts, ids, starts, ends, strict=True):
        for index, a, b in zip(row, first, last, strict=True):
            if index == tokenizer.unknown_id:
                word = text.encode()[a:b].decode()
                assert len(reference_tokenizer.basic_words(word, lower_case)) == 1


@given(_cases())
def test_places_cut_the_text_to_what_the_token_was_made_of(case):
    """What a piece covers in the text is, normalized, the piece itself."""
    texts, tokens, lower_case = case
    tokenizer = _tokenizer(tokens, lower_case)
    ids, starts, ends = (value.to_list() for value in tokenizer.tokenize_with_offsets(texts))
    assert ids == tokenizer.tokenize(texts).to_list()
    for text, row, first, last in zip(texts, ids, starts, ends, strict=True):
        data = text.encode()
        spans = list(zip(first, last, strict=True))
        assert first == sorted(first) and last == sorted(last)
        assert all(0 <= a < b <= len(data) for a, b in spans)
        for index, (a, b) in zip(row, spans, strict=True):
            normal = _normal(data[a:b].decode(), lower_case)
            piece = tokens[index].removeprefix("##")
            # A character that becomes two (İ, or a letter in parts) stands whole at both.
            assert index == tokenizer.unknown_id or piece.replace("ς", "σ") in normal
        _check_nothing_lost(text, spans, lower_case)


def _normal(text: str, lower_case: bool) -> str:
    cleaned = reference_tokenizer.clean(text)
    if not lower_case:
        return cleaned
    return reference_tokenizer.strip_marks(cleaned.lower()).replace("ς", "σ")


def _check_nothing_lost(text, spans, lower_case):
    """What no token covers is white space, or what normalization drops."""
    covered = bytearray(len(text.encode()))
    for a, b in spans:
        covered[a:b] = b"\1" * (b - a)
    position = 0
    for character in text:
        if not covered[position]:
            normal = _normal(character, lower_case)
            assert not normal.strip() or unicodedata.category(character) == "Cn"
        position += len(character.encode())


@given(st.lists(st.text(st.sampled_from("".join(map(chr, range(32, 127))) + "\t\n\r"))), _cases())
def test_plain_texts_have_the_same_ids_without_tensorflow(texts, case):
    _, tokens, lower_case = case
    tokenizer = _tokenizer(tokens, lower_case)
    expected = _expected(texts, tokens, lower_case)
    assert [tokenizer.plain_ids(text) for text in texts] == expected


@given(st.lists(strategies.raw_texts(), min_size=1, max_size=20), st.booleans())
def test_texts_do_not_touch_each_other(texts, lower_case):
    """Whatever stands beside them in a batch: the same ids and places; nothing that is no UTF-8."""
    tokenizer = _tokenizer([*SPECIAL_TOKENS, *"ab'é中", "##a", "##b", "e", "##e"], lower_case)
    together = [value.to_list() for value in tokenizer.tokenize_with_offsets(texts)]
    half = len(texts) // 2
    apart = zip(
        *(
            [value.to_list() for value in tokenizer.tokenize_with_offsets(part)]
            for part in (texts[:half], texts[half:])
            if part
        ),
        strict=True,
    )
    assert together == [[row for part in parts for row in part] for parts in apart]
    readable = [text.decode(errors="replace") for text in texts]
    assert together[0] == _expected(readable, tokenizer.vocabulary.tokens, lower_case)
