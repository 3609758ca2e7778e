"""The byte-level BPE tokenizer against that of the tokenizers library."""

import hashlib
import itertools
import random
import unicodedata

import pytest
import tokenizers

from pipelines.tokenizers import bpe_vocabulary as vocabulary
from pipelines.tokenizers import byte_bpe_words
from pipelines.tokenizers.bpe_vocabulary import ByteBPEVocabulary
from pipelines.tokenizers.byte_bpe import ByteBPETokenizer
from tests.pipelines.tokenizers import byte_bpe_reference
from tests.real_data import data_of

# Each code point alone; within, before and after words; among white space and in contractions.
PLACES = ("{}", "a{}b1{}2 A {}b{} .{}", " {} {}{}  {}\n{}\t{}'{}s'{}")


@pytest.fixture(scope="module")
def learned():
    return byte_bpe_reference.learn(byte_bpe_reference.CORPUS, 400)


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "prefix"])
def add_prefix_space(request) -> bool:
    return request.param


@pytest.fixture(scope="module")
def tokenizer(learned, add_prefix_space) -> ByteBPETokenizer:
    return ByteBPETokenizer(learned, add_prefix_space=add_prefix_space)


@pytest.fixture(scope="module")
def reference(learned, add_prefix_space):
    return byte_bpe_reference.make(learned.tokens, learned.merges, add_prefix_space)


def _bytes_of(tokenizer, ids) -> bytes:
    return b"".join(vocabulary.to_bytes(tokenizer.vocabulary.tokens[index]) for index in ids)


def test_ids_are_those_of_the_reference(tokenizer, reference):
    byte_bpe_reference.check(tokenizer, reference, byte_bpe_reference.TRICKY)
    byte_bpe_reference.check(tokenizer, reference, byte_bpe_reference.CORPUS)
    assert (
        max(tokenizer.tokenize(byte_bpe_reference.CORPUS).flat_values.numpy()) > 261
    )  # merges were made


def test_ids_of_random_texts_are_those_of_the_reference(tokenizer, reference):
    byte_bpe_reference.check(tokenizer, reference, byte_bpe_reference.random_texts(2000))


@pytest.mark.parametrize("alphabet", ["a", "ab", "abc", "aé", "ab."])
def test_words_of_few_letters_are_merged_as_by_the_reference(alphabet):
    """There the parts of tokens overlap most, and the same token has most ways to be made."""
    rng = random.Random(3)
    texts = ["".join(rng.choices(alphabet, k=rng.randint(1, 60))) for _ in range(2000)]
    learned = byte_bpe_reference.learn(texts[:500], 600)
    tokens, merges = learned.tokens, learned.merges
    reference = byte_bpe_reference.make(tokens, merges, False)
    byte_bpe_reference.check(
        ByteBPETokenizer(ByteBPEVocabulary(tuple(tokens), tuple(merges))), reference, texts
    )


def test_every_code_point_that_means_something_is_of_the_kind_of_the_reference(learned):
    characters = [
        c
        for c in byte_bpe_reference.ALL_CODE_POINTS
        if unicodedata.category(c) not in ("Cn", "Co", "Lo")
    ]
    texts = [f"a{c}1{c}.{c}" for c in characters]
    byte_bpe_reference.check(
        ByteBPETokenizer(learned),
        byte_bpe_reference.make(learned.tokens, learned.merges, False),
        texts,
    )


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_every_code_point_in_every_place(learned, place):
    tokenizer, reference = (
        ByteBPETokenizer(learned),
        byte_bpe_reference.make(learned.tokens, learned.merges, False),
    )
    for start in range(0, len(byte_bpe_reference.ALL_CODE_POINTS), 1 << 16):
        block = byte_bpe_reference.ALL_CODE_POINTS[start : start + (1 << 16)]
        byte_bpe_reference.check(tokenizer, reference, [place.replace("{}", c) for c in block])


def test_any_bytes_are_split_as_by_the_reference_and_are_spelled_by_their_ids(learned):
    tokenizer = ByteBPETokenizer(learned)
    bpe = byte_bpe_reference.make(learned.tokens, learned.merges, False)
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    texts = byte_bpe_reference.random_bytes(1500)
    words = list(map(byte_bpe_reference.split, texts))
    found = byte_bpe_words.split_words(texts).numpy().tolist()
    assert found == list(itertools.chain.from_iterable(words))
    for text, row, ids in zip(texts, words, tokenizer.tokenize(texts).to_list(), strict=True):
        assert _bytes_of(tokenizer, ids) == text
        assert ids == bpe.encode(" ".join(map(vocabulary.to_letters, row))).ids, text


