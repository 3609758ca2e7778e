"""The optimizers against their formulas, and the schedule."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.config import BertConfig
from bert_tf.models.layers import Dense, TransformerBlock
from bert_tf.training import optimizers
from bert_tf.training.optimizers import LAMB, AdamW, Muon, OptimizerName, make_optimizer
from bert_tf.training.schedules import PhaseCycles, WarmupHoldDecay, WarmupLinearDecay
from pipelines.common.errors import InputError
from tests.bert_tf.objectives.test_contract import CASES


def _variables():
    rng = np.random.default_rng(0)
    return [
        keras.Variable(rng.normal(size=(3, 4)), dtype="float32", name="kernel"),
        keras.Variable(rng.normal(size=4), dtype="float32", name="bias"),
        keras.Variable(rng.normal(size=4), dtype="float32", name="gamma"),
    ]


def _reference(weights, gradients, steps, correct, trust, rate=0.01, decay=0.1, clip=1.0):
    """AdamW of google-research/bert, or with `trust` LAMB: algorithm 2 of arXiv 1904.00962.

    Bias correction is an option of both. Norms and biases have neither decay nor trust ratio.
    """
    weights = [w.astype(np.float64) for w in weights]
    means = [np.zeros_like(w) for w in weights]
    squares = [np.zeros_like(w) for w in weights]
    for step in range(1, steps + 1):
        grads = [g * step for g in gradients]
        norm = np.sqrt(sum((g**2).sum() for g in grads))
        grads = [g * min(1.0, clip / norm) for g in grads]
        powers = (0.9**step, 0.999**step) if correct else (0, 0)
        for i, g in enumerate(grads):
            means[i] = 0.9 * means[i] + 0.1 * g
            squares[i] = 0.999 * squares[i] + 0.001 * g**2
            scale = np.sqrt(1 - powers[1])
            # The epsilon of AdamW is added before the correction, as in the reference.
            root = np.sqrt(squares[i]) / (scale if trust else 1) + 1e-6
            update = means[i] / (1 - powers[0]) / (root / (1 if trust else scale))
            ratio = 1.0
            if weights[i].ndim > 1:
                update = update + decay * weights[i]
                norms = np.linalg.norm(weights[i]), np.linalg.norm(update)
                ratio = norms[0] / norms[1] if trust and all(norms) else 1.0
            weights[i] = weights[i] - rate * ratio * update
    return weights


@pytest.mark.parametrize("cls", [AdamW, LAMB, Muon])
def test_what_keras_offers_is_followed_or_refused(cls):
    optimizer = cls(0.1, decay=0.0)
    assert cls.from_config(optimizer.get_config()).get_config() == optimizer.get_config()
    for name, value in {
        "weight_decay": 0.5, "use_ema": True, "loss_scale_factor": 64, "clipnorm": 1.0,
        "gradient_accumulation_steps": 2, "clipvalue": 1.0, "global_clipnorm": 2.0,
    }.items():  # fmt: skip
        with pytest.raises(InputError, match=f"{cls.__name__}: {name}: not an argument"):
            cls(0.1, **{name: value})
    one, other, _ = _variables()
    before = other.numpy()
    with pytest.warns(UserWarning, match="Gradients do not exist for variables .'bias'"):
        optimizer.apply([tf.ones_like(one), None], [one, other])
    assert np.array_equal(other, before) and (one.numpy() != _variables()[0].numpy()).all()


@pytest.mark.parametrize("cls", [AdamW, LAMB])
@pytest.mark.parametrize("correct", [False, True])
@pytest.mark.parametrize("jit_compile", [None, False, True])
def test_updates_are_those_of_the_formulas(cls, correct, jit_compile):
    zeros = keras.Variable(np.zeros((2, 3)), dtype="float32", name="new_kernel")
    still = keras.Variable(np.ones((2, 3)), dtype="float32", name="still_kernel")
    variables = [*_variables(), zeros, still]
    gradients = [np.random.default_rng(1).normal(size=v.shape).astype("f4") for v in variables]
    gradients[-1][:] = 0  # its update is the decay alone
    values = [v.numpy() for v in variables]
    expected = _reference(values, gradients, 5, correct, trust=cls is LAMB)
    optimizer = cls(0.01, decay=0.1, bias_correction=correct)
    optimizer.build(variables)

    def apply(step):
        optimizer.apply([g * tf.cast(step, tf.float32) for g in gradients], variables)

    if jit_compile is not None:
        apply = tf.function(apply, jit_compile=jit_compile, autograph=False)
    for step in range(1, 6):
        apply(tf.constant(step))
    for variable, wanted in zip(variables, expected, strict=True):
        np.testing.assert_allclose(variable.numpy(), wanted, atol=1e-5)
    assert int(optimizer.iterations) == 5


def test_nothing_moves_without_gradient_and_decay():
    (kernel, *_) = _variables()
    before = kernel.numpy()
    LAMB(0.1, decay=0.0).apply([tf.zeros([3, 4])], [kernel])
    np.testing.assert_array_equal(kernel.numpy(), before)


def _blocks():
    """The kernels of a block, and a head."""
    layer = TransformerBlock(BertConfig.named("tiny"), name="block_0")
    head = Dense(128, 2, name="head")
    for part, name in ((layer, "encoder"), (head, "other")):
        with keras.name_scope(name):
            part.build()
    return [*layer.trainable_variables, *head.trainable_variables]


def test_muon_gives_all_directions_of_a_hidden_matrix_the_same_update():
    variables = _blocks()
    before = [variable.numpy() for variable in variables]
    rng = np.random.default_rng(0)
    gradients = [rng.normal(size=v.shape) for v in variables]
    Muon(0.01, decay=0.0, clip_norm=None).apply(
        [tf.constant(g, tf.float32) for g in gradients], variables
    )
    hidden = 0
    for variable, old in zip(variables, before, strict=True):
        update = (old - variable.numpy()) / 0.01
        if "block_0" not in variable.path or not variable.path.endswith("kernel"):
            continue
        for matrix in np.split(update, 3, axis=1) if "qkv" in variable.path else [update]:
            hidden += 1
            values = np.linalg.svd(matrix, compute_uv=False) / (0.4 * max(matrix.shape) ** 0.5)
            # Five steps do not reach what is next to nothing in a square matrix.
            assert np.quantile(values, 0.2) > 0.6 and values.max() < 1.3
            assert np.sqrt(np.mean(matrix**2)) == pytest.approx(0.4, rel=0.25)
    assert hidden == 6


def test_muon_is_adamw_for_all_else():
    gradients = [tf.random.stateless_normal(v.shape, [0, 1]) for v in _blocks()]
    found = []
    for cls in (AdamW, Muon):
        keras.utils.set_random_seed(1)
        variables = _blocks()
        cls(0.01, decay=0.1, clip_norm=None).apply(gradients, variables)
        found.append({v.path: v.numpy() for v in variables})
    for path, value in found[0].items():
        same = np.array_equal(value, found[1][path])
        assert same != ("block_0" in path and path.endswith("kernel")), path


def test_muon_finds_the_matrices_of_all_families():
    """Each kernel of a block, but for LSTM projections, which have another name."""
    cases = ("mlm", "left_to_right", "bidirectional_lm", "denoising", "replaced_token")
    for model in (CASES[name].make() for name in cases):
        kernels = [v.path for v in model.trainable_variables if v.path.endswith("/kernel")]
        inside = [path for path in kernels if "block_" in path or "highway_" in path]
        assert inside and all(map(optimizers._HIDDEN.search, inside))


@pytest.mark.parametrize("cls", [LAMB, Muon])
@pytest.mark.parametrize(("name", "count"), [("qkv", 3), ("forward", 4), ("layer_0_backward", 4)])
def test_matrices_side_by_side_are_updated_one_by_one(cls, name, count):
    rng = np.random.default_rng(0)
    values, gradients = rng.normal(size=(2, 8, 8 * count)).astype("f4")
    values[:, :8] *= 10

    def updated(layer, values, gradients):
        with keras.name_scope("encoder"), keras.name_scope("block_0"), keras.name_scope(layer):
            kernel = keras.Variable(values, name="kernel")
        cls(0.01, clip_norm=None).apply([tf.constant(gradients)], [kernel])
        return kernel.numpy()

    parts = zip(np.split(values, count, axis=1), np.split(gradients, count, axis=1), strict=True)
    expected = np.concatenate([updated("one", *part) for part in parts], axis=1)
    np.testing.assert_allclose(updated(name, values, gradients), expected, rtol=1e-5)


@pytest.mark.parametrize("cls", [AdamW, LAMB])
def test_rates_of_variables_have_factors(cls):
    moved = []
    for factors in ({}, {"kernel": 0.5}):
        kernel, *_ = _variables()
        before = kernel.numpy()
        cls(0.01, rate_factors=factors).apply([tf.ones([3, 4])], [kernel])
        moved.append(kernel.numpy() - before)
    np.testing.assert_allclose(moved[1], 0.5 * moved[0], atol=1e-6)


@pytest.mark.more_cases
@pytest.mark.parametrize("cls", [AdamW, LAMB])
def test_keras_fit_can_use_it(cls):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(1)])
    model.compile(cls(0.05, bias_correction=True), "mse")
    x = np.random.default_rng(0).normal(size=(64, 3))
    losses = model.fit(x, x @ [[1.0], [2.0], [3.0]], epochs=30, verbose=0).history["loss"]
    assert losses[-1] < 0.3 * losses[0]


@pytest.mark.parametrize("name", list(OptimizerName))
def test_get_config_round_trip(name):
    schedule = WarmupLinearDecay(1e-3, 10, 100)
    optimizer = make_optimizer(name, schedule, decay=0.02, bias_correction=True)
    assert optimizer.name == name
    again = type(optimizer).from_config(optimizer.get_config())
    assert again.get_config() == optimizer.get_config()


def test_the_rate_stays_until_the_end_is_told():
    schedule = WarmupHoldDecay(1.0, 10)
    rate = tf.function(schedule)
    assert float(rate(tf.constant(4))) == pytest.approx(0.5)
    assert {float(rate(tf.constant(step))) for step in (10, 1000, 10**6)} == {1.0}
    schedule.end_at(120, 100)
    assert [float(rate(tf.constant(step))) for step in (20, 70, 120)] == [1.0, 0.5, 0.0]
    again = WarmupHoldDecay.from_config(schedule.get_config())
    assert float(again(70)) == 0.5 and again.total_steps == 120


def test_each_phase_has_a_cycle_of_its_own():
    schedule = PhaseCycles([1.0, 0.5], [10, 4], [110, 24])
    alone = [WarmupLinearDecay(1.0, 10, 110), WarmupLinearDecay(0.5, 4, 24)]
    expected = [float(alone[0](step)) for step in range(110)]
    expected += [float(alone[1](step)) for step in range(24)] + [0.0]
    assert [float(schedule(tf.constant(step))) for step in range(135)] == expected
    assert schedule.total_steps == 134
    again = PhaseCycles.from_config(schedule.get_config())
    assert again.get_config() == schedule.get_config()
