"""Writes the vectors or the features of the texts of a file, and resumes a run that was stopped."""

import itertools
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from absl import logging
from tqdm import tqdm

from bert_tf.export.sources import ModelSource
from bert_tf.vectors import blocks, text_rows, tokenized
from bert_tf.vectors.blocks import ARRAY, EMBED, FEATURES, LINES, BlockEntry, BlockOutput
from bert_tf.vectors.extractor import FeatureExtractor
from bert_tf.vectors.settings import Combination, EmbeddingSettings, FeatureSettings
from bert_tf.vectors.text_rows import StoredText
from bert_tf.vectors.tokenized import Example
from pipelines.common import files, machine, outputs, texts
from pipelines.common.errors import InputError
from pipelines.labelled import text_files
from pipelines.labelled.text_files import TextFile, WordsFile


def write(
    model: str | ModelSource, source: TextFile | WordsFile, output: str, settings: FeatureSettings
) -> tuple[dict[str, Any], bool]:
    """Writes the vectors or features of a file's texts, in their order, unless they exist.

    Blocks of texts depend on the texts and settings only: a run that was resumed ends with the same
    bytes as one that was never stopped, if the machine computes the same bits twice. This process
    keeps the memory that it frees from then on.

    Args:
      model: path of the model, or what `vectors.model.read` returned.
      source: the texts.
      output: a folder of blocks, or a file, .npy or .jsonl, which is made of the blocks in the end.
      settings: the settings; `EmbeddingSettings` make one vector for each text.

    Returns:
      The manifest of the output, and whether it existed before.

    Raises:
      InputError: model, texts or settings do not fit, or there is another output.
    """
    place = BlockOutput(output, EMBED if isinstance(settings, EmbeddingSettings) else FEATURES)
    _check_paths(source.path, place)
    count = text_files.check(source)
    machine.keep_freed_memory()
    extractor = FeatureExtractor(model, settings)
    identity = {
        "made_by": place.command,
        "input": source.identity(),
        **extractor.identity(),
        "block": [text_files.BLOCK, blocks.MAX_VALUES],
        "rows": count,
    }
    found = place.find(identity)
    if found:
        return found, True
    with place.begun(identity):
        sizes = _compute(source, extractor, place, count)
        if sum(sizes) != count:
            raise InputError(
                f"{source.path}: was changed while it was read; run the command again."
            )
        entries, counts = _inspect(place, extractor, sizes)
        if place.ending:
            entries = [_publish(place, extractor, entries)]
        found = place.finish({**identity, "counts": counts}, entries)
    _report(counts, count, extractor.max_seq_length)
    return found, False


def _check_paths(source: str, place: BlockOutput) -> None:
    """Raises InputError if texts cannot be read twice, or the output is not where it can be."""
    if source == "-" or (os.path.exists(source) and not os.path.isfile(source)):
        raise InputError(
            f"{source}: is not a file that can be read twice; write the texts to a file."
        )
    if place.ending not in ("", ARRAY, LINES):
        raise InputError(
            f"{place.path}: end the name with {ARRAY} or {LINES}, or name a folder, without an "
            "ending."
        )
    for path in place.files() if place.ending else ():
        outputs.check_file(path, source)
    if place.read() is None:
        place.check_absent()


def _compute(
    source: TextFile | WordsFile, extractor: FeatureExtractor, place: BlockOutput, count: int
) -> list[int]:
    """Writes the blocks that are missing; returns the number of texts of each block."""
    sizes = []
    with tqdm(total=count, unit="text", desc=place.command) as bar:
        for number, examples in enumerate(_blocks(source, extractor)):
            sizes.append(len(examples))
            if place.has(number, [LINES, ARRAY]):
                bar.initial += len(examples)  # does not count for the rate
                bar.update(len(examples))
                continue
            if bar.n and bar.n == bar.initial:
                logging.info("resuming after %d of %d texts.", bar.initial, count)
            block = extractor.extract(examples, bar.update)
            place.write(number, text_rows.rows(examples, block), block.values)
    return sizes


