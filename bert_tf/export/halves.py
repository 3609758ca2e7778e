"""Signatures in two halves: from requests to sequences, and from results to answers.

Between them stands what takes the time (`Computation`), which is then done by whatever is fastest,
for one request or for the sequences of several at once. The halves are a SavedModel of their own,
without variables, in the folder `halves` of an export.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, TypedDict

import tensorflow as tf

from bert_tf.export import quiet_tensorflow
from bert_tf.export.module import Served
from bert_tf.models.base_encoder import Encoder
from bert_tf.models.task_head import TaskHead
from bert_tf.tasks.signatures import Computation, Engine, Signature, Tensors
from pipelines.common import files
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.packing import MODEL_INPUTS

FOLDER = "halves"
PREPARE, FINISH = "prepare", "finish"
RESULT = "result_{}"
_STATE = "state_{}"


class Computes(TypedDict):
    """What stands between the halves of a signature.

    Attributes:
      model: its number in the manifest.
      computation: its name.
    """

    model: int
    computation: str


@dataclasses.dataclass(frozen=True)
class Halves:
    """A signature that was cut.

    Attributes:
      name: of the signature.
      computation: the name of what stands between the halves.
      prepare: takes the signature's inputs; returns sequences, as `MODEL_INPUTS` names them, and
        `state_0` and so on, what the other half needs besides.
      finish: takes these and `result_0` and so on; returns the signature's outputs.
    """

    name: str
    computation: str
    prepare: Any
    finish: Any

    def functions(self) -> dict[str, Any]:
        """Both, by the names that they are saved with."""
        return {f"{self.name}/{PREPARE}": self.prepare, f"{self.name}/{FINISH}": self.finish}


class CutEngine(Engine):
    """Computes nothing: it notes where signatures would compute.

    Args:
      cuts: where it notes it.
      tokenizer: see `Engine`.
      encoder: see there.
      head: see there.
    """

    def __init__(
        self,
        cuts: "list[_Cut]",
        tokenizer: Tokenizer,
        encoder: Encoder,
        head: TaskHead | None,
    ):
        super().__init__(tokenizer, encoder, head)
        self._cuts = cuts

    def compute(self, computation: Computation, inputs: Tensors) -> Sequence[tf.Tensor]:
        """Placeholders for the results."""
        results = [tf.compat.v1.placeholder(s.dtype, s.shape) for s in computation.outputs]
        self._cuts.append(_Cut(computation, inputs, results))
        return results


@dataclasses.dataclass(frozen=True)
class _Cut:
    """A place where a signature computes something."""

    computation: Computation
    sequences: Tensors
    results: Sequence[tf.Tensor]


def of(model: Served, tokenizer: Tokenizer) -> list[Halves]:
    """The signatures of a model, cut."""
    cuts: list[_Cut] = []
    found = model.signatures(tokenizer, functools.partial(CutEngine, cuts))
    return [_halves(signature, cuts) for signature in found]


def _halves(signature: Signature, cuts: list[_Cut]) -> Halves:
    names: list[str] = []

    def whole(*values: tf.Tensor) -> list[tf.Tensor]:
        found = signature.function(dict(zip(signature.inputs, values, strict=True)))
        names.extend(found)
        return list(found.values())

    traced = tf.compat.v1.wrap_function(whole, list(signature.inputs.values()))
    cut = cuts.pop()
    assert not cuts  # every signature computes once
    state = _crossing(cut.results, traced.outputs)
    kept = {_STATE.format(number): tensor for number, tensor in enumerate(state)}
    results = {RESULT.format(number): tensor for number, tensor in enumerate(cut.results)}
    sequences = {name: cut.sequences[name] for name in MODEL_INPUTS}
    inputs = dict(zip(signature.inputs, traced.inputs, strict=False))
    outputs = dict(zip(names, traced.outputs, strict=True))
    return Halves(
        signature.name,
        cut.computation.name,
        _part(traced, inputs, sequences | kept),
        _part(traced, kept | results, outputs),
    )


def _part(traced: Any, inputs: Tensors, outputs: Tensors) -> Any:
    """The concrete function from some tensors of a graph to others, both by name."""
    part = traced.prune(list(inputs.values()), list(outputs.values()))

    def function(**values: tf.Tensor) -> Tensors:
        found = part(*(values[name] for name in inputs))
        return dict(zip(outputs, found, strict=True))

    specs = {name: tf.TensorSpec(x.shape, x.dtype, name) for name, x in inputs.items()}
    return tf.function(function, autograph=False).get_concrete_function(**specs)


def _crossing(results: Sequence[tf.Tensor], outputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """What is needed of the first half in the second: outputs that do not follow from results, too.

    Args:
      results: placeholders, where the second half begins.
      outputs: where it ends.
    """
    later = _followers(results)
    found: dict[str, tf.Tensor] = {}
    waiting = list(outputs)
    seen: set[str] = set()
    while waiting:
        tensor = waiting.pop()
        if tensor.op.name in later:
            if tensor.op.name not in seen:
                seen.add(tensor.op.name)
                waiting.extend(tensor.op.inputs)
        elif tensor.op.type != "Const":  # the second half has its own
            found[tensor.name] = tensor
    known = {tensor.name for tensor in results}
    return [tensor for name, tensor in sorted(found.items()) if name not in known]


def _followers(results: Sequence[tf.Tensor]) -> set[str]:
    """The names of the operations that follow from results, these among them."""
    found = {tensor.op.name for tensor in results}
    for operation in results[0].graph.get_operations():  # what comes first is first
        before = [tensor.op for tensor in operation.inputs] + list(operation.control_inputs)
        if any(each.name in found for each in before):
            found.add(operation.name)
    return found


def are_in(path: str) -> bool:
    """Whether an export has its signatures in halves; those of earlier versions have not."""
    return files.gfile.isdir(f"{path}/{FOLDER}")


def write(models: Sequence[tuple[Served, Tokenizer]], folder: str) -> dict[str, Computes]:
    """Writes the halves of all signatures of some models.

    Args:
      models: with their tokenizers.
      folder: of the SavedModel.

    Returns:
      By signature, what is computed between its halves.
    """
    module = tf.Module()
    # Some keep their vocabulary in a resource, which has to be saved with them.
    module.tokenizers = [tokenizer for _, tokenizer in models]
    functions: dict[str, Any] = {}
    computes: dict[str, Computes] = {}
    with quiet_tensorflow.quiet():
        for number, (model, tokenizer) in enumerate(models):
            for cut in of(model, tokenizer):
                functions |= cut.functions()
                computes[cut.name] = {"model": number, "computation": cut.computation}
        module.functions = list(functions.values())
        tf.saved_model.save(module, folder, functions)
    return computes
