"""Batches: what is known of their shapes before there are any, and how large they are."""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import tasks, weights
from bert_tf.finetuning import batches, task_data
from bert_tf.tasks.model import TaskObjective
from pipelines.labelled.schema import ChoiceExample
from pipelines.tokenizers import registry
from tests.bert_tf.labelled_data import (
    make_choices,
    make_pairs,
    make_spans,
    make_tags,
    make_texts,
    settings_of,
)

MAKERS = {
    "classification": make_texts,
    "regression": lambda folder: make_pairs(folder, regression=True),
    "ner": make_tags,
    "squad1": make_spans,
    "choice": make_choices,
}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("fixed", [False, True])
def test_shapes_of_a_fixed_length_are_all_known(tmp_path, init, kind, fixed):
    """A TPU compiles for shapes that it knows, and each of them anew."""
    data = MAKERS[kind](tmp_path)
    settings = settings_of(init, kind, data, fixed_length=fixed)
    (request,), tokens = settings.tasks, registry.load_tokenizer(f"{init}/vocab.txt")
    item = task_data.load(request, settings, tokens)
    strategy = tf.distribute.get_strategy()
    spec = batches.spec(item, 8, strategy)
    assert all(each.shape.is_fully_defined() for each in spec.values()) == fixed
    made = iter(batches.training_batches(item, 8, 1, 0, strategy))
    lengths = set()
    for batch in itertools.islice(made, 12):
        lengths.add(batch["input_word_ids"].shape[-1])
        assert all(spec[name].is_compatible_with(value) for name, value in batch.items())
    assert not fixed or lengths == {40}


def test_few_rows_are_a_small_batch(folders, monkeypatch):
    """A reranker gets one question at a time, which must not cost as much as a whole batch."""
    bundle = weights.read(folders["pick"])
    task = tasks.load(bundle.task("pick"))
    objective, sizes = TaskObjective(bundle.task_model([task]), task), []
    logits = objective.logits

    def counted(batch):
        sizes.append(batch["choice_mask"].shape[0])
        return logits(batch)

    monkeypatch.setattr(objective, "logits", counted)
    strategy = tf.distribute.get_strategy()
    predict = batches.make_logits_function(objective, strategy)
    texts = ("a kernel", "the mask")
    examples = [ChoiceExample(str(n), "", f"the model {'? ' * n}", texts) for n in range(40)]
    features = [task.features(rows, bundle.tokenizer()) for rows in (examples[:1], examples)]
    (one,), many = map(predict, features)
    assert sizes[0] == 1 and sizes[1] > 8
    np.testing.assert_allclose(one, many[0], atol=1e-5)
    predict(features[0])
    assert len(sizes) == 2  # compiled once for each size
    task = dataclasses.replace(task, fixed_length=True, max_seq_length=16)
    predict = batches.make_logits_function(TaskObjective(objective.model, task), strategy)
    for count in (2, 3):  # choices, which are a part of the shape of a batch
        rows = [ChoiceExample("0", "", "the model", ("a kernel",) * count)]
        assert predict(task.features(rows, bundle.tokenizer()))[0].shape == (count,)
