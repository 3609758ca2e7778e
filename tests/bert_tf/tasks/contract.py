"""What every shape of task keeps to: one test body, for which a shape brings its examples."""

import dataclasses
import json
from typing import Any

import matplotlib.figure
import numpy as np
import tensorflow as tf

from bert_tf import tasks
from bert_tf.models.config import BertConfig
from bert_tf.models.encoder import BertEncoder
from bert_tf.tasks import objectives
from bert_tf.tasks.model import TaskModel
from bert_tf.tasks.signatures import ServedModel
from pipelines.labelled.schema import have_labels
from pipelines.tokenizers.packing import MODEL_INPUTS
from tests.bert_tf.models.user_models import randomize

MAX_LENGTH = 24


@dataclasses.dataclass(frozen=True)
class TaskCase:
    """A task to test.

    Attributes:
      kind: name of its kind.
      examples: labelled examples, enough to learn from; their keys differ.
      unlabelled: the first of them without their labels.
      changes: fields of the task.
      config: the configuration of a model for it; None: the one of the other tasks.
    """

    kind: str
    examples: list[Any]
    unlabelled: list[Any]
    changes: dict[str, Any] = dataclasses.field(default_factory=dict)
    config: BertConfig | None = None

    def fitted(self) -> tasks.Task:
        """The task, with what it learns from the examples."""
        task = tasks.make(self.kind, "mine", max_seq_length=MAX_LENGTH)
        return dataclasses.replace(task, **self.changes).fit(self.examples)


def run_task_test(case, tokenizer, config):
    """Tests a task from examples to files, and as an export serves it.

    Args:
      case: the task, and its examples.
      tokenizer: the tokenizer.
      config: the configuration of an encoder for it.
    """
    task = case.fitted()
    check_description(task)
    features = check_features(case, task, tokenizer)
    check_batches(case, task, features)
    model = TaskModel.for_tasks(case.config or config, [task], pad_id=tokenizer.pad_id)
    randomize(model)
    objective = objectives.make(model, task, lambda: tokenizer)
    check_loss(task, features, objective)
    predictions = check_predictions(case, task, features, objective)
    check_files(case, task, predictions)
    check_served(case, task, tokenizer, model, predictions)


def check_description(task):
    """A description makes the same task, through JSON and with its types checked."""
    description = json.loads(json.dumps(task.describe()))
    tasks.check_entry(description, "tasks.json")
    restored = tasks.load(description)
    assert restored.describe() == task.describe()
    assert (restored.units, restored.shape, restored.main_metric) == (
        *(task.units, task.shape, task.main_metric),
    )
    assert tasks.load(description, longest=9).max_seq_length == 9
    shape = tasks.shapes()[task.shape]
    assert task.kind in shape.kinds and set(shape.tasks) >= set(shape.kinds)


def check_features(case, task, tokenizer):
    """Features have a row for each sequence or set of sequences, and labels where known."""
    features = task.features(case.examples, tokenizer)
    again = task.features(case.examples, tokenizer)
    for name, column in features.columns.items():
        assert len(column) == len(features)
        assert np.array_equal(column.values, again[name].values)
    words, types = features["input_word_ids"], features["input_type_ids"]
    assert np.array_equal(words.splits, types.splits)
    splits = task.sequence_splits(features)
    assert splits[0] == 0 and splits[-1] == len(words.values)
    lengths = np.diff(splits)
    assert lengths.min() >= 2 and lengths.max() <= MAX_LENGTH
    assert set(words.values[splits[:-1]]) == {tokenizer.start_id}
    assert types.values.max() < task.segments
    rows = task.row_lengths(features)
    assert len(rows) == len(features) and rows.max() >= lengths.max()
    assert "labels" in features and "labels" not in task.features(case.unlabelled, tokenizer)
    assert all(count >= 0 for count in features.counts.values())
    assert not have_labels(case.unlabelled)
    return dataclasses.replace(features, pad_id=tokenizer.pad_id)


def check_batches(case, task, features):
    """Batches have the rows that were asked for, then rows of padding without weight."""
    count, size = min(3, len(features)), 5
    batch = task.assemble(features, np.arange(count), size)
    shapes = {batch[name].shape for name in MODEL_INPUTS}
    assert len(shapes) == 1 and shapes.pop()[0] == size
    assert all(batch[name].dtype == np.int32 for name in MODEL_INPUTS)
    assert batch["weights"].tolist() == [1] * count + [0] * (size - count) or task.label_weights
    mask = batch["input_mask"]
    tokens = features["input_word_ids"].splits[count]
    assert mask.sum() == tokens and not mask[count:].any()
    assert (batch["input_word_ids"][mask == 0] == features.pad_id).all()
    flat = {name: batch[name][mask == 1] for name in ("input_word_ids", "input_type_ids")}
    for name, values in flat.items():
        assert np.array_equal(values, features[name].values[:tokens])
    fixed = dataclasses.replace(task, fixed_length=True)
    assert (
        fixed.assemble(features, np.arange(count), size)["input_mask"].shape[-1]
        == task.max_seq_length
    )


