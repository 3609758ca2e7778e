"""Optimizers. To add one, write a class, add it to `_CLASSES` and name it in `OptimizerName`."""

import re
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from bert_tf.training.schedules import Schedule
from bert_tf.training.settings import OptimizerName
from pipelines.common.errors import InputError

# Neither biases nor LayerNorm weights decay (google-research/bert, optimization.py).
_NO_DECAY = re.compile(r"bias|gamma|beta")
# Of Muon. Five steps of x -> a x + b (x x^T) x + c (x x^T)^2 x bring all singular values near 1;
# the numbers are those of Jordan et al. 2024 (https://kellerjordan.github.io/posts/muon).
_MOMENTUM = 0.95
_STEPS = 5
_A, _B, _C = 3.4445, -4.7750, 2.0315
# What Keras offers its optimizers and these do not follow, with the values that a config has.
_NOT_FOLLOWED = {
    "use_ema": False,
    "ema_momentum": 0.99,
    "ema_overwrite_frequency": None,
    "loss_scale_factor": None,
    "gradient_accumulation_steps": None,
}
# The root mean square of an update. That of Adam's is about 0.2 (Liu et al. 2025, equation 4); here
# hidden matrices take twice as much (docs/guides/recipes.md has the measurement).
_SIZE = 0.4
_HIDDEN = re.compile(r"/((decoder_)?block_\d+|highway_\d+|pooler|transform)/(.*/)?kernel$")
# Kernels that are several matrices side by side: queries, keys and values, or the gates of an LSTM.
_SIDE_BY_SIDE = {"qkv": 3, "forward": 4, "backward": 4}


class VariableUpdate(NamedTuple):
    """The inputs of one variable's update.

    Handles of variables are those of this replica's copies; a mirrored variable's own methods
    would leave the replica, which a compiled step cannot.
    """

    variable: keras.Variable
    mean: tf.Variable  # of its gradients
    square: tf.Variable  # the mean of their squares
    gradient: tf.Tensor  # float32, of the shape of the variable
    rate: tf.Tensor  # float32 scalar: the learning rate of the variable
    beta_powers: tuple[tf.Tensor | float, tf.Tensor | float]  # for bias correction; 0: none


