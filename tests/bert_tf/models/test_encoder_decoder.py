"""Encoder-decoders: what the decoder sees, its cache, and its place in the interface of encoders."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models import encoders
from bert_tf.models.config import BertConfig
from bert_tf.models.encoder_decoder import shifted
from bert_tf.models.inputs import EncoderInputs
from bert_tf.models.rematerialization import rematerialize
from bert_tf.objectives.denoising import Denoising
from pipelines.common.errors import InputError
from tests.bert_tf.models.user_models import randomize

CONFIG = BertConfig.named(
    "bart-debug", vocab_size=50, hidden_size=32, intermediate_size=64, num_attention_heads=4,
    num_hidden_layers=5, num_decoder_layers=3, max_position_embeddings=34,
)  # fmt: skip
IDS = np.array([[0, 5, 6, 7, 8, 2], [0, 9, 2, 1, 1, 1], [0, 9, 30, 31, 2, 1]], np.int32)


@pytest.fixture(scope="module")
def encoder():
    return randomize(encoders.make(CONFIG), 1)


@pytest.fixture(scope="module")
def source():
    return EncoderInputs.of(tf.constant(IDS), 1, False)


def test_each_sequence_is_read_twice(encoder, source):
    outputs = encoder(IDS)
    decoded = encoder.decode(source, shifted(IDS, source.mask), source.mask).numpy()
    seen = IDS != 1
    np.testing.assert_allclose(outputs["sequence_output"].numpy()[seen], decoded[seen], atol=2e-5)
    assert len(outputs["encoder_outputs"]) == len(outputs["attention_probs"]) == 5
    last = decoded[np.arange(3), seen.sum(1) - 1]
    np.testing.assert_allclose(outputs["pooled_output"], encoder.pooler(last), atol=1e-5)


def test_attention_of_the_decoder_is_that_of_the_tokens_that_it_reads(encoder):
    for layer in encoder(IDS)["attention_probs"][2:]:
        attended = layer[0].numpy().mean(0)
        np.testing.assert_allclose(attended.sum(1), 1, atol=1e-5)
        # The last token is read first, and sees itself only; the others see it and those before.
        order = [5, 0, 1, 2, 3, 4]
        assert np.allclose(np.triu(attended[order][:, order], 1), 0, atol=1e-6)
        assert (np.tril(attended[order][:, order]) > 0).sum() == 21


@pytest.mark.parametrize("dtype", ["int64", "bool", "float32"])
def test_masks_of_any_type(encoder, dtype):
    given = {"input_word_ids": IDS, "input_mask": (IDS != 1).astype(dtype)}
    found = encoder(given)["pooled_output"]
    np.testing.assert_allclose(found, encoder(IDS)["pooled_output"], atol=1e-6)


def test_shifted_texts_begin_with_their_last_token():
    mask = tf.cast(IDS != 1, tf.int32)
    np.testing.assert_array_equal(
        shifted(tf.constant(IDS), mask),
        [[2, 0, 5, 6, 7, 8], [2, 0, 9, 2, 1, 1], [2, 0, 9, 30, 31, 2]],
    )


def test_the_decoder_sees_earlier_tokens_and_the_whole_source(encoder, source):
    target = tf.constant([[2, 0, 5, 9], [2, 0, 7, 8], [2, 0, 3, 3]])
    ones = tf.ones_like(target)
    found = encoder.decode(source, target, ones).numpy()
    later = encoder.decode(source, target + tf.constant([[0, 0, 0, 4]]), ones).numpy()
    np.testing.assert_allclose(found[:, :3], later[:, :3], atol=1e-5)
    assert np.abs(found[:, 3] - later[:, 3]).max() > 1e-3
    other = source._replace(word_ids=source.word_ids + tf.constant([[0, 0, 0, 0, 1, 0]]))
    changed = np.abs(encoder.decode(other, target, ones).numpy() - found).max((1, 2))
    assert (changed > 1e-4).tolist() == [True, False, True]  # padding is not seen


@pytest.mark.parametrize("side", ["right", "left"])
def test_the_cache_changes_nothing(encoder, source, side):
    target = tf.constant([[2, 0, 5, 9], [2, 0, 7, 8], [2, 0, 3, 3]])
    expected = encoder.decode(source, target, tf.ones_like(target)).numpy()
    ids, mask = source.word_ids, source.mask
    if side == "left":
        order = tf.argsort(mask, stable=True)
        ids, mask = (tf.gather(x, order, batch_dims=1) for x in (ids, mask))
    caches = encoder.read(EncoderInputs(ids, mask, None))
    for first, last in ((0, 2), (2, 3), (3, 4)):
        seen = tf.ones([3, last], tf.int32)
        positions = encoder.numbered(seen)[:, first:]
        found = encoder.extend(target[:, first:last], positions, seen, caches, mask)
        np.testing.assert_allclose(found, expected[:, first:last], atol=2e-5)


def test_rematerialization_changes_no_gradient():
    model = randomize(Denoising(CONFIG), 2)
    mask = tf.constant((IDS != 1).astype(np.int32))
    batch = {"input_word_ids": tf.constant(IDS), "input_mask": mask}
    batch |= {"target_word_ids": tf.constant(IDS), "target_mask": mask}

    def gradients():
        with tf.GradientTape() as tape:
            loss, _ = model.batch_loss(batch, model.totals(batch), True, tf.constant(5))
        return tape.gradient(loss, [v.value for v in model.trainable_variables])

    plain = gradients()
    with rematerialize():
        again = gradients()
    for one, other in zip(plain, again, strict=True):
        one, other = (tf.convert_to_tensor(x) for x in (one, other))
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_layers_of_the_decoder_are_the_last(encoder):
    names = [block.name for block in encoder.blocks]
    assert names == ["block_0", "block_1", *(f"decoder_block_{i}" for i in range(3))]
    assert [len(layer) for layer in encoder.layer_variables()] == [7, 12, 12, 22, 22, 22]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_decoder_layers": 5}, "leaves no layer"),
        ({"shared_layers": True}, "shared_layers does not go with num_decoder_layers"),
        ({"causal": True}, "causal does not go with num_decoder_layers"),
    ],
)
def test_configurations_that_do_not_exist(changes, message):
    with pytest.raises(InputError, match=message):
        BertConfig(**{**CONFIG.to_dict(), **changes})
