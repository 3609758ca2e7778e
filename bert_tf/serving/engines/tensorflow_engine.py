"""TensorFlow computes."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_tf.models import fused_ops
from bert_tf.serving.engines.base import Compute, ComputeEngine, Sequences
from bert_tf.tasks.signatures import Computation
from pipelines.tokenizers.packing import MODEL_INPUTS

_SPECS = [tf.TensorSpec([None, None], tf.int32, name) for name in MODEL_INPUTS]


class TensorFlowEngine(ComputeEngine):
    """TensorFlow in this process, whose threads are its pool's."""

    def load(self, computation: Computation) -> Compute:
        """See `ComputeEngine`."""
        whole = _function(computation, drop_padding=False).get_concrete_function(*_SPECS)
        dropping = _function(computation, drop_padding=True).get_concrete_function(*_SPECS)

        def compute(sequences: Sequences) -> Sequence[np.ndarray]:
            function = whole if sequences.mask.all() else dropping
            return [value.numpy() for value in function(*map(tf.convert_to_tensor, sequences))]

        return compute


def _function(
    computation: Computation, drop_padding: bool
) -> tf.types.experimental.PolymorphicFunction:
    def compute(*values: tf.Tensor) -> Sequence[tf.Tensor]:
        inputs = dict(zip(MODEL_INPUTS, values, strict=True))
        with fused_ops.inference():
            return computation.function(inputs, drop_padding)

    return tf.function(compute, autograph=False)
