"""Learning-rate schedules."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from bert_tf.training.settings import MAX_STEPS


@keras.saving.register_keras_serializable("bert_tf")
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly from 0 during the warm-up, then falls linearly to 0 at the last step.

    Args:
      peak: the learning rate at the end of the warm-up.
      warmup_steps: length of the warm-up.
      total_steps: the step at which the rate is 0.
    """

    def __init__(self, peak: float, warmup_steps: int, total_steps: int):
        super().__init__()
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.total_steps = total_steps

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """The learning rate of the update after `step` updates, float32."""
        step = tf.cast(step, tf.float32)
        rising = (step + 1.0) / max(self.warmup_steps, 1)
        falling = (self.total_steps - step) / max(self.total_steps - self.warmup_steps, 1)
        return self.peak * tf.clip_by_value(tf.minimum(rising, falling), 0.0, 1.0)

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        return {name: getattr(self, name) for name in ("peak", "warmup_steps", "total_steps")}


@keras.saving.register_keras_serializable("bert_tf")
class WarmupHoldDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly from 0 during the warm-up, stays, and falls linearly to 0 at the end.

    The end may be set during training (Hägele et al. 2024, arXiv 2405.18392, where this is as good
    as a decay that begins at once).

    The numbers are those of a variable even if the end is known, so that both cases give the same
    bits: TensorFlow replaces a division by a constant by a product, as in `WarmupLinearDecay`.

    Args:
      peak: the learning rate between warm-up and decay.
      warmup_steps: length of the warm-up.
      total_steps: the step at which the rate is 0; None: not known yet.
      decay_steps: length of the decay.
    """

    def __init__(
        self, peak: float, warmup_steps: int, total_steps: int | None = None, decay_steps: int = 1
    ):
        super().__init__()
        self.peak = peak
        self.warmup_steps = warmup_steps
        self._end = tf.Variable([0.0, 0.0], trainable=False, name="end_of_schedule")
        self.end_at(total_steps or MAX_STEPS, decay_steps)

    def end_at(self, total_steps: int, decay_steps: int) -> None:
        """Sets the step at which the rate is 0, and the length of the decay before it."""
        self.total_steps, self.decay_steps = total_steps, decay_steps
        self._end.assign([total_steps, max(decay_steps, 1)])

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """The learning rate of the update after `step` updates, float32."""
        step = tf.cast(step, tf.float32)
        total, decay = tf.unstack(tf.convert_to_tensor(self._end))
        rising = (step + 1.0) / max(self.warmup_steps, 1)
        return self.peak * tf.clip_by_value(tf.minimum(rising, (total - step) / decay), 0.0, 1.0)

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        names = ("peak", "warmup_steps", "total_steps", "decay_steps")
        return {name: getattr(self, name) for name in names}


@keras.saving.register_keras_serializable("bert_tf")
class PhaseCycles(keras.optimizers.schedules.LearningRateSchedule):
    """A warm-up and a linear decay in each phase (You et al. 2019, arXiv 1904.00962, section 4.1).

    Args:
      peaks: the learning rate of each phase at the end of its warm-up.
      warmup_steps: length of each warm-up.
      steps: length of each phase.
    """

    def __init__(self, peaks: Sequence[float], warmup_steps: Sequence[int], steps: Sequence[int]):
        super().__init__()
        self._cycles = list(map(WarmupLinearDecay, peaks, warmup_steps, steps))
        self.total_steps = sum(steps)

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """The learning rate of the update after `step` updates, float32."""
        step = tf.cast(step, tf.float32)
        rate, begin = tf.zeros_like(step), 0
        for cycle in self._cycles:
            end = begin + cycle.total_steps
            rate = tf.where((step >= begin) & (step < end), cycle(step - begin), rate)
            begin = end
        return rate

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        return {
            "peaks": [cycle.peak for cycle in self._cycles],
            "warmup_steps": [cycle.warmup_steps for cycle in self._cycles],
            "steps": [cycle.total_steps for cycle in self._cycles],
        }


Schedule = WarmupLinearDecay | WarmupHoldDecay | PhaseCycles
