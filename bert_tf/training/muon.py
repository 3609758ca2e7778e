"""Muon, which gives all directions of a hidden matrix an update of the same size."""

import keras
import tensorflow as tf

from bert_tf.training.adamw import AdamW

_MOMENTUM = 0.95
# Five steps of x -> a x + b (x x^T) x + c (x x^T)^2 x bring all singular values near 1; the numbers
# are those of Jordan et al. 2024 (https://kellerjordan.github.io/posts/muon).
_STEPS = 5
_A, _B, _C = 3.4445, -4.7750, 2.0315
# The root mean square of an update is this, which is that of Adam's (Liu et al. 2025, equation 4).
_SIZE = 0.2


@keras.saving.register_keras_serializable("bert_tf")
class Muon(AdamW):
    """Momentum, orthogonalized, for the kernels of the blocks of an encoder; AdamW for the rest.

    Jordan et al. 2024, with Nesterov momentum; weight decay and the size of an update as in Liu et
    al. 2025 (arXiv 2502.16982), so that rates of AdamW can be a start. Arguments are those of
    `MomentOptimizer`; betas and epsilon are AdamW's.
    """

    def __init__(self, *args, name: str = "muon", **kwargs):
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
        if not _is_hidden(variable):
            super()._update(variable, mean, square, gradient, rate, powers)
            return
        moved = _MOMENTUM * tf.convert_to_tensor(mean) + (1 - _MOMENTUM) * gradient
        tf.raw_ops.AssignVariableOp(resource=mean.handle, value=moved)
        ahead = _MOMENTUM * moved + (1 - _MOMENTUM) * gradient
        # Queries, keys and values are three matrices side by side.
        matrices = tf.split(ahead, 3, axis=1) if "/qkv/" in variable.path else [ahead]
        update = tf.concat([_orthogonal(matrix) for matrix in matrices], axis=1)
        if self.decays(variable):
            update += self.decay * tf.convert_to_tensor(variable.value)
        tf.raw_ops.AssignSubVariableOp(resource=variable.value.handle, value=rate * update)


def _is_hidden(variable: keras.Variable) -> bool:
    """Whether a variable is a kernel of a block of an encoder."""
    return "/block_" in variable.path and variable.path.endswith("/kernel")


def _orthogonal(matrix: tf.Tensor) -> tf.Tensor:
    """The orthogonal matrix next to one, float32 [rows, columns], scaled to the size of updates."""
    rows, columns = matrix.shape
    x = tf.transpose(matrix) if rows > columns else matrix
    x /= tf.norm(x) + 1e-7
    for _ in range(_STEPS):
        square = tf.matmul(x, x, transpose_b=True)
        x = _A * x + tf.matmul(_B * square + _C * tf.matmul(square, square), x)
    return _SIZE * max(rows, columns) ** 0.5 * (tf.transpose(x) if rows > columns else x)
