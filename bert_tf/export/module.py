"""Models as the functions of one SavedModel.

The saved module has tf.Variables and tokenizers only: other objects that Keras 3 tracks would load
in Python and fail in C++. Models with the same encoder share its variables.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from absl import logging

from bert_tf import weights
from bert_tf.export.sources import ModelSource
from bert_tf.generation import decoder as decoders
from bert_tf.generation.generator import TextGenerator
from bert_tf.models import encoders, fused_ops
from bert_tf.models.base_encoder import Encoder
from bert_tf.models.config import BertConfig
from bert_tf.models.encoder import BertEncoder
from bert_tf.models.heads import MaskedLMHead
from bert_tf.tasks import pretrained, writing
from bert_tf.tasks.model import HeadShape
from bert_tf.tasks.signatures import Method, ServedModel, Signature, Tensors
from bert_tf.weights.bundle import POOLER
from pipelines.common.errors import InputError
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.packing import MODEL_INPUTS

# Names of the functions in the folder of parts, behind the name of the signature.
PREPROCESS, POSTPROCESS = "preprocess", "postprocess"
RESULT = "result_{}"  # inputs of postprocessing: results by number, and state by name
_STATE = "state_"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """A context without TensorFlow's notes on renamed tensors and deprecated functions."""
    logger = tf.get_logger()
    before = logging.get_verbosity(), logger.level
    logging.set_verbosity(logging.ERROR)
    logger.setLevel("ERROR")
    try:
        yield
    finally:
        logging.set_verbosity(before[0])
        logger.setLevel(before[1])


