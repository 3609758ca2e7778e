"""Parts of an encoder that are not trained, and the outputs of one that is frozen as a whole.

Such outputs are computed once for all epochs, seeds and heads: the feature-based approach (paper,
section 5.3) reads nothing else. They are features of tokens in the blocks of `vectors.blocks`,
float32 [tokens, layers, hidden_size], for the sequences of a split and the layers of a head. Blocks
are mapped into memory, so that a run needs only the rows of a batch in memory.
"""

import dataclasses
import functools
import hashlib
import itertools
import json
import math
import os
import re
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from absl import logging

from bert_tf.export import sources
from bert_tf.finetuning.task_data import Split, TaskData
from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.base_encoder import Encoder
from bert_tf.models.layers.base import Layer
from bert_tf.tasks import Task
from bert_tf.vectors import blocks
from bert_tf.vectors.blocks import ARRAY, BlockOutput
from bert_tf.vectors.extractor import FeatureExtractor
from bert_tf.vectors.settings import FeatureSettings, Unit
from bert_tf.vectors.tokenized import TokenizedTexts
from bert_tf.weights import Bundle
from pipelines.common import files, outputs, texts
from pipelines.common.errors import InputError
from pipelines.labelled.features import FeatureColumn, Features, layer_name

_ALL, _EMBEDDINGS = "all", "embeddings"
_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")
_DIGITS = 16
_FOLDER = "frozen-"  # begins the names of cache folders


@dataclasses.dataclass(frozen=True)
class Frozen:
    """Parts of an encoder that are not trained.

    Attributes:
      embeddings: whether the embeddings are frozen.
      blocks: indices of the frozen blocks, from 0, the lowest.
      whole: whether nothing else of the encoder is left; its pooler is trained with the heads.
    """

    embeddings: bool = False
    blocks: frozenset[int] = frozenset()
    whole: bool = False

    @classmethod
    def parse(cls, text: str | None, config: EncoderConfig) -> "Frozen":
        """Parses --freeze, such as "embeddings,0-3" or "all".

        Raises:
          InputError: it names a part that the model does not have.
        """
        count = config.num_blocks
        layers = f"the layers 0 to {count - 1}" if count > 1 else "the layers, which are one: 0"
        embeddings, blocks = False, set[int]()
        for part in (text or "").replace(" ", "").split(","):
            match = _RANGE.fullmatch(part)
            if part == _ALL:
                embeddings, blocks = True, set(range(count))
            elif part == _EMBEDDINGS:
                embeddings = True
            elif match:
                first, last = int(match[1]), int(match[2] or match[1])
                blocks |= set(range(first, last + 1))
                if last < first or last >= count:
                    raise InputError(f"--freeze={text}: {part} is not among {layers}.")
            elif text is not None:
                raise InputError(
                    f"--freeze={text}: {part!r} is neither `embeddings`, `all`, nor a layer or a "
                    f"range of {layers}."
                )
        return cls(embeddings, frozenset(blocks), embeddings and len(blocks) == count)

    def layers(self, encoder: Encoder) -> list[Layer]:
        """These parts of an encoder."""
        if self.whole:  # what is between the blocks and the pooler too
            return [layer for layer in encoder.members() if layer is not encoder.pooler]
        blocks = [encoder.blocks[index] for index in self.blocks]
        return [encoder.embeddings, *blocks] if self.embeddings else blocks


