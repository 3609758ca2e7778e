"""The encoder against its formulas in plain NumPy."""

import dataclasses
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import BertConfig, BertEncoder
from bert_tf.models import fused_ops
from bert_tf.models.heads import MaskedLMHead
from bert_tf.objectives.masked_lm import MaskedLMNextSentence
from bert_tf.tasks.model import HeadShape, TaskModel
from bert_tf.weights.bundle import parameter_shapes
from pipelines.tokenizers.packing import MODEL_INPUTS
from tests.bert_tf.helpers import CONFIG, make_batch
from tests.bert_tf.models import formulas, user_models

# What makes relatives of BERT: each option alone, and as two of them have several together.
OPTIONS = [
    {},
    {"embedding_size": 6},
    {"embedding_size": 16},
    {"embedding_norm": False},
    {"position_offset": 2},
    {"shared_layers": True},
    {"relative_positions": True},
    {"type_vocab_size": 0},
    {"type_vocab_size": 3},
    {"pooler_act": None},
    {"pooler_act": "relu", "pooler_dropout": 0.2},
    {"embedding_size": 6, "shared_layers": True, "num_hidden_layers": 3},
    {"model_type": "roberta", "position_offset": 2, "hidden_act": "gelu_erf", "causal": True},
    {"linear_bias": False, "norm_bias": False, "transform_bias": False},
    {"gated": True, "pool_mean": True},
    {"pre_norm": True, "first_norm": False},
    {"rope_theta": 100.0},
    {"causal": True, "pool_first": True},
    {"local_attention": 4, "global_every": 2},
    {"pre_norm": True, "first_norm": False, "gated": True, "linear_bias": False,
     "norm_bias": False, "rope_theta": 100.0, "local_rope_theta": 10.0, "local_attention": 6,
     "global_every": 3, "num_hidden_layers": 5, "pooler_act": None, "head_transform": True,
     "transform_bias": False},
]  # fmt: skip
each_option = pytest.mark.parametrize("options", OPTIONS, ids=str)


@pytest.fixture(scope="module", params=OPTIONS, ids=str)
def encoder(request):
    """An encoder of each option, with random weights."""
    found = BertEncoder(dataclasses.replace(CONFIG, **request.param))
    user_models.randomize(found)
    return found


def test_outputs_are_those_of_the_formulas(encoder):
    config = encoder.config
    batch = make_batch()
    outputs = encoder(batch)
    embedded, sequence, pooled = formulas.outputs(encoder, batch, config.causal)
    real = batch["input_mask"].numpy() > 0
    np.testing.assert_allclose(outputs["embedding_output"], embedded, atol=2e-5)
    np.testing.assert_allclose(outputs["sequence_output"].numpy()[real], sequence[real], atol=2e-5)
    np.testing.assert_allclose(outputs["pooled_output"], pooled, atol=2e-5)
    assert len(outputs["encoder_outputs"]) == config.num_hidden_layers
    assert outputs["encoder_outputs"][-1] is outputs["sequence_output"]
    assert outputs["attention_probs"][0].shape == (4, 2, 10, 10)
    np.testing.assert_allclose(tf.reduce_sum(outputs["attention_probs"][1], -1), 1, atol=1e-5)


def test_each_way_to_compute_gives_the_same(encoder):
    batch = make_batch()
    real = batch["input_mask"].numpy() > 0
    plain = encoder(batch)

    def check(outputs, tolerance):
        for name in ("sequence_output", "pooled_output"):
            wanted, found = plain[name], tf.cast(outputs[name], tf.float32)
            if name == "sequence_output":
                wanted, found = wanted[real], found[real]
            assert np.abs(wanted - found).max() < tolerance

    check(encoder(batch, drop_padding=True), 1e-5)
    for inference, drop in itertools.product((False, True), repeat=2):
        with fused_ops.inference(inference):
            pooled = encoder.pooled(batch, drop_padding=drop)
        np.testing.assert_allclose(pooled, plain["pooled_output"], atol=1e-5)
    check(encoder(batch, dtype="bfloat16"), 0.3)
    with fused_ops.compile_fused():
        check(encoder(batch), 1e-4)
    with fused_ops.inference():
        check(encoder(batch), 1e-4)