class ExportedModel(NamedTuple):
    """A model of an export, with the signatures of its task, or of a pre-trained model."""

    source: ModelSource
    served: ServedModel
    # Maps encoder outputs [rows, hidden_size] to logits [rows, vocab_size]; None without masked LM.
    token_logits: Callable[[tf.Tensor], tf.Tensor] | None
    encoder: int  # its number among those of the export
    signatures: list[Signature]

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the model."""
        return self.served.tokenizer


class Assembly:
    """Models with their weights and signatures; those with the same encoder share it.

    Args:
      sources: the models.
      dtype: "float32", or "bfloat16" to store weights and compute in it.
      portable: whether for other runtimes than TensorFlow.

    Attributes:
      models: one for each source, in their order.
      variables: all variables, in the order of their creation.

    Raises:
      InputError: two signatures have one name.
    """

    def __init__(self, sources: Sequence[ModelSource], dtype: str, portable: bool = False):
        self.variables: list[tf.Variable] = []
        self.models: list[ExportedModel] = []
        known: dict[str, Encoder] = {}
        tokenizers: dict[str, Tokenizer] = {}
        for source in sources:
            key, words = source.encoder_key(), source.tokenizer_key()
            if key not in known:
                known[key] = encoders.make(source.bundle.config, name="encoder", dtype=dtype)
                self._assign(known[key], source)
            if words not in tokenizers:
                tokenizers[words] = source.bundle.tokenizer()
            self.models.append(
                self._model(source, tokenizers[words], known[key], portable, list(known).index(key))
            )
        names = [signature.name for signature in self.signatures]
        for name in names:
            if names.count(name) > 1 or name == "serving_default":
                raise InputError(
                    f"{name}: two signatures would have this name; give one of the tasks another "
                    f"(TASKS='other_name=folder')."
                )

    @property
    def signatures(self) -> list[Signature]:
        """All signatures, those of the first source first."""
        return [signature for model in self.models for signature in model.signatures]

    def _model(
        self,
        source: ModelSource,
        tokenizer: Tokenizer,
        encoder: Encoder,
        portable: bool,
        number: int,
    ) -> ExportedModel:
        if source.task is None:
            guess = self._token_logits(source, encoder) if source.guesses_words else None
            model = ServedModel(tokenizer, encoder, portable=portable)
            found = pretrained.make_signatures(model, guess, source.has_pooler)
            if source.generation and not portable:
                assert isinstance(encoder, BertEncoder)  # the only encoders that write texts
                decoder = decoders.make(encoder, self._token_logits(source, encoder), tokenizer)
                length, settings = source.max_seq_length, source.generation
                generator = TextGenerator(decoder, tokenizer, length, settings)
                found = writing.make_signatures(model, generator) + found
            return ExportedModel(source, model, guess, number, found)
        head = HeadShape.of(source.task)._replace(name=source.head).make(source.bundle.config)
        head.build()
        self._assign(head, source, "heads/")
        model = ServedModel(tokenizer, encoder, head, portable)
        return ExportedModel(source, model, None, number, source.task.signatures(model))

    def _token_logits(
        self, source: ModelSource, encoder: Encoder
    ) -> Callable[[tf.Tensor], tf.Tensor]:
        config = source.bundle.config
        assert isinstance(config, BertConfig) and isinstance(encoder, BertEncoder)  # see the head
        head = MaskedLMHead(config, name="masked_lm", dtype=encoder.dtype_policy)
        head.build()
        self._assign(head, source)
        table = encoder.word_embeddings

        def logits(rows: tf.Tensor) -> tf.Tensor:
            scores = head(rows, tf.convert_to_tensor(table))
            return tf.cast(scores, tf.float32) + tf.cast(head.bias, tf.float32)

        return logits

    def _assign(self, model: keras.layers.Layer, source: ModelSource, prefix: str = "") -> None:
        """Assigns a model its weights, and records its variables."""
        values = {
            name.removeprefix(prefix): value
            for name, value in source.bundle.weights.items()
            if name.startswith(prefix)
        }
        missing = weights.assign(model, values, source.folder)
        lost = [name for name in missing if not name.startswith(POOLER)]
        if lost and source.bundle.weights:  # those of an export come with its variables
            raise InputError(f"{source.folder}: lacks the weight {prefix}{lost[0]}.")
        self.variables += [variable.value for variable in model.variables]

    @functools.cached_property
    def _traced(self) -> "dict[str, _TracedSignature]":
        """The signatures as concrete functions, by name; each computation is traced once."""
        found = {}
        for model in self.models:
            computations: dict[str, Any] = {}
            for signature in model.signatures:
                name = signature.computation.name
                if name not in computations:
                    computations[name] = _trace_computation(signature)
                found[signature.name] = _trace(signature, computations[name])
        return found

    def functions(self) -> dict[str, Any]:
        """Concrete functions by the name of the signature, and the first as `serving_default`."""
        functions = {name: traced.whole for name, traced in self._traced.items()}
        return functions | {"serving_default": functions[self.signatures[0].name]}

    def save(self, path: str, parts: str) -> None:
        """Writes the SavedModel, and one of its parts.

        Args:
          path: folder of the SavedModel.
          parts: folder of the second one, which has the signatures `<name>/preprocess` and
            `<name>/postprocess` and no variables.
        """
        module, of_parts = tf.Module(name="bert"), tf.Module(name="parts")
        # Some tokenizers keep their vocabulary in a resource, which has to be saved with them.
        tokenizers = list(dict.fromkeys(model.tokenizer for model in self.models))
        module.weights, module.tokenizers = self.variables, tokenizers
        of_parts.tokenizers = tokenizers
        of_parts.functions = {
            f"{name}/{part}": getattr(traced, part)
            for name, traced in self._traced.items()
            for part in (PREPROCESS, POSTPROCESS)
        }
        with quiet():
            tf.saved_model.save(module, path, self.functions())
            tf.saved_model.save(of_parts, parts, of_parts.functions)
            # Every signature is saved as one for Predict.
            signature_defs = tf.compat.v1.saved_model.signature_def_utils
            updater = signature_defs.MethodNameUpdater(path)
            for signature in self.signatures:
                if signature.method is not Method.PREDICT:
                    updater.replace_method_name(signature.name, signature.method, tags="serve")
            updater.save()


class _TracedSignature(NamedTuple):
    """A signature as concrete functions."""

    preprocess: Any  # maps inputs to `MODEL_INPUTS` and `state_<name>`
    postprocess: Any  # maps `result_<number>` and `state_<name>` to outputs
    whole: Any  # maps inputs to outputs; it calls the other two


def _trace_computation(signature: Signature) -> Any:
    def compute(inputs: Tensors) -> Sequence[tf.Tensor]:
        with fused_ops.inference():
            return signature.computation.in_chunks(inputs)

    specs = {name: tf.TensorSpec([None, None], tf.int32, name) for name in MODEL_INPUTS}
    return tf.function(compute, [specs], autograph=False)


def _trace(signature: Signature, compute: Any) -> _TracedSignature:
    """The functions of a signature, with its traced computation."""

    def preprocess(**inputs: tf.Tensor) -> Tensors:
        sequences, state = signature.preprocess(inputs)
        return sequences | {f"{_STATE}{name}": value for name, value in state.items()}

    results = {
        (name := RESULT.format(number)): tf.TensorSpec(spec.shape, spec.dtype, name)
        for number, spec in enumerate(signature.computation.outputs)
    }

    def postprocess(**values: tf.Tensor) -> Tensors:
        state = {k.removeprefix(_STATE): v for k, v in values.items() if k.startswith(_STATE)}
        return signature.postprocess([values[name] for name in results], state)

    before = _concrete(preprocess, signature.inputs)
    state = {
        name: tf.TensorSpec(spec.shape, spec.dtype, name)
        for name, spec in before.structured_outputs.items()
        if name.startswith(_STATE)
    }
    after = _concrete(postprocess, results | state)

    def whole(**inputs: tf.Tensor) -> Tensors:
        prepared = dict(before(**inputs))
        found = compute({name: prepared.pop(name) for name in MODEL_INPUTS})
        return after(**dict(zip(results, found, strict=True)), **prepared)

    whole.__name__ = signature.name
    return _TracedSignature(before, after, _concrete(whole, signature.inputs))


def _concrete(function: Callable[..., Tensors], specs: Any) -> Any:
    return tf.function(function, autograph=False).get_concrete_function(**specs)


def trace_portable(signature: Signature) -> Any:
    """A signature of a portable model as one concrete function, without its string outputs."""

    def function(**inputs: tf.Tensor) -> Tensors:
        with fused_ops.inference():
            sequences, state = signature.preprocess(inputs)
            results = signature.computation.function(sequences, False)
            outputs = signature.postprocess(results, state)
        return {name: value for name, value in outputs.items() if value.dtype != tf.string}

    function.__name__ = signature.name
    return _concrete(function, signature.inputs)
