"""Attention as cuDNN's fused kernels, whose memory grows with the length, not with its square.

XLA runs them for custom calls with certain names: JAX's `dot_product_attention` makes the same.
The probabilities are never in memory: the forward call returns a number for each of their rows,
with which the backward call computes them again.

There is no dropout: XLA has such calls, but they end the process in TensorFlow 2.21.
"""

import json
from typing import Any

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from bert_tf.models import fused_ops

_LARGEST_HEAD = 128
# The contracted dimensions of each product; d is a gradient, P are the probabilities.
_FORWARD = {
    "bmm1": (3, 3),  # query, key
    "bmm2": (3, 2),  # P, value
}
_BACKWARD = {
    "bmm1_grad_gemm1": (2, 2),  # dP, query
    "bmm1_grad_gemm2": (3, 2),  # dP, key
    "bmm2_grad_gemm1": (2, 2),  # P, d output
    "bmm2_grad_gemm2": (3, 3),  # d output, value
}


def multiplies_bfloat16(gpu: Any) -> bool:
    """Whether a physical GPU has products of bfloat16: compute capability 8.0 and later."""
    try:
        details = tf.config.experimental.get_device_details(gpu)
    except RuntimeError:  # TensorFlow 2.21 cannot read letters, as in 9.0a, which are newer
        return True
    return details.get("compute_capability", (0,)) >= (8, 0)


def applies(query: tf.Tensor, key: tf.Tensor) -> bool:
    """Whether `attend` can be used for these, [batch, heads, length, head size] each.

    It is part of a program of XLA for a GPU, in bfloat16, with even lengths that are known when
    the program is traced, and heads of a width that the kernels have.
    """
    size = query.shape[3]
    return (
        fused_ops.is_for_gpu()
        and query.dtype == tf.bfloat16
        and all(x.shape.is_fully_defined() and x.shape[2] % 2 == 0 for x in (query, key))
        and size % 8 == 0
        and size <= _LARGEST_HEAD
        and multiplies_bfloat16(tf.config.list_physical_devices("GPU")[0])
    )


def attend(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, mask_bias: tf.Tensor) -> tf.Tensor:
    """Returns softmax(query @ key / sqrt(head size) + bias) @ value.

    Args:
      query: [batch, heads, length, head size].
      key: [batch, heads, other length, head size].
      value: The same.
      mask_bias: float32, broadcast to [batch, heads, length, other length]; no gradient.

    Returns:
      [batch, heads, length, head size].
    """
    bias = tf.cast(mask_bias, query.dtype)
    bias = tf.broadcast_to(bias, [*bias.shape[:2], query.shape[2], key.shape[2]])

    @tf.custom_gradient
    def apply(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor) -> tuple[tf.Tensor, Any]:
        results = [(query.dtype, query.shape), (tf.float32, query.shape[:3])]
        output, norms = _call("", _FORWARD, [query, key, value, bias], results)

        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            operands = [query, key, value, norms, upstream, bias, output]
            results = [(x.dtype, x.shape) for x in (query, key, value)]
            return _call("Backward", _BACKWARD, operands, results)

        return output, gradient

    return apply(query, key, value)


def _call(
    name: str,
    products: dict[str, tuple[int, int]],
    operands: list[tf.Tensor],
    results: list[tuple[tf.DType, tf.TensorShape]],
) -> list[tf.Tensor]:
    """A call of cuDNN, whose first operands are query and key; the dtypes and shapes of results."""
    *outputs, _ = gen_xla_ops.xla_custom_call_v2(
        operands,
        call_target_name=f"__cudnn$fmhaScaleBiasSoftmax{name}",
        backend_config=_configuration(products, operands[0].shape, operands[1].shape[2]),
        has_side_effect=False,
        result_dtypes=[dtype for dtype, _ in results] + [tf.uint8],  # its working memory
        result_shapes=[shape for _, shape in results] + [[0]],
    )
    return outputs


def _configuration(
    products: dict[str, tuple[int, int]], query: tf.TensorShape, other_length: int
) -> str:
    """The `backend_config` of a call, as XLA reads it."""
    settings = {
        "algorithm": {
            "algo_id": "0",
            "math_type": "TENSOR_OP_MATH",
            "tuning_knobs": {"17": "1", "24": "0"},
            "is_cudnn_frontend": True,
            "workspace_size": "0",
        },
        "fmha_scale": query[3] ** -0.5,
        "dropout_rate": 0.0,
        "is_flash_attention": True,
        "mask_type": "NO_MASK",  # the bias has it
        "intermediate_tensor_shape": {
            "element_type": "BF16",
            "dimensions": [str(size) for size in (*query[:3], other_length)],
            "layout": {"minor_to_major": ["3", "2", "1", "0"]},
            "is_dynamic_dimension": [False] * 4,
        },
    }
    for name, (left, right) in products.items():
        settings[f"{name}_dot_dimension_numbers"] = {
            "lhs_contracting_dimensions": [str(left)],
            "rhs_contracting_dimensions": [str(right)],
            "lhs_batch_dimensions": ["0", "1"],
            "rhs_batch_dimensions": ["0", "1"],
        }
    return json.dumps({"cudnn_fmha_backend_config": settings})
