"""Reads TFRecords of examples as tf.data batches; a batch depends only on its step.

In each epoch, the files are shuffled (by seed and epoch) and read in groups, one record of each
file in turn; each file begins at a random record and wraps around. The writer shuffles the examples
of a file, whose documents are from all over the corpus, so no buffer is needed. A run resumes at
the exact batch by skipping records within one group.
"""

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import message

from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.pretraining import example_folder
from pipelines.pretraining.data_service import DataService

GROUP = 16  # files that are read together
_MAX_FILES_READ = 1 << 20  # in a table of groups
# A group of files: their numbers, the record at which each begins, the number of records to skip.
RecordGroup = tuple[np.ndarray, np.ndarray, int]
_GROUP_SPEC = tuple(tf.TensorSpec(shape, tf.int64) for shape in ([None], [None], []))
_FRAME_BYTES = 16  # of a TFRecord: a length and two checksums
# Feature names in files (google-research/bert, Model Garden) and in batches.
_NAMES = {
    "input_ids": "input_word_ids",
    "segment_ids": "input_type_ids",
    "input_word_ids": "input_word_ids",
    "input_type_ids": "input_type_ids",
    "input_mask": "input_mask",
    "masked_lm_positions": "masked_lm_positions",
    "masked_lm_ids": "masked_lm_ids",
    "masked_lm_weights": "masked_lm_weights",
    "next_sentence_labels": "next_sentence_labels",
    "target_ids": "target_word_ids",
    "target_mask": "target_mask",
}


@dataclasses.dataclass(frozen=True)
class ExampleFiles:
    """TFRecord files of examples, with the number of records of each."""

    paths: tuple[str, ...]
    records: tuple[int, ...]
    features: tuple[tuple[str, int, str], ...]  # name in the files, size, "int64" or "float32"

    @property
    def total(self) -> int:
        """Number of records in all files."""
        return sum(self.records)

    @property
    def max_seq_length(self) -> int:
        """Length of the sequences in tokens."""
        return next(size for name, size, _ in self.features if name == "input_mask")

    @property
    def names(self) -> frozenset[str]:
        """Names of the features in batches."""
        return frozenset(_NAMES[name] for name, _, _ in self.features)


def open_examples(folder: str, held_out: bool = False) -> ExampleFiles:
    """Opens the training or held-out examples of a folder.

    Raises:
      InputError: the manifest or a file is missing, a file has another size than when it was
        written, or is not a file of examples.
    """
    manifest = example_folder.read_manifest(folder)
    shards = manifest["held_out" if held_out else "train"]["shards"]
    shards = [shard for shard in shards if shard["records"]]
    if not shards:
        raise InputError(f"{folder}: has no {'held-out' if held_out else 'training'} examples.")
    for shard in shards:
        _check_size(f"{folder}/{shard['file']}", shard["bytes"])
    paths = [f"{folder}/{shard['file']}" for shard in shards]
    records = [shard["records"] for shard in shards]
    return ExampleFiles(tuple(paths), tuple(records), features_of(paths[0]))


def _check_size(path: str, size: int) -> None:
    if not files.gfile.exists(path):
        raise InputError(
            f"{path}: no such file, though its manifest lists it; write the examples again."
        )
    found = files.gfile.stat(path).length
    if found != size:
        count_records(path)  # raises an error that names the damaged record, if any
        raise InputError(
            f"{path}: has {found:,} bytes, but {size:,} were written: records are missing. Write "
            "the examples again."
        )


def count_records(path: str) -> int:
    """Counts the records of a TFRecord file; an InputError names the first damaged one."""
    records = tf.data.TFRecordDataset(path)
    sound = 0
    try:
        for batch in records.batch(1024):
            sound += len(batch)
    except tf.errors.DataLossError:
        with contextlib.suppress(tf.errors.DataLossError):
            for _ in records.skip(sound):
                sound += 1
        raise _damaged(path, sound) from None
    # A file that ends within the header of a record is read as if it ended before the header.
    with files.open_binary(path) as file:
        size, position = files.gfile.stat(path).length, 0
        for _ in range(sound):
            file.seek(position)
            position += _FRAME_BYTES + int.from_bytes(file.read(8), "little")
    if position != size:
        raise _damaged(path, sound)
    return sound


def _damaged(path: str, record: int) -> InputError:
    return InputError(
        f"{path}: record {record} is damaged or cut off, or this is not a TFRecord file. "
        "Remove it, and write the examples again."
    )


def find_damage(paths: Iterable[str]) -> InputError:
    """Returns the error to raise after a DataLossError: it names the damaged record."""
    for path in paths:
        try:
            count_records(path)
        except InputError as error:
            return error
    return InputError("the examples could not be read, though every record is whole; try again.")


