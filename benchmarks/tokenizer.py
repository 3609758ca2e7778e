"""Times our tokenizer on one core: megabytes of UTF-8 a second.

The last line of stdout is one JSON object.
"""

import argparse
import json
import os
import time

import tensorflow as tf

from pipelines.tokenizers import registry

_BATCH = 4096


def main() -> None:
    """Times several passes over a file of lines and prints the best."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input", required=True)
    parser.add_argument("--vocab", required=True)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tokens = registry.load_tokenizer(args.vocab)
    with open(args.input, "rb") as file:
        lines = file.read().splitlines()
    size = sum(map(len, lines))
    tokens.tokenize(lines[:_BATCH])
    times = []
    for _ in range(args.repeats):
        start = time.perf_counter()
        for first in range(0, len(lines), _BATCH):
            tokens.tokenize(lines[first : first + _BATCH])
        times.append(time.perf_counter() - start)
    print(json.dumps({"megabytes_per_second": size / 1e6 / min(times)}))


if __name__ == "__main__":
    main()
