"""Whole words: vocabularies by counts, ids and places against the published rules."""

import collections
import re

import pytest

from pipelines.common.errors import InputError
from pipelines.tokenizers import registry, whole_words
from pipelines.tokenizers.whole_words import (
    LONGEST_WORD,
    SPECIAL_TOKENS,
    WordTokenizer,
    WordVocabulary,
)
from tests import commands
from tests.pipelines.tokenizers import reference_tokenizer

_WORDS = ("the", "The", "rained", ".", "Σίσυφος", "naïve", "##", "Schnee", "一", "é")
_TEXTS = (
    "The the rained.",
    "It rained, naïve\u00a0Schnee...",
    "Σίσυφος 一二 \u200b e\u0301 é",
    "\x02the <S> <UNK> \x00 rained",
    "",
    "   ",
)


def _tokenizer(words=_WORDS, **settings):
    return WordTokenizer(WordVocabulary((*SPECIAL_TOKENS, *words)), **settings)


def _counts(**words):
    return collections.Counter({word.encode(): count for word, count in words.items()})


def test_the_most_frequent_words_come_first():
    found = whole_words.WordVocabulary.learn(_counts(b=3, a=3, c=9, d=1), 8)
    assert found.tokens == (*SPECIAL_TOKENS, "c", "a", "b")
    assert [found.id_of(role) for role in ("pad", "unknown", "start", "separator", "mask")] == [
        0, 1, 2, 3, 4,
    ]  # fmt: skip
    longest = "x" * LONGEST_WORD
    found = whole_words.WordVocabulary.learn(_counts(**{f"{longest}x": 9, longest: 1}), 10)
    assert found.tokens == (*SPECIAL_TOKENS, longest)


def test_what_cannot_be_learned_is_told():
    with pytest.raises(InputError, match="no words"):
        whole_words.WordVocabulary.learn(collections.Counter(), 10)
    with pytest.raises(InputError, match="raise the size to 6 or more"):
        whole_words.WordVocabulary.learn(_counts(a=1), 5)
    with pytest.raises(InputError, match="--character_coverage"):
        whole_words.WordVocabulary.learn(_counts(a=1), 10, 0.5)


@pytest.mark.parametrize("lower_case", [False, True])
def test_ids_are_those_of_the_rules(lower_case):
    tokenizer = _tokenizer(lower_case=lower_case)
    ids = {word: index for index, word in enumerate(tokenizer.vocabulary.tokens)}
    for text, found in zip(_TEXTS, tokenizer.tokenize(_TEXTS).to_list(), strict=True):
        words = reference_tokenizer.basic_words(text, lower_case)
        assert found == [ids.get(word, 1) for word in words], text
    assert tokenizer.begins_word.all()


def test_nothing_continues_a_word():
    assert _tokenizer(("un", "##known")).tokenize(["unknown un"]).to_list() == [[1, 5]]


def test_places_are_those_of_the_words():
    for lower_case in (False, True):
        tokenizer = _tokenizer(lower_case=lower_case)
        ids, starts, ends = (part.to_list() for part in tokenizer.tokenize_with_offsets(_TEXTS))
        plain = tokenizer.tokenize(_TEXTS).to_list()
        assert ids == plain
        for text, row, begin, end in zip(_TEXTS, ids, starts, ends, strict=True):
            for index, first, last in zip(row, begin, end, strict=True):
                word = text.encode()[first:last].decode()
                assert tokenizer.tokenize([word]).to_list() == [[index]]
                assert word == word.strip()


