"""Vectors of the texts of a file, written to another, which a stopped run goes on with."""

import itertools
import os
from collections.abc import Sequence

import numpy as np
from absl import logging
from tqdm import tqdm

from bert_tf.serving.embedding import description, formats
from bert_tf.serving.embedding.description import Counts, Description
from bert_tf.serving.embedding.embedder import Embedder
from bert_tf.serving.embedding.settings import EmbeddingSettings
from bert_tf.serving.embedding.vector_writer import VectorWriter
from pipelines.common import files, locks
from pipelines.common.errors import InputError
from pipelines.labelled import plain_texts
from pipelines.labelled.plain_texts import TextFile
from pipelines.labelled.schema import TextExample


def embed_file(
    model: str,
    source: TextFile,
    output: str,
    settings: EmbeddingSettings,
    chosen_format: str | None = None,
) -> tuple[Description, bool]:
    """Writes the vectors of a file's texts, in their order, unless they are there.

    Blocks of rows follow from the texts alone, so that a run that went on ends with the bytes of
    one that was never stopped, where a computation gives the same bits twice.

    Args:
      model: as for `Embedder`.
      source: the texts.
      output: the file to write.
      settings: of the vectors.
      chosen_format: a `VectorFormat`; None: by the name of the output.

    Returns:
      What is there now, and whether it was there before.

    Raises:
      InputError: model, texts or settings do not fit, or something else is in the place of the
        output.
    """
    kind = formats.format_of(output, chosen_format)
    _check_input(source.path)
    _check_output(source.path, formats.paths(kind, output))
    rows = plain_texts.check(source)
    embedder = Embedder(model, settings)
    identity = {
        "rows": rows,
        "block": plain_texts.BLOCK,
        **source.identity(),
        **embedder.identity(),
    }
    with (
        locks.held_file(f"{output}.lock", output),
        VectorWriter(output, kind, identity) as writer,
    ):
        known = writer.finished
        if not known:
            _embed(source, embedder, writer, rows)
            writer.finish()
            _report(writer.counts, rows, embedder.max_length)
    found = description.find(output)
    assert found is not None  # the writer wrote it
    return found, known


def _check_input(path: str) -> None:
    """Raises InputError where texts can be read but once, so that no run could go on."""
    if path == "-" or ("://" not in path and os.path.exists(path) and not os.path.isfile(path)):
        raise InputError(f"{path}: is no file that can be read again; write the texts to one.")


def _check_output(source: str, outputs: Sequence[str]) -> None:
    """Raises InputError where an output is a folder, or the file to read."""
    for path in outputs:
        if files.gfile.isdir(path):
            raise InputError(f"{path}: is a folder; name a file to write (OUT=).")
        if path == source or ("://" not in path and _is_same(path, source)):
            raise InputError(f"{path}: is the file of the texts; name another one to write (OUT=).")


def _is_same(path: str, other: str) -> bool:
    return os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)


def _embed(source: TextFile, embedder: Embedder, writer: VectorWriter, rows: int) -> None:
    """Writes the rows that are not there yet."""
    if writer.done:
        logging.info("going on behind %d of %d texts.", writer.done, rows)
    left = itertools.islice(source, writer.done, None)
    with tqdm(total=rows, initial=writer.done, unit="text", desc="embed") as bar:
        for block in plain_texts.blocks(left):
            found = embedder.embed(*plain_texts.split(block), bar.update)
            counts = _counts(block, found.lengths, embedder.max_length)
            writer.append(block, found.vectors, counts)
    if writer.done != rows:
        raise InputError(f"{source.path}: was changed while it was read; run the command again.")


def _counts(block: Sequence[TextExample], lengths: np.ndarray, max_length: int) -> Counts:
    empty = [not (example.text_a.strip() or (example.text_b or "").strip()) for example in block]
    return {
        "cut": int((lengths > max_length).sum()),
        "longest": int(lengths.max()),
        "empty": sum(empty),
    }


def _report(counts: Counts, rows: int, max_length: int) -> None:
    """Tells what was odd about the texts."""
    if counts["cut"]:
        logging.warning(
            "%d of %d texts have more than --max_length=%d tokens, and were cut; the longest has "
            "%d.",
            *(counts["cut"], rows, max_length, counts["longest"]),
        )
    if counts["empty"]:
        logging.warning("%d of %d texts are empty; they have vectors, too.", counts["empty"], rows)
