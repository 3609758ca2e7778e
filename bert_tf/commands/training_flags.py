"""Flags of the commands that train: what all settings of training have."""

from typing import Any

from absl import flags

from bert_tf.training.distribution import Compilation, StrategyName
from bert_tf.training.optimizers import OptimizerName

_OPTIMIZER = flags.DEFINE_enum_class(
    "optimizer", OptimizerName.ADAMW, OptimizerName, "lamb is for batches of thousands."
)
_WEIGHT_DECAY = flags.DEFINE_float("weight_decay", 0.01, "Decoupled weight decay.")
_CLIP_NORM = flags.DEFINE_float("clip_norm", 1.0, "Largest global norm of the gradients; 0: any.")
_DROPOUT = flags.DEFINE_float("dropout", None, "In place of the model's two dropout rates.")
_ACCUMULATION = flags.DEFINE_integer("accumulation", 1, "Parts of a batch, gradients summed.")
_PRECISION = flags.DEFINE_enum(
    "precision", "auto", ["auto", "float32", "mixed_bfloat16"], "auto: by what is faster here."
)
_STRATEGY = flags.DEFINE_enum_class(
    "strategy", StrategyName.AUTO, StrategyName, "auto: by what devices there are."
)
_XLA = flags.DEFINE_enum_class("xla", Compilation.AUTO, Compilation, "What XLA compiles.")
_STEPS_PER_EXECUTION = flags.DEFINE_integer(
    "steps_per_execution", 1, "Steps in one call of the compiled function, for TPUs; same result."
)


def values() -> dict[str, Any]:
    """The flags by the names of the fields of `TrainingSettings`."""
    return {
        "optimizer": _OPTIMIZER.value,
        "weight_decay": _WEIGHT_DECAY.value,
        "clip_norm": _CLIP_NORM.value,
        "dropout": _DROPOUT.value,
        "accumulation": _ACCUMULATION.value,
        "precision": _PRECISION.value,
        "strategy": _STRATEGY.value,
        "compilation": _XLA.value,
        "steps_per_execution": _STEPS_PER_EXECUTION.value,
    }
