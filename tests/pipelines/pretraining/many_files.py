"""Writes examples of corpora of many tiny files under Beam's own runner, and tells what they cost.

`python -m tests.pipelines.pretraining.many_files FOLDER 1000 100000` prints a line of JSON for each
number of files.
"""

import json
import pathlib
import resource
import sys
import time

import numpy as np

from pipelines.common.beam_runner import BeamRunner
from pipelines.pretraining import example_writer, units
from pipelines.pretraining.settings import ExampleSettings

_RUNNER = "--runner=apache_beam.runners.portability.fn_api_runner.FnApiRunner"
_DOCUMENTS = 8  # of a file
_UNIT_BYTES = 5000  # about 80 documents
_WORDS = "the a of model kernel mask shard layer token text small deep every one".split()
_SETTINGS = ExampleSettings(
    max_seq_length=32, max_predictions_per_seq=5, dupe_factor=1, held_out_fraction=0.01
)


def main(folder: str, *counts: str) -> None:
    """Writes the examples of a corpus of each size."""
    # Of units the command decides, which runs here, whatever the workers are.
    units._UNIT_BYTES, units._PIECES = (_UNIT_BYTES, _UNIT_BYTES), 1
    vocab = pathlib.Path(folder, "vocab.txt")
    vocab.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *_WORDS]) + "\n")
    for count in map(int, counts):
        corpus = pathlib.Path(folder, str(count))
        _write_corpus(corpus, count)
        request = example_writer.ExampleRequest(
            f"{corpus}/*.txt", str(vocab), f"{corpus}-examples", _SETTINGS
        )
        begin = time.process_time()
        manifest = example_writer.write(request, BeamRunner([_RUNNER]))
        seconds = time.process_time() - begin
        documents = manifest["text"]["documents"]
        found = {
            "documents": documents,
            "shards": sum(len(manifest[part]["shards"]) for part in ("train", "held_out")),
            "seconds_per_document": seconds / documents,
            "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        }
        print(json.dumps(found), flush=True)


def _write_corpus(folder: pathlib.Path, count: int) -> None:
    rng = np.random.default_rng(0)
    folder.mkdir()
    for number in range(count):
        words = rng.choice(_WORDS, (_DOCUMENTS, 2, 6))
        documents = ("\n".join(" ".join(line) + " ." for line in each) for each in words)
        (folder / f"{number:06d}.txt").write_text("\n\n".join(documents) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
