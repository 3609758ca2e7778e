"""The learning rate over the steps of a run."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("bert_tf")
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly from 0 over the warm-up, then falls linearly to 0 at the last step.

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
        return {
            "peak": self.peak,
            "warmup_steps": self.warmup_steps,
            "total_steps": self.total_steps,
        }
