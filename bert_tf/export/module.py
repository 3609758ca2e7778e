"""Models as the functions of one SavedModel.

Only tf.Variables and tokenizers are tracked by what is saved: other objects that Keras 3 tracks
would load in Python and fail in C++. Models with the same encoder share its variables.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from bert_tf import weights
from bert_tf.export.sources import ModelSource
from bert_tf.models import encoders, fused_ops
from bert_tf.models.base_encoder import Encoder
from bert_tf.models.config import BertConfig
from bert_tf.models.encoder import BertEncoder
from bert_tf.models.heads import MaskedLMHead
from bert_tf.tasks import pretrained
from bert_tf.tasks.model import HeadShape
from bert_tf.tasks.signatures import Computation, ServedModel, Signature, Tensors
from pipelines.common.errors import InputError
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.packing import MODEL_INPUTS

PREPROCESS, POSTPROCESS = "preprocess", "postprocess"
RESULT = "result_{}"
_STATE = "state_{}"


class ExportedModel(NamedTuple):
    """A model of an export.

    Attributes:
      source: where it comes from.
      tokenizer: for its vocabulary.
      signatures: of its task, or of a pre-trained model.
    """

    source: ModelSource
    tokenizer: Tokenizer
    signatures: list[Signature]


class Assembly:
    """Models with their weights and signatures; those with the same encoder share it.

    Args:
      sources: the models.
      dtype: "float32", or "bfloat16" to store weights and compute in it.
      portable: see `ServedModel`.

    Attributes:
      models: one for each source, in their order.
      encoders: the distinct encoders.
      encoder_of: the number of each model's encoder.
      variables: all variables, in the order in which they were made.
    """

    def __init__(self, sources: Sequence[ModelSource], dtype: str, portable: bool = False):
        self.variables: list[tf.Variable] = []
        known: dict[str, Encoder] = {}
        tokenizers: dict[str, Tokenizer] = {}
        self.models: list[ExportedModel] = []
        for source in sources:
            key, words = source.encoder_key(), source.tokenizer_key()
            if key not in known:
                known[key] = encoders.make(source.bundle.config, name="encoder", dtype=dtype)
                self._adopt(known[key], source)
            if words not in tokenizers:
                tokenizers[words] = source.bundle.tokenizer()
            found = self._signatures(source, tokenizers[words], known[key], portable)
            self.models.append(ExportedModel(source, tokenizers[words], found))
        self.encoders = list(known.values())
        self.encoder_of = [list(known).index(source.encoder_key()) for source in sources]

    def _signatures(
        self, source: ModelSource, tokenizer: Tokenizer, encoder: Encoder, portable: bool
    ) -> list[Signature]:
        if source.task is None:
            guess = self._token_logits(source, encoder) if source.guesses_words else None
            model = ServedModel(tokenizer, encoder, portable=portable)
            return pretrained.make_signatures(model, guess, source.has_pooler)
        head = HeadShape.of(source.task)._replace(name=source.head).make(source.bundle.config)
        head.build()
        self._adopt(head, source, "heads/")
        return source.task.signatures(ServedModel(tokenizer, encoder, head, portable))

    def _token_logits(
        self, source: ModelSource, encoder: Encoder
    ) -> Callable[[tf.Tensor], tf.Tensor]:
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

    def _adopt(self, model: keras.layers.Layer, source: ModelSource, prefix: str = "") -> None:
        """Gives a model its weights, and notes its variables."""
        values = {
            name.removeprefix(prefix): value
            for name, value in source.bundle.weights.items()
            if name.startswith(prefix)
        }
        weights.assign(model, values, source.folder)
        self.variables += [variable.value for variable in model.variables]


class Exported(tf.Module):
    """The whole SavedModel: a function for each signature.

    Args:
      sources: the models.
      dtype: "float32", or "bfloat16" to store weights and compute in it.

    Raises:
      InputError: two signatures have one name.
    """

    def __init__(self, sources: Sequence[ModelSource], dtype: str = "float32"):
        super().__init__(name="bert")
        assembly = Assembly(sources, dtype)
        self.weights = assembly.variables
        # Some keep their vocabulary in a resource, which has to be saved with them.
        self.tokenizers = list(dict.fromkeys(model.tokenizer for model in assembly.models))
        _check_names([s.name for model in assembly.models for s in model.signatures])
        traced = {
            signature.name: _TracedSignature(signature, compute)
            for model in assembly.models
            for signature, compute in _with_computations(model)
        }
        # A function hides what is in it: Keras layers must not be tracked.
        self._hidden = lambda: (assembly, traced)

    @property
    def assembly(self) -> Assembly:
        """The models."""
        return self._hidden()[0]

    @property
    def signatures(self) -> list[Signature]:
        """All signatures, those of the first source first."""
        return [signature for model in self.assembly.models for signature in model.signatures]

    def functions(self) -> dict[str, Any]:
        """Concrete functions by signature name; the first is `serving_default`, too."""
        functions = {name: traced.whole for name, traced in self._hidden()[1].items()}
        return functions | {"serving_default": functions[self.signatures[0].name]}

    def parts(self) -> tf.Module:
        """The SavedModel of preprocessing and postprocessing alone, without variables.

        Its attribute `functions` has them by `<signature>/preprocess` and `.../postprocess`.
        """
        module = tf.Module(name="parts")
        module.tokenizers = self.tokenizers
        module.functions = {
            f"{name}/{part}": function
            for name, traced in self._hidden()[1].items()
            for part, function in (
                (PREPROCESS, traced.preprocess),
                (POSTPROCESS, traced.postprocess),
            )
        }
        return module


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1 or name == "serving_default":
            raise InputError(
                f"{name}: two signatures would have this name; give one of the tasks another "
                f"(TASKS='other_name=folder')."
            )


def _with_computations(model: ExportedModel) -> list[tuple[Signature, Any]]:
    """The signatures of a model with their computations, each traced once."""
    traced: dict[str, Any] = {}
    for signature in model.signatures:
        computation = signature.computation
        if computation.name not in traced:
            traced[computation.name] = _trace_computation(computation)
    return [(signature, traced[signature.computation.name]) for signature in model.signatures]


def _trace_computation(computation: Computation) -> Any:
    def compute(inputs: Tensors) -> Sequence[tf.Tensor]:
        with fused_ops.inference():
            return computation.in_chunks(inputs)

    specs = {name: tf.TensorSpec([None, None], tf.int32, name) for name in MODEL_INPUTS}
    return tf.function(compute, [specs], autograph=False)


class _TracedSignature:
    """A signature as concrete functions.

    Args:
      signature: to trace.
      compute: its computation, traced.

    Attributes:
      preprocess: maps inputs to `MODEL_INPUTS` and `state_<name>`.
      postprocess: maps `result_<number>` and `state_<name>` to outputs.
      whole: the signature itself, which calls the three functions.
    """

    def __init__(self, signature: Signature, compute: Any):
        def preprocess(**inputs: tf.Tensor) -> Tensors:
            sequences, state = signature.preprocess(inputs)
            return sequences | {_STATE.format(name): value for name, value in state.items()}

        results = {
            RESULT.format(number): tf.TensorSpec(spec.shape, spec.dtype, RESULT.format(number))
            for number, spec in enumerate(signature.computation.outputs)
        }
        prefix = _STATE.format("")

        def postprocess(**values: tf.Tensor) -> Tensors:
            state = {
                name.removeprefix(prefix): value
                for name, value in values.items()
                if name.startswith(prefix)
            }
            return signature.postprocess([values[name] for name in results], state)

        def whole(**inputs: tf.Tensor) -> Tensors:
            state = dict(self.preprocess(**inputs))
            found = compute({name: state.pop(name) for name in MODEL_INPUTS})
            return self.postprocess(**dict(zip(results, found, strict=True)), **state)

        self.preprocess = _concrete(preprocess, signature.inputs)
        prepared = self.preprocess.structured_outputs
        state = {
            name: tf.TensorSpec(spec.shape, spec.dtype, name)
            for name, spec in prepared.items()
            if name.startswith(prefix)
        }
        self.postprocess = _concrete(postprocess, results | state)
        whole.__name__ = signature.name
        self.whole = _concrete(whole, signature.inputs)


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