def features_of(path: str) -> tuple[tuple[str, int, str], ...]:
    """Returns the known features of the first record; raises InputError if some are missing."""
    try:
        record = next(iter(tf.data.TFRecordDataset(path).take(1))).numpy()
        example = tf.train.Example.FromString(record)
    except StopIteration:
        raise InputError(f"{path}: has no records.") from None
    except (tf.errors.DataLossError, message.DecodeError) as error:
        raise InputError(
            f"{path}: record 0 is damaged or not a tf.train.Example ({error})."
        ) from error
    found = []
    for name, feature in sorted(example.features.feature.items()):
        if name in _NAMES:
            is_float = feature.WhichOneof("kind") == "float_list"
            values = feature.float_list.value if is_float else feature.int64_list.value
            found.append((name, len(values), "float32" if is_float else "int64"))
    names = {_NAMES[name] for name, _, _ in found}
    missing = {"input_word_ids", "input_mask", "input_type_ids"} - names
    if missing:
        raise InputError(
            f"{path}: record 0 has no feature {', '.join(sorted(missing))}; these are not "
            "pre-training examples."
        )
    return tuple(found)


def parse(records: tf.Tensor, examples: ExampleFiles) -> dict[str, tf.Tensor]:
    """Parses string [batch] records to int32 and float32 [batch, size], by our names.

    `next_sentence_labels` has the shape [batch].
    """
    spec = {
        name: tf.io.FixedLenFeature([size], tf.as_dtype(dtype))
        for name, size, dtype in examples.features
    }
    features = {
        _NAMES[name]: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
        for name, value in tf.io.parse_example(records, spec).items()
    }
    if "next_sentence_labels" in features:
        features["next_sentence_labels"] = features["next_sentence_labels"][:, 0]
    return features


def training_batches(
    examples: ExampleFiles,
    batch_size: int,
    seed: int,
    start_batch: int = 0,
    shard: tuple[int, int] = (0, 1),
    replicas: int = 1,
    batches: int | None = None,
    service: DataService | None = None,
) -> tf.data.Dataset:
    """Returns endless training batches, beginning with any batch.

    Args:
      examples: the files.
      batch_size: number of examples in a global batch.
      seed: seed of the order.
      start_batch: number of the first batch; batch n does not depend on it.
      shard: (index, count) of this worker, which reads its part of every global batch.
      replicas: number of devices of this worker; its part is returned in as many pieces.
      batches: maximum number of global batches that will be read; required with `service`.
      service: service that reads and parses in the same order; it returns at most a few batches
        more than `batches`.

    Returns:
      A dataset of dicts of int32 and float32 tensors [batch_size / (count * replicas), ...].

    Raises:
      InputError: batch_size is not a multiple of the number of devices.
    """
    index, count = shard
    if batch_size % (count * replicas):
        raise InputError(
            f"a batch of {batch_size} cannot be shared by {count * replicas} devices evenly; "
            "choose a multiple."
        )
    first, size = start_batch * batch_size, batch_size // (count * replicas)

    def read_group(members: tf.Tensor, starts: tf.Tensor, skip: tf.Tensor) -> tf.data.Dataset:
        """One record of each file in turn; each file begins at a random one and wraps around."""
        paths = tf.constant(examples.paths)

        def rotated(member: tf.Tensor, start: tf.Tensor) -> tf.data.Dataset:
            records = tf.data.TFRecordDataset(paths[member])
            return records.skip(start).concatenate(records.take(start))

        there = members >= 0
        found = tf.boolean_mask(members, there), tf.boolean_mask(starts, there)
        group = tf.data.Dataset.from_tensor_slices(found)
        return group.interleave(rotated, cycle_length=GROUP).skip(skip)

    def batched(groups: tf.data.Dataset) -> tf.data.Dataset:
        records = groups.flat_map(read_group)
        return records.shard(count, index).batch(size, drop_remainder=True)

    if service is None:
        groups = tf.data.Dataset.from_generator(
            lambda: record_groups(examples.records, seed, first), output_signature=_GROUP_SPEC
        )
        return _parsed(batched(groups), examples)
    assert batches is not None
    table = group_table(examples.records, seed, first, batches * batch_size)

    def part(number: tf.Tensor, parts: int) -> tf.data.Dataset:
        groups = tf.data.Dataset.from_tensor_slices(table)
        return _parsed(batched(groups).shard(parts, number), examples)

    return service.distribute(part).prefetch(4).with_options(make_options())


def evaluation_batches(examples: ExampleFiles, batch_size: int) -> tf.data.Dataset:
    """Returns all examples once, in the order of the files; the last batch may be smaller."""
    return _parsed(tf.data.TFRecordDataset(examples.paths).batch(batch_size), examples)


def _parsed(batches: tf.data.Dataset, examples: ExampleFiles) -> tf.data.Dataset:
    return (
        batches.map(lambda batch: parse(batch, examples), num_parallel_calls=2)
        .prefetch(4)
        .with_options(make_options())
    )