@pytest.mark.more_cases
@pytest.mark.parametrize("places", [[], [3, 0, 1, 1]], ids=str)
def test_outputs_and_gradients_at_positions_are_those_of_all(encoder, places):
    batch = make_batch()
    positions = tf.constant([places] * 4, tf.int32, [4, len(places)]) - [[0], [1], [0], [1]]
    positions = tf.maximum(positions, 0)
    factors = tf.random.stateless_normal([4, 1 + len(places), 16], [1, 2])

    def run(**options):
        with tf.GradientTape() as tape:
            outputs = encoder(batch, **options)
            sequence = outputs["sequence_output"]
            if not options:
                sequence = tf.gather(sequence, positions, batch_dims=1)
            pooled = outputs["pooled_output"]
            both = tf.concat([pooled[:, tf.newaxis], sequence], 1)
            loss = tf.reduce_sum(both * factors)
        gradients = tape.gradient(loss, encoder.trainable_variables, unconnected_gradients="zero")
        return [sequence, pooled, *map(tf.convert_to_tensor, gradients)]

    compiled = tf.function(lambda: run(outputs_at=positions))
    lengths = {name: tf.TensorSpec([None, None], tf.int32) for name in MODEL_INPUTS}
    anywhere = tf.TensorSpec([None, None], tf.int32)
    traced = tf.function(
        lambda inputs, positions: encoder(inputs, outputs_at=positions),
        input_signature=[lengths, anywhere],
    )({name: batch[name] for name in MODEL_INPUTS}, positions)
    rows = encoder(batch, drop_padding=True, outputs_at=positions)
    plain = run()
    for wanted, name in zip(plain, ("sequence_output", "pooled_output"), strict=False):
        np.testing.assert_allclose(traced[name], wanted, atol=1e-5)
        np.testing.assert_allclose(rows[name], wanted, atol=1e-5)
    for found in (run(outputs_at=positions), compiled()):
        for value, wanted in zip(found, plain, strict=True):
            np.testing.assert_allclose(value, wanted, atol=1e-4, rtol=1e-4)


@each_option
def test_each_weight_learns(options):
    model = MaskedLMNextSentence(dataclasses.replace(CONFIG, **options))
    assert model.masked_lm.transform.kernel.shape == (16, model.config.embedding_width)
    batch = make_batch()
    with tf.GradientTape() as tape:
        loss, _ = model.batch_loss(batch, model.totals(batch), True, tf.constant(3))
    variables = model.trainable_variables
    gradients = tape.gradient(loss, [variable.value for variable in variables])
    for variable, gradient in zip(variables, gradients, strict=True):
        assert np.abs(tf.convert_to_tensor(gradient)).max() > 0, variable.path


@each_option
def test_all_shapes_are_told_before_there_are_any(options):
    config = dataclasses.replace(CONFIG, **options)
    heads = [HeadShape("mrpc", 2, False), HeadShape("ner", 9, True)]
    told = parameter_shapes(config, [(head.name, head.units) for head in heads])
    models = MaskedLMNextSentence(config), TaskModel(config, heads)
    built = {v.path: tuple(v.shape) for model in models for v in model.variables}
    assert told == built
    encoder = BertEncoder.unallocated(config)
    assert not encoder.variables
    encoder.build()
    assert encoder.shapes() == {v.path: tuple(v.shape) for v in encoder.variables}
    assert encoder.parameters == encoder.count_params()


def _roberta_batch(rows):
    """Inputs of ids, of which 1 is padding."""
    ids = np.array(rows, np.int32)
    return dict(zip(MODEL_INPUTS, (ids, (ids != 1).astype(np.int32), 0 * ids), strict=True))