def test_given_words_are_looked_up_as_they_are():
    tokenizer = _tokenizer(("U.S.", "U", ".", "n", "'", "t", "e\u0301", "x" * 200))
    words = {
        "U.S.": ["U.S."],
        "U.U.": ["U", ".", "U", "."],  # its parts are all there
        "U.K.": ["<UNK>"],
        "n't": ["n", "'", "t"],
        "e\u0301": ["e\u0301"],
        "x" * 200: ["x" * 200],
        "\u200bU.\n": ["U", "."],
        "<UNK>": ["<UNK>"],
        "<S>": ["<UNK>"],
        "unknown": ["<UNK>"],
        "": [],
        " \u200b": [],
    }
    ids, starts, ends = tokenizer.tokenize_words_with_offsets(list(words))
    assert ids.to_list() == tokenizer.tokenize_words(list(words)).to_list()
    for word, pieces, row, first, last in zip(
        words, words.values(), ids.to_list(), starts.to_list(), ends.to_list(), strict=True
    ):
        assert [tokenizer.vocabulary.tokens[index] for index in row] == pieces
        if len(pieces) == 1:
            assert (first, last) == ([0], [len(word.encode())])
        else:
            spelled = [word.encode()[a:b].decode() for a, b in zip(first, last, strict=True)]
            assert spelled == pieces
    assert tokenizer.tokenize(["U.S."]).to_list() == [[6, 7, 1, 7]], "a text is split"
    assert tokenizer.tokenize_words([]).to_list() == []


def test_given_words_have_the_case_of_the_vocabulary():
    tokenizer = _tokenizer(("u.s.", "ete"), lower_case=True)
    assert tokenizer.tokenize_words(["U.S.", "Été", "E.T."]).to_list() == [[5], [6], [1]]


def test_packed_as_start_words_separator():
    tokenizer = _tokenizer()
    inputs = tokenizer(["The rained."], ["the"])
    assert inputs["input_word_ids"].numpy().tolist() == [[2, 6, 7, 8, 3, 5, 3]]
    assert not inputs["input_type_ids"].numpy().any()
    assert tokenizer.decode(inputs["input_word_ids"]) == ["The rained . the"]


def test_case_follows_the_words():
    vocabulary = WordVocabulary((*SPECIAL_TOKENS, "the"))
    assert registry.make(vocabulary).settings == {
        "kind": "word", "lower_case": True, "strip_accents": True,
    }  # fmt: skip
    vocabulary = WordVocabulary((*SPECIAL_TOKENS, "The"))
    assert registry.make(vocabulary).tokenize(["The the"]).to_list() == [[5, 1]]
    with pytest.raises(InputError, match="--lower_case=false"):
        vocabulary.check_settings({"lower_case": True}, "words.txt")


def test_files(tmp_path, caplog):
    vocabulary = WordVocabulary((*SPECIAL_TOKENS, *_WORDS, "a\u2028b"))
    vocabulary.write(str(tmp_path / "v"))
    assert registry.load(str(tmp_path / "v")) == vocabulary
    assert registry.load(str(tmp_path / "v" / "words.txt")) == vocabulary
    path = tmp_path / "words.txt"
    for text, message in (
        (
            "\n".join((*SPECIAL_TOKENS, "a", "a")),
            "a line is .* repeated by a later .*: 'a' on line 6",
        ),
        ("\n".join((*SPECIAL_TOKENS, "", "a")), "a line is empty .*: '' on line 6"),
    ):
        path.write_text(text)
        assert registry.load(str(path)).tokens[6] == "a"  # ids stay by line
        assert re.search(message, caplog.text)
    path.write_text("a\nb\n")
    with pytest.raises(InputError, match="begins with <PAD>, <UNK>, <S>, </S>, <MASK>"):
        registry.load(str(path))


def test_learned_by_the_command(corpus_path, tmp_path):
    flags = [f"--corpus={corpus_path}", "--kind=word", "--vocab_size=20"]
    process = commands.done("learn-vocabulary", *flags, f"--output={tmp_path}/words/")
    assert "20 tokens" in process.stdout
    # Each sentence has these once, so their bytes decide.
    assert registry.load(f"{tmp_path}/words").tokens[5:10] == (".", "The", "every", "of", "the")
    again = commands.done("learn-vocabulary", *flags, f"--output={tmp_path}/words")
    assert "exists; nothing to do" in again.stdout
    lower = [*flags, "--lower_case=true", f"--output={tmp_path}/lower"]
    commands.done("learn-vocabulary", *lower)
    assert registry.load(f"{tmp_path}/lower").tokens[5:7] == ("the", ".")
