"""Features of the texts of a file, written to others, which a stopped run goes on with."""

from collections.abc import Iterable, Iterator

from absl import logging
from tqdm import tqdm

from bert_tf.vectors.encoding import description, odd_texts
from bert_tf.vectors.encoding.block_writer import BlockWriter
from bert_tf.vectors.encoding.description import OutputKind, State
from bert_tf.vectors.extraction import extractor as features
from bert_tf.vectors.extraction import formats
from bert_tf.vectors.extraction.extracted import Extracted
from bert_tf.vectors.extraction.extractor import FeatureExtractor
from bert_tf.vectors.extraction.formats import Example, FeatureFormat
from bert_tf.vectors.extraction.inputs import Inputs
from bert_tf.vectors.extraction.settings import Combination, FeatureSettings
from pipelines.common import locks, outputs
from pipelines.labelled import text_files
from pipelines.labelled.schema import WordsExample
from pipelines.labelled.text_files import TextFile, WordsFile

_MANIFEST = "manifest.json"


class Description(State):
    """What features say of themselves; more of what they were made of besides."""

    format: FeatureFormat
    shape: list[description.Count]  # of a unit


KIND = OutputKind("bert_tf.features", "features", "bert-tf features", Description)


def extract_file(
    model: str,
    source: TextFile | WordsFile,
    output: str,
    settings: FeatureSettings,
    chosen_format: str | None = None,
) -> tuple[Description, bool]:
    """Writes the features of a file's texts, in their order, unless they are there.

    Blocks of rows follow from the texts and the settings alone, so that a run that went on ends
    with the bytes of one that was never stopped, where a computation gives the same bits twice.

    Args:
      model: as for `FeatureExtractor`.
      source: the texts.
      output: the file to write, or the folder.
      settings: of the features.
      chosen_format: a `FeatureFormat`; None: by the name of the output.

    Returns:
      What is there now, and whether it was there before.

    Raises:
      InputError: model, texts or settings do not fit, or something else is in the place of the
        output.
    """
    kind = formats.format_of(output, chosen_format)
    odd_texts.check_input(source.path)
    _check_output(kind, source.path, output)
    rows = _check(source)
    extractor = FeatureExtractor(model, settings)
    identity = {
        "format": kind.value,
        "rows": rows,
        "block": [text_files.BLOCK, features.BLOCK],
        **source.identity(),
        **extractor.identity(),
    }
    in_folder = kind is FeatureFormat.NPZ
    place = f"{output}/{_MANIFEST}" if in_folder else f"{output}.json"
    lock = locks.held(output) if in_folder else locks.held_file(f"{output}.lock", output)
    with lock, BlockWriter(formats.storage(kind, output), place, KIND, identity) as writer:
        known = writer.finished
        if not known:
            _extract(source, extractor, writer, kind, rows)
            writer.finish()
            odd_texts.report(writer.counts, rows, extractor.max_length, "features")
    found = description.find(place, KIND)
    assert found is not None  # the writer wrote it
    return found, known


def _check(source: TextFile | WordsFile) -> int:
    """Reads a file to its end, and counts its texts."""
    return text_files.check(source)


def _check_output(kind: FeatureFormat, source: str, output: str) -> None:
    """Raises InputError where the output is of somebody else."""
    if kind is FeatureFormat.NPZ:
        outputs.check_folder(output, KIND.what, [_MANIFEST], inputs=[source])
    else:
        odd_texts.check_outputs(source, [output])


def _extract(
    source: TextFile | WordsFile,
    extractor: FeatureExtractor,
    writer: BlockWriter,
    kind: FeatureFormat,
    rows: int,
) -> None:
    """Writes the rows that are not there yet."""
    if writer.done:
        logging.info("going on behind %d of %d texts.", writer.done, rows)
    layers = extractor.settings.layers or ()
    separate = extractor.settings.combine == Combination.SEPARATE
    with tqdm(total=rows, initial=writer.done, unit="text", desc="features") as bar:
        for examples, found in _blocks(source, extractor, writer.done, bar):
            data = formats.encode(kind, examples, found, writer.done, layers, separate)
            texts = map(_text_of, examples)
            counts = odd_texts.count(texts, found.uncut, extractor.max_length)
            writer.write([data], len(examples), counts)
    if writer.done != rows:
        raise odd_texts.changed(source.path)


def _blocks(
    source: TextFile | WordsFile, extractor: FeatureExtractor, done: int, bar: tqdm
) -> Iterator[tuple[list[Example], Extracted]]:
    """Yields the texts and features of each block behind those that are done.

    Texts are read anew from the first one, because blocks follow from where others ended.
    """
    first = 0
    texts: Iterable[Example] = source
    for examples in text_files.blocks(texts):
        last = first + len(examples)
        start = done - first
        if start < len(examples):
            at = max(start, 0)
            for found in extractor.blocks(Inputs.of_examples(examples), at, bar.update):
                yield examples[at : at + len(found)], found
                at += len(found)
        first = last


def _text_of(example: Example) -> str:
    if isinstance(example, WordsExample):
        return " ".join(example.words)
    return example.text_a + (example.text_b or "")
