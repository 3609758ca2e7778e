"""TensorFlow computes."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_tf.serving.engines.base import RESULTS, Compute, ComputeEngine, Sequences, traced
from bert_tf.tasks.signatures import Computation
from pipelines.tokenizers.packing import MODEL_INPUTS


class TensorFlowEngine(ComputeEngine):
    """TensorFlow in this process, whose threads are its pool's."""

    def load(self, name: str, computation: Computation) -> Compute:
        """See `ComputeEngine`."""
        whole, dropping = (traced(computation, drop_padding=drop) for drop in (False, True))
        names = [RESULTS.format(number) for number in range(len(computation.outputs))]

        def compute(sequences: Sequences) -> Sequence[np.ndarray]:
            function = whole if sequences.mask.all() else dropping
            tensors = map(tf.convert_to_tensor, sequences)
            found = function(**dict(zip(MODEL_INPUTS, tensors, strict=True)))
            return [found[name].numpy() for name in names]

        return compute