def test_positions_before_the_first_are_of_padding_only():
    encoder = BertEncoder(dataclasses.replace(CONFIG, position_offset=2))
    batch = _roberta_batch([[0, 5, 7, 9, 2, 1, 1], [0, 5, 2, 1, 1, 1, 1]])
    before = encoder(batch, drop_padding=True)["sequence_output"]
    table = encoder.embeddings.position.numpy()
    table[:2] = np.nan
    encoder.embeddings.position.assign(table)
    after = encoder(batch, drop_padding=True)["sequence_output"]
    there = batch["input_mask"] > 0
    np.testing.assert_array_equal(after[there], before[there])
    with pytest.raises(ValueError, match="11 tokens exceed the 10 positions"):
        encoder(make_batch(length=11))
    spec = tf.TensorSpec([None, None], tf.int32)
    traced = tf.function(encoder, input_signature=[[spec] * 3])
    with pytest.raises(tf.errors.InvalidArgumentError):
        traced([make_batch(length=11)[name] for name in MODEL_INPUTS])


def test_distances_share_rows_as_in_mpnet():
    encoder = BertEncoder(dataclasses.replace(CONFIG, relative_positions=True))
    encoder.embeddings.relative_positions.assign(np.repeat(np.arange(32.0)[:, None], 2, 1))
    found = encoder.embeddings.relative_scores(200)
    assert found.shape == (1, 2, 200, 200)
    np.testing.assert_allclose(found[0, 1], formulas.scores_by_distance(encoder, 200)[1])
    row = found[0, 0, 100].numpy()
    first = {int(value): index - 100 for index, value in reversed(list(enumerate(row)))}
    # The first distance after the token of each row, and the last before it.
    later = [first[number] for number in range(17, 32)]
    assert later == [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]
    assert row[100 - 90] == 14 and row[100 - 91] == 15 and row[100] == 0


@pytest.mark.parametrize("drop_padding", [False, True])
def test_padding_may_stand_anywhere_where_positions_have_an_offset(drop_padding):
    """Before, between and after the tokens, as in transformers; not so in BERT."""
    encoder = BertEncoder(dataclasses.replace(CONFIG, position_offset=2))
    tokens = [0, 5, 7, 9, 2]
    rows = [[*tokens, 1, 1], [1, 1, *tokens], [1, 0, 5, 1, 7, 9, 2]]
    batch = _roberta_batch(rows)
    outputs = encoder(batch, drop_padding=drop_padding)["sequence_output"].numpy()
    right, left, between = (
        row[mask > 0] for row, mask in zip(outputs, batch["input_mask"], strict=True)
    )
    np.testing.assert_allclose(left, right, atol=1e-6)
    np.testing.assert_allclose(between, right, atol=1e-6)


def test_without_types_their_ids_may_be_absent_or_anything():
    encoder = BertEncoder(dataclasses.replace(CONFIG, type_vocab_size=0))
    batch = make_batch()
    before = encoder(batch)["sequence_output"]
    batch["input_type_ids"] += 7
    np.testing.assert_array_equal(encoder(batch)["sequence_output"], before)
    del batch["input_type_ids"]
    np.testing.assert_array_equal(encoder(batch)["sequence_output"], before)


def test_the_pooler_drops_out_before_it_alone():
    seed = tf.constant(1)
    plain = BertEncoder(CONFIG)
    dropping = BertEncoder(dataclasses.replace(CONFIG, pooler_dropout=0.5))
    dropping.set_weights(plain.get_weights())
    batch = make_batch()
    a, b = (e(batch, training=True, dropout_seed=seed) for e in (plain, dropping))
    np.testing.assert_array_equal(a["sequence_output"], b["sequence_output"])
    assert np.abs(a["pooled_output"] - b["pooled_output"]).max() > 1e-3
    np.testing.assert_array_equal(plain(batch)["pooled_output"], dropping(batch)["pooled_output"])


def test_padding_changes_nothing():
    encoder = BertEncoder(CONFIG)
    batch = {name: value[:1, :6] for name, value in make_batch().items() if "input" in name}
    longer = {name: tf.pad(value, [[0, 0], [0, 5]]) for name, value in batch.items()}
    short, long = encoder(batch), encoder(longer)
    np.testing.assert_allclose(short["sequence_output"], long["sequence_output"][:, :6], atol=1e-5)


