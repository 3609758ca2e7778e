"""Texts from texts: prompts, characters of several tokens, streams, perplexity."""

import math

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.generation import perplexity
from bert_tf.generation.decoder import Decoder
from bert_tf.generation.generator import TextGenerator
from bert_tf.generation.settings import GenerationSettings
from bert_tf.models.config import BertConfig
from bert_tf.objectives.masked_lm import LeftToRight
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry
from pipelines.tokenizers.bpe_vocabulary import BYTE_LETTERS, END_OF_TEXT, ByteBPEVocabulary
from tests.bert_tf.models.user_models import randomize

LENGTH = 24
VOCABULARY = ByteBPEVocabulary((*BYTE_LETTERS, END_OF_TEXT), ())


@pytest.fixture(scope="module")
def tokenizer():
    """A tokenizer of bytes."""
    return registry.make(VOCABULARY)


@pytest.fixture(scope="module")
def model():
    """A model of bytes."""
    config = BertConfig.named(
        "gpt2-debug", vocab_size=257, hidden_size=32, intermediate_size=64, num_attention_heads=2,
        max_position_embeddings=LENGTH,
    )  # fmt: skip
    return randomize(LeftToRight(config), 4)


def _generator(model, tokenizer, **settings):
    decoder = Decoder(model.encoder, model.token_logits)
    settings = GenerationSettings(**{"max_new_tokens": 9, **settings})
    return TextGenerator(decoder, tokenizer, model.config.max_seq_length, settings)


def test_long_prompts_lose_their_beginning_and_empty_ones_are_a_separator(model, tokenizer):
    generator = _generator(model, tokenizer)
    prompts = generator.prompt_ids(tf.constant(["ab", "", "x" * 40 + "end"])).to_list()
    assert prompts[0] == list(b"ab")
    assert prompts[1] == [256]
    assert len(prompts[2]) == LENGTH - 9
    found = generator.generate(["ab", "", "x" * 40 + "end"])
    assert found[2] == generator.generate(["x" * 12 + "end"])[0]
    assert found[1] == generator.generate([""])[0]
    assert generator.generate([]) == []


@pytest.mark.more_cases
@pytest.mark.parametrize("options", [{}, {"temperature": 1.0, "seed": 3}], ids=["best", "sampled"])
def test_parts_of_a_stream_join_to_the_text(model, tokenizer, options):
    generator = _generator(model, tokenizer, **options)
    for text in ("ab", "", "x" * 40):
        assert "".join(generator.stream(text)) == generator.generate([text])[0]
    assert "".join(generator.stream(b"\xff")) == generator.generate([b"\xff"])[0]
    with pytest.raises(InputError, match="a stream needs a search without beams"):
        list(_generator(model, tokenizer, beams=2).stream("ab"))


def test_bytes_become_characters_and_an_end_ends_them(model, tokenizer):
    generator = _generator(model, tokenizer)
    ids = [VOCABULARY.tokens.index(BYTE_LETTERS[byte]) for byte in "é".encode()]
    rows = tf.constant([[*ids, 256, ids[0]], [ids[0], 256, 0, 0], [*ids, *ids]])
    texts = [text.decode() for text in generator.texts(rows).numpy()]
    assert texts == ["é", "\ufffd", "éé"]


def test_there_must_be_room_for_a_prompt(model, tokenizer):
    with pytest.raises(InputError, match=f"max_new_tokens={LENGTH} is too large: .* {LENGTH} tok"):
        _generator(model, tokenizer, max_new_tokens=LENGTH)


def test_perplexity_predicts_every_token_once(model, tokenizer, monkeypatch):
    monkeypatch.setattr(perplexity, "_BLOCK", 8)
    texts = ["short", "x" * 10 + "a longer text than the model has positions for", ""]
    found = perplexity.score(model, tokenizer, texts, LENGTH)
    ids = [[256, *row] for row in tokenizer.tokenize(texts).to_list()]
    assert found.tokens == sum(len(row) - 1 for row in ids) == found.bytes
    assert found.words == 10 and found.texts == 3
    nats = 0.0
    for row in ids:
        for place in range(1, len(row)):
            # The first window is full; each later one has half of it before what it predicts.
            half = LENGTH // 2
            end = LENGTH if place < LENGTH else LENGTH + ((place - LENGTH) // half + 1) * half
            end = min(end, len(row))
            begin = max(0, end - LENGTH)
            logits = model({"input_word_ids": tf.constant([row[begin:end]])})["masked_lm"]
            scores = tf.nn.log_softmax(logits[0, place - begin - 1])
            nats -= float(scores[row[place]])
            assert place - begin >= min(place, LENGTH // 2)
    assert found.nats == pytest.approx(nats, rel=1e-5)
    assert found.perplexity == pytest.approx(math.exp(nats / found.tokens), rel=1e-4)
    with pytest.raises(InputError, match="no tokens to predict"):
        perplexity.score(model, tokenizer, ["", ""], LENGTH)
    assert found.bits_per_byte == pytest.approx(nats / found.bytes / np.log(2), rel=1e-5)
