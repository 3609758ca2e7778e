"""The vocabulary learner."""

import collections
import functools
import json
import pathlib

import pytest

from pipelines.common.errors import InputError
from pipelines.corpus import reader
from pipelines.tokenizers import learning, registry, whole_words, wordpiece
from pipelines.tokenizers.wordpiece_vocabulary import SPECIAL_TOKENS, WordPieceVocabulary
from tests import commands, tokenizers


def counts(texts, tmp_path, **changes):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(texts) + "\n")
    strip_accents = changes.pop("strip_accents", True)
    return learning.count_words(
        reader.open_corpus(str(path), "sentences"),
        reader.ReadOptions(),
        functools.partial(wordpiece.split_words, lower_case=True, strip_accents=strip_accents),
        **({"sample_bytes": 1 << 30, "seed": 0} | changes),
    )


def test_words_of_long_texts(tmp_path):
    long = "Été, 中文! " * 500
    assert counts([long, "été it"], tmp_path) == collections.Counter(
        {b"ete": 501, b"it": 1, **dict.fromkeys([b",", b"!", "中".encode(), "文".encode()], 500)}
    )


def test_words_are_those_of_the_tokenizer(tmp_path):
    words = counts(["Été, ÉTÉ! 中文 it's"], tmp_path)
    assert words == collections.Counter(
        {
            b"ete": 2,
            b",": 1,
            b"!": 1,
            "中".encode(): 1,
            "文".encode(): 1,
            b"it": 1,
            b"'": 1,
            b"s": 1,
        }
    )


def test_frequent_words_become_one_token_and_nothing_is_unknown(tmp_path):
    texts = ["the encoder reads the tokens"] * 50 + ["한국어 문장 하나", "中文句子", "rare zyzzyva"]
    words = counts(texts, tmp_path, strip_accents=False)
    tokens = WordPieceVocabulary.learn(words, 120).tokens
    assert tokens[:5] == SPECIAL_TOKENS
    assert len(tokens) <= 120
    assert len(set(tokens)) == len(tokens)
    assert {"the", "encoder", "reads", "tokens"} <= set(tokens)
    ids = tokenizers.wordpiece(tokens, strip_accents=False).tokenize(texts)
    assert 1 not in ids.flat_values.numpy()


@pytest.mark.more
def test_several_processes_learn_what_one_does(tmp_path):
    for name in "abc":
        texts = (f"{name}{i % 7} text{i * 7919 % 101}" for i in range(300))
        (tmp_path / f"{name}.txt").write_text("\n\n".join(texts))
    for workers in (1, 2):
        commands.done(
            "learn-vocabulary", f"--corpus={tmp_path}/*.txt", f"--output={tmp_path}/{workers}/v.txt",
            "--vocab_size=90", f"--workers={workers}",
        )  # fmt: skip
    for name in ("v.txt", "v.txt.json"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()
    assert sorted(path.name for path in (tmp_path / "2").iterdir()) == ["v.txt", "v.txt.json"]


def test_the_size_asked_for_is_reached(tmp_path):
    texts = [f"token{i % 1000:04d} number{i % 50}" for i in range(3000)]
    assert len(WordPieceVocabulary.learn(counts(texts, tmp_path), 300)) == 300


def test_rare_characters_can_be_left_out(tmp_path):
    words = counts(["common words " * 200, "Ж"], tmp_path)
    assert "ж" in WordPieceVocabulary.learn(words, 60).tokens
    assert "ж" not in WordPieceVocabulary.learn(words, 60, coverage=0.999).tokens


def test_a_sample_is_smaller_and_the_same_each_time(tmp_path):
    texts = [line for i in range(400) for line in (f"document {i} has words", "")]
    whole = counts(texts, tmp_path)
    some, again = (counts(texts, tmp_path, sample_bytes=2000) for _ in range(2))
    assert some == again
    assert 0 < some.total() < whole.total() / 2


def test_more_characters_than_room_is_an_error():
    with pytest.raises(InputError, match="do not fit a vocabulary of 10.*character_coverage"):
        WordPieceVocabulary.learn(collections.Counter(c.encode() for c in "abcdefghijklmnop"), 10)


def test_a_saved_vocabulary_loads_and_a_bad_one_is_named(tmp_path):
    path = str(tmp_path / "vocab.txt")
    WordPieceVocabulary((*SPECIAL_TOKENS, "a")).write(path)
    assert WordPieceVocabulary.load(path).tokens[-1] == "a"
    (tmp_path / "marked.txt").write_bytes(b"\xef\xbb\xbf" + pathlib.Path(path).read_bytes())
    marked = WordPieceVocabulary.load(str(tmp_path / "marked.txt"))
    assert marked.tokens == WordPieceVocabulary.load(path).tokens
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n")
    with pytest.raises(InputError, match=r"vocab.txt: lacks \[CLS\], \[SEP\], \[MASK\]"):
        WordPieceVocabulary.load(path)
    with pytest.raises(InputError, match="none.txt: no such file"):
        WordPieceVocabulary.load(str(tmp_path / "none.txt"))


def test_a_vocabulary_learned_otherwise_is_not_taken(tmp_path):
    (tmp_path / "text.txt").write_text("words of a corpus\n" * 10)

    learn = (
        "learn-vocabulary", f"--corpus={tmp_path}/text.txt",
        f"--output={tmp_path}/vocab.txt", "--format=sentences",
    )  # fmt: skip
    commands.done(*learn, "--vocab_size=40")
    assert "nothing to do" in commands.done(*learn, "--vocab_size=40").stdout
    assert "vocab_size (was 40, now 50)" in commands.error(*learn, "--vocab_size=50")
    (tmp_path / "text.txt").write_text("other words of a corpus\n" * 10)
    assert "was learned with other inputs: " in commands.error(*learn, "--vocab_size=40")


def test_a_vocabulary_that_was_not_learned_here_is_kept(tmp_path):
    (tmp_path / "text.txt").write_text("words of a corpus\n" * 10)
    path = tmp_path / "vocab.txt"
    learn = (
        "learn-vocabulary", f"--corpus={tmp_path}/text.txt", f"--output={path}",
        "--format=sentences", "--vocab_size=40",
    )  # fmt: skip
    path.write_text("mine\n")
    assert "vocab.txt: exists, and was not learned here" in commands.error(*learn)
    assert path.read_text() == "mine\n" and not (tmp_path / "vocab.txt.json").exists()
    path.unlink()
    commands.done(*learn)
    learned = path.read_text()
    path.write_text(learned + "mine\n")
    assert "vocab.txt: was changed since it was learned" in commands.error(*learn)
    path.unlink()  # a kill after the manifest, before the vocabulary
    commands.done(*learn)
    assert path.read_text() == learned
    (tmp_path / "vocab.txt.json").write_text("[1]")
    assert "vocab.txt.json: expected object, got array" in commands.error(*learn)


def test_white_space_may_be_a_token_that_no_text_gives(tmp_path):
    # Google's Chinese vocabulary has a line separator at number 343.
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*SPECIAL_TOKENS, "\u2028", "a"]) + "\n")
    tokens = WordPieceVocabulary.load(str(path))
    assert tokens.tokens[5] == "\u2028"
    assert registry.make(tokens).tokenize(["a \u2028 a\u2028a"]).to_list() == [[6, 6, 6]]
    tokens.write(str(tmp_path / "again.txt"))
    assert WordPieceVocabulary.load(str(tmp_path / "again.txt")) == tokens
    path.write_text("\n".join([*SPECIAL_TOKENS, " ", "a"]) + "\n")
    assert WordPieceVocabulary.load(str(path)).tokens[5:] == ("[unused line 6]", "a")


