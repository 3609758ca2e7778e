"""TFRecords of examples as tf.data batches, each a function of the step alone.

`reading_order` says in which order, so a run resumes at the exact batch by skipping within one
group of files.
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

# Of a group: files, the record at which each begins, records to skip.
_GROUP_SPEC = tuple(tf.TensorSpec(shape, tf.int64) for shape in ([None], [None], []))
_MOST_SEGMENTS = 1 << 16
_FRAME_BYTES = 16  # of a TFRecord: a length and two checksums
# Reference names (google-research/bert) and newer ones (Model Garden), to ours.
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
}


@dataclasses.dataclass(frozen=True)
class ExampleFiles:
    """TFRecord files with the number of records and the features of each record."""

    paths: tuple[str, ...]
    records: tuple[int, ...]
    features: tuple[tuple[str, int, str], ...]  # name in the file, size, "int64" or "float32"

    @property
    def total(self) -> int:
        """Records in all files."""
        return sum(self.records)

    @property
    def max_seq_length(self) -> int:
        """Length of the sequences, in tokens."""
        return next(size for name, size, _ in self.features if name == "input_mask")

    @property
    def names(self) -> frozenset[str]:
        """The names of the features as batches have them."""
        return frozenset(_NAMES[name] for name, _, _ in self.features)


def open_examples(folder: str, held_out: bool = False) -> ExampleFiles:
    """Finds the training or held-out files of an output folder of the example writer.

    Raises:
      InputError: there is no manifest, or a file is missing, of another size
        than when it was written, or not one of examples.
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
    return ExampleFiles(tuple(paths), tuple(records), _features_of(paths[0]))


def open_foreign(paths: Sequence[str], vocab_size: int) -> tuple[ExampleFiles, int]:
    """Opens TFRecord files that another program wrote; every record is read once to check it.

    Args:
      paths: files in the format of google-research/bert or Model Garden.
      vocab_size: ids must be below it.

    Returns:
      The files, and the number of segments that their sequences have.

    Raises:
      InputError: a file is truncated or foreign, or has a value that no model takes, such as an id
        beyond the vocabulary.
    """
    records = [count_records(path) for path in paths]
    examples = ExampleFiles(tuple(paths), tuple(records), _features_of(paths[0]))
    return examples, max(_check_values(path, examples, vocab_size) for path in paths)


def _check_size(path: str, size: int) -> None:
    if not files.gfile.exists(path):
        raise InputError(
            f"{path}: no such file, though its manifest lists it; write the examples again."
        )
    found = files.gfile.stat(path).length
    if found != size:
        count_records(path)  # names the record, if one is damaged
        raise InputError(
            f"{path}: has {found:,} bytes, but {size:,} were written: records are missing. Write "
            "the examples again."
        )


def count_records(path: str) -> int:
    """Counts the records of a TFRecord file, checking each record's checksums.

    Raises:
      InputError: a record is cut off or damaged; the message says which.
    """
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
    # A file that ends within the header of a record reads as if it ended before it.
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
    """Finds the damaged record after a DataLossError, and gives the error to raise."""
    for path in paths:
        try:
            count_records(path)
        except InputError as error:
            return error
    return InputError("the examples could not be read, though every record is whole; try again.")


def _check_values(path: str, examples: ExampleFiles, vocab_size: int) -> int:
    """Checks the values of all records; returns the number of segments."""
    tokens = f"the vocabulary has {vocab_size} tokens. Use the one that the file was made with."
    limits = {
        **dict.fromkeys(("input_word_ids", "masked_lm_ids"), (vocab_size, tokens)),
        "masked_lm_positions": (examples.max_seq_length, "sequences are shorter."),
        "input_type_ids": (_MOST_SEGMENTS, f"{_MOST_SEGMENTS} segments are the most."),
        **dict.fromkeys(("input_mask", "next_sentence_labels"), (2, "it is 0 or 1.")),
    }
    first, segments = 0, 1
    for batch in tf.data.TFRecordDataset(path).batch(1024):
        try:
            parsed = parse(batch, examples)
        except tf.errors.InvalidArgumentError as error:
            raise InputError(
                f"{path}: a record from {first} on is not like the first one ({error.message})."
            ) from error
        for name, (limit, reason) in limits.items():
            if name not in parsed:
                continue
            values = parsed[name].numpy().reshape(len(batch), -1)
            bad = (values < 0) | (values >= limit)
            if bad.any():
                row = int(bad.any(axis=1).argmax())
                raise InputError(
                    f"{path}: record {first + row}: {name} has {values[row][bad[row]][0]}, but "
                    f"{reason}"
                )
        segments = max(segments, 1 + int(parsed["input_type_ids"].numpy().max()))
        first += len(parsed["input_mask"])
    return segments


