"""Models as the functions of one SavedModel.

Only tf.Variables and tokenizers are tracked by what is saved: what Keras 3
tracks besides would load in Python and fail in C++. Models with the same encoder share its
variables.
"""

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
from bert_tf.tasks.model import HeadShape
from bert_tf.tasks.pretrained import PretrainedServing
from bert_tf.tasks.signatures import Engine, Signature, Tensors
from pipelines.common.errors import InputError
from pipelines.tokenizers.base import Tokenizer


class Exported(tf.Module):
    """Signatures on the variables of some models.

    Args:
      sources: the models.
      dtype: "float32", or "bfloat16" to store weights and compute in it.
      portable: as `Engine`.
    """

    def __init__(self, sources: Sequence[Source], dtype: str = "float32", portable: bool = False):
        super().__init__(name="bert")
        self._portable = portable
        self.weights: list[tf.Variable] = []
        encoders: dict[str, Encoder] = {}
        tokenizers: dict[str, Tokenizer] = {}
        found: list[Signature] = []
        for source in sources:
            key, vocabulary = source.encoder_key(), source.tokenizer_key()
            if key not in encoders:
                encoders[key] = self._encoder(source, dtype)
            if vocabulary not in tokenizers:
                tokenizers[vocabulary] = source.bundle.tokenizer()
            found += self._signatures(source, encoders[key], tokenizers[vocabulary])
        _check_names(found)
        self.encoder_count = len(encoders)
        # Some keep their vocabulary in a resource, which has to be saved with them.
        self.tokenizers = list(tokenizers.values())
        # A function hides what is in it: Keras layers must not be tracked.
        self._list = lambda: found

    @property
    def signatures(self) -> list[Signature]:
        """All signatures, those of the first source first."""
        return self._list()

    def functions(self) -> dict[str, Any]:
        """Concrete functions by signature name; the first is `serving_default`, too."""
        functions = {signature.name: trace(signature) for signature in self.signatures}
        return functions | {"serving_default": functions[self.signatures[0].name]}

    def _encoder(self, source: Source, dtype: str) -> Encoder:
        encoder = encoders.make(source.bundle.config, name="encoder", dtype=dtype)
        self._adopt(encoder, source)
        return encoder

    def _adopt(self, model: keras.layers.Layer, source: Source, prefix: str = "") -> None:
        """Gives a model its weights, and tracks its variables."""
        values = {
            name.removeprefix(prefix): value
            for name, value in source.bundle.weights.items()
            if name.startswith(prefix)
        }
        weights.assign(model, values, source.folder)
        self.weights += [variable.value for variable in model.variables]

    def _signatures(
        self, source: Source, encoder: Encoder, tokenizer: Tokenizer
    ) -> list[Signature]:
        config = source.bundle.config
        if not source.tasks:
            guess = self._token_logits(source, encoder) if source.guesses_words else None
            serving = PretrainedServing(guess, source.has_pooler)
            return serving.signatures(Engine(tokenizer, encoder, portable=self._portable))
        found = []
        for task, name in zip(source.tasks, source.heads, strict=True):
            head = HeadShape.of(task)._replace(name=name).make(config)
            head.build()
            self._adopt(head, source, "heads/")
            engine = Engine(tokenizer, encoder, head, self._portable)
            found += task.serving().signatures(engine)
        return found

    def _token_logits(self, source: Source, encoder: Encoder) -> Callable[[tf.Tensor], tf.Tensor]:
        config = source.bundle.config
        assert isinstance(config, BertConfig) and isinstance(encoder, BertEncoder)  # see the head
        head = MaskedLMHead(config, name="masked_lm", dtype=encoder.dtype_policy)
        head.build()
        self._adopt(head, source)
        table = encoder.embeddings.word

        def logits(rows: tf.Tensor) -> tf.Tensor:
            scores = head(rows, tf.convert_to_tensor(table))
            return tf.cast(scores, tf.float32) + tf.cast(head.bias, tf.float32)

        return logits


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
