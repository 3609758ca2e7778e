r"""Writes pre-training examples as TFRecords, from text and a vocabulary.

  bert-tf write-examples --corpus='corpus/*.txt' --vocab=vocab.txt --output=tfrecords/pretraining
  bert-tf write-examples --runner=beam --corpus=gs://... --vocab=gs://... --output=gs://... \
      -- --runner=DataflowRunner --region=...

A complete folder is kept; a partial one is resumed.
"""

import time

from absl import flags

from pipelines.commands.shared_flags import CorpusFlags, RunnerFlags, TokenizerFlags
from pipelines.common import flag_types
from pipelines.common.texts import counted
from pipelines.pretraining.settings import ExampleSettings

_CORPUS = CorpusFlags()
_VOCAB = flags.DEFINE_string(
    "vocab", None, "The vocabulary: a vocab.txt, or a folder with one.", required=True
)
_OUTPUT = flag_types.define_path(
    "output",
    None,
    "Folder to write to: new, empty, or written by this command.",
    required=True,
)
_TOKENIZER = TokenizerFlags()
_RUNNER = RunnerFlags()
ExampleSettings.define_flags()


def prepare() -> None:
    """Starts what the workers need, while TensorFlow is imported."""
    _RUNNER.prepare("pipelines.pretraining.example_writer")


def main() -> None:
    """Writes examples as the flags say."""
    from pipelines.pretraining import example_writer

    runner = _RUNNER.runner()
    request = example_writer.ExampleRequest(
        corpus=_CORPUS.names.value,
        vocab=_VOCAB.value,
        output=_OUTPUT.value,
        settings=ExampleSettings.from_flags(),
        file_format=_CORPUS.format.value,
        read=_CORPUS.options(),
        tokenizer=tuple(_TOKENIZER.chosen().items()),
    )
    start = time.perf_counter()
    manifest = example_writer.write(request, runner)
    seconds = time.perf_counter() - start
    records = manifest["train"]["records"]
    print(
        f"{request.output}: {counted(records, 'training example')} and "
        f"{manifest['held_out'].get('records', 0):,} held out, from "
        f"{counted(manifest['text']['documents'], 'document')}; "
        f"{manifest['text']['unknown_fraction']:.3%} unknown; {seconds:.1f} s"
    )
