"""Vectors of the texts of a file, written to another, which a stopped run goes on with."""

import itertools

from absl import logging
from tqdm import tqdm

from bert_tf.vectors.embedding import description, formats
from bert_tf.vectors.embedding.description import Description
from bert_tf.vectors.embedding.embedder import Embedder
from bert_tf.vectors.embedding.settings import EmbeddingSettings
from bert_tf.vectors.embedding.vector_writer import VectorWriter
from bert_tf.vectors.encoding import odd_texts
from pipelines.common import locks
from pipelines.labelled import text_files
from pipelines.labelled.text_files import TextFile


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
    odd_texts.check_input(source.path)
    odd_texts.check_outputs(source.path, formats.paths(kind, output))
    rows = text_files.check(source)
    embedder = Embedder(model, settings)
    identity = {
        "rows": rows,
        "block": text_files.BLOCK,
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
            odd_texts.report(writer.counts, rows, embedder.max_length, "vectors")
    found = description.find(output)
    assert found is not None  # the writer wrote it
    return found, known


def _embed(source: TextFile, embedder: Embedder, writer: VectorWriter, rows: int) -> None:
    """Writes the rows that are not there yet."""
    if writer.done:
        logging.info("going on behind %d of %d texts.", writer.done, rows)
    left = itertools.islice(source, writer.done, None)
    with tqdm(total=rows, initial=writer.done, unit="text", desc="embed") as bar:
        for block in text_files.blocks(left):
            found = embedder.embed(*text_files.split(block), bar.update)
            texts = (example.text_a + (example.text_b or "") for example in block)
            counts = odd_texts.count(texts, found.lengths, embedder.max_length)
            writer.append(block, found.vectors, counts)
    if writer.done != rows:
        raise odd_texts.changed(source.path)