def test_left_to_right_sees_nothing_that_follows():
    encoder = BertEncoder(dataclasses.replace(CONFIG, causal=True))
    batch = make_batch()
    batch["input_mask"] = tf.ones_like(batch["input_mask"])
    other = dict(batch)
    other["input_word_ids"] = tf.concat(
        [batch["input_word_ids"][:, :5], batch["input_word_ids"][:, 5:] * 0 + 7], 1
    )
    a, b = encoder(batch)["sequence_output"], encoder(other)["sequence_output"]
    np.testing.assert_allclose(a[:, :5], b[:, :5], atol=1e-6)
    assert np.abs(a[:, 5:] - b[:, 5:]).max() > 1e-3


def test_dropout_follows_its_seed_and_training():
    encoder = BertEncoder(CONFIG)
    batch = make_batch()

    def run(**options):
        return encoder(batch, **options)["sequence_output"].numpy()

    one = run(training=True, dropout_seed=tf.constant(1))
    assert (one == run(training=True, dropout_seed=tf.constant(1))).all()
    assert (one != run(training=True, dropout_seed=tf.constant(2))).any()
    assert (run() == run()).all()
    assert (run(training=True) != run(training=True)).any()


def test_mixed_precision_keeps_float32_variables_and_is_near():
    exact = BertEncoder(CONFIG)
    mixed = BertEncoder(CONFIG, dtype="mixed_bfloat16")
    mixed.set_weights(exact.get_weights())
    assert {variable.dtype for variable in mixed.variables} == {"float32"}
    batch = make_batch()
    found, wanted = mixed(batch), exact(batch)
    for x, near in (
        (found["sequence_output"], wanted["sequence_output"]),
        (mixed.pooled(batch), wanted["pooled_output"]),
    ):
        assert x.dtype == tf.bfloat16
        np.testing.assert_allclose(tf.cast(x, tf.float32), near, atol=0.08)


def test_operations_are_those_of_the_products():
    encoder = BertEncoder.unallocated(BertConfig())
    # Two for each multiply-add of a kernel and token, and of scores and contexts.
    kernels = 12 * (4 * 768**2 + 2 * 768 * 3072)
    assert encoder.flops(128) == 2 * 128 * (kernels + 12 * 2 * 128 * 768)
    assert BertEncoder.unallocated(BertConfig(shared_layers=True)).flops(128) == encoder.flops(128)
    narrow = BertEncoder.unallocated(BertConfig(embedding_size=128))
    assert narrow.flops(128) == encoder.flops(128) + 2 * 128 * 128 * 768
    head = MaskedLMHead(BertConfig(), name="masked_lm")
    assert head.flops(20) == 2 * 20 * 768 * (768 + 30522)
    # 21 tokens attend in the last layer: to keys and values of all, and only they go on from there.
    rest = 768**2 + 2 * 768 * 3072 + 2 * 128 * 768
    less = encoder.flops(128) - encoder.flops(128, outputs=20)
    assert less == 2 * (128 - 21) * rest


def test_layers_from_bottom_to_top():
    layers = BertEncoder(CONFIG, name="encoder").layer_variables()
    assert [{v.path.split("/")[1] for v in layer} for layer in layers] == [
        {"embeddings"}, {"block_0"}, {"block_1"}
    ]  # fmt: skip
    shared = BertEncoder(dataclasses.replace(CONFIG, shared_layers=True, embedding_size=6))
    assert [len(layer) for layer in shared.layer_variables()] == [7, 12]


def test_telling_changes_no_initial_value():
    keras.utils.set_random_seed(1)
    first = BertEncoder(CONFIG).get_weights()
    keras.utils.set_random_seed(1)
    assert BertEncoder.unallocated(CONFIG).parameters == sum(value.size for value in first)
    for value, again in zip(first, BertEncoder(CONFIG).get_weights(), strict=True):
        np.testing.assert_array_equal(value, again)


def test_initial_weights_are_a_truncated_normal():
    keras.utils.set_random_seed(1)
    encoder = BertEncoder(BertConfig.named("tiny", vocab_size=5000))
    table = encoder.embeddings.word.numpy()
    assert np.abs(table).max() <= 0.04
    # Cut at two deviations, a normal keeps 0.88 of its own deviation.
    assert table.std() == pytest.approx(0.02 * 0.88, rel=0.02)
    assert not encoder.pooler.bias.numpy().any()
