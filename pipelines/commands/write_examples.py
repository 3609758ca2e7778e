"""Writes pre-training examples: text and a vocabulary in, TFRecords out.

bert-tf write-examples --input='corpus/*.txt' --vocab=vocab.txt --output=tfrecords/pretraining
"""

import time

from absl import flags

from pipelines.commands import corpus_flags, text_flags
from pipelines.common import command_line
from pipelines.pretraining.settings import ExampleSettings

_VOCAB = flags.DEFINE_string(
    "vocab", None, "The vocabulary: a vocab.txt, or a folder with one.", required=True
)
_OUTPUT = command_line.define_path("output", None, "Folder to write to.", required=True)
_WORKERS = flags.DEFINE_integer("workers", None, "Processes; default: one for each core.")
ExampleSettings.define_flags()


def main() -> None:
    """Runs the writer with the flags given."""
    from pipelines.pretraining import local_runner

    request = local_runner.ExampleRequest(
        input=corpus_flags.INPUT.value,
        vocab=_VOCAB.value,
        output=_OUTPUT.value,
        settings=ExampleSettings.from_flags(),
        file_format=corpus_flags.FORMAT.value,
        read=corpus_flags.options(),
        tokenizer=tuple(text_flags.chosen().items()),
    )
    start = time.perf_counter()
    manifest = local_runner.write(request, _WORKERS.value)
    seconds = time.perf_counter() - start
    records = manifest["train"]["records"]
    print(
        f"{request.output}: {records:,} training examples and "
        f"{manifest['held_out'].get('records', 0):,} held out, from "
        f"{manifest['text']['documents']:,} documents; {manifest['text']['unknown_share']:.3%} "
        f"unknown; {seconds:.1f} s"
    )
