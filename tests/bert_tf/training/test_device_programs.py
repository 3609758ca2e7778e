"""The step as a TPU gets it: one program of XLA's, of fixed shapes, which asks nothing of the host.

There is no TPU here. What can be known without one is looked at in the program itself: the whole
step of a replica, compiled for the CPU, as `TPUStrategy.run` compiles it.
"""

import dataclasses
import re

import keras
import pytest
import tensorflow as tf
from tensorflow.python.eager import context as tf_context

from bert_tf.objectives.masked_lm import MaskedLMNextSentence
from bert_tf.training.distribution import resolve_compilation
from bert_tf.training.hardware import resolve_precision
from bert_tf.training.optimizers import OptimizerName, make_optimizer
from bert_tf.training.settings import Compilation
from bert_tf.training.step import TrainingStep
from tests.bert_tf.helpers import CONFIG, make_batch
from tests.bert_tf.objectives.test_contract import CASES

# What a program has that waits for its host, or for another program.
_HOST = re.compile(r"\b(infeed|outfeed|send|recv|send-done|recv-done)\(")
_CALLS = re.compile(r'custom_call_target="([^"]*)"')
# A shape with a size of which only the most is known before the program runs.
_DYNAMIC = re.compile(r"\w+\[[^\]]*<=[^\]]*\]")
# Operations of graphs that a host does: Python, files, texts, and shapes that follow from values.
_OF_HOST = re.compile(r"PyFunc|Iterator|Read|String|Print|Unique|^Where$|Tensor(Array|List).*Host")


def program(model, batch, optimizer=OptimizerName.ADAMW, **step):
    """The step of a replica as a program: its graph and its HLO."""
    optimizer = make_optimizer(optimizer, 1e-3)
    optimizer.build(model.trainable_variables)
    made = TrainingStep(
        model, optimizer, tf.distribute.get_strategy(), compilation=Compilation.STEP, **step
    )

    @tf.function(jit_compile=True, autograph=False)
    def whole(batch, number, seed):
        return made._on_replica(batch, number, seed)

    arguments = (batch, tf.constant(3), tf.constant(5))
    hlo = whole.experimental_get_compiler_ir(*arguments)(stage="hlo")
    return whole.get_concrete_function(*arguments).graph.as_graph_def(), hlo


def check(graph, hlo):
    """Checks that a program is of the device alone."""
    assert hlo.count("\nENTRY ") == 1
    assert "f32[" in hlo and "dot(" in hlo
    assert not _DYNAMIC.findall(hlo)
    assert not _HOST.findall(hlo)
    assert not _CALLS.findall(hlo)
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    assert len(nodes) > 100
    found = {node.op for node in nodes} - {"ReadVariableOp"}
    assert not [op for op in found if _OF_HOST.search(op)]


IN_SHORT = ("mlm_nsp", "bidirectional_lm", "denoising", "replaced_token")


@pytest.mark.more
@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=[pytest.mark.slow] * (x not in IN_SHORT)) for x in CASES]
)
@pytest.mark.parametrize(
    "precision", [pytest.param("float32", marks=pytest.mark.slow), "mixed_bfloat16"]
)
def test_the_step_of_each_objective_is_one_program(name, precision):
    usual = keras.config.dtype_policy()
    keras.config.set_dtype_policy(precision)
    try:
        graph, hlo = program(CASES[name].make(), CASES[name].batch)
    finally:
        keras.config.set_dtype_policy(usual)
    check(graph, hlo)
    assert ("bf16[" in hlo) == (precision == "mixed_bfloat16")


@pytest.mark.parametrize(
    ("optimizer", "rematerialize"),
    [
        (OptimizerName.ADAMW, False),
        pytest.param(OptimizerName.MUON, True, marks=pytest.mark.more),
        pytest.param(OptimizerName.LAMB, False, marks=pytest.mark.more),
        pytest.param(OptimizerName.ADAMW, True, marks=pytest.mark.slow),
        pytest.param(OptimizerName.LAMB, True, marks=pytest.mark.slow),
        pytest.param(OptimizerName.MUON, False, marks=pytest.mark.slow),
    ],
)
def test_with_accumulation_and_all_that_is_asked_of_it(optimizer, rematerialize):
    model = MaskedLMNextSentence(CONFIG, dtype="mixed_bfloat16")
    step = {"accumulation": 2, "rematerialize": rematerialize}
    graph, hlo = program(model, make_batch(), optimizer, **step)
    check(graph, hlo)
    assert ("opt-barrier(" in hlo) == rematerialize
    assert "bf16[" in hlo


@pytest.mark.more
def test_what_belongs_to_the_host_would_be_found():
    """The checks themselves: a program with a shape that follows from values does not pass."""

    @dataclasses.dataclass
    class Fewer:
        """A model that takes the tokens out of the batch."""

        model: MaskedLMNextSentence

        def __getattr__(self, name):
            return getattr(self.model, name)

        def prepare(self, batch, seed):
            there = tf.where(batch["input_mask"][:, 0] > 0)[:, 0]
            return {name: tf.gather(value, there) for name, value in batch.items()}

    graph, hlo = program(Fewer(MaskedLMNextSentence(CONFIG)), make_batch())
    assert _DYNAMIC.findall(hlo)
    with pytest.raises(AssertionError):
        check(graph, hlo)


class _Devices:
    """What is asked of a strategy on devices of a kind."""

    def __init__(self, kind):
        self.extended = self
        self.worker_devices = (f"/job:localhost/replica:0/task:0/device:{kind}:0",)


@pytest.mark.parametrize("kind", ["GPU", "TPU"])
def test_devices_get_xla_and_bfloat16_by_default(kind, monkeypatch):
    assert resolve_compilation(Compilation.AUTO, _Devices(kind)) is Compilation.STEP
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda asked=None: [kind] if asked == kind else []
    )
    details = {"compute_capability": (8, 0)}
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda device: details)
    assert resolve_precision("auto") == "mixed_bfloat16"
    details["compute_capability"] = (7, 5)  # which has no products of bfloat16
    assert resolve_precision("auto") == ("float32" if kind == "GPU" else "mixed_bfloat16")


def test_a_gpu_whose_capability_has_a_letter_has_bfloat16(monkeypatch):
    """TensorFlow 2.21 calls an H100 9.0a, and cannot read that."""
    device = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
    context = tf_context.context()
    monkeypatch.setattr(context, "_physical_device_to_index", {device: 0})
    monkeypatch.setattr(
        tf_context.pywrap_tfe, "TF_GetDeviceDetails", lambda index: {"compute_capability": "9.0a"}
    )
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda kind=None: [device] if kind == "GPU" else []
    )
    assert resolve_precision("auto") == "mixed_bfloat16"
