"""Search against transformers, and properties of batches, streams and sampling."""

import dataclasses
import json
import math

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import weights
from bert_tf.generation.beam_search import BeamSearch
from bert_tf.generation.decoder import Decoder
from bert_tf.generation.generator import padded_left
from bert_tf.generation.search import Prompt, SingleSearch, sampled
from bert_tf.generation.settings import GenerationSettings
from bert_tf.models.config import BertConfig
from bert_tf.objectives.denoising import Denoising
from bert_tf.objectives.masked_lm import LeftToRight
from pipelines.common.errors import InputError
from tests.bert_tf.models.user_models import randomize
from tests.bert_tf.weights.test_transformers import peer  # noqa: F401  (a fixture)

END, PAD, START = 7, 1, 0
GPT2 = BertConfig.named(
    "gpt2-debug", vocab_size=60, hidden_size=32, intermediate_size=64, num_attention_heads=4,
    num_hidden_layers=2, max_position_embeddings=48,
)  # fmt: skip
# Ours, and those of transformers that differ in name.
SETTINGS = [
    (GenerationSettings(max_new_tokens=12), {}),
    (GenerationSettings(max_new_tokens=12, min_new_tokens=5), {"min_new_tokens": 5}),
    (GenerationSettings(max_new_tokens=20, unique_ngram=2), {"no_repeat_ngram_size": 2}),
    (GenerationSettings(max_new_tokens=12, beams=4), {"num_beams": 4}),
    (
        GenerationSettings(max_new_tokens=20, beams=3, length_penalty=2.0, min_new_tokens=4),
        {"num_beams": 3, "length_penalty": 2.0, "min_new_tokens": 4},
    ),
    (
        GenerationSettings(max_new_tokens=16, beams=5, length_penalty=-0.5, unique_ngram=3),
        {"num_beams": 5, "length_penalty": -0.5, "no_repeat_ngram_size": 3},
    ),
    (
        GenerationSettings(max_new_tokens=14, beams=4, length_penalty=2.0, early_stopping=True),
        {"num_beams": 4, "length_penalty": 2.0, "early_stopping": True},
    ),
]


def _search(model, settings):
    kind = BeamSearch if settings.beams > 1 else SingleSearch
    start_ids, never = ((END, START), (START,)) if model.config.num_decoder_layers else ((), ())
    decoder = Decoder(model.encoder, model.token_logits, start_ids)
    return kind(decoder, settings, model.config.vocab_size, END, PAD, never)


_IDS = tf.TensorSpec([None, None], tf.int32)


def _generator(model, settings):
    """A function from prompts and their masks to the tokens that follow."""
    search = _search(model, settings)

    @tf.function(input_signature=[_IDS, _IDS], autograph=False)
    def run(ids, mask):
        state = search.begin(padded_left(ids, mask))
        return search.tokens(search.advance(state, settings.max_new_tokens))

    def generate(ids, mask):
        found = run(tf.constant(ids, tf.int32), tf.constant(mask, tf.int32)).numpy()
        rest = settings.max_new_tokens - found.shape[1]
        return np.pad(found, ((0, 0), (0, rest)), constant_values=PAD)

    return generate


def _generate(model, settings, ids, mask):
    return _generator(model, settings)(ids, mask)


BART = BertConfig.named(
    "bart-debug", vocab_size=60, hidden_size=32, intermediate_size=64, num_attention_heads=4,
    max_position_embeddings=48,
)  # fmt: skip


@pytest.fixture(scope="module", params=["pre_norm", "post_norm", "encoder_decoder"])
def model(request):
    """A language model whose texts end now and then."""
    if request.param == "encoder_decoder":
        return randomize(Denoising(BART), 3)
    return randomize(
        LeftToRight(dataclasses.replace(GPT2, pre_norm=request.param == "pre_norm")), 3
    )


