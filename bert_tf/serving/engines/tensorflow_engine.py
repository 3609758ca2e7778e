"""TensorFlow."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_tf.serving.engines.base import Batch, Compute, Engine, result_names, traced
from bert_tf.tasks.signatures import Computation
from pipelines.tokenizers.packing import MODEL_INPUTS


class TensorFlowEngine(Engine):
    """TensorFlow in this process, with the threads of its pool."""

    dtype = None

    def load(self, name: str, computation: Computation) -> Compute:
        """See `Engine`."""
        whole, skipping = (traced(computation, skip) for skip in (False, True))
        results = result_names(computation)

        def compute(batch: Batch) -> Sequence[np.ndarray]:
            function = whole if batch.mask.all() else skipping
            tensors = map(tf.convert_to_tensor, batch)
            found = function(**dict(zip(MODEL_INPUTS, tensors, strict=True)))
            return [found[name].numpy() for name in results]

        return compute
