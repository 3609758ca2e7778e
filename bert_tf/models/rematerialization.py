"""Rematerialization: layers whose inner values are computed again in the backward pass.

Also called gradient checkpointing (Chen et al., arXiv 1604.06174). Of each layer its inputs alone
are kept, instead of all that its gradients are computed from: the forward pass is done twice, and
memory grows with the inputs of the layers and what one of them needs.

It is a matter of training, not of the model: `rematerialize` says of all that is traced within.
"""

import contextvars
from contextlib import AbstractContextManager
from typing import Any

import keras
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from bert_tf.models import fused_ops
from bert_tf.models.switches import switched

_enabled = contextvars.ContextVar("rematerialize", default=False)


def rematerialize(enabled: bool = True) -> AbstractContextManager[None]:
    """Within it, layers that are called by `apply` keep their inputs alone."""
    return switched(_enabled, enabled)


def apply(
    layer: keras.layers.Layer, x: Any, mask: tf.Tensor, seed: tf.Tensor | None, **options: Any
) -> Any:
    """Calls layer(x, mask, seed, **options); within `rematerialize` its inner values are not kept.

    The second time the same seed drops the same elements, so the gradients are the same.

    Args:
      layer: a built layer, a pure function of what it is given and of its weights.
      x: tensors in any structure; these and the weights have gradients.
      mask: what it takes as its second input, without gradients.
      seed: int32 of any shape, of its dropout; None: no dropout.
      **options: what else it takes, without gradients.

    Returns:
      What the layer returns: a tensor, or several. The gradient of the first one is waited for.
    """
    if not _enabled.get():
        return layer(x, mask, seed, **options)
    # Weights are arguments, not variables that are read within: so the gradient is one of tensors,
    # which is the same under every strategy.
    variables = layer.trainable_variables
    flat, known = tf.nest.flatten(x), [tf.convert_to_tensor(variable) for variable in variables]
    frozen = [(other, tf.convert_to_tensor(other)) for other in layer.non_trainable_variables]

    def call(tensors: list[tf.Tensor], weights: list[tf.Tensor], seed: tf.Tensor | None) -> Any:
        values = list(zip(variables, weights, strict=True))
        with keras.StatelessScope(state_mapping=values + frozen):
            return layer(tf.nest.pack_sequence_as(x, tensors), mask, seed, **options)

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
    """The inputs of a layer as they are when the gradient of its output has come, and not before.

    Without this all layers would be computed again at once, or, where a compiler sees that it
    has the values already, not at all.
    """
    held = tensors if seed is None else [*tensors, seed]
    if fused_ops.is_compiled_whole():  # control dependencies mean nothing to XLA
        held = gen_xla_ops.xla_optimization_barrier([*held, upstream[0]])[: len(held)]
        nothing = fused_ops.zero_of(upstream[0])
        for index, tensor in enumerate(held[: len(tensors)]):
            held[index] = tensor + tf.cast(nothing, tensor.dtype)
    else:
        with tf.control_dependencies([upstream[0]]):
            held = [tf.identity(tensor) for tensor in held]
    return held[: len(tensors)], None if seed is None else held[-1]
