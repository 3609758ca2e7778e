"""Times a tokenizer on one core, in megabytes of UTF-8 per second, printed as JSON.

With --library, that of SentencePiece's own library, without the normalization around it.
"""

import argparse
import functools
import json
import os
import time
from typing import Any

import tensorflow as tf

from pipelines.tokenizers import registry
from pipelines.tokenizers.sentencepiece_vocabulary import SentencePieceVocabulary

_BATCH, _REPEATS = 4096, 3


def main() -> None:
    """Times several passes over the lines of a file and prints the best."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", required=True)
    parser.add_argument("--vocab", required=True)
    parser.add_argument("--library", action="store_true")
    args = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tokenizer = registry.load_tokenizer(args.vocab)
    with open(args.input, "rb") as file:
        lines: list[Any] = file.read().splitlines()
    size = sum(map(len, lines))
    tokenize = tokenizer.tokenize
    if args.library:
        assert isinstance(tokenizer.vocabulary, SentencePieceVocabulary)
        library = tokenizer.vocabulary.processor
        lines = [line.decode() for line in lines]
        tokenize = functools.partial(library.encode, num_threads=1)
    tokenize(lines[:_BATCH])
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        for first in range(0, len(lines), _BATCH):
            tokenize(lines[first : first + _BATCH])
        times.append(time.perf_counter() - start)
    print(json.dumps({"megabytes_per_second": size / 1e6 / min(times)}))


if __name__ == "__main__":
    main()
