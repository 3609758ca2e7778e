"""Answers text pairs with an export; the last line is JSON, see `answering.measure`."""

import sys

import numpy as np
import tensorflow as tf
from absl import app, flags

from benchmarks.peers import answering
from bert_tf.serving import selection
from bert_tf.serving.plan import Precision
from bert_tf.serving.predictor import Predictor
from pipelines.labelled.schema import TextExample

_EXPORT = flags.DEFINE_string("export", None, "The version of the export.", required=True)
_SIGNATURE = flags.DEFINE_string("signature", "rte", "A signature of pairs.")
_REQUESTS = flags.DEFINE_string("requests", None, "File of the requests, JSON.", required=True)
_LOGITS = flags.DEFINE_string("logits", None, "File for the logits, .npy.", required=True)
_ENGINE = flags.DEFINE_string("engine", "auto", "What computes.")
_PRECISION = flags.DEFINE_string("precision", None, "What is computed in.")


def main(_: list[str]) -> None:
    """Measures with the flags given."""
    precision = Precision(_PRECISION.value) if _PRECISION.value else None
    plan = selection.choose(_EXPORT.value, _ENGINE.value, None, precision)
    print(plan, flush=True)
    tf.config.threading.set_intra_op_parallelism_threads(plan.tensorflow_threads)
    predictor = Predictor(_EXPORT.value, plan=plan)

    def answer(pairs: answering.Pairs) -> np.ndarray:
        first, second = zip(*pairs, strict=True)
        return predictor(_SIGNATURE.value, text_a=first, text_b=second)["logits"]

    task = predictor.task(_SIGNATURE.value)

    def predict(pairs: answering.Pairs) -> None:
        predictor.predict(task, [TextExample("", "", *pair) for pair in pairs])

    answering.report(answer, _REQUESTS.value, _LOGITS.value, predict)


if __name__ == "__main__":
    app.run(main, argv=sys.argv)
