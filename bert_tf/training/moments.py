"""What optimizers share that keep means of gradients and of their squares."""

import re

import keras
import tensorflow as tf

# Neither biases nor LayerNorm weights decay (google-research/bert, optimization.py).
_NO_DECAY = re.compile(r"bias|gamma|beta")


class MomentOptimizer(keras.optimizers.Optimizer):
    """The first two moments of the gradients of each variable, clipping and weight decay.

    Subclasses say how a variable is updated.

    Args:
      learning_rate: a number or a schedule.
      decay: weight decay (0.01 in the paper).
      beta_1: decay rate of the mean of gradients.
      beta_2: decay rate of the mean of squared gradients.
      epsilon: added to the root of the latter.
      bias_correction: False as in the reference; True is steadier in fine-tuning.
      clip_norm: the most that the global norm of the gradients may be; None: any.
      rate_factors: of the learning rate, by the path of a variable; 1 for others.
    """

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule = 1e-4,
        decay: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        bias_correction: bool = False,
        clip_norm: float | None = 1.0,
        rate_factors: dict[str, float] | None = None,
        **kwargs,
    ):
        super().__init__(learning_rate=learning_rate, global_clipnorm=clip_norm, **kwargs)
        self.decay = decay
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.bias_correction = bias_correction
        self.rate_factors = dict(rate_factors or {})

    def build(self, variables: list[keras.Variable]) -> None:
        """Creates the two means of each variable."""
        if self.built:
            return
        super().build(variables)
        self._means = [self.add_variable_from_reference(v, "mean") for v in variables]
        self._squares = [self.add_variable_from_reference(v, "square") for v in variables]

    def reset(self) -> None:
        """Forgets all means and steps, as if newly built."""
        for variable in (self.iterations, *self._means, *self._squares):
            variable.assign(tf.zeros(variable.shape, variable.dtype))

    def apply(
        self, grads: list[tf.Tensor], trainable_variables: list[keras.Variable] | None = None
    ) -> None:
        """Updates the variables.

        In a replica of a strategy, gradients are summed over the replicas first
        and clipped then; each replica makes the same update to its own copy.

        Args:
          grads: one for each variable.
          trainable_variables: those that have gradients, all of them among those
            that the optimizer was built with; None: all of these.
        """
        if not self.built:
            self.build(trainable_variables or [])
        variables = trainable_variables or self._trainable_variables
        grads = [tf.convert_to_tensor(gradient) for gradient in grads]
        context = tf.distribute.get_replica_context()
        if context is not None and context.num_replicas_in_sync > 1:
            grads = context.all_reduce(tf.distribute.ReduceOp.SUM, grads)
        if self.global_clipnorm:
            grads, _ = tf.clip_by_global_norm(grads, self.global_clipnorm)
        rate = tf.cast(self.learning_rate, tf.float32)
        powers = self._beta_powers()
        for variable, gradient in zip(variables, grads, strict=True):
            factor = self.rate_factors.get(variable.path, 1.0)
            index = self._get_variable_index(variable)
            mean, square = self._means[index].value, self._squares[index].value
            self._update(variable, mean, square, gradient, rate * factor, powers)
        step = self.iterations.value
        tf.raw_ops.AssignAddVariableOp(resource=step.handle, value=tf.ones([], step.dtype))

    def _update(
        self,
        variable: keras.Variable,
        mean: tf.Variable,
        square: tf.Variable,
        gradient: tf.Tensor,
        rate: tf.Tensor,
        powers: tuple[tf.Tensor | float, tf.Tensor | float],
    ) -> None:
        """Updates a variable and its moments.

        Handles are those of this replica's copies; a mirrored variable's own
        methods would leave the replica, which a compiled step cannot.

        Args:
          variable: the weights.
          mean: of its gradients, up to the step before.
          square: the mean of their squares.
          gradient: float32, of the shape of the variable.
          rate: float32 scalar, of the variable.
          powers: of the two betas, which correct the bias of the means; 0 corrects nothing.
        """
        raise NotImplementedError

    def _beta_powers(self) -> tuple[tf.Tensor | float, tf.Tensor | float]:
        if not self.bias_correction:
            return 0.0, 0.0
        step = tf.cast(self.iterations.value + 1, tf.float32)
        return tf.pow(self.beta_1, step), tf.pow(self.beta_2, step)

    def decays(self, variable: keras.Variable) -> bool:
        """Whether weight decay applies to a variable."""
        return self.decay > 0 and not is_norm_or_bias(variable)

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        config = super().get_config()
        for name in ("weight_decay", "clipnorm", "global_clipnorm", "clipvalue"):
            config.pop(name, None)
        return config | {
            "decay": self.decay,
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "bias_correction": self.bias_correction,
            "clip_norm": self.global_clipnorm,
            "rate_factors": self.rate_factors,
        }


def is_norm_or_bias(variable: keras.Variable) -> bool:
    """Whether a variable is a bias, or a weight of a LayerNorm."""
    return bool(_NO_DECAY.search(variable.path.rsplit("/", 1)[-1]))
