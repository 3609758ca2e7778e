"""Times the original BERT data writer and tokenizer, unmodified, under TensorFlow 2.

The peer is `create_pretraining_data.py` from a clone of google-research/bert, a TensorFlow 1
program. It is run as it stands: `tensorflow` is made to mean `tensorflow.compat.v1` while it is
loaded. The figure to compare is the rate at which one process turns a corpus into written
pre-training records (vocabulary loading, tokenization, masking and writing included; importing
TensorFlow excluded). With --tokenize_only it is the speed of the original `FullTokenizer`.

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


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clone", type=Path, required=True, help="clone of google-research/bert")
    parser.add_argument("--input", nargs="+", required=True, help="text files, a sentence a line")
    parser.add_argument("--vocab", required=True, help="WordPiece vocabulary file")
    parser.add_argument("--output", help="TFRecord file to write (not with --tokenize_only)")
    parser.add_argument("--max_seq_length", type=int, default=128)
    parser.add_argument("--max_predictions_per_seq", type=int, default=20)
    parser.add_argument("--dupe_factor", type=int, default=5)
    parser.add_argument("--masked_lm_prob", type=float, default=0.15)
    parser.add_argument("--short_seq_prob", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=12345)
    parser.add_argument("--do_lower_case", choices=("true", "false"), default="true")
    parser.add_argument("--tokenize_only", action="store_true", help="time only the tokenizer")
    parser.add_argument("--repeats", type=int, default=3, help="passes with --tokenize_only")
    args = parser.parse_args()
    if not args.tokenize_only and not args.output:
        parser.error("--output is required unless --tokenize_only is given")
    return args


def load_original(clone: Path, name: str) -> dict[str, Any]:
    """Runs a file of the clone as a module whose `tensorflow` is TensorFlow 1; gives its names."""
    v1 = tf.compat.v1
    # Resolving what TensorFlow loads lazily here keeps its import out of the timing.
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
    """Runs the original `main` once and counts the records it wrote."""
    original = load_original(args.clone, "create_pretraining_data.py")
    flag_values = {
        "input_file": ",".join(args.input),
        "output_file": args.output,
        "vocab_file": args.vocab,
        "do_lower_case": args.do_lower_case,
        "max_seq_length": args.max_seq_length,
        "max_predictions_per_seq": args.max_predictions_per_seq,
        "dupe_factor": args.dupe_factor,
        "masked_lm_prob": args.masked_lm_prob,
        "short_seq_prob": args.short_seq_prob,
        "random_seed": args.seed,
    }
    original["FLAGS"]([sys.argv[0], *(f"--{name}={value}" for name, value in flag_values.items())])
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
    """Tokenizes every line of the input in one process; the median pass counts."""
    tokenization = load_original(args.clone, "tokenization.py")
    tokenizer = tokenization["FullTokenizer"](args.vocab, args.do_lower_case == "true")
    text = "".join(Path(name).read_text(encoding="utf-8") for name in args.input)
    lines = text.split("\n")
    seconds = []
    for _ in range(args.repeats):
        start = time.perf_counter()
        for line in lines:
            tokenizer.tokenize(line)
        seconds.append(time.perf_counter() - start)
    megabytes = len(text.encode("utf-8")) / 1e6
    return {"megabytes_per_second": round(megabytes / statistics.median(seconds), 4)}


def main() -> None:
    args = parse_args()
    result = time_tokenizer(args) if args.tokenize_only else time_writer(args)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