def _prompts(rows=6, length=9):
    rng = np.random.default_rng(2)
    mask = (np.arange(length) < rng.integers(1, length + 1, (rows, 1))).astype(np.int32)
    return rng.integers(1, GPT2.vocab_size, (rows, length)) * mask, mask


@pytest.mark.slow
@pytest.mark.parametrize(
    "architecture", ["GPT2LMHeadModel", "OpenAIGPTLMHeadModel", "BartForConditionalGeneration"]
)
def test_tokens_are_those_of_transformers(peer, tmp_path, architecture):  # noqa: F811
    config = {
        "vocab_size": 60, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 48,
    }  # fmt: skip
    if architecture.startswith("Bart"):
        layers = {"layers": 2, "attention_heads": 4, "ffn_dim": 64}
        sides = {f"{side}_{k}": v for side in ("encoder", "decoder") for k, v in layers.items()}
        config = {
            "vocab_size": 60, "d_model": 32, "max_position_embeddings": 48, **sides,
        }  # fmt: skip
    folder = f"{tmp_path}/made"
    arguments = ("--architecture", architecture, "--config", json.dumps(config))
    peer("make", "--folder", folder, *arguments)
    bundle = weights.read(folder)
    model = (Denoising if bundle.config.num_decoder_layers else LeftToRight)(bundle.config)
    assert not [n for n in weights.assign(model, bundle.weights, "") if "masked_lm" in n]
    prompts = np.random.default_rng(0).integers(0, 60, (200, 8))
    np.savez(f"{tmp_path}/in.npz", prompts=prompts)
    options = [
        {"max_new_tokens": ours.max_new_tokens, "eos_token_id": END, "pad_token_id": PAD, **theirs}
        for ours, theirs in SETTINGS
    ]
    if model.config.num_decoder_layers:
        of_bart = {
            "decoder_start_token_id": END, "forced_bos_token_id": START,
            "forced_eos_token_id": END, "bad_words_ids": [[START]],
        }  # fmt: skip
        counted = {"min_new_tokens", "max_new_tokens"}  # <s>, too
        options = [{k: v + (k in counted) for k, v in each.items()} | of_bart for each in options]
    files = ("--inputs", f"{tmp_path}/in.npz", "--outputs", f"{tmp_path}/out.npz")
    peer("generate", "--folder", folder, "--settings", json.dumps(options), *files)
    with np.load(f"{tmp_path}/out.npz") as theirs:
        for number, (settings, _) in enumerate(SETTINGS):
            found = _generate(model, settings, prompts, np.ones_like(prompts))
            np.testing.assert_array_equal(found, theirs[str(number)], err_msg=str(settings))


@pytest.mark.more_cases
@pytest.mark.parametrize(
    "settings",
    [
        *(ours for ours, _ in SETTINGS[2:5]),
        GenerationSettings(max_new_tokens=12, temperature=0.8, top_k=20, top_p=0.9, seed=3),
    ],
    ids=["no_repeat", "beams", "penalty", "sampled"],
)
def test_a_text_in_a_batch_gives_what_it_gives_alone(model, settings):
    ids, mask = _prompts()
    generate = _generator(model, settings)
    found = generate(ids, mask)
    for row, (one, there) in enumerate(zip(ids, mask, strict=True)):
        alone = one[: there.sum()][np.newaxis]
        expected = generate(alone, np.ones_like(alone))
        np.testing.assert_array_equal(found[row : row + 1], expected)
    assert len({tuple(row) for row in found}) > 1


class _OneDistribution:
    """A decoder whose next token does not depend on the last ones; one in three texts ends."""

    continues = True  # the prompt
    forced = 0

    def begin(self, ids, mask):
        rows = tf.shape(ids)[0]
        return self.step(tf.zeros([rows], tf.int32), tf.zeros([rows]))

    def step(self, tokens, state):
        logits = tf.one_hot(END, 60, math.log(30.0), 0.0)
        return tf.tile(logits[tf.newaxis], [tf.shape(tokens)[0], 1]), state

    def reordered(self, state, order):
        return tf.gather(state, order)