def make_options() -> tf.data.Options:
    """Returns the options of all datasets: deterministic, sharded by us, without autotuning.

    There is nothing to tune, and deleting an iterator would wait for the tuning thread, which
    sleeps for up to a minute.
    """
    options = tf.data.Options()
    options.deterministic = True
    options.autotune.enabled = False
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return options


def record_groups(records: Sequence[int], seed: int, position: int) -> Iterator[RecordGroup]:
    """Yields the groups to read from a position in the endless order; earlier groups are not read.

    `records` is the number of records of each file.
    """
    total = sum(records)
    epoch, position = divmod(position, total)
    while True:
        rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, epoch])))
        order = rng.permutation(len(records))
        starts = rng.integers(0, np.array(records)[order])
        for first in range(0, len(order), GROUP):
            members = order[first : first + GROUP]
            size = sum(records[member] for member in members)
            if position < size:
                yield members, starts[first : first + GROUP], position
            position = max(0, position - size)
        epoch += 1


def group_table(
    records: Sequence[int], seed: int, position: int, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the groups with `count` records from `position`, for a graph that runs elsewhere.

    Returns:
      int64 [groups, GROUP] file numbers, -1 in smaller groups; [groups, GROUP] first records;
      [groups] records to skip.

    Raises:
      InputError: there are so few examples that the table would be large.
    """
    total = sum(records)
    if (1 + count // total) * len(records) > _MAX_FILES_READ:
        raise InputError(
            f"{count:,} examples are to be read from {total:,}, which repeats them too often for "
            "--data_service. Read them without it; so few are read fast enough."
        )
    found: list[RecordGroup] = []
    for members, starts, skip in record_groups(records, seed, position):
        found.append((members, starts, skip))
        count -= sum(records[member] for member in members) - skip
        if count <= 0:
            break

    def filled(values: list[np.ndarray]) -> np.ndarray:
        rows = [np.pad(row, (0, GROUP - len(row)), constant_values=-1) for row in values]
        return np.stack(rows).astype(np.int64)

    members_of, starts_of, skips = zip(*found, strict=True)
    return filled(list(members_of)), filled(list(starts_of)), np.array(skips, np.int64)


def original_tokens(batch: dict[str, np.ndarray]) -> np.ndarray:
    """Returns the tokens of a batch without masks and noise, int64 [batch, length]; -1: padding."""
    if "target_word_ids" in batch:
        return np.where(batch["target_mask"] > 0, batch["target_word_ids"].astype(np.int64), -1)
    tokens = batch["input_word_ids"].astype(np.int64)
    if "masked_lm_weights" in batch:  # else training draws the masks
        rows, slots = np.nonzero(batch["masked_lm_weights"] > 0)
        places = batch["masked_lm_positions"][rows, slots]
        tokens[rows, places] = batch["masked_lm_ids"][rows, slots]
    return np.where(batch["input_mask"] > 0, tokens, -1)


def neighbours(tokens: np.ndarray, special_ids: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the left and the right token of all pairs of neighbours, int64 [pairs] each.

    Pairs with a special token or with padding are left out; `tokens` are those of
    `original_tokens`.
    """
    left, right = tokens[:, :-1].ravel(), tokens[:, 1:].ravel()
    kept = (left >= 0) & (right >= 0) & ~np.isin(left, special_ids) & ~np.isin(right, special_ids)
    return left[kept], right[kept]


def describe(example: dict[str, Any], tokens: Sequence[str]) -> Iterator[str]:
    """Yields lines that describe an example, arrays [size] by our feature names, for reading.

    A token to predict is shown as `{seen|original}`; each segment is a line, and so is the original
    of a noised text.
    """
    words = [tokens[index] for index in example["input_word_ids"]]
    length = int(example["input_mask"].sum())
    weights = example.get("masked_lm_weights", [])
    for slot, weight in enumerate(weights):
        if weight:
            position = example["masked_lm_positions"][slot]
            original = tokens[example["masked_lm_ids"][slot]]
            words[position] = f"{{{words[position]}|{original}}}"
    a_length = length - int(example["input_type_ids"].sum())
    yield f"A: {' '.join(words[:a_length])}"
    if a_length < length:
        yield f"B: {' '.join(words[a_length:length])}"
    label, predicted = "", int(sum(weights))
    if "next_sentence_labels" in example:
        label = ", B does not follow A" if example["next_sentence_labels"] else ", B follows A"
    if "target_word_ids" in example:
        predicted = int(example["target_mask"].sum())
        original = [tokens[index] for index in example["target_word_ids"][:predicted]]
        yield f"original: {' '.join(original)}"
    yield f"   {length} tokens, {predicted} to predict{label}"
