"""Whether engines compute what TensorFlow does."""

import math

import numpy as np

from bert_tf.export.module import Served
from bert_tf.serving.engines.base import Compute, Sequences
from bert_tf.serving.engines.plans import Lane
from bert_tf.serving.engines.tensorflow_engine import TensorFlowEngine
from bert_tf.tasks.signatures import Computation

_SHAPES = ((1, 8), (3, 24))  # sequences and tokens of what is compared


def largest_difference(compute: Compute, computation: Computation, model: Served) -> float:
    """How far results are from TensorFlow's, over random sequences; 1 is the scale of the largest.

    It is infinite where a result is no number.

    Args:
      compute: of the engine.
      computation: what it computes.
      model: of which.
    """
    config = model.source.bundle.config
    wanted = TensorFlowEngine(Lane()).load("reference", computation)
    rng = np.random.default_rng(0)
    worst = 0.0
    for count, tokens in _SHAPES:
        length = min(tokens, config.max_length)
        ids = rng.integers(0, config.vocab_size, (count, length), np.int32)
        sequences = Sequences(ids, np.ones_like(ids), np.zeros_like(ids))
        for found, exact in zip(compute(sequences), wanted(sequences), strict=True):
            if not np.issubdtype(exact.dtype, np.floating):
                continue
            if not np.isfinite(found).all():
                return math.inf
            scale = max(1.0, float(np.abs(exact).max()))
            worst = max(worst, float(np.abs(found - exact).max()) / scale)
    return worst
