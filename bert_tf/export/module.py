"""Models as the functions of one SavedModel.

Only tf.Variables and tokenizers are tracked by what is saved: what Keras 3
tracks besides would load in Python and fail in C++. Models with the same encoder share its
variables.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from bert_tf import weights
from bert_tf.export.sources import Source
from bert_tf.models import encoders, fused_ops
from bert_tf.models.base_encoder import Encoder
from bert_tf.models.config import BertConfig
from bert_tf.models.encoder import BertEncoder
from bert_tf.models.heads import MaskedLMHead
from bert_tf.models.task_head import TaskHead
from bert_tf.tasks import Task
from bert_tf.tasks.model import HeadShape
from bert_tf.tasks.pretrained import PretrainedServing
from bert_tf.tasks.signatures import Computation, Direct, Engine, Signature, Tensors
from pipelines.common.errors import InputError
from pipelines.tokenizers.base import Tokenizer

EngineMaker = Callable[[Tokenizer, Encoder, TaskHead | None], Engine]


@dataclasses.dataclass(frozen=True)
class Served:
    """A model as signatures use it.

    Attributes:
      source: where it comes from.
      encoder: which others may share.
      task: what it was trained for; None: it is a pre-trained model.
      head: of the task.
      token_logits: float32 [rows, vocab_size] of encoder outputs [rows, hidden_size]; None: it
        guesses no words.
    """

    source: Source
    encoder: Encoder
    task: Task | None = None
    head: TaskHead | None = None
    token_logits: Callable[[tf.Tensor], tf.Tensor] | None = None

    def signatures(self, tokenizer: Tokenizer, engine: EngineMaker) -> list[Signature]:
        """The signatures of its tasks, or of a pre-trained model.

        Args:
          tokenizer: of its vocabulary.
          engine: makes what computes for them.
        """
        if self.task is None:
            made = engine(tokenizer, self.encoder, None)
            return self._pretrained.signatures(made)
        return self.task.serving().signatures(engine(tokenizer, self.encoder, self.head))

    def computations(self, tokenizer: Tokenizer) -> dict[str, Computation]:
        """What the signatures compute, by name.

        Args:
          tokenizer: see `signatures`.
        """
        engine = Engine(tokenizer, self.encoder, self.head)
        if self.task is None:
            return self._pretrained.computations(engine)
        found = engine.logits_computation()
        return {found.name: found}

    def direct(self, tokenizer: Tokenizer) -> dict[str, Direct]:
        """Those of the signatures that can do without their graphs, by name.

        Args:
          tokenizer: see `signatures`.
        """
        if self.task is None:
            return self._pretrained.direct(Engine(tokenizer, self.encoder))
        return self.task.serving().direct()

    @property
    def _pretrained(self) -> PretrainedServing:
        return PretrainedServing(self.token_logits, self.source.has_pooler)


class Assembly:
    """Models with their weights, of which those with the same encoder share it.

    Args:
      sources: the models.
      dtype: "float32", or "bfloat16" to store weights and compute in it.

    Attributes:
      models: of each source, in their order.
      encoders: those that there are.
      variables: all of them, in the order of their making.
    """

    def __init__(self, sources: Sequence[Source], dtype: str):
        self.variables: list[tf.Variable] = []
        known: dict[str, Encoder] = {}
        self.models = []
        for source in sources:
            key = source.encoder_key()
            if key not in known:
                known[key] = encoders.make(source.bundle.config, name="encoder", dtype=dtype)
                self._adopt(known[key], source)
            self.models.append(self._served(source, known[key]))
        self.encoders = list(known.values())

    def _served(self, source: Source, encoder: Encoder) -> Served:
        if source.task is None:
            guess = self._token_logits(source, encoder) if source.guesses_words else None
            return Served(source, encoder, token_logits=guess)
        head = HeadShape.of(source.task)._replace(name=source.head).make(source.bundle.config)
        head.build()
        self._adopt(head, source, "heads/")
        return Served(source, encoder, source.task, head)

    def _token_logits(self, source: Source, encoder: Encoder) -> Callable[[tf.Tensor], tf.Tensor]:
        config = source.bundle.config
        assert isinstance(config, BertConfig) and isinstance(encoder, BertEncoder)  # see the head
        head = MaskedLMHead(config, name="masked_lm", dtype=encoder.dtype_policy)
        head.build()
        self._adopt(head, source)
        table = encoder.word_embeddings

        def logits(rows: tf.Tensor) -> tf.Tensor:
            scores = head(rows, tf.convert_to_tensor(table))
            return tf.cast(scores, tf.float32) + tf.cast(head.bias, tf.float32)

        return logits

    def _adopt(self, model: keras.layers.Layer, source: Source, prefix: str = "") -> None:
        """Gives a model its weights, and notes its variables."""
        values = {
            name.removeprefix(prefix): value
            for name, value in source.bundle.weights.items()
            if name.startswith(prefix)
        }
        weights.assign(model, values, source.folder)
        self.variables += [variable.value for variable in model.variables]


class Exported(tf.Module):
    """Signatures on the variables of some models.

    Args:
      sources: the models.
      dtype: "float32", or "bfloat16" to store weights and compute in it.
      portable: as `Engine`.
    """

    def __init__(self, sources: Sequence[Source], dtype: str = "float32", portable: bool = False):
        super().__init__(name="bert")
        assembly = Assembly(sources, dtype)
        self.weights = assembly.variables
        self.encoder_count = len(assembly.encoders)
        self.encoder_of = [assembly.encoders.index(model.encoder) for model in assembly.models]
        engine = functools.partial(Engine, portable=portable)
        tokenizers: dict[str, Tokenizer] = {}
        models: list[tuple[Served, Tokenizer]] = []
        for model in assembly.models:
            vocabulary = model.source.tokenizer_key()
            if vocabulary not in tokenizers:
                tokenizers[vocabulary] = model.source.bundle.tokenizer()
            models.append((model, tokenizers[vocabulary]))
        found = [each for model, words in models for each in model.signatures(words, engine)]
        _check_names(found)
        # Some keep their vocabulary in a resource, which has to be saved with them.
        self.tokenizers = list(tokenizers.values())
        # A function hides what is in it: Keras layers must not be tracked.
        self._hidden = lambda: (models, found)

    @property
    def models(self) -> list[tuple[Served, Tokenizer]]:
        """The models, each with its tokenizer."""
        return self._hidden()[0]

    @property
    def signatures(self) -> list[Signature]:
        """All signatures, those of the first source first."""
        return self._hidden()[1]

    def functions(self) -> dict[str, Any]:
        """Concrete functions by signature name; the first is `serving_default`, too."""
        functions = {signature.name: trace(signature) for signature in self.signatures}
        return functions | {"serving_default": functions[self.signatures[0].name]}


def _check_names(found: Sequence[Signature]) -> None:
    names = [signature.name for signature in found]
    for name in names:
        if names.count(name) > 1 or name == "serving_default":
            raise InputError(
                f"{name}: two signatures would have this name; give one of the tasks another "
                f"(TASKS='other_name=folder')."
            )


def trace(signature: Signature) -> Any:
    """The concrete function of a signature."""

    def function(**inputs: tf.Tensor) -> Tensors:
        with fused_ops.inference():
            return signature.function(inputs)

    function.__name__ = signature.name
    traced = tf.function(function, autograph=False)
    return traced.get_concrete_function(**signature.inputs)