def _features_of(path: str) -> tuple[tuple[str, int, str], ...]:
    """The known features of the first record and their sizes."""
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
    """Parses string [batch] records to int32 and float32 [batch, size], under our names.

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
    """Endless training batches, from any batch on.

    Args:
      examples: the files.
      batch_size: examples of a global batch.
      seed: of the order.
      start_batch: the first batch to give; batch n is the same whatever the start.
      shard: (index, count): this worker's part of every global batch.
      replicas: devices of this worker; its part comes in as many pieces, in turn.
      batches: global ones that are asked for at the most; None: any number.
      service: whose workers read and parse, in the same order; it takes `batches`, and
        gives no more than a few beyond them.

    Returns:
      A dataset of dicts of int32 and float32 tensors
      [batch_size / (count * replicas), ...], under our feature names.

    Raises:
      InputError: batch_size cannot be shared evenly.
    """
    index, count = shard
    if batch_size % (count * replicas):
        raise InputError(
            f"a batch of {batch_size} cannot be shared by {count * replicas} devices evenly; "
            "choose a multiple."
        )
    first, size = start_batch * batch_size, batch_size // (count * replicas)

    def batched(groups: tf.data.Dataset) -> tf.data.Dataset:
        records = groups.map(lambda *group: _named(examples, *group)).flat_map(_read_group)
        return records.shard(count, index).batch(size, drop_remainder=True)

    if service is None:
        groups = tf.data.Dataset.from_generator(
            lambda: record_groups(examples.records, seed, first),
            output_signature=_GROUP_SPEC,
        )
        return _parsed(batched(groups), examples)
    assert batches is not None
    table = group_table(examples.records, seed, first, batches * batch_size)

    def part(number: tf.Tensor, parts: int) -> tf.data.Dataset:
        groups = tf.data.Dataset.from_tensor_slices(table)
        return _parsed(batched(groups).shard(parts, number), examples)

    return service.distribute(part).prefetch(4).with_options(make_options())


def evaluation_batches(examples: ExampleFiles, batch_size: int) -> tf.data.Dataset:
    """All examples once, in the order of the files; the last batch may be smaller."""
    return _parsed(tf.data.TFRecordDataset(examples.paths).batch(batch_size), examples)


def _parsed(batches: tf.data.Dataset, examples: ExampleFiles) -> tf.data.Dataset:
    return (
        batches.map(lambda batch: parse(batch, examples), num_parallel_calls=2)
        .prefetch(4)
        .with_options(make_options())
    )


def make_options() -> tf.data.Options:
    """Options of all datasets here: in order, sharded by us, and without autotuning.

    Nothing is left to tune, and an iterator that is let go would wait for the
    tuning thread, which sleeps for up to a minute.
    """
    options = tf.data.Options()
    options.deterministic = True
    options.autotune.enabled = False
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return options


def _named(
    examples: ExampleFiles, members: tf.Tensor, starts: tf.Tensor, skip: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """A group with the paths of its files, string [files]."""
    there = members >= 0
    paths = tf.gather(tf.constant(examples.paths), tf.boolean_mask(members, there))
    return paths, tf.boolean_mask(starts, there), skip


def _read_group(paths: tf.Tensor, starts: tf.Tensor, skip: tf.Tensor) -> tf.data.Dataset:
    def rotated(path: tf.Tensor, start: tf.Tensor) -> tf.data.Dataset:
        records = tf.data.TFRecordDataset(path)
        return records.skip(start).concatenate(records.take(start))

    members = tf.data.Dataset.from_tensor_slices((paths, starts))
    return members.interleave(rotated, cycle_length=GROUP).skip(skip)


GROUP = 16  # files that are read together
_MOST_FILES_READ = 1 << 20  # in the order of a run, where it is a table


Group = tuple[np.ndarray, np.ndarray, int]


def record_groups(records: Sequence[int], seed: int, position: int) -> Iterator[Group]:
    """Yields what to read together, from a record of the endless order on.

    Groups before that record are left out unread.

    Args:
      records: of each file.
      seed: of the order.
      position: the record to begin with.

    Yields:
      The files of a group by number, the record at which each begins, and how many
      records of the group to skip.
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
    """The groups that hold `count` records from `position` on, for a graph that runs elsewhere.

    Other arguments are those of `groups`.

    Returns:
      int64 [groups, GROUP] files, -1 where a group has fewer; [groups, GROUP]
      first records; [groups] records to skip.

    Raises:
      InputError: the examples are so few that the table would be large.
    """
    total = sum(records)
    if (1 + count // total) * len(records) > _MOST_FILES_READ:
        raise InputError(
            f"{count:,} examples are to be read of {total:,}, over and over: too often for "
            "--data_service. Read them without it; so few come fast enough."
        )
    found: list[Group] = []
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


def describe(example: dict[str, Any], tokens: Sequence[str]) -> Iterator[str]:
    """Yields the lines that describe one example.

    A token to predict is shown as `{seen|original}`, segment A before segment
    B, each on its line.

    Args:
      example: arrays [size] under our feature names.
      tokens: the vocabulary.
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
    label = ""
    if "next_sentence_labels" in example:
        label = ", B is random" if example["next_sentence_labels"] else ", B is the next sentence"
    yield f"   {length} tokens, {int(sum(weights))} to predict{label}"
