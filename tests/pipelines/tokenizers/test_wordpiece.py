"""The tokenizer against the published rules."""

import itertools
import random
import string
import unicodedata

import pytest

from pipelines.common.errors import InputError
from pipelines.tokenizers import registry
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.wordpiece_vocabulary import SPECIAL_TOKENS
from tests import tokenizers
from tests.pipelines.tokenizers import reference_tokenizer
from tests.real_data import data_of

SPECIAL = list(SPECIAL_TOKENS)
ALL_CODE_POINTS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
# Each code point alone, within, before and after words, after a capital sigma, and doubled.
PLACES = ("{}", "a{}b", "A{} b{}", "aΣ{}a", "一{}{}")


def _vocabulary_of(characters: list[str], lower_case: bool) -> list[str]:
    """Every character that the words of these texts can have, first and continuing."""
    seen = set("abσς一") | {word for c in characters for word in (c, c.lower())}
    text = "".join(seen)
    if lower_case:
        text += reference_tokenizer.strip_marks(text)
    letters = sorted(
        c
        for c in set(text)
        if reference_tokenizer.clean(c).strip() and unicodedata.category(c) != "Cn"
    )
    return SPECIAL + letters + [f"##{letter}" for letter in letters]


def _check(tokenizer: Tokenizer, texts: list[str], lower_case: bool) -> None:
    ids = {token: index for index, token in enumerate(tokenizer.vocabulary.tokens)}
    found = tokenizer.tokenize(texts)
    expected = [
        [ids[piece] for piece in reference_tokenizer.tokenize(text, ids, lower_case)]
        for text in texts
    ]
    if (
        list(itertools.chain.from_iterable(expected)) != found.flat_values.numpy().tolist()
        or list(map(len, expected)) != found.row_lengths().numpy().tolist()
    ):
        pairs = zip(texts, found.to_list(), expected, strict=True)
        wrong = [ascii(text) for text, ours, theirs in pairs if ours != theirs]
        pytest.fail(f"{len(wrong)} differ: {wrong[:10]}")
    tokenizers.check_running_text(tokenizer, texts)
    # Plain texts, the other way; of all others a few.
    for number, (text, wanted) in enumerate(zip(texts, expected, strict=True)):
        if text.isascii() or number < 100:
            plain = all(c in "\t\n\r" or " " <= c <= "~" for c in text)
            assert tokenizer.plain_ids(text) == (wanted if plain else None), ascii(text)


def test_white_space_before_a_text_changes_nothing():
    """Sentences of prose and JSON Lines begin with it, for the sake of byte-level BPE."""
    tokenizer = tokenizers.wordpiece([*SPECIAL, "a", "b"])
    spaced = [f"{c}a b" for c in ALL_CODE_POINTS if c.isspace()]
    assert tokenizer.tokenize(spaced).to_list() == [[5, 6]] * len(spaced)


@pytest.mark.parametrize("token", ["a\0", "\0", "##\0a", "a b", "a\u3000", "\0" * 40])
def test_a_token_that_no_text_has_is_in_nobodys_way(token):
    tokens = [*SPECIAL, "a", "ab", token, "##b", "abc"]
    _check(tokenizers.wordpiece(tokens), ["a", "ab", "abb", "a\0b", "\0a", "a b", "abc abcb"], True)


def _check_places(places, characters: list[str], lower_case: bool) -> None:
    # All letters unknown: what differs is where words end.
    tokenizer = tokenizers.wordpiece([*SPECIAL, "a", "b", "##b", "一"], lower_case=lower_case)
    for place in places:
        _check(tokenizer, [place.replace("{}", c) for c in characters], lower_case)


@pytest.mark.slow
@pytest.mark.parametrize("lower_case", [True, False])
def test_every_code_point_splits_as_the_rules_say(lower_case):
    """Those that mean something in every place; those that do not, in one."""
    nothing = {c for c in ALL_CODE_POINTS if unicodedata.category(c) in ("Cn", "Co")}
    _check_places(PLACES, [c for c in ALL_CODE_POINTS if c not in nothing], lower_case)
    _check_places(PLACES[1:2], sorted(nothing), lower_case)


