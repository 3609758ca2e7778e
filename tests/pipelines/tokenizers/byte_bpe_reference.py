"""What the byte-level BPE tokenizer is compared with: that of the tokenizers library."""

import collections
import random
import unicodedata

import pytest
import tokenizers

from pipelines.tokenizers import bpe_vocabulary as vocabulary
from pipelines.tokenizers import byte_bpe_words

ALL_CODE_POINTS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
WHITE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2009\u200a\u2028\u2029\u202f\u205f\u3000"

TRICKY = [
    "",
    "Hello world! Hello, world.",
    "It's I'm you've we'll they'd he's isn't you're 'tis",
    "IT'S I'M YOU'VE WE'LL THEY'D ISN'T YOU'RE",
    "'s", "'", "''s", " 's", "\n's", "a's", "a''s", "'s's", "'ss", "'rest 'r 'v 'l", "x'll'll",
    "'re", "'r", "'t ", "'ve\u0301", "'s\u0301t", "1's", ".'s", "\u2019s", "'S", "a 's b", "\u3000's",
    " ", "  ", "   ", "\n", "\n\n", " \n", "\n ", " a", "  a", "\na", "\n\na", " \na", "\n a",
    "a ", "a  ", "a\n", "a \n b", "a\t\tb", "a  .b", "a   1", "tab\tand space \t x",
    *(f"{c}a a{c}b{c}{c}c {c}d{c} e{c}" for c in WHITE),
    WHITE, f"a{WHITE}b", "a\x1cb\x1d \x1ec\x1f", "a\u200bb\u180ec\ufeffd", "\ufeffbom",
    "a\0b", "\0", " \0 \0\0a", "'s\0'\0s", "\x01\x7f\x80\x9f\xad",
    "👩‍👩‍👧 👍🏽👍🏽 🇰🇷!!", "e\u0301te\u0301 n\u0303", "한국어 문장입니다. 좋아요ㅋㅋ", "中文，标点。日本語テスト",
    "² ½ Ⅷ 一 ٣٤٥ १२३ x² 10⁻³ ①②", "שלום עולם! ‏مرحبا بالعالم؟", "ab" * 150 + " " + "é" * 300,
    "<s> </s><pad> <unk><mask> <mask>", "a<mask>b", "İstanbul ΣΑΣ ǅ ß ﬁ", "𐐷𐑍 𝟘𝟙 𠀀𪚥 \U000e0041\U0010ffff",
    "http://example.org/?q=1&x=%20#top foo_bar-baz == != <= /* */ \\n",
]  # fmt: skip

CORPUS = [
    "The tokenizer's words aren't the model's words; they're what we've learned from it.",
    "It is 10 or 100 or 1000 times the size of the smaller one, isn't it? I'm sure you'll see.",
    "한국어 문장은 한국어 단어로, 中文的句子是中文的词。 été, été! 👍👍 \u3000 \u3000x\n\n\n\n  \n  \n",
] * 3  # fmt: skip


def learn(texts, size: int):
    words = byte_bpe_words.split_words(texts).numpy().tolist()
    return vocabulary.ByteBPEVocabulary.learn(collections.Counter(words), size)


def split(text: bytes) -> list[bytes]:
    """GPT-2's words; each byte that is not UTF-8 is a symbol, and so is a private character."""
    place = {0xDC00 + byte: 0xF0000 + byte for byte in range(256)}
    back = {value: key for key, value in place.items()}
    splitter = tokenizers.pre_tokenizers.Split(tokenizers.Regex(GPT2), "isolated")
    words = splitter.pre_tokenize_str(text.decode(errors="surrogateescape").translate(place))
    return [word.translate(back).encode(errors="surrogateescape") for word, _ in words]


def make(tokens, merges, add_prefix_space: bool):
    """Its offsets are those of RoBERTa's tokenizer: the space that a word takes along is cut off."""
    ids = {token: index for index, token in enumerate(tokens)}
    return tokenizers.ByteLevelBPETokenizer(
        ids, list(merges), add_prefix_space=add_prefix_space, trim_offsets=True
    )


def random_texts(count: int) -> list[str]:
    rng = random.Random(1)
    alphabet = list("''ssttreveldm  \n\t.,!1²é한中" + WHITE + "\0\u0301\u200d👍ءא")
    everything = [c for c in ALL_CODE_POINTS if unicodedata.category(c) not in ("Cn", "Co")]
    some = ["".join(rng.choices(alphabet, k=rng.randint(0, 40))) for _ in range(count)]
    return some + ["".join(rng.choices(everything, k=rng.randint(0, 20))) for _ in range(count)]