@pytest.mark.parametrize("penalty", [-1.0, -8.0])
def test_a_negative_length_penalty_prefers_short_texts(penalty):
    settings = GenerationSettings(
        max_new_tokens=20, min_new_tokens=12, beams=4, length_penalty=penalty
    )
    search = BeamSearch(_OneDistribution(), settings, 60, END, PAD, ())
    state = search.begin(padded_left(*map(tf.constant, _prompts())))
    found = search.tokens(search.advance(state, 20)).numpy()
    assert (found[:, 12] == END).all()


class _Steps(_OneDistribution):
    """A decoder with given probabilities of tokens at each step; what is left is for all alike."""

    def __init__(self, *steps, continues=True, forced=0):
        self.continues, self.forced = continues, forced
        rest = [(1 - sum(step.values())) / 60 for step in steps]
        table = np.repeat(np.log(np.array(rest, np.float32) + 1e-12)[:, np.newaxis], 60, 1)
        for row, step in zip(table, steps, strict=True):
            row[list(step)] = np.log(list(step.values()))
        self.table = tf.constant(table)

    def step(self, tokens, state):
        place = tf.minimum(tf.cast(state, tf.int32), len(self.table) - 1)
        return tf.gather(self.table, place), state + 1


def _written(decoder, **settings):
    settings = GenerationSettings(**settings)
    kind = BeamSearch if settings.beams > 1 else SingleSearch
    search = kind(decoder, settings, 60, END, PAD, ())
    ones = tf.ones([1, 3], tf.int32)
    state = search.advance(search.begin(Prompt(ones, ones)), 20)
    found = search.tokens(state).numpy()[0].tolist()
    return found[: found.index(END) + 1] if END in found else found


@pytest.mark.parametrize("beams", [1, 3])
def test_a_result_that_reaches_the_limit_ends_there(beams):
    for continues, last in ((False, END), (True, 4)):
        decoder = _Steps({4: 0.6, 5: 0.3}, continues=continues)
        assert _written(decoder, max_new_tokens=4, beams=beams) == [4, 4, 4, last]


@pytest.mark.parametrize(("forced", "expected"), [(0, [4, END]), (1, [END])])
def test_tokens_that_are_forced_count_in_the_length(forced, expected):
    # log(0.3) / 1 < log(0.7 * 0.175) / 2, but log(0.3) / 2 > log(0.7 * 0.175) / 3
    decoder = _Steps({END: 0.3, 4: 0.7}, {END: 0.175}, {}, forced=forced)
    assert _written(decoder, max_new_tokens=3, beams=2) == expected


@pytest.mark.parametrize(("early", "expected"), [(True, [4, END]), (False, [4, 5, END])])
def test_a_search_may_end_with_as_many_texts_as_beams(early, expected):
    decoder = _Steps({END: 0.2, 4: 0.79}, {END: 0.2, 5: 0.79}, {END: 0.99})
    assert _written(decoder, max_new_tokens=6, beams=2, early_stopping=early) == expected


def test_the_cache_changes_nothing(model):
    if model.config.num_decoder_layers:
        pytest.skip("its decoder is compared in test_encoder_decoder.py")
    ids, mask = _prompts()
    found = _generate(model, GenerationSettings(max_new_tokens=6), ids, mask)
    for one, there, new in zip(ids, mask, found, strict=True):
        text = list(one[: there.sum()])
        for token in new:
            if text[-1] == END and len(text) > there.sum():
                assert token == PAD
                continue
            logits = model({"input_word_ids": tf.constant([text], tf.int32)})["masked_lm"]
            assert token == int(tf.argmax(logits[0, -1]))
            text.append(token)


