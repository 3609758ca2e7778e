"""LAMB, the optimizer of large batches."""

import keras
import tensorflow as tf

from bert_tf.training.moments import MomentOptimizer, is_norm_or_bias


@keras.saving.register_keras_serializable("bert_tf")
class LAMB(MomentOptimizer):
    """Layer-wise adaptive moments (You et al. 2019, arXiv 1904.00962).

    The update of AdamW, decay included, is scaled for each variable by a trust
    ratio, the norm of the variable over that of the update; 1 where either is
    0. As published for ALBERT, biases and LayerNorm weights neither decay nor
    have a ratio, and the bias of the means is not corrected. Arguments are
    those of `MomentOptimizer`.
    """

    def __init__(self, *args, name: str = "lamb", **kwargs):
        super().__init__(*args, name=name, **kwargs)

    def _update(
        self,
        variable: keras.Variable,
        mean: tf.Variable,
        square: tf.Variable,
        gradient: tf.Tensor,
        rate: tf.Tensor,
        powers: tuple[tf.Tensor | float, tf.Tensor | float],
    ) -> None:
        weights = tf.convert_to_tensor(variable.value)
        first = _moved(mean, gradient, self.beta_1) / (1.0 - powers[0])
        second = _moved(square, tf.square(gradient), self.beta_2) / (1.0 - powers[1])
        update = first / (tf.sqrt(second) + self.epsilon)
        if self.decays(variable):
            update += self.decay * weights
        if not is_norm_or_bias(variable):
            rate *= _trust_ratio(weights, update)
        tf.raw_ops.AssignSubVariableOp(resource=variable.value.handle, value=rate * update)


def _moved(moment: tf.Variable, value: tf.Tensor, beta: float) -> tf.Tensor:
    """Moves a mean towards a value, and returns it."""
    moved = beta * tf.convert_to_tensor(moment) + (1.0 - beta) * value
    tf.raw_ops.AssignVariableOp(resource=moment.handle, value=moved)
    return moved


def _trust_ratio(weights: tf.Tensor, update: tf.Tensor) -> tf.Tensor:
    norms = tf.norm(weights), tf.norm(update)
    both = tf.logical_and(norms[0] > 0.0, norms[1] > 0.0)
    return tf.where(both, tf.math.divide_no_nan(*norms), 1.0)
