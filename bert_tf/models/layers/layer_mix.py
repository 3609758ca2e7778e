"""One vector of those that several layers have for a token."""

from collections.abc import Sequence

import tensorflow as tf

from bert_tf.models.layers.base import Layer, Shape, Weight, serializable


@serializable
class LayerMix(Layer):
    """A weighted sum of layers: `scale` times the sum by the softmax of `weights`.

    Peters et al. 2018 (arXiv 1802.05365), formula 1.

    Args:
      count: layers.
      width: of each.
    """

    def __init__(self, count: int, width: int, **kwargs):
        super().__init__(**kwargs)
        self.count, self.width = count, width

    def members(self) -> tuple[Weight, ...]:
        """`weights` [count], all alike at first, and `scale` [1]."""
        return (
            Weight("weights", (self.count,), "zeros", "layer_weights"),
            Weight("scale", (1,), "ones"),
        )

    @property
    def expected_shape(self) -> Shape:
        """[batch, length, width], of each layer."""
        return (None, None, self.width)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """That of one layer."""
        return input_shape

    def call(self, layers: Sequence[tf.Tensor]) -> tf.Tensor:
        """Mixes float32 or bfloat16 [batch, length, width] of each layer, into one like it."""
        shares = tf.nn.softmax(tf.convert_to_tensor(self.layer_weights))
        factors = tf.unstack(tf.cast(shares * tf.convert_to_tensor(self.scale), layers[0].dtype))
        return tf.add_n([factor * x for factor, x in zip(factors, layers, strict=True)])

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        return super().get_config() | {"count": self.count, "width": self.width}
