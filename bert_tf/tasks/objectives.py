"""The objectives of tasks."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.generation.generator import TextGenerator
from bert_tf.objectives.base import Batch
from bert_tf.tasks import Task, writing
from bert_tf.tasks.model import TaskModel, TaskObjective
from pipelines.tokenizers.base import Tokenizer


def make(model: TaskModel, task: Task, tokenizer: Callable[[], Tokenizer]) -> TaskObjective:
    """The objective of a task of a model; `tokenizer` makes the model's."""
    if task.generation is None:
        return TaskObjective(model, task)
    return WritingObjective(model, task, tokenizer)


class WritingObjective(TaskObjective):
    """A task of a model that writes texts; arguments as for `make`."""

    def __init__(self, model: TaskModel, task: Task, tokenizer: Callable[[], Tokenizer]):
        super().__init__(model, task)
        self._tokenizer = tokenizer

    @functools.cached_property
    def _generator(self) -> TextGenerator:
        return writing.make_generator(
            self.model.encoder, self.head, self._tokenizer(), self.task, "float32"
        )

    def logits(self, batch: Batch, dtype: str = "float32") -> tf.Tensor:
        """The tokens that the model writes, int32 [size, max_new_tokens]; always by float32."""
        inputs = self.task.encoder_inputs(batch)
        return self._generator.generate_ids(inputs["input_word_ids"], inputs["input_mask"])

    def results(self, logits: np.ndarray, lengths: Sequence[int]) -> list[Any]:
        """The texts of tokens."""
        return [text.decode() for text in self._generator.texts(tf.constant(logits)).numpy()]
