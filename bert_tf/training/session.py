"""A training session: a model on its devices, and its optimizer."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from bert_tf.objectives.base import Trainable
from bert_tf.training import distribution, loop, optimizers
from bert_tf.training.checkpoints import Checkpoints
from bert_tf.training.lost_workers import Watchdog
from bert_tf.training.schedules import Schedule
from bert_tf.training.settings import TrainingSettings
from bert_tf.training.step import TrainingStep


class Session:
    """A model and its optimizer, made under a strategy.

    Args:
      strategy: the replicas.
      settings: settings of training.
      schedule: the learning-rate schedule.
      make_model: makes the model.
      rate_factors: for a model, factors of the learning rate by the path of a variable.
      watchdog: monitors whether steps end; None: nothing is monitored.
      **options: other arguments of the optimizer.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        settings: TrainingSettings,
        schedule: Schedule,
        make_model: Callable[[], keras.Model],
        rate_factors: Callable[[keras.Model], dict[str, float]] = lambda model: {},
        watchdog: Watchdog | None = None,
        **options: Any,
    ):
        self.strategy = strategy
        self.settings = settings
        self.schedule = schedule
        self.watchdog = watchdog or Watchdog(None, lambda seconds: None)
        self.is_chief = distribution.is_chief(strategy)
        self.compilation = distribution.resolve_compilation(settings.compilation, strategy)
        with strategy.scope():
            self.model = make_model()
            self.optimizer = optimizers.make_optimizer(
                settings.optimizer,
                schedule,
                decay=settings.weight_decay,
                clip_norm=settings.clip_norm or None,
                rate_factors=rate_factors(self.model),
                **options,
            )
            self.optimizer.build(self.model.trainable_variables)

    @property
    def total_steps(self) -> int:
        """The last step; MAX_STEPS until it is known."""
        return self.schedule.total_steps

    def state(self) -> dict[str, tf.Variable]:
        """All variables that the run carries from step to step, by name."""
        return loop.state_variables(self.model, self.optimizer)

    def checkpoints(
        self, folder: str, keep: int = 3, kept: frozenset[int] = frozenset()
    ) -> Checkpoints:
        """Checkpoints of the state in a folder; arguments as of `Checkpoints`."""
        return Checkpoints(folder, self.state(), keep, self.is_chief, kept)

    def make_step(self, trainable: Trainable, batch_spec: Any = None) -> TrainingStep:
        """The step that trains the model or a part of it; arguments as of `TrainingStep`."""
        return TrainingStep(
            trainable,
            self.optimizer,
            self.strategy,
            self.settings.accumulation,
            self.compilation,
            batch_spec,
            self.settings.rematerialize,
        )