@pytest.mark.slow
@pytest.mark.parametrize("lower_case", [True, False])
def test_every_code_point_in_every_place_splits_as_the_rules_say(lower_case):
    _check_places(PLACES, ALL_CODE_POINTS, lower_case)


@pytest.mark.parametrize("lower_case", [True, False])
def test_normal_forms_of_every_letter_are_those_of_the_rules(lower_case):
    # All letters of a block known: what differs is what they become.
    marked = [c for c in ALL_CODE_POINTS if c.lower() != c or unicodedata.decomposition(c)]
    marked = [c for c in marked if not 0xAC00 <= ord(c) < 0xD7A4 or ord(c) % 97 == 0]
    tokenizer = tokenizers.wordpiece(_vocabulary_of(marked, lower_case), lower_case=lower_case)
    _check(tokenizer, [f"a{c}b {c}" for c in marked], lower_case)


@pytest.mark.slow
@pytest.mark.parametrize("lower_case", [True, False])
def test_every_code_point_with_a_vocabulary_that_knows_it(lower_case):
    for start in range(0, len(ALL_CODE_POINTS), 1 << 17):
        block = ALL_CODE_POINTS[start : start + (1 << 17)]
        tokenizer = tokenizers.wordpiece(_vocabulary_of(block, lower_case), lower_case=lower_case)
        for place in ("a{}b", "aΣ{} {}a"):
            _check(tokenizer, [place.replace("{}", c) for c in block], lower_case)


def test_random_texts_of_many_scripts_are_those_of_the_rules():
    rng = random.Random(1)
    alphabet = "abcXYZ éÀßÇİΣσς ñ,.!?()-_#@ 0123 \t\n 한국어 中文，。 日本 ア ｶ ا ب हि ि ́ ½ ﬁ \u200d\u00ad\ufeff"
    letters = sorted({c for a in alphabet for c in reference_tokenizer.strip_marks(a.lower()) + a})
    letters = [c for c in letters if not c.isspace()]
    pieces = {"".join(rng.choices(letters, k=2)) for _ in range(3000)}
    tokens = SPECIAL + letters + sorted(pieces - set(letters))
    tokens += [f"##{token}" for token in tokens[len(SPECIAL) :]]
    texts = ["".join(rng.choices(alphabet, k=rng.randint(0, 60))) for _ in range(3000)]
    for lower_case in (True, False):
        _check(
            tokenizers.wordpiece(list(dict.fromkeys(tokens)), lower_case=lower_case),
            texts,
            lower_case,
        )


@pytest.mark.parametrize(
    "text",
    [
        "ΑΣ",
        "ΣΑΣ ΣΣ ΣΣΣ",
        "ΑΣ'Α ΑΣ' ΑΣ.",
        "aΣ\u2c2f",
        "\u2c2fΣ",
        "\u2c5fΣ Σ\u2c5f",
        "1Σ Σ1",
        "α\u0301Σ\u0301Σ",
    ],
)
def test_sigma_at_the_end_of_a_word_is_the_final_one(text):
    letters = sorted(set("ασςa\u2c5f1"))
    tokenizer = tokenizers.wordpiece([*SPECIAL, *letters, *(f"##{c}" for c in letters), "'", "."])
    _check(tokenizer, [text], lower_case=True)


PARTS = [chr(c) for c in range(0x1100, 0x1113)] + ["\u1161", "##\u1161", "##\u11a8"]


