"""Models with more words and more positions."""

import collections
import dataclasses

import numpy as np
import pytest

from bert_tf import weights
from bert_tf.weights import extension, formats
from bert_tf.weights.bundle import parameter_shapes
from pipelines.common.errors import InputError
from tests import commands

WORDS = "encoder/embeddings/word_embeddings"
POSITIONS = "encoder/embeddings/position_embeddings"


@pytest.fixture(scope="module")
def model(init):
    read = weights.read(init)
    rng = np.random.default_rng(1)
    shapes = parameter_shapes(read.config)
    found = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return dataclasses.replace(read, weights=found | read.weights)


def test_new_words_begin_as_the_mean_of_their_pieces(model):
    extended, added = extension.with_words(model, ["Lights", "film", "musics", "lights"])
    assert added == ["lights", "musics"]
    tokens = model.vocabulary.tokens
    assert extended.vocabulary.tokens == (*tokens, "lights", "musics")
    pieces = [tokens.index("light"), tokens.index("##s")]
    for name in (WORDS, "masked_lm/output_bias"):
        old, new = model.weights[name], extended.weights[name]
        assert np.array_equal(new[: len(tokens)], old[: len(tokens)])
        np.testing.assert_allclose(new[len(tokens)], old[pieces].mean(0), rtol=1e-6)
    ids = extended.tokenizer().tokenize(["the lights"]).to_list()
    assert ids == [[tokens.index("the"), len(tokens)]]
    assert extended.resolved_settings() == model.resolved_settings()
    encoder = extended.encoder()
    assert encoder.config.vocab_size == len(tokens) + 2


@pytest.mark.parametrize(
    "word,reason",
    [
        ("the-light", "is 3 words for the tokenizer"),
        ("☃", "has characters that the vocab"),
        ("the" * 67, "'thethethethethetheth'... has 201 characters; the tokenizer takes no words"),
    ],
)
def test_words_that_cannot_be_tokens_are_reported(model, word, reason):
    with pytest.raises(InputError, match=reason):
        extension.with_words(model, [word])


def test_words_that_save_most_come_first(model):
    counts = collections.Counter({b"lights": 10, b"stories": 90, b"film": 99, b"films": 20})
    found = extension.candidates(model, counts, 2)
    assert found == [("films", 20), ("lights", 10)]  # `stories` is unknown, one token


def test_words_that_are_too_long_for_a_token_are_no_candidates(model):
    words = collections.Counter({b"lights": 9, ("li" * 200).encode(): 9})
    assert [word for word, _ in extension.candidates(model, words, 10)] == ["lights"]


def test_positions_are_copied(model):
    old = model.weights[POSITIONS]
    longer = extension.with_positions(model, 2 * len(old) + 3)
    new = longer.weights[POSITIONS]
    assert longer.config.max_seq_length == len(new) == 2 * len(old) + 3
    assert np.array_equal(new, np.concatenate([old, old, old[:3]]))
    with pytest.raises(InputError, match="give more"):
        extension.with_positions(model, len(old))


def test_commands(init, tmp_path):
    (tmp_path / "corpus.txt").write_text("The lights and films. " * 9 + "\n\nfilms", "utf-8")
    done = commands.run(
        "extend-vocabulary", f"--model={init}", f"--corpus={tmp_path}/corpus.txt",
        f"--output={tmp_path}/more",
    )  # fmt: skip
    assert "2 words more, such as films, lights" in done.stdout
    done = commands.run(
        "convert", f"--input={tmp_path}/more", f"--output={tmp_path}/long",
        "--max_position_embeddings=128",
    )  # fmt: skip
    assert weights.read(f"{tmp_path}/long").config.max_position_embeddings == 128
    done = commands.run("extend-vocabulary", f"--model={init}", f"--output={tmp_path}/x")
    assert "a list of words (--words) or marks (--keep_tokens)" in done.stderr
    marks = ("extend-vocabulary", f"--model={init}", "--keep_tokens=<e1>,</e1>")
    done = commands.run(*marks, f"--output={tmp_path}/marked", "--count=5")
    assert "--count: is for words from a corpus" in done.stderr
    done = commands.run(*marks, f"--output={tmp_path}/marked")
    assert "<e1>, </e1> are tokens" in done.stdout
    assert weights.read(f"{tmp_path}/marked").resolved_settings()["kept_tokens"] == "<e1> </e1>"


def test_tokens_that_are_kept_are_words_already_and_keep_their_names(model, tmp_path):
    kept = extension.with_kept_tokens(model, ["<e1>"])
    extended, added = extension.with_words(kept, ["lights", "<e1>"])
    assert added == ["lights"] and extended.vocabulary.tokens[-2:] == ("<e1>", "lights")
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(kept.vocabulary.tokens).replace("<e1>", "<x>") + "\n")
    with pytest.raises(InputError, match=r"vocab.txt: lacks <e1>, .* keep the names"):
        formats.with_tokenizer(kept, str(path), {})
