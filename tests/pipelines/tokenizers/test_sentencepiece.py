"""The SentencePiece tokenizer against its library and the normalization of google-research/albert."""

import random
import sys
import unicodedata

import pytest
import tensorflow as tf

from pipelines.common.errors import InputError
from pipelines.tokenizers import registry, sentencepiece
from pipelines.tokenizers.sentencepiece_vocabulary import SPACE, SentencePieceVocabulary
from tests.real_data import data_of

TEXTS = [
    "", " ", "Hello, world!", "  two  spaces\tand\nlines ", "in 1999, 2000, and 12,345,678,9",
    "Ünïcödé ÀÉÎ ﬁ ½ ² Ω ΑΣ Σ ΟΔΟΣ.", "日本語 한국어 한국어 中文", "``quoted'' \"text\"",
    "a\u00a0b\u3000c\u2028d", "x\u0301\u0302y \u0301z", "[MASK] [CLS] <pad> <unk>", "a\u0000b", "É\0Ab é\0\0Σ", "\0É",
    "\u200bzero\u200dwidth\ufeff", "¨ x", "\U0001f600 \U0001f468\u200d\U0001f469", "９９９，",
]  # fmt: skip


def normalized(text, lower=True):
    """`preprocess_text` of google-research/albert."""
    text = unicodedata.normalize("NFKD", " ".join(text.split()))
    text = "".join(c for c in text if not unicodedata.combining(c))
    return text.lower() if lower else text


def reference(processor, text):
    """`encode_pieces` and `piece_to_id` of google-research/albert."""
    found = []
    for piece in processor.encode(normalized(text), out_type=str):
        if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
            inner = processor.encode(piece[:-1].replace(SPACE, ""), out_type=str)
            if not piece.startswith(SPACE) and inner[0].startswith(SPACE):
                inner = inner[1:] if len(inner[0]) == 1 else [inner[0][1:], *inner[1:]]
            found += [*inner, ","]
        else:
            found.append(piece)
    return [processor.piece_to_id(piece) for piece in found]


@pytest.fixture(scope="module")
def learned():
    """A vocabulary of a few sentences with numbers before commas."""
    words = {"hello": 50, "world": 30, "help": 20, "held": 10, "years": 9, "1999,": 30, "99,": 9,
             "spaces": 7, "lines": 5, "and": 40, "in": 30, "(two)": 8}  # fmt: skip
    counts = {word.encode(): count for word, count in words.items()}
    return SentencePieceVocabulary.learn(counts, 70)


def released():
    return SentencePieceVocabulary.load(str(data_of("vocabs/albert/30k-clean.model")))


def check(vocabulary, texts):
    tokenizer = registry.make(vocabulary)
    found = tokenizer.tokenize(tf.constant(texts)).to_list()
    for text, ids in zip(texts, found, strict=True):
        assert ids == reference(vocabulary.processor, text), text
        plain = tokenizer.plain_ids(text)
        assert plain in (None, ids), text
    return tokenizer


def check_offsets(tokenizer, texts):
    """Pieces are found at their offsets; a part of a character has the place of all of it."""
    ids, starts, ends = tokenizer.tokenize_with_offsets(tf.constant(texts))
    assert ids.to_list() == tokenizer.tokenize(tf.constant(texts)).to_list()
    tokens = tokenizer.vocabulary.tokens
    rows = zip(texts, ids.to_list(), starts.to_list(), ends.to_list(), strict=True)
    for text, row, first, last in rows:
        data = text.encode()
        for index, begin, end in zip(row, first, last, strict=True):
            assert 0 <= begin <= end <= len(data)
            surface = data[begin:end].decode()  # raises where a character is cut
            piece = tokens[index].removeprefix(SPACE)
            if index != tokenizer.unknown_id and piece and not text.isspace():
                # SentencePiece leaves out control and format characters.
                surface = "".join(c for c in surface if unicodedata.category(c)[0] != "C")
                same = unicodedata.normalize("NFKC", normalized(surface))
                assert piece in same.replace(" ", SPACE), (text, surface, piece)
        assert first == sorted(first) and last == sorted(last), text


def test_ids_and_offsets_of_a_learned_vocabulary(learned):
    assert learned.tokens[:5] == ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
    tokenizer = check(learned, TEXTS)
    check_offsets(tokenizer, ["Hello  wörld, hello", " (two) 1999, ", "x\u0301 and", "é\0and\0\0É"])


def test_numbers_before_a_comma_are_encoded_again(learned):
    tokenizer = check(learned, ["1999, 99,"])
    tokens = learned.tokens
    (row,) = tokenizer.tokenize(["1999,"]).to_list()
    assert tokens[row[-1]] == "," and not any(tokens[index] == "▁1999," for index in row)


def test_a_model_file_may_be_named(learned, tmp_path):
    learned.save(str(tmp_path))
    assert registry.load(f"{tmp_path}/spiece.model").sha256 == learned.sha256


def test_texts_come_back(learned):
    tokenizer = registry.make(learned)
    assert tokenizer.decode(tokenizer.tokenize(["Hello  world"])) == ["hello world"]


def test_what_is_no_model_is_refused(tmp_path):
    (tmp_path / "spiece.model").write_bytes(b"no model")
    with pytest.raises(InputError, match=r"spiece\.model: is not a SentencePiece model"):
        registry.load(str(tmp_path))


def test_damaged_models_are_refused_or_tokenize(learned):
    """Each byte may be any other: of the pieces, their kinds and scores, and the settings."""
    rng = random.Random(0)
    refused = 0
    for _ in range(150):
        data = bytearray(learned.model)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)) :]
        try:
            found = SentencePieceVocabulary(bytes(data), "a model")
        except InputError as error:
            refused += 1
            assert "a model: " in str(error)
            continue
        assert all(len(row) <= 99 for row in [found.processor.encode("hello worlds, 1999,")])
    assert 20 < refused < 150


def test_words_begin_with_a_space_a_sign_or_a_letter_of_a_script_without_spaces():
    tokenizer = registry.make(released())
    begins = dict(zip(tokenizer.vocabulary.tokens, tokenizer.begins_word, strict=True))
    assert begins["▁the"] and begins[","] and begins["1"]
    assert not begins["s"] and not begins["ing"]
    pieces = {
        "터": True,
        "으로": True,
        "ский": True,
        "한's": False,  # as in ALBERT's program, of whose signs ' is none
        "中": False,
        "カ": False,
        "9a": False,
    }
    assert {piece: sentencepiece._continues(piece) for piece in pieces} == pieces


def test_released_vocabulary_on_unusual_texts():
    check_offsets(check(released(), TEXTS), TEXTS)


@pytest.mark.slow
def test_released_vocabulary_on_every_code_point_and_random_texts():
    points = [chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000]
    vocabulary, rng = released(), random.Random(1)
    for first in range(0, len(points), 50_000):
        check(vocabulary, [f"ab{c}cd {c}" for c in points[first : first + 50_000]])
    alphabet = [*points[:0x3000], *map(chr, range(0x1F300, 0x1F700)), *"  ,,.119"]
    texts = ["".join(rng.choices(alphabet, k=rng.randrange(1, 60))) for _ in range(2000)]
    check_offsets(check(vocabulary, texts), texts)


@pytest.mark.slow
def test_released_vocabulary_on_real_text():
    vocabulary = released()
    for path in sorted(data_of("corpora").rglob("*.txt")):
        lines = path.read_text(encoding="utf-8").split("\n")
        for first in range(0, len(lines), 5000):
            check(vocabulary, lines[first : first + 5000])
