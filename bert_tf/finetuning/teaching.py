"""Task distillation: a fine-tuned teacher's logits for the training data and for more texts."""

import dataclasses
import time
from typing import Any

import tensorflow as tf
from absl import logging

from bert_tf import tasks
from bert_tf.finetuning import batches, task_data
from bert_tf.finetuning.batches import LogitsFunction
from bert_tf.finetuning.task_data import Split, TaskData
from bert_tf.tasks import Task
from bert_tf.tasks.model import TaskModel, TaskObjective
from bert_tf.training import distribution
from bert_tf.weights import Bundle
from pipelines.common.errors import InputError
from pipelines.labelled.features import Features
from pipelines.labelled.source import Source
from pipelines.tokenizers.base import Tokenizer


class Teacher:
    """A fine-tuned model that teaches another one its task.

    Args:
      bundle: the model.
      data: the task that is learned.
      tokenizer: tokenizer of the student.
      strategy: all its replicas compute logits.

    Raises:
      InputError: the model does not have this task with the same labels; or its tokens differ from
        the student's, and the task is on tokens.
    """

    def __init__(
        self, bundle: Bundle, data: TaskData, tokenizer: Tokenizer, strategy: tf.distribute.Strategy
    ):
        path, task = bundle.place, data.task
        names = [entry["name"] for entry in bundle.tasks]
        entry = bundle.task(task.name if task.name in names else None)
        self.task = tasks.load(entry, bundle.config.max_seq_length)
        if not task.own_head:
            raise InputError(
                f"--teacher: {task.name} has no labels or scores, which are what is distilled."
            )
        if task.head.crf or self.task.head.crf:
            raise InputError(
                "--teacher: a CRF has probabilities of whole sentences, not of tokens, which are "
                "what is distilled; fine-tune teacher and student without --crf."
            )
        if self.task.shape != task.shape or set(self.task.labels) != set(task.labels):
            raise InputError(
                f"--teacher={path}: its task {self.task.name} ({self.task.shape} of "
                f"{', '.join(self.task.labels) or 'no labels'}) is not that of the data "
                f"({task.shape} of {', '.join(task.labels) or 'no labels'})."
            )
        if task.per_token and task.max_seq_length > bundle.config.max_seq_length:
            raise InputError(
                f"--teacher={path}: has {bundle.config.max_seq_length} positions, but sequences of "
                f"{task.name} have up to {task.max_seq_length} tokens; set --max_seq_length."
            )
        self._own_tokens = bundle.tokenizer()
        self._same_tokens = (
            self._own_tokens.vocabulary == tokenizer.vocabulary
            and self._own_tokens.settings == tokenizer.settings
        )
        if task.per_token and not self._same_tokens:
            raise InputError(
                f"--teacher={path}: has another vocabulary than the student, whose task "
                f"{task.name} is on tokens; start from a student with the teacher's vocabulary."
            )
        if task.per_token:  # the teacher reads the student's sequences
            longest = max(self.task.max_seq_length, task.max_seq_length)
            self.task = dataclasses.replace(self.task, max_seq_length=longest)
        with strategy.scope():
            self.model: TaskModel = bundle.only(self.task.name).task_model([self.task])
        self._strategy, self._logits = strategy, self._logits_on(strategy)
        self._order = [self.task.labels.index(label) for label in task.labels]

    def _logits_on(self, strategy: tf.distribute.Strategy) -> LogitsFunction:
        return batches.make_logits_function(TaskObjective(self.model, self.task), strategy)

    def teach(self, data: TaskData) -> TaskData:
        """The data with the teacher's logits, or its scores, for each training example."""
        logits = self._logits(self._features(data.task, data.train))
        found = [self.task.scores(row) for row in logits]
        if self._order:
            found = [row[..., self._order] for row in found]
        return dataclasses.replace(data, teacher=tuple(found))

    def _features(self, task: Task, split: Split) -> Features:
        """The features of examples as the teacher reads them; on tokens, those of the student."""
        names = ("max_seq_length", *task.feature_fields)
        alike = all(getattr(task, name) == getattr(self.task, name) for name in names)
        if task.per_token or (self._same_tokens and alike):
            return split.features
        return task_data.make_features(self.task, split.examples, self._own_tokens)

    def compare(
        self, data: TaskData, student: TaskModel, predict: LogitsFunction
    ) -> dict[str, Any]:
        """Score on dev, number of weights, and examples per second of teacher and student."""
        found = {}
        logits = self._logits
        if distribution.has_several_workers(self._strategy):
            # The chief calls this alone, so it computes on its own device.
            logits = self._logits_on(tf.distribute.get_strategy())
        for name, model, task, function in (
            ("teacher", self.model, self.task, logits),
            ("student", student, data.task, predict),
        ):
            of_model: dict[str, Any] = {"parameters": int(model.count_params())}
            if data.dev:
                split = data.dev[0]
                features = self._features(data.task, split) if name == "teacher" else split.features
                predictions = task.predict(split.examples, features, function(features))
                scores = task.metrics(split.examples, predictions)
                begin = time.perf_counter()
                function(features)
                seconds = time.perf_counter() - begin
                of_model |= {
                    task.main_metric: scores[task.main_metric],
                    "examples_per_second": len(split.examples) / seconds,
                }
            found[name] = of_model
        return found


def unlabelled(data: TaskData, source: Source, tokenizer: Tokenizer) -> TaskData:
    """Texts without labels as further training data, to learn from the teacher alone.

    Raises:
      InputError: the file is bad, or the task is on tokens.
    """
    task = data.task
    if task.per_token:
        raise InputError(
            f"--unlabelled={source.path}: is for tasks on whole texts; {task.name} is on tokens."
        )
    notes: dict[str, int] = {}
    examples = task_data.read(task, source, "test", notes, labelled=False)
    task.check(examples)
    examples = task_data.learnable(task, examples, notes)
    found = task_data.make_features(task, examples, tokenizer)
    found = dataclasses.replace(
        found, columns={k: v for k, v in found.columns.items() if k != "labels"}
    )
    logging.info("%s: %s texts to learn from the teacher.", source.path, f"{len(examples):,}")
    split = Split("unlabelled", examples, found)
    return TaskData(task, split, (), (), {}, notes)
