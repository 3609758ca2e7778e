"""The tf.data readers: order, resumption, damage."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from pipelines.common.errors import InputError
from pipelines.pretraining import adoption, example_reader


def write(path, numbers, length=8):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in numbers:
            ints = lambda values: tf.train.Feature(int64_list=tf.train.Int64List(value=values))  # noqa: E731
            feature = {
                "input_ids": ints([number] * length),
                "input_mask": ints([1] * length),
                "segment_ids": ints([0] * length),
                "next_sentence_labels": ints([1]),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())
    return str(path)


@pytest.fixture
def found(tmp_path):
    """Five files of 7 to 11 records, numbered throughout."""
    counts, start, paths = [7, 8, 9, 10, 11], 0, []
    for index, count in enumerate(counts):
        paths.append(write(tmp_path / f"{index}.tfrecord", range(start, start + count)))
        start += count
    return adoption.open_foreign(paths, 100)[0]


def numbers(dataset, count):
    return [b["input_word_ids"][:, 0].numpy().tolist() for b in dataset.take(count)]


def test_an_epoch_has_every_record_once_and_the_next_another_order(found):
    flat = list(itertools.chain(*numbers(example_reader.training_batches(found, 5, seed=1), 18)))
    first, second = flat[:45], flat[45:90]
    assert sorted(first) == sorted(second) == list(range(45))
    assert first != second


@pytest.mark.more_cases
@pytest.mark.parametrize("group", [2, 16])
def test_any_batch_is_the_same_wherever_reading_starts(found, monkeypatch, group):
    monkeypatch.setattr(example_reader, "GROUP", group)
    whole = numbers(example_reader.training_batches(found, 4, seed=1), 40)
    for start in (0, 1, 5, 11, 12, 23, 39):
        rest = example_reader.training_batches(found, 4, seed=1, start_batch=start)
        assert numbers(rest, 40 - start) == whole[start:]


def test_workers_share_each_batch(found):
    whole = numbers(example_reader.training_batches(found, 8, seed=1), 10)
    parts = [
        numbers(example_reader.training_batches(found, 8, 1, 0, (i, 2), replicas=2), 20)
        for i in (0, 1)
    ]
    for step, batch in enumerate(whole):
        mine = [n for part in parts for n in part[2 * step] + part[2 * step + 1]]
        assert sorted(mine) == sorted(batch)


def test_a_batch_that_cannot_be_shared_is_an_error(found):
    with pytest.raises(InputError, match="a batch of 9 cannot be shared by 2 devices"):
        example_reader.training_batches(found, 9, seed=1, shard=(0, 2))


def test_seeds_give_other_orders(found):
    a, b = (numbers(example_reader.training_batches(found, 5, seed), 5) for seed in (1, 2))
    assert a != b


def test_names_and_types_are_ours(found):
    batch = next(iter(example_reader.training_batches(found, 5, 1)))
    assert {name: value.dtype for name, value in batch.items()} == dict.fromkeys(
        ("input_word_ids", "input_mask", "input_type_ids", "next_sentence_labels"), tf.int32
    )
    assert batch["next_sentence_labels"].shape == [5]


def test_evaluation_reads_all_once_in_order(found):
    batches = [
        b["input_word_ids"][:, 0].numpy() for b in example_reader.evaluation_batches(found, 8)
    ]
    assert np.concatenate(batches).tolist() == list(range(45))


def test_a_truncated_file_is_named_with_its_record(tmp_path, found):
    path = tmp_path / "2.tfrecord"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3 + 5])  # within record 6 of 9
    with pytest.raises(InputError, match=r"2.tfrecord: record 6 is damaged or cut off"):
        example_reader.count_records(str(path))
    path.write_bytes(data[: len(data) * 2 // 3 + 40])
    with pytest.raises(tf.errors.DataLossError):
        list(example_reader.evaluation_batches(found, 8))
    assert "2.tfrecord: record 6" in str(example_reader.find_damage(found.paths))


def test_foreign_files_are_named(tmp_path):
    (tmp_path / "a.tfrecord").write_bytes(b"this is no TFRecord file at all, it is text")
    with pytest.raises(InputError, match=r"a.tfrecord: record 0 is damaged"):
        adoption.open_foreign([str(tmp_path / "a.tfrecord")], 100)
    with tf.io.TFRecordWriter(str(tmp_path / "b.tfrecord")) as writer:
        writer.write(tf.train.Example().SerializeToString())
    with pytest.raises(InputError, match=r"b.tfrecord: record 0 has no feature input_mask"):
        adoption.open_foreign([str(tmp_path / "b.tfrecord")], 100)


def test_ids_beyond_the_vocabulary_are_named_with_their_record(tmp_path):
    path = write(tmp_path / "a.tfrecord", [1, 2, 3, 99, 4])
    found, segments = adoption.open_foreign([path], 100)
    assert found.total == 5 and segments == 1
    with pytest.raises(InputError, match=r"record 3: input_word_ids has 99, .* has 50 tokens"):
        adoption.open_foreign([path], 50)


def test_a_cut_off_shard_of_ours_is_found_before_training(tfrecords, tmp_path):
    import shutil

    copy = shutil.copytree(tfrecords, tmp_path / "copy")
    shard = next(copy.glob("train-*"))
    shard.write_bytes(shard.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"train-.*tfrecord: record \d+ is damaged or cut off"):
        example_reader.open_examples(str(copy))
    shard.unlink()
    with pytest.raises(InputError, match="no such file, though its manifest lists it"):
        example_reader.open_examples(str(copy))
    with pytest.raises(InputError, match="write the examples first"):
        example_reader.open_examples(str(tmp_path))
