"""The optimizers by name: a further one is a file, and a line here."""

import enum
from typing import Any

from bert_tf.training.adamw import AdamW
from bert_tf.training.lamb import LAMB
from bert_tf.training.moments import MomentOptimizer
from bert_tf.training.schedules import WarmupLinearDecay


class OptimizerName(enum.StrEnum):
    """What turns gradients into updates."""

    ADAMW = "adamw"  # the paper's
    LAMB = "lamb"  # for batches of thousands


_CLASSES: dict[OptimizerName, type[MomentOptimizer]] = {
    OptimizerName.ADAMW: AdamW,
    OptimizerName.LAMB: LAMB,
}


def make_optimizer(
    name: OptimizerName, schedule: WarmupLinearDecay, **options: Any
) -> MomentOptimizer:
    """Makes the optimizer of a name.

    Args:
      name: of the optimizer.
      schedule: of the learning rate.
      **options: other arguments of `MomentOptimizer`.
    """
    return _CLASSES[name](schedule, **options)