def with_outputs(data: Sequence[TaskData], bundle: Bundle, cache: str) -> list[TaskData]:
    """The data with further features: the outputs of the encoder that the tasks' heads read.

    Args:
      data: the tasks.
      bundle: the model to start from; its encoder is not trained.
      cache: folder for the blocks of outputs.

    Raises:
      InputError: blocks in the cache are damaged, or the disk is full.
    """
    encoder_sha256 = bundle.encoder_sha256()

    @functools.cache
    def extractor(layers: tuple[int, ...]) -> FeatureExtractor:
        source = sources.of_bundle(bundle, bundle.place)
        return FeatureExtractor(source, FeatureSettings(layers=layers))

    def add(task: Task, split: Split) -> Split:
        layers = task.head.indices(bundle.config.num_hidden_layers)
        features, splits = split.features, task.sequence_splits(split.features)
        identity = {
            "made_by": "finetune",
            "encoder_sha256": encoder_sha256,
            "inputs_sha256": _digest(features, splits),
            "layers": list(layers),
            "block": blocks.MAX_VALUES,
        }
        name = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:_DIGITS]
        place = BlockOutput(f"{cache}/{task.name}/{_FOLDER}{name}", "finetune")
        shape = [len(layers), bundle.config.hidden_size]
        max_tokens = blocks.MAX_VALUES // math.prod(shape)
        pairs = texts.blocks(itertools.pairwise(splits), lambda x: x[1] - x[0], max_tokens)
        parts = [np.array([*(start for start, _ in block), block[-1][1]]) for block in pairs]
        if not place.find(identity):
            logging.info(
                "outputs of the frozen encoder: %s tokens, %d layers, %.2f GB, kept in %s",
                f"{splits[-1]:,}",
                len(layers),
                4 * splits[-1] * math.prod(shape) / 1e9,
                place.path,
            )
            place.begin(identity)
            for number, part in enumerate(parts):
                if not place.has(number, [ARRAY]):
                    values = extractor(layers).compute(_sequences(features, part))
                    place.write(number, values=values)
            entries = [
                place.entry(number, len(part) - 1, [int(part[-1] - part[0]), *shape], [ARRAY])
                for number, part in enumerate(parts)
            ]
            place.finish(identity, entries)
        arrays = [blocks.load(place.block(number, ARRAY)) for number in range(len(parts))]
        outputs_of = {
            layer_name(layer): FeatureColumn(
                cast(Any, _LayerOutputs(arrays, np.array([part[0] for part in parts]), index)),
                features["input_word_ids"].splits,
            )
            for index, layer in enumerate(layers)
        }
        columns = {**features.columns, **outputs_of}
        return dataclasses.replace(split, features=dataclasses.replace(features, columns=columns))

    return [
        dataclasses.replace(
            item,
            train=add(item.task, item.train),
            dev=tuple(add(item.task, split) for split in item.dev),
            test=tuple(add(item.task, split) for split in item.test),
        )
        for item in data
    ]


@dataclasses.dataclass(frozen=True)
class _LayerOutputs:
    """The outputs of a layer for all tokens, of which those of a sequence are taken by a slice.

    Attributes:
      arrays: those of each block, float32 [tokens, layers, width].
      first: int64 [blocks], the first token of each block; a sequence is in one block.
      layer: the index of the layer in the arrays.
    """

    arrays: Sequence[np.ndarray]
    first: np.ndarray
    layer: int

    def __getitem__(self, tokens: slice) -> np.ndarray:
        block = int(np.searchsorted(self.first, tokens.start, "right")) - 1
        start = self.first[block]
        return self.arrays[block][tokens.start - start : tokens.stop - start, self.layer]


def _sequences(features: Features, splits: np.ndarray) -> TokenizedTexts:
    """The sequences between splits as texts whose tokens have features of their own."""
    part = slice(splits[0], splits[-1])
    ids, types = (
        features[name].values[part].astype(np.int32)
        for name in ("input_word_ids", "input_type_ids")
    )
    each, own = np.ones(len(ids), bool), splits - splits[0]
    return TokenizedTexts(
        Unit.TOKEN, ids, types, own, np.diff(own), each, each, own, None, features.pad_id
    )


def _digest(features: Features, splits: np.ndarray) -> str:
    digest = hashlib.sha256()
    for values in (features["input_word_ids"].values, features["input_type_ids"].values, splits):
        digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()


def remove_outputs(folder: str) -> None:
    """Removes the kept outputs of the tasks in a folder, and the folders that this empties."""
    found = [
        place
        for task in files.matching(folder, "*")
        for place in files.matching(task, f"{_FOLDER}*")
        if files.gfile.exists(f"{place}/{blocks.IDENTITY}")
    ]
    if not found:
        outputs.report_nothing_to_do(folder, "cache")
    for place in found:
        outputs.remove(place, [blocks.IDENTITY, blocks.MANIFEST, f"*{ARRAY}", *files.LEFT_BEHIND])
    for place in (*map(os.path.dirname, found), folder):
        if files.gfile.isdir(place) and not files.gfile.listdir(place):
            files.remove_tree(place)
