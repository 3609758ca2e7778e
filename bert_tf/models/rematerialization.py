"""Rematerialization (gradient checkpointing): activations recomputed in the backward pass.

Only the inputs of each layer are kept (Chen et al., arXiv 1604.06174). The forward pass is computed
twice; memory is that of the inputs of all layers and of the activations of one layer.
"""

import contextlib
import contextvars
from typing import Any

import keras
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from bert_tf.models import fused_ops

_enabled = contextvars.ContextVar("rematerialize", default=False)


def rematerialize(enabled: bool = True) -> contextlib.AbstractContextManager[None]:
    """A context in which layers called by `apply` keep only their inputs."""
    return fused_ops.switched(_enabled, enabled)


def apply(
    layer: keras.layers.Layer, x: Any, mask: tf.Tensor, seed: tf.Tensor | None, **options: Any
) -> Any:
    """Calls layer(x, mask, seed, **options); within `rematerialize`, keeps only x.

    The recomputation uses the same seed, so the gradients are the same.

    Args:
      layer: A built layer that is a pure function of its arguments and weights.
      x: Tensors in any structure; gradients are computed for them and for the weights.
      mask: The second argument of the layer, without gradients.
      seed: int32 seeds for dropout; None: no dropout.
      **options: Further arguments of the layer; floating-point tensors have gradients, too.

    Returns:
      The result of the layer: a tensor or several. Recomputation waits for the gradient of the
      first.
    """
    if not _enabled.get():
        return layer(x, mask, seed, **options)
    # Weights are passed as tensors, so that the gradient is the same under every strategy.
    variables = layer.trainable_variables
    inner = {k: v for k, v in options.items() if tf.is_tensor(v) and v.dtype.is_floating}
    flat = tf.nest.flatten((x, inner))
    known = [tf.convert_to_tensor(variable) for variable in variables]
    frozen = [(other, tf.convert_to_tensor(other)) for other in layer.non_trainable_variables]

    def call(tensors: list[tf.Tensor], weights: list[tf.Tensor], seed: tf.Tensor | None) -> Any:
        values = list(zip(variables, weights, strict=True))
        with keras.StatelessScope(state_mapping=values + frozen):
            again, changed = tf.nest.pack_sequence_as((x, inner), tensors)
            return layer(again, mask, seed, **options | changed)

    @tf.custom_gradient
    def run(*arguments: tf.Tensor) -> tuple[Any, Any]:
        tensors, weights = list(arguments[: len(flat)]), list(arguments[len(flat) :])

        def gradient(*upstream: tf.Tensor) -> list[tf.Tensor | None]:
            again, again_seed = _after(list(upstream), tensors, seed)
            sources = again + weights
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(sources)
                outputs = tf.nest.flatten(call(again, weights, again_seed))
            return tape.gradient(outputs, sources, list(upstream))

        return call(tensors, weights, seed), gradient

    return run(*flat, *known)


def _after(
    upstream: list[tf.Tensor], tensors: list[tf.Tensor], seed: tf.Tensor | None
) -> tuple[list[tf.Tensor], tf.Tensor | None]:
    """The inputs of a layer, available only after the gradient of its output.

    Otherwise all layers would be recomputed at once, or, if a compiler sees that it still has the
    values, not at all.
    """
    held = tensors if seed is None else [*tensors, seed]
    if fused_ops.is_compiled_whole():  # XLA ignores control dependencies
        held = gen_xla_ops.xla_optimization_barrier([*held, upstream[0]])[: len(held)]
        nothing = fused_ops.zero_of(upstream[0])
        for index, tensor in enumerate(held[: len(tensors)]):
            held[index] = tensor + tf.cast(nothing, tensor.dtype)
    else:
        with tf.control_dependencies([upstream[0]]):
            held = [tf.identity(tensor) for tensor in held]
    return held[: len(tensors)], None if seed is None else held[-1]
