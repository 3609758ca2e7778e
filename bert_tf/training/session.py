"""What a run of any kind trains with: a model on its devices, its optimizer, its checkpoints."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from bert_tf.objectives.base import Trainable
from bert_tf.training import distribution, loop, optimizers
from bert_tf.training.checkpoints import Checkpoints
from bert_tf.training.lost_workers import Watch
from bert_tf.training.schedules import Schedule
from bert_tf.training.settings import TrainingSettings
from bert_tf.training.step import TrainingStep


class Session:
    """A model and its optimizer, made under a strategy.

    Args:
      strategy: the replicas.
      settings: of training.
      schedule: of the learning rate.
      make_model: makes the model.
      rate_factors: of the learning rate, by the path of a variable, for a model.
      watch: is told of each step; None: there is none.
      **options: other arguments of the optimizer, beside those of the settings.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        settings: TrainingSettings,
        schedule: Schedule,
        make_model: Callable[[], keras.Model],
        rate_factors: Callable[[keras.Model], dict[str, float]] = lambda model: {},
        watch: Watch | None = None,
        **options: Any,
    ):
        self.strategy = strategy
        self.settings = settings
        self.schedule = schedule
        self.watch = watch or Watch(None, lambda seconds: None)
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
        """The last step; MOST_STEPS as long as it is not known."""
        return self.schedule.total_steps

    def state(self) -> dict[str, tf.Variable]:
        """All that the run carries from step to step, by name."""
        return loop.state_variables(self.model, self.optimizer)

    def checkpoints(
        self, folder: str, keep: int = 3, kept: frozenset[int] = frozenset()
    ) -> Checkpoints:
        """Checkpoints of the state in a folder; arguments as those of `Checkpoints`."""
        return Checkpoints(folder, self.state(), keep, self.is_chief, kept)

    def make_step(self, trainable: Trainable, batch_spec: Any = None) -> TrainingStep:
        """The step that trains the model, or a part of it; arguments as `TrainingStep` has them."""
        return TrainingStep(
            trainable,
            self.optimizer,
            self.strategy,
            self.settings.accumulation,
            self.compilation,
            batch_spec,
            self.settings.rematerialize,
        )

    def loop_settings(self, **settings: Any) -> loop.LoopSettings:
        """Settings of the loop: those given, and those that follow from the run's."""
        return loop.LoopSettings(
            total_steps=lambda: self.total_steps,
            steps_per_execution=self.settings.steps_per_execution,
            **settings,
        )
