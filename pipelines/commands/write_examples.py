r"""Writes pre-training examples as TFRecords, from text and a vocabulary.

  bert-tf write-examples --corpus='corpus/*.txt' --vocab=vocab.txt --output=tfrecords/pretraining
  bert-tf write-examples --runner=beam --corpus=gs://... --vocab=gs://... --output=gs://... \
      -- --runner=DataflowRunner --region=...

A complete folder is kept; a partial one is resumed.
"""

import time

from pipelines.commands.shared_flags import CorpusFlags, RunnerFlags, TokenizerFlags
from pipelines.common.flag_types import Path
from pipelines.common.texts import counted
from pipelines.pretraining.settings import ExampleSettings


def prepare(runner: RunnerFlags, **_: object) -> None:
    """Starts what the workers need, while TensorFlow is imported."""
    runner.start("pipelines.pretraining.example_writer")


def main(
    *,
    corpus: CorpusFlags,
    vocab: Path,
    output: Path,
    tokenizer: TokenizerFlags,
    runner: RunnerFlags,
    settings: ExampleSettings,
) -> None:
    """Writes examples as the flags say.

    Flags:
      vocab: The vocabulary: a vocab.txt, or a folder with one.
      output: Folder to write to: new, empty, or written by this command.
    """
    from pipelines.pretraining import example_writer

    request = example_writer.ExampleRequest(
        corpus=corpus.corpus,
        vocab=vocab,
        output=output,
        settings=settings,
        file_format=corpus.format,
        read=corpus.options(),
        tokenizer=tuple(tokenizer.chosen().items()),
    )
    start = time.perf_counter()
    manifest = example_writer.write(request, runner.runner())
    seconds = time.perf_counter() - start
    records = manifest["train"]["records"]
    print(
        f"{request.output}: {counted(records, 'training example')} and "
        f"{manifest['held_out'].get('records', 0):,} held out, from "
        f"{counted(manifest['text']['documents'], 'document')}; "
        f"{manifest['text']['unknown_fraction']:.3%} unknown; {seconds:.1f} s"
    )
