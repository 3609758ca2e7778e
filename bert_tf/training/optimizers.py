"""The optimizers by name: a further one is a file, and a line here."""

from typing import Any

from bert_tf.training.adamw import AdamW
from bert_tf.training.lamb import LAMB
from bert_tf.training.moments import MomentOptimizer
from bert_tf.training.muon import Muon
from bert_tf.training.schedules import Schedule
from bert_tf.training.settings import OptimizerName

_CLASSES: dict[OptimizerName, type[MomentOptimizer]] = {
    OptimizerName.ADAMW: AdamW,
    OptimizerName.LAMB: LAMB,
    OptimizerName.MUON: Muon,
}


def make_optimizer(name: OptimizerName, schedule: Schedule, **options: Any) -> MomentOptimizer:
    """Makes the optimizer of a name.

    Args:
      name: of the optimizer.
      schedule: of the learning rate.
      **options: other arguments of `MomentOptimizer`.
    """
    return _CLASSES[name](schedule, **options)
