"""One vector of a sequence, out of that of its first token."""

import tensorflow as tf

from bert_tf.models import activations, fused_ops
from bert_tf.models.layers.base import Layer, Shape, serializable
from bert_tf.models.layers.dense import Dense


@serializable
class Pooler(Dense):
    """A linear map after dropout, and an activation.

    Args:
      width: of input and output.
      activation: a name of `config.ACTIVATIONS`.
      rate: share of the inputs dropped in training.
      initializer_range: of the kernel.
    """

    def __init__(
        self,
        width: int,
        activation: str = "tanh",
        rate: float = 0.0,
        initializer_range: float = 0.02,
        **kwargs,
    ):
        super().__init__(width, width, initializer_range, **kwargs)
        self.activation = activation
        self.rate = rate

    def call(self, x: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Maps [batch, width] to [batch, width]; drops out where a seed (int32 scalar) is given."""
        pooled = super().call(fused_ops.dropout(x, self.rate, seed))
        return activations.function(self.activation)(pooled)

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        config = super().get_config()
        return {key: value for key, value in config.items() if key not in ("inputs", "units")} | {
            "width": self.units,
            "activation": self.activation,
            "rate": self.rate,
        }


@serializable
class NoPooler(Layer):
    """In the place of a pooler: the vector of the first token as it is.

    Args:
      width: of input and output.
    """

    def __init__(self, width: int, **kwargs):
        super().__init__(**kwargs)
        self.width = width

    def members(self) -> tuple[()]:
        """Nothing."""
        return ()

    @property
    def expected_shape(self) -> Shape:
        """[batch, width]."""
        return (None, self.width)

    def call(self, x: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Returns x."""
        return x

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        return super().get_config() | {"width": self.width}