def check_loss(task, features, objective):
    """The loss is a finite number of the rows alone, whatever pads them, and has gradients."""

    def loss_of(size):
        rows = np.arange(min(4, len(features)))
        batch = {k: tf.constant(v) for k, v in task.assemble(features, rows, size).items()}
        with tf.GradientTape() as tape:
            loss, counts = objective.batch_loss(batch, objective.totals(batch), training=False)
        return loss, counts, tape

    loss, counts, tape = loss_of(4)
    padded, more, _ = loss_of(7)
    np.testing.assert_allclose(loss, padded, rtol=1e-4)
    np.testing.assert_allclose(counts["total"], more["total"], rtol=1e-6)
    assert np.isfinite(loss) and loss >= 0 and objective.metrics_of(counts)["loss"] >= 0
    gradients = tape.gradient(loss, objective.trainable_variables)
    assert all(gradient is not None for gradient in gradients)


def check_predictions(case, task, features, objective):
    """There is a prediction for each example, with metrics that a baseline has, too."""
    rows = np.arange(len(features))
    batch = {k: tf.constant(v) for k, v in task.assemble(features, rows, len(rows)).items()}
    lengths = task.row_lengths(features)
    each = objective.results(objective.logits(batch).numpy(), lengths)
    predictions = task.predict(case.examples, features, each)
    task = task.tune(case.examples, predictions)
    guesses = task.baseline(case.examples, case.examples)
    found, guessed = (task.metrics(case.examples, p) for p in (predictions, guesses))
    assert task.main_metric in found and found.keys() >= guessed.keys()
    assert all(isinstance(value, float) and -1 <= value <= 1 for value in found.values())
    for prediction in (*predictions, *guesses):
        assert all(isinstance(answer, str) for answer in task.answers(prediction))
    for scores in task.by_label(case.examples, predictions).values():
        assert 0 <= scores["f1"] <= 1 and scores["count"] >= 0
    return predictions


def check_files(case, task, predictions):
    """Files name all examples; the worst mistakes and the picture can be made."""
    for split, examples in (("dev", case.examples), ("test", case.unlabelled)):
        texts = task.files(examples, predictions[: len(examples)], split)
        assert any(name.startswith(f"predictions.{split}.") for name in texts)
        assert all(text.endswith("\n") for text in texts.values())
        for example in examples:
            assert any(example.key in text for text in texts.values())
    mistakes = task.mistakes(case.examples, predictions, 2)
    assert len(mistakes) <= 2 and all(mistakes)
    figure = matplotlib.figure.Figure()
    task.draw(figure, case.examples, predictions)
    assert figure.axes


def check_served(case, task, tokenizer, model, wanted):
    """Signatures answer their samples, and requests for examples as training predicts them."""
    encoder = model.encoder
    assert isinstance(encoder, BertEncoder)
    served = ServedModel(tokenizer, encoder, model.heads.of[task.name])
    signatures = {signature.name: signature for signature in task.signatures(served)}
    assert next(iter(signatures)) == task.name
    for signature in signatures.values():
        outputs = _call(signature, signature.sample)
        assert {len(value) for value in outputs.values()} == {1}
        assert all(value.dtype in (np.int32, np.float32, object) for value in outputs.values())
    asked = signatures[task.request_signature]
    outputs = _call(asked, task.requests(case.unlabelled))
    found = task.from_outputs(case.unlabelled, outputs)
    assert [task.answers(p) for p in found] == [task.answers(p) for p in wanted[: len(found)]]
    described = tasks.shapes()[task.shape].texts.get("outputs", {})
    names = {name for s in signatures.values() for name in _call(s, s.sample)}
    assert not described or names <= described.keys()


def _call(signature, inputs):
    """The outputs of a signature, as arrays."""
    given = {k: tf.constant(v, signature.inputs[k].dtype) for k, v in inputs.items()}
    sequences, state = signature.preprocess(given)
    results = signature.computation.function(sequences, False)
    return {name: value.numpy() for name, value in signature.postprocess(results, state).items()}