def random_bytes(count: int) -> list[bytes]:
    """Bytes as they come, and characters that are cut off, too long, too large or surrogates."""
    rng = random.Random(2)
    pieces = [
        b"a", b"s", b" ", b"'", b"'s", b"1", b".", b"\n", b"\0", b"\xc2", b"\xa0", b"\xc2\xa0", b"\xe3\x80",
        b"\x80", b"\xff", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf4\x90\x80\x80", b"\xe0\x80\x80", b"\xc0\xaf",
        b"\xf0\x9f\x98", b"\xf0\x9f", b"\xe4", b"\xf8\x88\x80\x80\x80", *map(str.encode, "é中一😀\u3000²"),
    ]  # fmt: skip
    return [
        *(b"".join(rng.choices(pieces, k=rng.randint(0, 12))) for _ in range(count)),
        *(rng.randbytes(rng.randint(0, 20)) for _ in range(count)),
    ]


def check(tokenizer, reference, texts) -> int:
    """Fails unless both give the same ids; returns the number of texts."""
    found = tokenizer.tokenize(texts)
    expected = [encoding.ids for encoding in reference._tokenizer.encode_batch_fast(texts)]
    # Lists of many small ones take long to make; the flat ones do to see that all is well.
    flat = [index for row in expected for index in row]
    if found.flat_values.numpy().tolist() != flat or found.row_lengths().numpy().tolist() != list(
        map(len, expected)
    ):
        pairs = zip(texts, found.to_list(), expected, strict=True)
        wrong = [ascii(text) for text, ours, theirs in pairs if ours != theirs]
        pytest.fail(f"{len(wrong)} differ: {wrong[:10]}")
    return len(texts)


def check_places(tokenizer, reference, texts) -> int:
    """Fails unless both give the same characters to each piece; returns the number of pieces.

    Where a text begins with a space, the reference leaves it in the place of the first piece. White
    space alone has a place here, and none there.
    """
    texts = list(texts)
    found = [values.to_list() for values in tokenizer.tokenize_with_offsets(texts)]
    pieces = 0
    for text, encoding, ids, starts, ends in zip(
        texts, reference.encode_batch(texts), *found, strict=True
    ):
        assert ids == encoding.ids, ascii(text)
        pieces += len(ids)
        data = text.encode()
        character = {len(text[:at].encode()): at for at in range(len(text) + 1)}
        for start, end, (first, last) in zip(starts, ends, encoding.offsets, strict=True):
            if data[start:end].decode().strip(WHITE):
                first += text[first] == " "
                assert (character[start], character[end]) == (first, last), ascii(text)
    return pieces


def check_bytes(tokenizer, texts: list[bytes]) -> None:
    """Fails unless the pieces spell each text, and each has the place of the characters in it."""
    tokens = tokenizer.vocabulary.tokens
    ids, starts, ends = (value.to_list() for value in tokenizer.tokenize_with_offsets(texts))
    assert ids == tokenizer.tokenize(texts).to_list()
    for text, row, first, last in zip(texts, ids, starts, ends, strict=True):
        spelled = [vocabulary.to_bytes(tokens[index]) for index in row]
        is_added = tokenizer.settings["add_prefix_space"] and text and not text.startswith(b" ")
        added = b" " if is_added else b""
        assert b"".join(spelled) == added + text
        position = 0
        for data, start, end in zip(spelled, first, last, strict=True):
            space = len(data) > 1 and data[:1] == b" "  # of a word, or of white space
            place = (start + len(added), end + len(added)) if end else (0, 1)
            assert place in [
                whole_characters(added + text, first, position + len(data))
                for first in (position, position + space)
            ], text
            position += len(data)


def whole_characters(text: bytes, start: int, end: int) -> tuple[int, int]:
    """The smallest range of whole characters that has all bytes of another one.

    What cannot be read as UTF-8 is a character as Python's decoder takes it apart.
    """
    bounds = [0]
    while bounds[-1] < len(text):
        rest = text[bounds[-1] :]
        try:
            size = len(rest.decode()[0].encode())
        except UnicodeDecodeError as error:
            size = len(rest[: error.start].decode()[:1].encode()) or error.end
        bounds.append(bounds[-1] + size)
    return max(b for b in bounds if b <= start), min(b for b in bounds if b >= end)
