"""Times our tokenizer on one core, in megabytes of UTF-8 per second, printed as JSON."""

import argparse
import json
import os
import time

import tensorflow as tf

from pipelines.tokenizers import registry

_BATCH, _REPEATS = 4096, 3


def main() -> None:
    """Times several passes over the lines of a file and prints the best."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", required=True)
    parser.add_argument("--vocab", required=True)
    args = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tokenizer = registry.load_tokenizer(args.vocab)
    with open(args.input, "rb") as file:
        lines = file.read().splitlines()
    size = sum(map(len, lines))
    tokenizer.tokenize(lines[:_BATCH])
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        for first in range(0, len(lines), _BATCH):
            tokenizer.tokenize(lines[first : first + _BATCH])
        times.append(time.perf_counter() - start)
    print(json.dumps({"megabytes_per_second": size / 1e6 / min(times)}))


if __name__ == "__main__":
    main()
