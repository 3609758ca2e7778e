"""The parts of ELECTRA besides its encoder (Clark et al. 2020, arXiv 2003.10555, section 2)."""

import dataclasses
from collections.abc import Iterator

import keras
import tensorflow as tf

from bert_tf.models import fused_ops
from bert_tf.models.config import BertConfig
from bert_tf.models.encoder import BertEncoder
from bert_tf.models.layers import Dense, Embeddings
from bert_tf.models.layers.base import Configured, Layer, Shape, Weight, serializable


class BorrowedEmbeddings(Embeddings):
    """The embeddings and the norm of another encoder, projected to the width of this one."""

    def __init__(self, config: BertConfig, owner: Embeddings | None, **kwargs):
        super().__init__(dataclasses.replace(config, embedding_norm=False), **kwargs)
        self._lender = lambda: owner  # in a function, so that Keras does not track it twice

    def members(self) -> Iterator[Weight | Layer]:
        """The projection, if there is one."""
        yield from [self.projection] if self.projection else []

    def owner(self) -> Embeddings:
        """The embeddings of the other encoder."""
        lender = self._lender()
        assert lender is not None  # None only describes itself
        return lender

    @property
    def word(self) -> keras.Variable:
        """The other encoder's table of word embeddings."""
        return self.owner().word


class Generator(BertEncoder):
    """ELECTRA's generator: an encoder with the embeddings of the discriminator.

    Args:
      config: Its configuration, `BertConfig.generator` of the discriminator's.
      owner: The embeddings of the discriminator; None: the generator only describes itself.
    """

    def __init__(self, config: BertConfig, owner: Embeddings | None = None, **kwargs):
        self._owner = lambda: owner
        config = dataclasses.replace(config, pooler_act=None, pooler_dropout=0.0)
        super().__init__(config, allocate=owner is not None, **kwargs)

    def create_embeddings(self, policy: keras.DTypePolicy) -> Embeddings:
        """Creates `embeddings`."""
        return BorrowedEmbeddings(self.config, self._owner(), name="embeddings", dtype=policy)


@serializable
class ReplacedTokenHead(Configured, Layer):
    """One logit for each token: whether it was replaced (section 2; positive: yes)."""

    config: BertConfig

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__((None, config.hidden_size), **kwargs)
        self.config = config
        width, deviation, policy = config.hidden_size, config.initializer_range, self.dtype_policy
        self.dense = Dense(width, width, deviation, name="dense", dtype=policy)
        self.output_dense = Dense(width, 1, deviation, name="output", dtype=policy)

    def members(self) -> tuple[Dense, ...]:
        """Both linear maps."""
        return self.dense, self.output_dense

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """The shape [rows] for [rows, hidden_size]."""
        rows, _ = super().compute_output_shape(input_shape)
        return (rows,)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns float32 logits [rows] of encoder outputs [rows, hidden_size]."""
        bias = tf.convert_to_tensor(self.dense.bias)
        inner = fused_ops.bias_activation(
            self.dense(x, add_bias=False), bias, self.config.hidden_act
        )
        return tf.cast(self.output_dense(inner)[:, 0], tf.float32)
