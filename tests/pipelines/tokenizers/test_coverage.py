"""Warnings of what a tokenizer loses of a text."""

import re

import pytest

from pipelines.corpus import reader
from pipelines.tokenizers import coverage, learning
from pipelines.tokenizers.settings import LearningSettings, VocabularyKind
from pipelines.tokenizers.whole_words import SPECIAL_TOKENS as WORD_SPECIAL
from pipelines.tokenizers.whole_words import WordTokenizer, WordVocabulary
from pipelines.tokenizers.wordpiece_vocabulary import SPECIAL_TOKENS
from tests import tokenizers

ENGLISH = "The café closed. " + "It was all that we had. Nobody said a word. " * 20
GERMAN = "Das ist schön, aber nicht für uns. Es ist schön. "
KOREAN = "오늘은 좋다. 내일도 좋다. "


def _learn(folder, text, **chosen):
    kind = chosen.pop("kind", VocabularyKind.WORDPIECE)
    (folder / "a.txt").write_text(text)
    corpus = reader.open_corpus(str(folder / "a.txt"), "prose")
    settings = LearningSettings(kind, 300)
    learning.learn(corpus, reader.ReadOptions(), settings, chosen, str(folder / "v"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GERMAN, "30 % of the words .*'schön' becomes 'schon'.* --strip_accents=false here and"),
        (KOREAN, "100 % of the words .*'좋다' is taken apart into 5 letters"),
    ],
)
def test_accents_that_are_stripped_by_default_are_told(tmp_path, caplog, text, message):
    _learn(tmp_path, text)
    assert len(caplog.messages) == 1
    assert re.search(message, caplog.messages[0])


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        (ENGLISH, {}),
        (GERMAN, {"strip_accents": True}),
        (GERMAN, {"strip_accents": False}),
        (GERMAN, {"lower_case": False}),
        (GERMAN, {"kind": VocabularyKind.WORD}),
        (GERMAN, {"kind": VocabularyKind.BYTE_BPE}),
    ],
)
def test_accents_that_are_rare_or_kept_or_chosen_are_not_told(tmp_path, caplog, text, chosen):
    _learn(tmp_path, text, **chosen)
    assert not caplog.messages


def test_tokens_that_never_occur_are_told(caplog):
    for token, strip in (("ü", False), ("u", True), ("ü", True)):
        assert not caplog.messages
        tokenizer = tokenizers.wordpiece([*SPECIAL_TOKENS, token], strip_accents=strip)
        coverage.warn_of_lost_tokens(tokenizer, "vocab.txt")
    assert "vocab.txt: 1 of 6 tokens have accents or marks, such as 'ü'" in caplog.text


def test_a_script_that_the_vocabulary_does_not_cover_is_told(caplog):
    tokenizer = tokenizers.wordpiece([*SPECIAL_TOKENS, "we", "."])
    texts = ["We. 日本。日", "We 国."]
    coverage.warn_of_unknown(tokenizer, 1, 4000, texts, "a.txt")  # too few to be many characters
    words = WordTokenizer(WordVocabulary((*WORD_SPECIAL, "we")))
    coverage.warn_of_unknown(words, 50, 100, texts, "a.txt")
    assert not caplog.messages
    coverage.warn_of_unknown(tokenizer, 6, 100, texts, "a.txt")
    assert (
        "a.txt: 45 % of the characters are unknown to the vocabulary, most often '日', '本', '。', "
        "'国'. Use a vocabulary" in caplog.text
    )


def test_characters_of_long_unknown_words_count(caplog):
    """As in scripts without spaces, where a whole sentence is one word."""
    tokenizer = tokenizers.wordpiece([*SPECIAL_TOKENS, "we"])
    texts = ["we " * 99, f"{'ก' * 30}"]
    coverage.warn_of_unknown(tokenizer, 1, 100, texts, "a.txt")
    assert "a.txt: 13 % of the characters are unknown" in caplog.text
    caplog.clear()
    coverage.warn_of_unknown(tokenizer, 9, 100, ["we " * 9000, "ก " * 99], "a.txt")
    assert not caplog.messages


def test_the_sample_is_of_all_files_and_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(coverage, "_SAMPLE_CHARACTERS", 90)
    for name in range(45):
        (tmp_path / f"{name:02d}.txt").write_text(f"File {name}.\n" * 50)
    corpus = reader.open_corpus(f"{tmp_path}/*", "sentences")
    found = list(coverage.sample(corpus, reader.ReadOptions()))
    assert found == [f"File {name}." for name in range(0, 45, 3)]