def test_words_have_the_ids_that_they_have_within_a_text(learned):
    reference = byte_bpe_reference.make(learned.tokens, learned.merges, True)
    words = ["the", " the", "", "'s", "isn't", "\nthe", " ", "100", "été", "two words", "\0", "."]
    expected = [reference.encode([word], is_pretokenized=True).ids for word in words]
    assert ByteBPETokenizer(learned).tokenize_words(words).to_list() == expected


def test_places_in_words(tokenizer):
    words = ["don't", "model's", "한국어", "👍", " x", "", "a b", "1,000"]
    ids, starts, ends = tokenizer.tokenize_words_with_offsets(words)
    assert ids.to_list() == tokenizer.tokenize_words(words).to_list()
    for word, first, last in zip(words, starts.to_list(), ends.to_list(), strict=True):
        assert [*first[1:], len(word.encode())] == last or not word or " " in word
        assert all(0 <= a <= b for a, b in zip(first, last, strict=True))
    assert starts.to_list()[0][0] == 0 and starts.to_list()[5] == []


def test_places_are_those_of_the_reference(tokenizer, reference):
    texts = [
        *byte_bpe_reference.TRICKY,
        *byte_bpe_reference.CORPUS,
        *byte_bpe_reference.random_texts(500),
        *("😀" * count for count in range(1, 5)),
    ]
    assert byte_bpe_reference.check_places(tokenizer, reference, texts) > 20_000


@pytest.mark.slow
def test_places_of_every_code_point_and_of_many_texts(tokenizer, reference):
    every = byte_bpe_reference.ALL_CODE_POINTS
    for start in range(0, len(every), 1 << 16):
        block = [f"a{c}1{c}. {c}{c}" for c in every[start : start + (1 << 16)]]
        byte_bpe_reference.check_places(tokenizer, reference, block)
    texts = byte_bpe_reference.random_texts(50_000)
    for start in range(0, len(texts), 10_000):
        byte_bpe_reference.check_places(tokenizer, reference, texts[start : start + 10_000])


def test_places_of_pieces_of_a_character(learned):
    tokenizer = ByteBPETokenizer(learned)
    text = "é 😀b".encode()
    ids, starts, ends = (values.to_list()[0] for values in tokenizer.tokenize_with_offsets([text]))
    assert [learned.tokens[index] for index in ids] == ["Ã©", "Ġ", "ðŁ", "ĺ", "Ģ", "b"]
    emoji = [(3, 7)] * 3
    assert list(zip(starts, ends, strict=True)) == [(0, 2), (2, 3), *emoji, (7, 8)]
    words = tokenizer.tokenize_by_word([text])
    places = zip(words.starts.to_list()[0], words.ends.to_list()[0], strict=True)
    assert list(places)[-5:] == [*emoji, (7, 7), (7, 8)]


@pytest.mark.more_cases
def test_places_of_any_bytes(tokenizer):
    texts = [
        *byte_bpe_reference.random_bytes(1000),
        *(
            text.encode()
            for text in byte_bpe_reference.TRICKY + byte_bpe_reference.random_texts(500)
        ),
    ]
    byte_bpe_reference.check_bytes(tokenizer, texts)


def test_places_of_spaces(learned):
    tokens, merges = learned.tokens, learned.merges

    def places(text: str, add_prefix_space: bool = False) -> list[tuple[str, int, int]]:
        tokenizer = ByteBPETokenizer(
            ByteBPEVocabulary(tuple(tokens), tuple(merges)), add_prefix_space=add_prefix_space
        )
        ids, starts, ends = tokenizer.tokenize_with_offsets([text])
        pieces = [tokens[index] for index in ids.flat_values.numpy()]
        return list(zip(pieces, starts.to_list()[0], ends.to_list()[0], strict=True))

    assert places(" the the") == [("Ġthe", 1, 4), ("Ġthe", 5, 8)]
    assert places("the", add_prefix_space=True) == [("Ġthe", 0, 3)]
    assert places(" the ", add_prefix_space=True) == [("Ġthe", 1, 4), ("Ġ", 4, 5)]
    # "Ġ#" was not learned: the space is a piece of its own, with a place if the text has it.
    assert places(" #") == [("Ġ", 0, 1), ("#", 1, 2)]
    assert places("#", add_prefix_space=True) == [("Ġ", 0, 0), ("#", 0, 1)]


