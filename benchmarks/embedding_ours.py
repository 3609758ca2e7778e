"""Embeds the lines of a file with ours; the last line is JSON, see `embedding_times.report`."""

import sys

import numpy as np
import tensorflow as tf
from absl import app, flags

import bert_tf
from benchmarks.peers import embedding_times
from bert_tf.export import saved_model
from bert_tf.serving import selection
from bert_tf.serving.plan import Precision
from bert_tf.serving.predictor import Predictor

_MODEL = flags.DEFINE_string("model", None, "A folder of sentence-transformers.", required=True)
_EXPORT = flags.DEFINE_string("export", None, "Its export.", required=True)
_ENGINE = flags.DEFINE_enum("engine", "export", ["embedder", "export"], "What computes.")
_PRECISION = flags.DEFINE_string("precision", "float32", "What an export is computed in.")
_TEXTS = flags.DEFINE_string("texts", None, "A text on each line.", required=True)
_VECTORS = flags.DEFINE_string("vectors", None, "File for the vectors, .npy.", required=True)


def main(_: list[str]) -> None:
    """Measures with the flags given."""
    if _ENGINE.value == "embedder":
        embed = bert_tf.Embedder(_MODEL.value, bert_tf.EmbeddingSettings(normalize=True))
        embedding_times.report(embed, _TEXTS.value, _VECTORS.value)
        return
    path = saved_model.newest(_EXPORT.value)
    plan = selection.choose(path, precision=Precision(_PRECISION.value))
    print(plan, flush=True)
    tf.config.threading.set_intra_op_parallelism_threads(plan.tensorflow_threads)
    predictor = Predictor(path, plan=plan)

    def embed_all(texts: list[str]) -> np.ndarray:
        return predictor("embedding", text=texts)["embedding"]

    embedding_times.report(embed_all, _TEXTS.value, _VECTORS.value)


if __name__ == "__main__":
    app.run(main, argv=sys.argv)
