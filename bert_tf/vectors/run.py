"""Writes the vectors or the features of the texts of a file, and resumes a run that was stopped."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from absl import logging
from tqdm import tqdm

from bert_tf.export.sources import ModelSource
from bert_tf.vectors import extractor as features
from bert_tf.vectors import formats, tokenized
from bert_tf.vectors.block_writer import (
    FEATURES,
    VECTORS,
    BlockWriter,
    Counts,
    Description,
    OutputKind,
)
from bert_tf.vectors.extractor import Embedder, FeatureBlock, FeatureExtractor
from bert_tf.vectors.settings import (
    Combination,
    EmbeddingSettings,
    FeatureFormat,
    FeatureSettings,
    VectorFormat,
)
from bert_tf.vectors.storage import GrowingFiles, ShardFiles, Storage
from bert_tf.vectors.tokenized import Example
from pipelines.common import locks, outputs
from pipelines.common.errors import InputError
from pipelines.labelled import text_files
from pipelines.labelled.text_files import TextFile, WordsFile

_MANIFEST = "manifest.json"
# The bytes that a block of texts adds to each file, given the number of its first text.
Encode = Callable[[Sequence[Example], FeatureBlock, int], Sequence[bytes]]


def embed_file(
    model: str | ModelSource,
    source: TextFile,
    output: str,
    settings: EmbeddingSettings,
    chosen_format: str | None = None,
) -> tuple[Description, bool]:
    """Writes the vectors of a file's texts, in their order, unless they exist.

    Blocks of rows depend on the texts only: a run that was resumed ends with the same bytes as one
    that was never stopped, if the machine computes the same bits twice.

    Args:
      model: path of the model, or what `vectors.model.read` returned.
      source: the texts.
      output: path of the file to write.
      settings: the settings.
      chosen_format: a `VectorFormat`; None: the ending of the output.

    Returns:
      The description of the output, and whether it existed before.

    Raises:
      InputError: model, texts or settings do not fit, or there is another file.
    """
    kind = formats.format_of(VectorFormat, output, chosen_format)
    paths, path = formats.vector_paths(kind, output), f"{output}.json"
    _check_paths(source.path, paths, VECTORS, path)
    rows = text_files.check(source)
    embedder = Embedder(model, settings)
    identity = {"format": kind.value, "rows": rows, "block": text_files.BLOCK}
    identity |= source.identity() | embedder.identity()

    def encode(examples: Sequence[Example], block: FeatureBlock, _: int) -> Sequence[bytes]:
        return formats.encode_vectors(kind, examples, block.values)

    storage = GrowingFiles(output, paths, formats.vector_heads(kind, rows, embedder.width))
    with (
        locks.held_file(f"{output}.lock", output),
        BlockWriter(VECTORS, storage, path, identity) as writer,
    ):
        return _write(source, embedder.extractor, writer, encode, sys.maxsize)


def extract_file(
    model: str,
    source: TextFile | WordsFile,
    output: str,
    settings: FeatureSettings,
    chosen_format: str | None = None,
) -> tuple[Description, bool]:
    """Writes the features of a file's texts like `embed_file`; the output may be a folder."""
    kind = formats.format_of(FeatureFormat, output, chosen_format)
    in_folder = kind is FeatureFormat.NPZ
    path = f"{output}/{_MANIFEST}" if in_folder else f"{output}.json"
    _check_paths(source.path, [] if in_folder else [output], FEATURES, path)
    if in_folder:
        outputs.check_folder(output, FEATURES.what, [_MANIFEST], inputs=[source.path])
    rows = text_files.check(source)
    extractor = FeatureExtractor(model, settings)
    blocks = [text_files.BLOCK, features.BLOCK]
    identity: dict[str, Any] = {"format": kind.value, "rows": rows, "block": blocks}
    identity |= source.identity() | extractor.identity()
    layers: Sequence[Any] = extractor.settings.layers or ()
    if settings.combine != Combination.SEPARATE:
        layers = [list(layers)]

    def encode(examples: Sequence[Example], block: FeatureBlock, number: int) -> Sequence[bytes]:
        return [formats.encode_features(kind, examples, block, number, layers)]

    storage: Storage = GrowingFiles(output, [output], [b""])
    lock = locks.held_file(f"{output}.lock", output)
    if in_folder:
        storage, lock = ShardFiles(output, "features", ".npz"), locks.held(output)
    with lock, BlockWriter(FEATURES, storage, path, identity) as writer:
        return _write(source, extractor, writer, encode, features.BLOCK)


def _check_paths(source: str, written: Sequence[str], kind: OutputKind, description: str) -> None:
    """Raises InputError if texts cannot be read twice, or an output is them or something else."""
    if source == "-" or (os.path.exists(source) and not os.path.isfile(source)):
        raise InputError(
            f"{source}: is not a file that can be read twice; write the texts to a file."
        )
    for path in written:
        outputs.check_file(path, source)
    kind.begun(description, [path for path in written if os.path.exists(path)])


def _write(
    source: TextFile | WordsFile,
    extractor: FeatureExtractor,
    writer: BlockWriter,
    encode: Encode,
    max_values: int,
) -> tuple[Description, bool]:
    """Writes the rows that are missing; returns the description, and whether none was."""
    known, rows, max_seq_length = writer.finished, writer.rows, extractor.max_seq_length
    if known:
        return writer.description(), known
    if writer.done:
        logging.info("resuming after %d of %d texts.", writer.done, rows)
    with tqdm(total=rows, initial=writer.done, unit="text", desc=writer.kind.command) as bar:
        for examples, block in _blocks(source, extractor, writer.done, bar, max_values):
            data = encode(examples, block, writer.done)
            writer.write(data, len(examples), _count(examples, block, max_seq_length))
    if writer.done != rows:
        raise InputError(f"{source.path}: was changed while it was read; run the command again.")
    writer.finish()
    _report(writer.counts, rows, max_seq_length, writer.kind.what)
    return writer.description(), known


def _blocks(
    source: TextFile | WordsFile,
    extractor: FeatureExtractor,
    done: int,
    bar: tqdm,
    max_values: int,
) -> Iterator[tuple[list[Example], FeatureBlock]]:
    """Yields the texts and features of each block that is not done; all texts are read again."""
    first = 0
    texts: Iterable[Example] = source
    for examples in text_files.blocks(texts):
        start = max(done - first, 0)
        if start < len(examples):
            for block in extractor.blocks(examples, start, bar.update, max_values):
                yield examples[start : start + len(block)], block
                start += len(block)
        first += len(examples)


def _count(examples: Sequence[Example], block: FeatureBlock, max_seq_length: int) -> Counts:
    """Counts of the unusual texts of a block."""
    texts = (tokenized.text_of(example) for example in examples)
    return {
        "cut": int((block.uncut > max_seq_length).sum()),
        "longest": int(block.uncut.max()),
        "empty": sum(not f"{text}{second or ''}".strip() for text, second in texts),
    }


def _report(counts: Counts, rows: int, max_seq_length: int, what: str) -> None:
    """Logs how many texts were cut, and how many were empty."""
    if counts["cut"]:
        logging.warning(
            "%d of %d texts had more than max_seq_length=%d tokens and were cut; the longest "
            "has %d.",
            *(counts["cut"], rows, max_seq_length, counts["longest"]),
        )
    if counts["empty"]:
        logging.warning("%d of %d texts are empty; they have %s too.", counts["empty"], rows, what)