@pytest.mark.parametrize("kind", [WordPieceVocabulary, whole_words.WordVocabulary])
def test_tokens_have_256_bytes_at_the_most(kind):
    """The op of tensorflow_text takes no longer ones."""
    words = collections.Counter({("\U00010400" * 65).encode(): 9, b"a" * 90: 9, b"ab": 9})
    learned = kind.learn(words, 300)
    assert max(len(token.encode()) for token in learned.tokens) <= 256
    registry.make(learned)


@pytest.mark.parametrize("ending", ["vocab.txt", "words.txt"])
def test_a_token_of_more_bytes_is_told_with_its_line(ending, tmp_path):
    vocabulary = registry.KINDS["word" if ending == "words.txt" else "wordpiece"].vocabulary
    path = tmp_path / ending
    tokens = [*vocabulary.forms[0].roles.values(), "a", "x" * 257]
    path.write_text("\n".join(tokens), "utf-8")
    with pytest.raises(InputError, match=f"{ending}: line 7: 'xxx.* has 257 bytes.*may have 256"):
        registry.load(str(path))


def test_a_piece_that_continues_a_word_may_have_256_bytes_besides():
    tokens = (*SPECIAL_TOKENS, "a", "##" + "b" * 256)
    tokenizer = registry.make(WordPieceVocabulary(tokens))
    assert tokenizer.tokenize(["a"]).to_list() == [[5]]


@pytest.mark.parametrize("kind", [WordPieceVocabulary, whole_words.WordVocabulary])
def test_code_points_that_are_not_assigned_are_not_learned(kind, tmp_path):
    """They cannot be told apart: a token for one of them would stand for all."""
    words = counts(["a\u0378b ab", "\U0003fffe", "ab \uffff"], tmp_path)
    assert words["\U0010ffff".encode()] == 2
    learned = kind.learn(words, 20).tokens
    assert "ab" in learned and not any("\U0010ffff" in token for token in learned)
    with pytest.raises(InputError, match="no words"):
        kind.learn(collections.Counter({"\U0010ffff".encode(): 3}), 20)


@pytest.mark.parametrize("others", [(), ("a-b",)])
def test_a_vocabulary_without_words_is_told(tmp_path, others):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join((*SPECIAL_TOKENS, *others)))
    with pytest.raises(InputError, match=r"vocab\.txt: the vocabulary of \d tokens has none"):
        registry.load_tokenizer(str(path))


def test_a_vocabulary_without_pieces_is_told_with_its_place():
    vocabulary = WordPieceVocabulary(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))
    for place, begin in (("models/x", "models/x: the"), (None, "the")):
        with pytest.raises(InputError, match=rf"^{begin} vocabulary of 5 tokens has none that is"):
            registry.make(vocabulary, {}, place)


def test_settings_are_those_beside_the_file(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join((*SPECIAL_TOKENS, "word", "##s")))
    config = {"do_lower_case": True, "strip_accents": False}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    for named in (tmp_path, path):
        settings = registry.load_tokenizer(str(named)).settings
        assert (settings["lower_case"], settings["strip_accents"]) == (True, False)
