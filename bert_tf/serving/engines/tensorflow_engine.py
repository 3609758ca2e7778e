"""TensorFlow computes."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_tf.serving.engines.base import Compute, ComputeEngine, Sequences, traced
from bert_tf.tasks.signatures import Computation


class TensorFlowEngine(ComputeEngine):
    """TensorFlow in this process, whose threads are its pool's."""

    def load(self, name: str, computation: Computation) -> Compute:
        """See `ComputeEngine`."""
        whole, dropping = (traced(computation, drop_padding=drop) for drop in (False, True))

        def compute(sequences: Sequences) -> Sequence[np.ndarray]:
            function = whole if sequences.mask.all() else dropping
            found = function(*map(tf.convert_to_tensor, sequences))
            return [found[key].numpy() for key in sorted(found)]

        return compute