@pytest.mark.more_cases
def test_tokenizing_by_word(tokenizer):
    texts = [
        *byte_bpe_reference.random_bytes(500),
        *(
            text.encode()
            for text in byte_bpe_reference.TRICKY
            + byte_bpe_reference.CORPUS
            + byte_bpe_reference.random_texts(500)
        ),
    ]
    found = [value.to_list() for value in tokenizer.tokenize_by_word(texts)]
    words = [_words_with_places(text) for text in texts]
    flat = [word for row in words for _, word in row]
    of_words = iter(tokenizer.tokenize_words(flat).to_list())
    for text, row, ids, starts, ends, begins in zip(texts, words, *found, strict=True):
        pieces = [next(of_words) for _ in row]
        assert ids == list(itertools.chain.from_iterable(pieces)), text
        assert begins == [place == 0 for piece in pieces for place in range(len(piece))], text
        places = iter(zip(starts, ends, strict=True))
        for (position, word), piece in zip(row, pieces, strict=True):
            spans = [next(places) for _ in piece]
            assert spans[0][0] == position and spans[-1][1] == position + len(word), text
            end = position + len(word)
            for index, span in zip(reversed(piece), reversed(spans), strict=True):
                start = max(position, end - len(_bytes_of(tokenizer, [index])))
                assert span == byte_bpe_reference.whole_characters(text, start, end), text
                end = start
            assert end == position


def _words_with_places(text: bytes) -> list[tuple[int, bytes]]:
    found, position = [], 0
    for word in byte_bpe_reference.split(text):
        if word.decode(errors="replace").strip(byte_bpe_reference.WHITE):
            visible = word.removeprefix(b" ")
            found.append((position + len(word) - len(visible), visible))
        position += len(word)
    return found


def test_one_long_text_among_many_short_ones(tokenizer):
    """Takes time and memory for their sum, not for their number times the longest."""
    texts = ["the " * 100_000, "x" * 100_000, *[""] * 50_000, *["a"] * 50_000]
    lengths = tokenizer.tokenize(texts).row_lengths().numpy().tolist()
    assert lengths[2:] == [0] * 50_000 + [len(tokenizer.tokenize(["a"])[0])] * 50_000
    assert tokenizer.tokenize_with_offsets(texts)[2].flat_values.numpy().max() == 400_000
    assert tokenizer.tokenize_by_word(texts)[2].flat_values.numpy().max() == 399_999


def test_tokens_that_begin_words(tokenizer):
    beginning = dict(zip(tokenizer.vocabulary.tokens, tokenizer.begins_word.tolist(), strict=True))
    assert all(beginning[token] for token in ("Ġthe", "Ġ", "Ċ", "ĉ", "<s>", "<mask>", "ãĢĢ"))
    assert not any(beginning[token] for token in ("t", "'s", ".", "Ð", "ľ", "Ĝ"))
    # Of scripts without spaces, each piece begins one, also of the first bytes of a character.
    assert beginning["ã"] and beginning["ä"] and not beginning["ì"]  # kana, ideographs, Hangul


def test_settings_and_checksum(tokenizer, learned, add_prefix_space, tmp_path):
    assert tokenizer.settings == {"kind": "byte_bpe", "add_prefix_space": add_prefix_space}
    learned.save(str(tmp_path))
    data = (tmp_path / "vocab.json").read_bytes() + (tmp_path / "merges.txt").read_bytes()
    assert tokenizer.vocabulary.sha256 == hashlib.sha256(data).hexdigest()


@pytest.mark.slow
def test_hello_world_of_roberta():
    tokenizer = ByteBPETokenizer(ByteBPEVocabulary.load(str(data_of("vocabs/roberta"))))
    assert tokenizer.tokenize(["Hello world!"]).to_list() == [[31414, 232, 328]]
    assert tokenizer.mask_id == 50264


@pytest.mark.slow
def test_real_text_has_the_ids_of_the_reference(add_prefix_space):
    """Line by line, and each file as one text."""
    corpora = data_of("corpora")
    learned = ByteBPEVocabulary.load(str(data_of("vocabs/roberta")))
    tokens, merges = learned.tokens, learned.merges
    tokenizer = ByteBPETokenizer(
        ByteBPEVocabulary(tuple(tokens), tuple(merges)), add_prefix_space=add_prefix_space
    )
    reference = byte_bpe_reference.make(tokens, merges, add_prefix_space)
    compared = others = 0
    for path in sorted(path for path in corpora.rglob("*") if path.is_file()):
        lines = path.read_bytes().split(b"\n")
        readable = [line for line in lines if _is_utf8(line)]
        others += len(lines) - len(readable)
        for start in range(0, len(readable), 20_000):
            texts = [line.decode() for line in readable[start : start + 20_000]]
            compared += byte_bpe_reference.check(tokenizer, reference, texts)
        byte_bpe_reference.check(tokenizer, reference, [b"\n".join(readable).decode()])
    print(f"{compared:,} lines compared; {others:,} are not UTF-8")
    assert compared > 100_000


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