@pytest.mark.more_cases
def test_parts_are_the_whole(model):
    settings = GenerationSettings(max_new_tokens=11)
    ids, mask = (tf.constant(x, tf.int32) for x in _prompts())
    search = _search(model, settings)
    state = search.begin(padded_left(ids, mask))
    for steps in (1, 3, 5, 20):
        state = search.advance(state, steps)
    found = search.tokens(state).numpy()
    expected = _generate(model, settings, ids.numpy(), mask.numpy())
    np.testing.assert_array_equal(found, expected[:, : found.shape[1]])


@pytest.mark.more
def test_samples_have_the_probabilities_of_the_model():
    rng = np.random.default_rng(4)
    logits = rng.normal(0, 2, 12).astype(np.float32)
    settings = GenerationSettings(temperature=1.5, top_k=8, top_p=0.95, seed=5)
    prompt = Prompt(tf.constant(rng.integers(0, 60, (4_000, 4)), tf.int32), tf.ones([4_000, 4]))
    rows = tf.tile(logits[np.newaxis], [4_000, 1])
    found = tf.argmax(sampled(rows, prompt, tf.constant(2), settings), -1).numpy()
    scaled = np.exp(logits / 1.5)
    order = np.argsort(-scaled)[:8]
    nucleus = np.cumsum(scaled[order]) - scaled[order] < 0.95 * scaled[order].sum()
    expected = np.zeros(12)
    expected[order[nucleus]] = scaled[order[nucleus]] / scaled[order[nucleus]].sum()
    counts = np.bincount(found, minlength=12) / len(found)
    assert 0 < (expected == 0).sum() < 8 and not counts[expected == 0].any()
    error = np.sqrt(expected * (1 - expected) / len(found))
    assert (np.abs(counts - expected) <= 4.5 * error).all()


@pytest.mark.more_cases
def test_nucleus_of_almost_nothing_is_greedy(model):
    ids, mask = _prompts()
    sampled = GenerationSettings(max_new_tokens=8, temperature=1.0, top_p=1e-6)
    found = _generate(model, sampled, ids, mask)
    expected = _generate(model, GenerationSettings(max_new_tokens=8), ids, mask)
    np.testing.assert_array_equal(found, expected)


def test_padding_may_be_anywhere():
    ids, mask = tf.constant([[4, 0, 5], [0, 0, 6]]), tf.constant([[1, 0, 1], [0, 0, 1]])
    found = padded_left(ids, mask)
    assert isinstance(found, Prompt)
    np.testing.assert_array_equal(found.ids, [[0, 4, 5], [0, 0, 6]])
    np.testing.assert_array_equal(found.mask, [[0, 1, 1], [0, 0, 1]])


def test_what_is_without_effect_is_refused_where_it_is_given():
    """Not in the settings of a model, nor if the model has beams."""
    settings = GenerationSettings(length_penalty=2.0)
    settings.check()
    settings.check_given({"top_k": 0})
    dataclasses.replace(settings, beams=4).check_given({"length_penalty": 2.0})
    with pytest.raises(InputError, match="--length_penalty is for beam search; give --beams, too"):
        settings.check_given({"length_penalty": 2.0})
    with pytest.raises(InputError, match="--seed is for sampling; give a --temperature, too"):
        settings.check_given({"seed": 3})
    dataclasses.replace(settings, temperature=0.5).check_given({"seed": 3})
    with pytest.raises(InputError, match="--early_stopping is for beam search"):
        GenerationSettings(early_stopping=True).check_given({"early_stopping": True})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"beams": 2, "temperature": 1.0}, "2 beams. does not sample; give --beams=1, too"),
        ({"temperature": 1e-38}, "must be 0, the most probable token, or at least 1e-06"),
        ({"min_new_tokens": 9, "max_new_tokens": 4}, "--min_new_tokens=9 is above"),
        ({"top_k": 4}, "restrict sampling"),
        ({"top_p": 0.0, "temperature": 1.0}, "--top_p=0.0"),
    ],
)
def test_settings_that_do_not_go_together(values, message):
    with pytest.raises(InputError, match=message):
        GenerationSettings(**values).check()
