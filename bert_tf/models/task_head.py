"""The head of a task (paper, section 3.2)."""

from typing import Any

import keras
import tensorflow as tf

from bert_tf.models import fused_ops
from bert_tf.models.layers import Dense
from bert_tf.models.layers.base import Shape, serializable


@serializable
class TaskHead(Dense):
    """The one output layer of a task: a linear map, after dropout, of [CLS] or of every token.

    Args:
      inputs: width of the encoder.
      units: logits.
      per_token: whether there are logits for every token.
      rate: share of the inputs dropped in training.
      initializer_range: of the kernel.
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        per_token: bool = False,
        rate: float = 0.1,
        initializer_range: float = 0.02,
        **kwargs,
    ):
        super().__init__(inputs, units, initializer_range, **kwargs)
        self.per_token = per_token
        self.rate = rate

    def call(
        self,
        outputs: dict[str, tf.Tensor],
        seed: tf.Tensor | None = None,
        training: bool = False,
    ) -> tf.Tensor:
        """Returns float32 logits [batch, units], or [batch, length, units].

        Args:
          outputs: of the encoder.
          seed: int32 scalar, of the dropout; None: no dropout, unless in training.
          training: whether to draw a seed where there is none, as `fit` of Keras wants it.
        """
        if training and seed is None:
            seed = tf.random.uniform([], maxval=tf.int32.max, dtype=tf.int32)
        x = outputs["sequence_output" if self.per_token else "pooled_output"]
        rows = tf.reshape(x, [-1, x.shape[-1]])
        logits = super().call(fused_ops.dropout(rows, self.rate, seed), add_bias=False)
        logits = tf.cast(logits, tf.float32) + tf.convert_to_tensor(self.bias)
        return tf.reshape(logits, tf.concat([tf.shape(x)[:-1], [self.units]], 0))

    @property
    def expected_shape(self) -> dict[str, Shape]:
        """Those of the encoder's outputs."""
        return {
            "sequence_output": (None, None, self.inputs),
            "pooled_output": (None, self.inputs),
        }

    def compute_output_shape(  # type: ignore[override]  # each Keras layer says what it takes
        self, input_shape: dict[str, Shape]
    ) -> Shape:
        """[batch, units], or [batch, length, units], by the shapes of the encoder's outputs."""
        shape = input_shape["sequence_output" if self.per_token else "pooled_output"]
        return super().compute_output_shape(shape)

    def compute_output_spec(  # type: ignore[override]  # each Keras layer says what it takes
        self, outputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """What `call` returns for symbolic outputs of the encoder."""
        shapes = {name: outputs[name].shape for name in self.expected_shape}
        return keras.KerasTensor(self.compute_output_shape(shapes), "float32")

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        return super().get_config() | {"per_token": self.per_token, "rate": self.rate}
