"""Encodes long texts with ModernBERT of the base size: ours and peers, in turn.

  python -m benchmarks.long_texts --peer_python=.venv-peers/bin/python --work=/tmp/long

One text at a time, of 2,048 and of 8,192 tokens, on all cores; the best of three. The peers are
transformers (PyTorch, scaled_dot_product_attention) and ONNX Runtime. Prints seconds, ratios, and
the largest difference of the means of hidden states.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.peers import long_texts
from benchmarks.processes import computed, json_of
from bert_tf import weights
from bert_tf.models import fused_ops
from bert_tf.models.base_encoder import Encoder
from pipelines.common import machine
from pipelines.tokenizers.packing import MODEL_INPUTS

_LENGTHS = "2048,8192"
_SHORT = "2048"  # of ONNX Runtime, which needs more than 24 GiB for 8,192
_ENGINES = (
    ("ours", "float32"),
    ("transformers", "float32"),
    ("onnxruntime", "float32"),
    ("ours", "bfloat16"),
    ("transformers", "bfloat16"),
)


def ours(encoder: Encoder) -> long_texts.Encode:
    """Our encoder in a graph."""

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def run(ids: tf.Tensor) -> tf.Tensor:
        inputs = dict(zip(MODEL_INPUTS, (ids, tf.ones_like(ids), ids * 0), strict=True))
        with fused_ops.inference():
            return tf.cast(encoder(inputs, drop_padding=True)["sequence_output"], tf.float32)

    return lambda ids: run(tf.constant(ids, tf.int32)).numpy().reshape(1, ids.shape[1], -1)


def main() -> None:
    """Measures all engines, or ours alone."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer_python", required=True)
    parser.add_argument("--work", required=True, type=Path)
    parser.add_argument("--precision", help="measures ours in it, and no other")
    parser.add_argument("--output")
    args = parser.parse_args()
    model = f"{args.work}/modernbert"
    if args.precision:
        machine.keep_freed_memory()  # as `embed` does
        numbers = [int(each) for each in _LENGTHS.split(",")]
        encoder = weights.read(model).encoder(dtype=args.precision)
        long_texts.report(ours(encoder), numbers, encoder.config.vocab_size, args.output)
        return
    peer = [args.peer_python, "benchmarks/peers/long_texts.py"]
    if not Path(model).exists():
        subprocess.run([*peer, f"--make={model}"], check=True)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for engine, precision in computed(_ENGINES):
        flags = [f"--precision={precision}", f"--output={args.work}/{engine}-{precision}.npy"]
        if engine == "ours":
            command = [sys.executable, "-m", "benchmarks.long_texts"]
            flags += [f"--peer_python={args.peer_python}", f"--work={args.work}"]
        else:
            command = peer
            lengths = _SHORT if engine == "onnxruntime" else _LENGTHS
            flags += [f"--engine={engine}", f"--model={model}", f"--lengths={lengths}"]
            flags += [f"--threads={machine.cores()}"]
        found[engine, precision] = json_of([*command, *flags])
    reference = np.load(args.work / "transformers-float32.npy")
    for (engine, precision), figures in found.items():
        means = np.load(args.work / f"{engine}-{precision}.npy")
        difference = np.abs(means - reference[: len(means)]).max()
        for length, seconds in figures.items():
            ratio = seconds / found["ours", precision][length]
            print(
                f"{length} tokens, {engine} in {precision}: {seconds:.2f} s, {ratio:.2f} of ours, "
                f"means within {difference:.1g}"
            )


if __name__ == "__main__":
    main()
