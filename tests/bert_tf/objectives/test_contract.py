"""What every objective of pre-training keeps to: one test body, for which each brings a case."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.config import BertConfig
from bert_tf.objectives.base import PretrainingObjective
from bert_tf.objectives.bidirectional_lm import BidirectionalLM
from bert_tf.objectives.denoising import Denoising
from bert_tf.objectives.distillation import Distillation
from bert_tf.objectives.dynamic_masking import DynamicMasking
from bert_tf.objectives.masked_lm import (
    LeftToRight,
    MaskedLM,
    MaskedLMNextSentence,
    MaskedLMSentenceOrder,
)
from bert_tf.objectives.registry import OBJECTIVES
from bert_tf.objectives.replaced_token import ReplacedToken
from tests.bert_tf.helpers import CONFIG, make_batch
from tests.bert_tf.models import elmo_models

ELECTRA = dataclasses.replace(CONFIG, model_type="electra", embedding_size=8, generator_size=0.5)
BART = BertConfig.named(
    "bart-debug", vocab_size=CONFIG.vocab_size, hidden_size=16, intermediate_size=32,
    num_attention_heads=2, max_position_embeddings=34,
)  # fmt: skip
MASKING = DynamicMasking((0,), 4, CONFIG.vocab_size, {10: 3})


@dataclasses.dataclass(frozen=True)
class ObjectiveCase:
    """An objective to test.

    Attributes:
      make: makes it.
      batch: examples for it.
      no_curves: curves that it has no metrics for.
      restorable: whether it is made anew from its description alone.
    """

    make: Callable[[], PretrainingObjective]
    batch: dict[str, tf.Tensor]
    no_curves: frozenset[str] = frozenset()
    restorable: bool = True


def _elmo() -> BidirectionalLM:
    model = BidirectionalLM(elmo_models.CONFIG)
    elmo_models.randomize(model)
    model.encoder.set_vocabulary(elmo_models.VOCABULARY)
    return model


_BATCH = make_batch(6)
_UNMASKED = {name: _BATCH[name] for name in _BATCH if name.startswith("input")}
_NOISED = _UNMASKED | {
    "target_word_ids": _UNMASKED["input_word_ids"][:, ::-1] + 0,
    "target_mask": tf.sequence_mask([4, 10, 7, 1, 10, 9], 10, tf.int32),
}
_NO_PAIRS = frozenset(["next_sentence_accuracy"])
CASES = {
    "mlm_nsp": ObjectiveCase(lambda: MaskedLMNextSentence(CONFIG), _BATCH),
    "mlm_sop": ObjectiveCase(lambda: MaskedLMSentenceOrder(CONFIG), _BATCH),
    "mlm": ObjectiveCase(lambda: MaskedLM(CONFIG, MASKING), _UNMASKED, _NO_PAIRS),
    "left_to_right": ObjectiveCase(lambda: LeftToRight(CONFIG), _UNMASKED),
    "bidirectional_lm": ObjectiveCase(
        _elmo, {name: tf.constant(value) for name, value in elmo_models.BATCH.items()}
    ),
    "denoising": ObjectiveCase(lambda: Denoising(BART), _NOISED),
    "replaced_token": ObjectiveCase(lambda: ReplacedToken(ELECTRA, MASKING), _UNMASKED),
    "distillation": ObjectiveCase(
        lambda: Distillation(CONFIG, MASKING, MaskedLM(CONFIG)), _UNMASKED, restorable=False
    ),
}


def test_every_objective_has_a_case():
    assert CASES.keys() == {*map(str, OBJECTIVES), "distillation"}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    """The case of an objective, and its model."""
    tf.keras.utils.set_random_seed(1)
    found = CASES[request.param]
    return found, found.make()


def _prepared(case: ObjectiveCase, model: PretrainingObjective) -> dict[str, tf.Tensor]:
    return model.prepare(case.batch, tf.constant(3))


def _metrics(model: PretrainingObjective, counts: dict[str, Any]) -> dict[str, float]:
    return model.metrics_of({name: float(value) for name, value in counts.items()})


def test_a_batch_is_prepared_by_the_seed_alone(case):
    case, model = case
    first, again = _prepared(case, model), _prepared(case, model)
    assert first.keys() >= case.batch.keys() and model.features <= first.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(value, again[name])


def test_parts_of_a_batch_add_up_to_the_whole(case):
    case, model = case
    batch = _prepared(case, model)
    rows, totals = len(batch["input_word_ids"]), model.totals(batch)
    whole, counts = model.batch_loss(batch, totals, training=False)
    cuts = ((0, 1), (1, rows))
    parts = [{k: v[a:b] for k, v in batch.items()} for a, b in cuts]
    found = [model.batch_loss(part, totals, training=False) for part in parts]
    assert sum(float(loss) for loss, _ in found) == pytest.approx(float(whole), rel=1e-5)
    for name, value in counts.items():
        total = sum(float(each[name]) for _, each in found)
        assert total == pytest.approx(float(value), rel=1e-5, abs=1e-5), name


def test_metrics_are_means_and_have_all_curves(case):
    case, model = case
    batch = _prepared(case, model)
    loss, counts = model.batch_loss(batch, model.totals(batch), training=False)
    found = _metrics(model, counts)
    assert found["loss"] == pytest.approx(float(loss), rel=1e-5)
    assert set(model.curves) - found.keys() == case.no_curves
    first = model.parts if model.averages_parts else model.parts[:1]
    mean = np.mean([found[f"{part}_loss"] for part in first])
    assert found["perplexity"] == pytest.approx(math.exp(mean), rel=1e-4)
    for part in model.parts:
        assert 0 <= found[f"{part}_accuracy"] <= 1 or part == "cosine"


def test_metrics_of_nothing_are_nan(case):
    _, model = case
    found = model.metrics_of({})
    assert found.keys() >= {"loss", "perplexity", *(f"{part}_loss" for part in model.parts)}
    assert all(map(math.isnan, found.values()))


def test_every_trainable_weight_has_a_gradient_that_follows_from_the_seed(case):
    case, model = case
    batch = _prepared(case, model)
    values = {v.path: v.value for v in model.trainable_variables}

    def gradients() -> tuple[float, dict[str, np.ndarray]]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(values)
            loss, _ = model.batch_loss(batch, model.totals(batch), True, tf.constant(7))
        found = tape.gradient(loss, values)
        assert not [path for path, gradient in found.items() if gradient is None]
        return float(loss), {k: tf.convert_to_tensor(g).numpy() for k, g in found.items()}

    (loss, first), (same, second) = gradients(), gradients()
    assert loss == same
    for path, gradient in first.items():
        np.testing.assert_array_equal(gradient, second[path], err_msg=path)


def test_outputs_have_the_shapes_that_are_stated(case):
    case, model = case
    batch = _prepared(case, model)
    expected = model.compute_output_shape({k: tuple(v.shape) for k, v in batch.items()})
    found = {name: tuple(value.shape) for name, value in model(batch).items()}
    assert found == {name: tuple(shape) for name, shape in expected.items()}
    assert model.flops(8, 3) > model.encoder.flops(8, 3) > 0


def test_a_model_is_saved_and_loaded_by_keras(case, tmp_path):
    case, model = case
    if not case.restorable:
        pytest.skip("it needs its teacher")
    model.save(f"{tmp_path}/model.keras")
    loaded = keras.saving.load_model(f"{tmp_path}/model.keras")
    batch = _prepared(case, model)
    assert loaded.get_config() == model.get_config()
    assert [v.path for v in loaded.variables] == [v.path for v in model.variables]
    outputs = map(keras.tree.flatten, (model(batch), loaded(batch)))
    for expected, found in zip(*outputs, strict=True):
        np.testing.assert_array_equal(found, expected)
    for name, value in _prepared(case, loaded).items():
        np.testing.assert_array_equal(value, batch[name])


def test_its_products_can_be_of_int8(case):
    case, _ = case
    model = case.make()
    model.quantize("int8")
    assert "int8" in {variable.dtype for variable in model.variables}
    for value in keras.tree.flatten(model(_prepared(case, model))):
        assert np.isfinite(value).all()
