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

Operations = Sequence[tf.Operation]


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
    crossing, checks = _crossing(cut.results, traced.outputs)
    kept = {_STATE.format(number): tensor for number, tensor in enumerate(crossing)}
    results = {RESULT.format(number): tensor for number, tensor in enumerate(cut.results)}
    sequences = {name: cut.sequences[name] for name in MODEL_INPUTS}
    inputs = dict(zip(signature.inputs, traced.inputs, strict=False))
    outputs = dict(zip(names, traced.outputs, strict=True))
    return Halves(
        signature.name,
        cut.computation.name,
        _part(traced.graph, inputs, sequences | kept, first=checks),
        _part(traced.graph, kept | results, outputs, done=checks),
    )


def _crossing(
    results: Sequence[tf.Tensor], outputs: Sequence[tf.Tensor]
) -> tuple[list[tf.Tensor], list[tf.Operation]]:
    """What the second half needs of the first one; outputs that do not follow from results, too.

    Args:
      results: placeholders, where the second half begins.
      outputs: where it ends.

    Returns:
      The tensors that it computes with, and the operations that must have been done before:
      checks, that is.
    """
    later = _followers(results)

    def is_second(operation: tf.Operation) -> bool:
        return operation.name in later or operation.type == "Const"  # each half has its own

    second: dict[str, tf.Operation] = {}
    waiting = [tensor.op for tensor in outputs]
    while waiting:
        operation = waiting.pop()
        if operation.name not in second and is_second(operation):
            second[operation.name] = operation
            waiting += [tensor.op for tensor in operation.inputs] + list(operation.control_inputs)
    read = [*outputs, *(tensor for each in second.values() for tensor in each.inputs)]
    before = [other for each in second.values() for other in each.control_inputs]
    tensors = {tensor.name: tensor for tensor in read if not is_second(tensor.op)}
    waited_for = {operation.name: operation for operation in before if not is_second(operation)}
    return [x for _, x in sorted(tensors.items())], [x for _, x in sorted(waited_for.items())]


def _followers(results: Sequence[tf.Tensor]) -> set[str]:
    """The names of the operations that follow from results, these among them."""
    found = {tensor.op.name for tensor in results}
    for operation in results[0].graph.get_operations():  # what comes first is first
        before = [tensor.op for tensor in operation.inputs] + list(operation.control_inputs)
        if any(each.name in found for each in before):
            found.add(operation.name)
    return found


def _part(
    graph: Any, inputs: Tensors, outputs: Tensors, *, first: Operations = (), done: Operations = ()
) -> Any:
    """The concrete function from some tensors of a function's graph to others, both by name.

    Args:
      graph: of all of them.
      inputs: where the part begins.
      outputs: where it ends.
      first: operations that no output depends on, and that are done all the same.
      done: operations of the graph that need not be waited for.
    """
    captured = {inner.name: outer for outer, inner in graph.captures}
    given = {tensor.name for tensor in inputs.values()} | set(captured)
    targets = sorted({tensor.name for tensor in outputs.values()} - given)
    ends = [tensor.op for tensor in outputs.values() if tensor.name in targets]
    operations = _between(given, [*ends, *first], done)
    definition = _definition(graph, operations)
    read = sorted({tensor.name for each in operations for tensor in each.inputs} & given)

    def function(**values: tf.Tensor) -> Tensors:
        known = {tensor.name: values[name] for name, tensor in inputs.items()}
        here = tf.compat.v1.get_default_graph()
        known |= {name: here.capture(captured[name]) for name in read if name in captured}
        mapped = {name: known[name] for name in read}
        found = tf.graph_util.import_graph_def(definition, mapped, targets, name="part")
        known |= dict(zip(targets, found, strict=True))
        return {name: tf.identity(known[tensor.name]) for name, tensor in outputs.items()}

    specs = {name: tf.TensorSpec(x.shape, x.dtype, name) for name, x in inputs.items()}
    return tf.function(function, autograph=False).get_concrete_function(**specs)


def _between(given: set[str], ends: Operations, done: Operations) -> list[tf.Operation]:
    """What has to be done up to some operations, without what makes the tensors that are given."""
    found: dict[str, tf.Operation] = {}
    makers = {name.partition(":")[0] for name in given} | {operation.name for operation in done}
    waiting = list(ends)
    while waiting:
        operation = waiting.pop()
        if operation.name not in found:
            found[operation.name] = operation
            waiting += [tensor.op for tensor in operation.inputs if tensor.name not in given]
            waiting += [each for each in operation.control_inputs if each.name not in makers]
    return list(found.values())


def _definition(graph: Any, operations: Operations) -> tf.compat.v1.GraphDef:
    """Some operations of a graph, and the functions that they call."""
    whole = graph.as_graph_def()
    names = {operation.name for operation in operations}
    part = tf.compat.v1.GraphDef(versions=whole.versions)
    for node in whole.node:
        if node.name in names:
            kept = part.node.add()
            kept.CopyFrom(node)
            kept.attr.pop("_class", None)  # where others are placed, who may be in another part
            kept.input[:] = [name for name in node.input if name[:1] != "^" or name[1:] in names]
    library = {function.signature.name: function for function in whole.library.function}
    waiting = list(part.node)
    while waiting:
        node = waiting.pop()
        for value in node.attr.values():
            for called in (value.func, *value.list.func):
                if called.name in library:
                    function = library.pop(called.name)
                    part.library.function.append(function)
                    waiting += function.node_def
    return part


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
