"""Flags of the commands that train: on which devices, and in what precision."""

from absl import flags

from bert_tf.training.distribution import Compilation, StrategyName

_ACCUMULATION = flags.DEFINE_integer("accumulation", 1, "Parts of a batch, gradients summed.")
_PRECISION = flags.DEFINE_enum(
    "precision", "auto", ["auto", "float32", "mixed_bfloat16"], "auto: by what is faster here."
)
_STRATEGY = flags.DEFINE_enum_class(
    "strategy", StrategyName.AUTO, StrategyName, "auto: by what devices there are."
)
_XLA = flags.DEFINE_enum_class("xla", Compilation.AUTO, Compilation, "What XLA compiles.")


def values() -> dict:
    """The flags by the names of the fields that all settings of training have."""
    return {
        "accumulation": _ACCUMULATION.value,
        "precision": _PRECISION.value,
        "strategy": _STRATEGY.value,
        "compilation": _XLA.value,
    }
