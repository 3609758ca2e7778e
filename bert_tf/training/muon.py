"""Muon, which gives all directions of a hidden matrix an update of the same size."""

import re

import keras
import tensorflow as tf

from bert_tf.training.adamw import AdamW

_MOMENTUM = 0.95
# Five steps of x -> a x + b (x x^T) x + c (x x^T)^2 x bring all singular values near 1; the numbers
# are those of Jordan et al. 2024 (https://kellerjordan.github.io/posts/muon).
_STEPS = 5
_A, _B, _C = 3.4445, -4.7750, 2.0315
# The root mean square of an update. That of Adam's is about 0.2 (Liu et al. 2025, equation 4); here
# hidden matrices take twice as much (docs/guides/recipes.md has the measurement).
_SIZE = 0.4
_HIDDEN = re.compile(r"/(block_\d+|pooler|transform)/(.*/)?kernel$")


@keras.saving.register_keras_serializable("bert_tf")
class Muon(AdamW):
    """Momentum, orthogonalized, for hidden matrices; AdamW for all else.

    Hidden matrices are the kernels of blocks, pooler, and the transform before the softmax: not
    embeddings, heads, biases or norms. As Jordan et al. 2024 do it, with Nesterov momentum; weight
    decay and the scale of an update, which is the same for matrices of all shapes, are those of Liu
    et al. 2025 (arXiv 2502.16982). Arguments are those of `MomentOptimizer`; betas and epsilon are
    AdamW's.
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
        if not _HIDDEN.search(variable.path):
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


def _orthogonal(matrix: tf.Tensor) -> tf.Tensor:
    """The orthogonal matrix next to one, float32 [rows, columns], scaled to the size of updates."""
    rows, columns = matrix.shape
    x = tf.transpose(matrix) if rows > columns else matrix
    x /= tf.norm(x) + 1e-7
    for _ in range(_STEPS):
        square = tf.matmul(x, x, transpose_b=True)
        x = _A * x + tf.matmul(_B * square + _C * tf.matmul(square, square), x)
    return _SIZE * max(rows, columns) ** 0.5 * (tf.transpose(x) if rows > columns else x)