class MomentOptimizer(keras.optimizers.Optimizer):
    """Base of optimizers that keep the first two moments of each variable's gradients.

    Args:
      learning_rate: a number or a schedule.
      decay: weight decay (0.01 in the paper).
      beta_1: decay rate of the mean of gradients.
      beta_2: decay rate of the mean of squared gradients.
      epsilon: added to the root of the latter.
      bias_correction: False as in the reference; True is more stable in fine-tuning.
      clip_norm: maximum global norm of the gradients; None: no limit.
      rate_factors: factors of the learning rate by the path of a variable; 1 for others.

    Raises:
      InputError: an argument of Keras is not followed.
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
        name: str | None = None,
        **kwargs,
    ):
        kept = _NOT_FOLLOWED.items()
        if wrong := sorted(key for key, value in kwargs.items() if (key, value) not in kept):
            raise InputError(
                f"{type(self).__name__}: {', '.join(wrong)}: not an argument of this optimizer. "
                "Weight decay is decay, and clip_norm limits gradients; for averages, accumulated "
                "gradients or another scale of the loss, use an optimizer of Keras."
            )
        name = name or type(self).__name__.lower()
        super().__init__(learning_rate, global_clipnorm=clip_norm, name=name, **kwargs)
        self.decay = decay
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.bias_correction = bias_correction
        self.rate_factors = dict(rate_factors or {})

    def build(self, variables: list[keras.Variable]) -> None:
        """Creates the moments of each variable."""
        if self.built:
            return
        super().build(variables)
        self._means = [self.add_variable_from_reference(v, "mean") for v in variables]
        self._squares = [self.add_variable_from_reference(v, "square") for v in variables]

    def reset(self) -> None:
        """Sets all moments and the number of steps to 0."""
        for variable in (self.iterations, *self._means, *self._squares):
            variable.assign(tf.zeros(variable.shape, variable.dtype))

    def apply(
        self, grads: list[tf.Tensor], trainable_variables: list[keras.Variable] | None = None
    ) -> None:
        """Updates the variables.

        In a replica of a strategy, gradients are first summed over the replicas and then clipped;
        each replica makes the same update to its own copy.

        Args:
          grads: one for each variable; None for those that have no part in the loss, which stay.
          trainable_variables: the variables of the gradients, among those that the optimizer was
            built with; None: all of these.
        """
        if not self.built:
            self.build(trainable_variables or [])
        variables = trainable_variables or self._trainable_variables
        grads, variables = self._filter_empty_gradients(grads, variables)  # with a warning
        grads = [tf.convert_to_tensor(gradient) for gradient in grads]
        context = tf.distribute.get_replica_context()
        if context is not None and context.num_replicas_in_sync > 1:
            grads = context.all_reduce(tf.distribute.ReduceOp.SUM, grads)
        if self.global_clipnorm:
            grads, _ = tf.clip_by_global_norm(grads, self.global_clipnorm)
        rate = tf.cast(self.learning_rate, tf.float32)
        powers: tuple[tf.Tensor | float, tf.Tensor | float] = (0.0, 0.0)
        if self.bias_correction:
            done = tf.cast(self.iterations.value + 1, tf.float32)
            powers = tf.pow(self.beta_1, done), tf.pow(self.beta_2, done)
        for variable, gradient in zip(variables, grads, strict=True):
            factor = self.rate_factors.get(variable.path, 1.0)
            index = self._get_variable_index(variable)
            mean, square = self._means[index].value, self._squares[index].value
            self._update(VariableUpdate(variable, mean, square, gradient, rate * factor, powers))
        step = self.iterations.value
        tf.raw_ops.AssignAddVariableOp(resource=step.handle, value=tf.ones([], step.dtype))

    def _update(self, update: VariableUpdate) -> None:
        """Updates a variable and its moments."""
        raise NotImplementedError

    def decays(self, variable: keras.Variable) -> bool:
        """Whether weight decay applies to a variable."""
        return self.decay > 0 and not _is_norm_or_bias(variable)

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        config = super().get_config()
        for name in ("weight_decay", "clipnorm", "global_clipnorm", "clipvalue"):
            config.pop(name, None)
        own = ("decay", "beta_1", "beta_2", "epsilon", "bias_correction", "rate_factors")
        values = {name: getattr(self, name) for name in own}
        return config | values | {"clip_norm": self.global_clipnorm}


def _matrices(variable: keras.Variable, values: tf.Tensor) -> list[tf.Tensor]:
    """The matrices that a kernel is made of, or the values of another variable as they are."""
    *_, layer, name = f"/{variable.path}".split("/")
    count = _SIDE_BY_SIDE.get(layer.rpartition("_")[2], 1) if name == "kernel" else 1
    return tf.split(values, count, axis=1) if count > 1 else [values]


def _is_norm_or_bias(variable: keras.Variable) -> bool:
    return bool(_NO_DECAY.search(variable.path.rsplit("/", 1)[-1]))


@keras.saving.register_keras_serializable("bert_tf")
class AdamW(MomentOptimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101).

    The optimizer of BERT. The learning rate scales the decay, too; biases and LayerNorm weights
    do not decay. One fused operation updates a variable. Arguments as of `MomentOptimizer`.
    """

    def _update(self, update: VariableUpdate) -> None:
        value = update.variable.value
        if self.decays(update.variable):
            loss = update.rate * self.decay * tf.convert_to_tensor(value)
            tf.raw_ops.AssignSubVariableOp(resource=value.handle, value=loss)
        tf.raw_ops.ResourceApplyAdam(
            var=value.handle,
            m=update.mean.handle,
            v=update.square.handle,
            beta1_power=update.beta_powers[0],
            beta2_power=update.beta_powers[1],
            lr=update.rate,
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=update.gradient,
            use_locking=True,
        )


