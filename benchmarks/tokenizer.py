"""Times a tokenizer on one core, in megabytes of UTF-8 per second, printed as JSON.

With --running_text, as the writer of examples tokenizes, which knows the words of earlier passes;
with --library, by SentencePiece's own library, without the normalization around it.
"""

import argparse
import functools
import os
from typing import Any

import tensorflow as tf

from benchmarks.peers import timing
from pipelines.tokenizers import registry
from pipelines.tokenizers.sentencepiece_vocabulary import SentencePieceVocabulary


def main() -> None:
    """Times several passes over the lines of a file and prints the best."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", required=True)
    parser.add_argument("--vocab", required=True)
    parser.add_argument("--running_text", action="store_true")
    parser.add_argument("--library", action="store_true")
    parser.add_argument("--passes", type=int, default=timing.PASSES)
    args = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tokenizer = registry.load_tokenizer(args.vocab)
    with open(args.input, "rb") as file:
        lines: list[Any] = file.read().splitlines()
    tokenize = tokenizer.tokenize_running_text if args.running_text else tokenizer.tokenize
    if args.running_text or args.library:
        lines = [line.decode() for line in lines]
    if args.library:
        assert isinstance(tokenizer.vocabulary, SentencePieceVocabulary)
        library = tokenizer.vocabulary.processor
        tokenize = functools.partial(library.encode, num_threads=1)
    timing.report_tokenizer(tokenize, lines, args.passes)


if __name__ == "__main__":
    main()