def test_single_parts_of_korean_syllables_change_no_other_text():
    """Those of BERT's uncased vocabulary: NFKD would replace ligatures and full-width letters."""
    letters = [*"fi1½™ａﬁ가a", "\u1100", *PARTS]
    tokens = [*SPECIAL, *dict.fromkeys(letters + [f"##{c}" for c in "fi1½ﬁ"])]
    texts = ["ﬁ fi ½ ™ ａ a 1½ fiﬁ", "가 각"]
    for lower_case in (True, False):
        _check(tokenizers.wordpiece(tokens, lower_case=lower_case), texts, lower_case)
    # Learned of decomposed text, as accents are stripped.
    whole = [*SPECIAL, "\u1100\u1161", "a", "ﬁ", "f", "##i"]
    _check(tokenizers.wordpiece(whole, lower_case=True), ["가 ﬁ a"], True)


@pytest.mark.parametrize(
    "name,lower_case", [("uncased", True), ("cased", False), ("chinese", True)], ids=str
)
def test_released_vocabularies_give_the_ids_of_the_rules(name, lower_case):
    tokenizer = registry.load_tokenizer(str(data_of(f"vocabs/bert-base-{name}-vocab.txt")))
    assert tokenizer.settings["lower_case"] == lower_case
    texts = list(map("a{0} {0}".format, ALL_CODE_POINTS[:0x3400:3] + ALL_CODE_POINTS[0xA000::37]))
    _check(tokenizer, texts, lower_case)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name,lower_case", [("uncased", True), ("cased", False), ("chinese", True)], ids=str
)
def test_released_vocabularies_on_every_code_point(name, lower_case):
    tokenizer = registry.load_tokenizer(str(data_of(f"vocabs/bert-base-{name}-vocab.txt")))
    for start in range(0, len(ALL_CODE_POINTS), 1 << 16):
        block = ALL_CODE_POINTS[start : start + (1 << 16)]
        _check(tokenizer, list(map("a{0}b {0}".format, block)), lower_case)


def test_long_words_are_unknown_by_characters_not_bytes():
    tokenizer = tokenizers.wordpiece(
        [*SPECIAL, "x", "##x", "é", "##é", "한", "##한", "."], lower_case=False
    )
    texts = [
        f"{c * length}. x" for c in "xé한" for length in (99, 100, 101, 199, 200, 201, 250, 900)
    ]
    _check(tokenizer, texts, lower_case=False)


def test_accents_are_kept_where_only_lower_case_is_wanted():
    tokens = [*SPECIAL, "한국", "été", "e"]
    keeping = tokenizers.wordpiece(tokens, lower_case=True, strip_accents=False)
    assert keeping.tokenize(["한국 ÉTÉ e"]).to_list() == [[5, 6, 7]]
    stripping = tokenizers.wordpiece(tokens, lower_case=True)
    assert stripping.tokenize(["한국"]).to_list() == [[1]]  # falls to jamo


def test_offsets_point_into_the_original_text():
    tokens = [*SPECIAL, "cafe", "##s", "istanbul", "中", "國", ",", "naive", "ab", "fi"]
    tokenizer = tokenizers.wordpiece(tokens)
    text = "CAFÉs,\u00a0İstanbul 中國 nai\u0308ve a\u200db\0 "
    ids, starts, ends = tokenizer.tokenize_with_offsets([text, "", "ab"])
    data = text.encode()
    spans = [data[a:b].decode() for a, b in zip(starts[0].numpy(), ends[0].numpy(), strict=True)]
    assert spans == ["CAFÉ", "s", ",", "İstanbul", "中", "國", "nai\u0308ve", "a\u200db"]
    assert [tokens[i] for i in ids[0].numpy()] == [
        "cafe", "##s", ",", "istanbul", "中", "國", "naive", "ab",
    ]  # fmt: skip
    assert ids.row_lengths().numpy().tolist() == [8, 0, 1]
    assert (starts[2].numpy().tolist(), ends[2].numpy().tolist()) == ([0], [2])


