"""Times the original BERT example writer and tokenizer, unmodified, under TensorFlow 2.

The peer is `create_pretraining_data.py` from a clone of google-research/bert, a TensorFlow 1
program, which is run with `tensorflow` replaced by `tensorflow.compat.v1`. Measured is the rate at
which one process turns a corpus into examples: loading the vocabulary, tokenizing, masking and
writing, without the import of TensorFlow. With --tokenize_only it is the speed of the original
`FullTokenizer`.

The last line of stdout is one JSON object.
"""

import argparse
import json
import runpy
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import tensorflow as tf

_REPEATS = 3


def load_original(clone: Path, name: str) -> dict[str, Any]:
    """Runs a file of the clone as a module with TensorFlow 1; returns its globals."""
    v1 = tf.compat.v1
    # Loads lazy modules of TensorFlow, so that their import is not timed.
    for part in ("app", "flags", "gfile", "logging", "python_io", "train"):
        getattr(v1, part)
    sys.path.insert(0, str(clone))
    sys.modules["tensorflow"] = v1
    try:
        return runpy.run_path(str(clone / name), run_name="original")
    finally:
        sys.modules["tensorflow"] = tf
        sys.path.remove(str(clone))


def time_writer(args: argparse.Namespace) -> dict[str, float]:
    """Runs the original `main` once and counts the records that it wrote."""
    original = load_original(args.clone, "create_pretraining_data.py")
    flags = (
        *(f"--input_file={args.input}", f"--output_file={args.output}"),
        *(f"--vocab_file={args.vocab}", f"--dupe_factor={args.dupe_factor}"),
    )
    original["FLAGS"]([sys.argv[0], *flags])
    start = time.perf_counter()
    original["main"](None)
    seconds = time.perf_counter() - start
    instances = sum(1 for _ in tf.data.TFRecordDataset(args.output))
    return {
        "instances": instances,
        "seconds": round(seconds, 3),
        "instances_per_second": round(instances / seconds, 2),
    }


def time_tokenizer(args: argparse.Namespace) -> dict[str, float]:
    """Tokenizes all lines of the input in one process; reports the median of three passes."""
    tokenizer = load_original(args.clone, "tokenization.py")["FullTokenizer"](args.vocab)
    text = Path(args.input).read_text(encoding="utf-8")
    lines = text.split("\n")
    seconds = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        for line in lines:
            tokenizer.tokenize(line)
        seconds.append(time.perf_counter() - start)
    megabytes = len(text.encode("utf-8")) / 1e6
    return {"megabytes_per_second": round(megabytes / statistics.median(seconds), 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clone", type=Path, required=True, help="clone of google-research/bert")
    parser.add_argument("--input", required=True, help="text file, a sentence per line")
    parser.add_argument("--vocab", required=True, help="uncased WordPiece vocabulary")
    parser.add_argument("--output", help="TFRecord file to write")
    parser.add_argument("--dupe_factor", type=int, default=5)
    parser.add_argument("--tokenize_only", action="store_true", help="time only the tokenizer")
    args = parser.parse_args()
    print(json.dumps(time_tokenizer(args) if args.tokenize_only else time_writer(args)))


if __name__ == "__main__":
    main()