@keras.saving.register_keras_serializable("bert_tf")
class LAMB(MomentOptimizer):
    """Layer-wise adaptive moments for large batches (You et al. 2019, arXiv 1904.00962,
    algorithm 2).

    The update of AdamW, decay included, is scaled for each matrix by a trust ratio: the norm of
    the matrix over that of the update, or 1 where either is 0. As published for ALBERT, biases
    and LayerNorm weights have neither decay nor ratio, and the bias of the moments is not
    corrected. Arguments as of `MomentOptimizer`.
    """

    def _update(self, update: VariableUpdate) -> None:
        variable, gradient, rate = update.variable, update.gradient, update.rate
        weights = tf.convert_to_tensor(variable.value)
        first = _moved(update.mean, gradient, self.beta_1) / (1.0 - update.beta_powers[0])
        second = _moved(update.square, tf.square(gradient), self.beta_2)
        second /= 1.0 - update.beta_powers[1]
        change = first / (tf.sqrt(second) + self.epsilon)
        if self.decays(variable):
            change += self.decay * weights
        if not _is_norm_or_bias(variable):
            pairs = zip(_matrices(variable, weights), _matrices(variable, change), strict=True)
            parts = [_trust_ratio(*pair) * pair[1] for pair in pairs]
            change = tf.concat(parts, axis=1) if len(parts) > 1 else parts[0]
        tf.raw_ops.AssignSubVariableOp(resource=variable.value.handle, value=rate * change)


def _moved(moment: tf.Variable, value: tf.Tensor, beta: float) -> tf.Tensor:
    """Updates an exponential moving average in place, and returns it."""
    moved = beta * tf.convert_to_tensor(moment) + (1.0 - beta) * value
    tf.raw_ops.AssignVariableOp(resource=moment.handle, value=moved)
    return moved


def _trust_ratio(weights: tf.Tensor, change: tf.Tensor) -> tf.Tensor:
    norms = tf.norm(weights), tf.norm(change)
    both = tf.logical_and(norms[0] > 0.0, norms[1] > 0.0)
    return tf.where(both, tf.math.divide_no_nan(*norms), 1.0)


@keras.saving.register_keras_serializable("bert_tf")
class Muon(AdamW):
    """Orthogonalized momentum for hidden matrices; AdamW for all other variables.

    Hidden matrices are the kernels of blocks, highway layers, pooler, and the transform before the
    softmax, but not the projections of LSTMs. As in Jordan et al. 2024, with Nesterov momentum;
    weight decay and the scale of an update, which is the same for matrices of all shapes, are those
    of Liu et al. 2025 (arXiv 2502.16982). Arguments as of `MomentOptimizer`; betas and epsilon are
    AdamW's.
    """

    def _update(self, update: VariableUpdate) -> None:
        variable, mean = update.variable, update.mean
        if not _HIDDEN.search(variable.path):
            super()._update(update)
            return
        moved = _MOMENTUM * tf.convert_to_tensor(mean) + (1 - _MOMENTUM) * update.gradient
        tf.raw_ops.AssignVariableOp(resource=mean.handle, value=moved)
        ahead = _MOMENTUM * moved + (1 - _MOMENTUM) * update.gradient
        change = tf.concat([_orthogonal(each) for each in _matrices(variable, ahead)], axis=1)
        if self.decays(variable):
            change += self.decay * tf.convert_to_tensor(variable.value)
        tf.raw_ops.AssignSubVariableOp(resource=variable.value.handle, value=update.rate * change)


def _orthogonal(matrix: tf.Tensor) -> tf.Tensor:
    """The nearest orthogonal matrix, float32 [rows, columns], scaled to the size of updates."""
    rows, columns = matrix.shape
    x = tf.transpose(matrix) if rows > columns else matrix
    x /= tf.norm(x) + 1e-7
    for _ in range(_STEPS):
        square = tf.matmul(x, x, transpose_b=True)
        x = _A * x + tf.matmul(_B * square + _C * tf.matmul(square, square), x)
    return _SIZE * max(rows, columns) ** 0.5 * (tf.transpose(x) if rows > columns else x)


_CLASSES: dict[OptimizerName, type[MomentOptimizer]] = {
    OptimizerName.ADAMW: AdamW,
    OptimizerName.LAMB: LAMB,
    OptimizerName.MUON: Muon,
}


def make_optimizer(name: OptimizerName, schedule: Schedule, **options: Any) -> MomentOptimizer:
    """Makes an optimizer by name; options are arguments of `MomentOptimizer`."""
    return _CLASSES[name](schedule, **options)
