"""Answers a file of text pairs with an export, one by one and in batches, and prints the rates.

The last line is JSON: requests and pairs a second, and the accuracy.
"""

import csv
import json
import sys

import numpy as np
from absl import app, flags

from benchmarks.peers import timing
from bert_tf.serving.predictor import Predictor

_EXPORT = flags.DEFINE_string("export", None, "The export.", required=True)
_SIGNATURE = flags.DEFINE_string("signature", "rte", "A signature of pairs.")
_INPUT = flags.DEFINE_string("input", None, "RTE's dev.tsv.", required=True)
_LOGITS = flags.DEFINE_string("logits", None, "File for the logits, .npy.", required=True)


def main(_: list[str]) -> None:
    """Measures with the flags given."""
    with open(_INPUT.value, encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    predictor = Predictor(_EXPORT.value)

    def answer(pairs: list[tuple[str, str]]) -> np.ndarray:
        first, second = zip(*pairs, strict=True)
        return predictor(_SIGNATURE.value, text_a=first, text_b=second)["logits"]

    pairs = [(row["sentence1"], row["sentence2"]) for row in rows]
    result = timing.measure_answers(answer, pairs, _LOGITS.value)
    labels = [("entailment", "not_entailment").index(row["label"]) for row in rows]
    result["accuracy"] = float((np.load(_LOGITS.value).argmax(-1) == labels).mean())
    print(json.dumps(result))


if __name__ == "__main__":
    app.run(main, argv=sys.argv)