def test_offsets_of_random_texts_give_back_what_was_tokenized():
    rng = random.Random(2)
    alphabet = "abÉß한中 ,.\u0301\u200dİΣ"
    letters = "abeßs한국中,.iσς" + "".join(map(chr, range(0x1100, 0x1200)))
    tokens = SPECIAL + sorted(set(letters)) + [f"##{c}" for c in sorted(set(letters))]
    tokenizer = tokenizers.wordpiece(tokens)
    texts = ["".join(rng.choices(alphabet, k=rng.randint(0, 30))) for _ in range(500)]
    ids, starts, ends = (value.to_list() for value in tokenizer.tokenize_with_offsets(texts))
    assert ids == tokenizer.tokenize(texts).to_list()
    for text, row, first, last in zip(texts, ids, starts, ends, strict=True):
        for index, a, b in zip(row, first, last, strict=True):
            piece = tokens[index].removeprefix("##")
            again = reference_tokenizer.strip_marks(text.encode()[a:b].decode().lower())
            if piece != "[UNK]":
                assert piece in reference_tokenizer.clean(again).replace("σ", piece), ascii(text)


def test_any_bytes_are_tokens_with_places():
    """Bytes as they come: what is not UTF-8 is dropped, and offsets stay within the text."""
    rng = random.Random(3)
    pieces = [
        b"a", b"b", b" ", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf4\x90\x80\x80", b"\xe0\x80\x80",
        b"\xc0\xaf", b"\xff", b"\x80", b"\xf0\x9f\x98", "é".encode(), "中".encode(), b"\xcc\x81",
    ]  # fmt: skip
    texts = [b"".join(rng.choices(pieces, k=rng.randint(0, 9))) for _ in range(4000)]
    tokenizer = tokenizers.wordpiece(
        [*SPECIAL, "a", "b", "##a", "##b", "e", "##e", "中"], lower_case=True
    )
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    assert ids.to_list() == tokenizer.tokenize(texts).to_list()
    known = set(tokenizer.vocabulary.tokens)
    for text, row, first, last in zip(
        texts, ids.to_list(), starts.to_list(), ends.to_list(), strict=True
    ):
        expected = reference_tokenizer.tokenize(text.decode(errors="replace"), known, True)
        assert [tokenizer.vocabulary.tokens[i] for i in row] == expected, text
        assert all(0 <= a <= b <= len(text) for a, b in zip(first, last, strict=True)), text
        assert first == sorted(first), text


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([*SPECIAL, "a", "b", "a"], "'a' is on lines 6 and 8"),
        (SPECIAL[:4], r"lacks \[MASK\]"),
        ([*SPECIAL, ""], "line 6 is empty"),
    ],
)
def test_an_unusable_vocabulary_is_refused(tokens, message):
    with pytest.raises(InputError, match=message):
        tokenizers.wordpiece(tokens)


def test_tokens_with_white_space_come_from_no_text():
    tokenizer = tokenizers.wordpiece([*SPECIAL, "a", "a  b", "b c", "##a c"])
    _check(tokenizer, ["a a", "a  b", "a b", "b c", "aa c", "a\tb"], lower_case=True)


@pytest.mark.parametrize("lower_case", [True, False])
def test_plain_text_of_any_signs_and_words(lower_case):
    rng = random.Random(5)
    letters = string.ascii_letters + string.digits
    pieces = {*letters, "the", "The", "un", "model", *string.punctuation, "a" * 30}
    pieces |= {f"##{piece}" for piece in ("e", "el", "able", "x" * 9, "9", *"abcdXYZ")}
    tokenizer = tokenizers.wordpiece([*SPECIAL, *sorted(pieces)], lower_case=lower_case)
    signs = string.printable.replace("\x0b", "").replace("\x0c", "")
    texts = ["".join(rng.choices(signs, k=rng.randrange(60))) for _ in range(2000)]
    texts += [" ".join(rng.choices(["unable", "The", "models", "[MASK]", "##e", "a" * 199, "a" * 201,
                                    "models'able", "x.y"], k=6)) for _ in range(300)]  # fmt: skip
    _check(tokenizer, texts, lower_case)