def _blocks(source: TextFile | WordsFile, extractor: FeatureExtractor) -> Iterator[list[Example]]:
    """Yields all texts in blocks of similar cost, whose features fit into memory."""

    def max_values(example: Example) -> int:
        """The number of values of an example; a token has a byte at least, but for rare ones."""
        text, second = tokenized.text_of(example)
        tokens = len(f"{text}{second or ''}".encode()) + 4
        units = 1 if extractor.settings.unit == "text" else min(tokens, extractor.max_seq_length)
        return units * math.prod(extractor.shape)

    examples: Iterable[Example] = source
    for block in text_files.blocks(examples):
        yield from texts.blocks(block, max_values, blocks.MAX_VALUES)


def _inspect(
    place: BlockOutput, extractor: FeatureExtractor, sizes: list[int]
) -> tuple[list[BlockEntry], dict[str, int]]:
    """The entries of all blocks in the manifest, and what is counted of the texts.

    Raises:
      InputError: a block is damaged.
    """
    cut = longest = empty = 0
    entries: list[BlockEntry] = []
    decoder = msgspec.json.Decoder(StoredText)
    for number, size in enumerate(sizes):
        path = place.block(number, LINES)
        try:
            with files.open_binary(path) as file:
                rows = [decoder.decode(line) for line in file]
        except msgspec.MsgspecError as error:
            raise place.damaged(path) from error
        if len(rows) != size:
            raise place.damaged(path)
        shape = [sum(row.units for row in rows), *extractor.shape]
        lengths = [row.length for row in rows]
        cut += sum(length > extractor.max_seq_length for length in lengths)
        longest = max(longest, *lengths)
        empty += sum(not "".join(row.texts).strip() for row in rows)
        entries.append(place.entry(number, size, shape, [LINES, ARRAY]))
    return entries, {"cut": cut, "longest": longest, "empty": empty}


def _publish(
    place: BlockOutput, extractor: FeatureExtractor, entries: list[BlockEntry]
) -> BlockEntry:
    """Writes the files of an output that is a file; returns their entry in the manifest."""
    rows = sum(entry["rows"] for entry in entries)
    if place.ending == LINES:
        lines = _feature_lines(place, extractor, len(entries))
        return {"rows": rows, "shape": [], "sha256": {LINES: place.publish(LINES, lines)}}
    shapes = [entry["shape"] for entry in entries]
    shape = [sum(units for units, *_ in shapes), *extractor.shape]
    heads = [len(blocks.header(each)) for each in shapes]
    texts_of = (blocks.pieces(place.block(number, LINES)) for number in range(len(entries)))
    values = (blocks.pieces(place.block(number, ARRAY), head) for number, head in enumerate(heads))
    checksums = {
        LINES: place.publish(LINES, itertools.chain.from_iterable(texts_of)),
        ARRAY: place.publish(
            ARRAY, itertools.chain([blocks.header(shape)], itertools.chain.from_iterable(values))
        ),
    }
    return {"rows": rows, "shape": shape, "sha256": checksums}


def _feature_lines(place: BlockOutput, extractor: FeatureExtractor, count: int) -> Iterator[bytes]:
    """Yields the lines of all blocks in the layout of extract_features."""
    layers: Sequence[Any] = extractor.settings.layers or ()
    if extractor.settings.combine != Combination.SEPARATE:
        layers = [list(layers)]
    number = 0
    for block in range(count):
        values = blocks.load(place.block(block, ARRAY))
        with files.open_binary(place.block(block, LINES)) as file:
            for line in file:
                row = msgspec.json.decode(line)
                own, values = np.split(values, [len(row.get("tokens", [""]))])
                found = text_rows.feature_line(row, own, number, layers)
                yield msgspec.json.encode(found) + b"\n"
                number += 1


def _report(counts: Mapping[str, int], rows: int, max_seq_length: int) -> None:
    """Logs how many texts were cut, and how many were empty."""
    if counts["cut"]:
        logging.warning(
            "%d of %d texts had more than max_seq_length=%d tokens and were cut; the longest "
            "has %d.",
            *(counts["cut"], rows, max_seq_length, counts["longest"]),
        )
    if counts["empty"]:
        logging.warning("%d of %d texts are empty; they have a row, too.", counts["empty"], rows)
