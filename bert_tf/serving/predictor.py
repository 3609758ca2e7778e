"""An exported model in this process: loaded once, it answers at once."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf import tasks
from bert_tf.export import halves, saved_model
from bert_tf.serving import choosing, requests
from bert_tf.serving.choosing import Wish
from bert_tf.serving.engines import converted, registry
from bert_tf.serving.engines.names import AUTO, EngineName, Precision
from bert_tf.serving.engines.plans import MOST_TOKENS, Lane, Plan
from bert_tf.serving.program import Program
from bert_tf.serving.saved_model_session import SavedModelSession
from bert_tf.tasks import Task
from pipelines.common import checksums
from pipelines.common.errors import InputError
from pipelines.common.threads import cores, mapped

_BATCH = 32
_LONGEST_REASON = 200  # characters
_NO_EXAMPLES = "inputs are no serialized tf.Examples with the features that it takes."
_DEFAULT = "serving_default"
Outputs = dict[str, np.ndarray]


class Predictor:
    """Answers requests with an export, by the engine that TensorFlow Serving has.

    An export is a program: loading one, and asking it, runs what its maker put into it, with the
    rights of this process. Take exports from people you trust only.

    >>> predictor = Predictor("savedmodels/bert")
    >>> predictor("mrpc", text_a=["It rained."], text_b=["Rain fell."])["label"]
    array([b'1'], dtype=object)

    Args:
      path: of a version, or of the folder of versions: then the newest.
      engine: what computes, or "auto": what is the fastest here, of what is installed, which is
        measured once; exports of earlier versions have TensorFlow only.
      threads: of one computation; None: as many as TensorFlow has for one, or as is the fastest.
        Those of TensorFlow itself are its process's (`tf.config.threading`).
      precision: what is multiplied in; None: what the export was checked with.
      cache: folder for what engines keep; None: that of the user.
      plan: in place of engine, threads and precision.
      most_tokens: of several requests that are computed together: fewer keep each wait shorter.

    Raises:
      InputError: there is no export, it is damaged, it was not checked in this precision, the
        engine is not installed, or TensorFlow has another number of threads.
    """

    def __init__(
        self,
        path: str,
        engine: EngineName | str = EngineName.TENSORFLOW,
        threads: int | None = None,
        precision: Precision | str | None = None,
        cache: str | None = None,
        plan: Plan | None = None,
        most_tokens: int = MOST_TOKENS,
    ):
        self.path = saved_model.newest(path)
        self.manifest = saved_model.read_manifest(self.path)
        checksums.check(self.path)
        self._signatures = self.manifest["signatures"]
        cache = cache or converted.user_folder()
        if plan is None:
            wish = _wish(engine, threads, Precision(precision) if precision else None)
            plan = choosing.choose(self.path, wish, cache)
        self.plan = plan
        self._model = self._load(plan, cache, most_tokens)

    def _load(self, plan: Plan, cache: str, most_tokens: int) -> SavedModelSession | Program:
        if halves.are_in(self.path):
            return Program(self.path, plan, cache, most_tokens)
        others = [lane.engine for lane in plan.lanes if lane.engine is not EngineName.TENSORFLOW]
        if others:
            raise InputError(
                f"{self.path}: was exported by an earlier version, for TensorFlow alone; export it "
                f"again (make export) to use {others[0]}."
            )
        return SavedModelSession(self.path)

    @property
    def signatures(self) -> dict[str, dict[str, tf.DType]]:
        """Names and dtypes of the inputs of each signature."""
        return {
            name: {key: tf.as_dtype(dtype) for key, (dtype, _) in signature["inputs"].items()}
            for name, signature in self._signatures.items()
        }

    def __call__(self, signature: str | None = None, /, **inputs: Any) -> Outputs:
        """Answers one request; several threads may ask at once.

        Args:
          signature: its name; None: that of the first task.
          **inputs: a batch of each, as the signature has them; str, bytes or numbers.

        Returns:
          NumPy arrays by name, the batch first; strings are bytes.

        Raises:
          InputError: there is no such signature, or it does not take these inputs.
        """
        first = next(iter(self._signatures))
        name = first if signature in (None, _DEFAULT) else signature
        if name not in self._signatures:
            known = ", ".join(sorted(self._signatures))
            raise InputError(f"{self.path}: has no signature {name!r}; it has {known}.")
        known_inputs = self._signatures[name]["inputs"]
        if inputs.keys() != known_inputs.keys():
            raise InputError(
                f"{name}: takes {', '.join(sorted(known_inputs))}, not "
                f"{', '.join(sorted(inputs)) or 'nothing'}."
            )
        arrays = {key: _array(name, key, inputs[key], *spec) for key, spec in known_inputs.items()}
        try:
            return self._model.run(name, arrays)
        except tf.errors.ResourceExhaustedError as error:
            raise InputError(f"{name}: out of memory; send fewer or shorter texts.") from error
        except tf.errors.OpError as error:
            raise InputError(f"{name}: {_reason(error)}") from error
        except UnicodeDecodeError as error:  # TensorFlow's message has the bytes in it
            raise InputError(f"{name}: {_NO_EXAMPLES}") from error

    @property
    def differences(self) -> Mapping[Lane, float]:
        """By other engines, how far their results are from TensorFlow's; see `Program`."""
        return self._model.differences

    @property
    def waiting(self) -> int:
        """How many sequences wait to be computed."""
        return self._model.waiting

    def close(self) -> None:
        """Answers what was asked, and ends; it cannot be asked any more."""
        self._model.close()

    def task(self, name: str | None = None) -> Task:
        """A task of the export.

        Args:
          name: of its signature; None: the only one.

        Raises:
          InputError: there is no such task, or several to choose from.
        """
        known = {task["name"]: task for model in self.manifest["models"] for task in model["tasks"]}
        if name is None and len(known) == 1:
            name = next(iter(known))
        if name not in known:
            raise InputError(
                f"{self.path}: has the tasks {', '.join(known) or '(none)'}; choose with --task=."
                if name is None
                else f"{self.path}: has no task {name!r}; it has {', '.join(known) or 'none'}."
            )
        return tasks.load(known[name])

    def predict(
        self,
        task: Task,
        examples: Sequence[Any],
        progress: Callable[[Iterable[Any]], Iterable[Any]] = iter,
    ) -> list[Any]:
        """Predictions of a task for examples, in their order.

        Args:
          task: of this export.
          examples: as its files are read.
          progress: wraps the batches, to show how far they are.
        """
        serving = task.serving()
        if getattr(task, "document_context", False):
            logging.warning(
                "%s was trained with document context; exports see each text alone.", task.name
            )

        def predict(rows: list[int]) -> list[Any]:
            chosen = [examples[row] for row in rows]
            outputs = self(serving.request_signature, **serving.requests(chosen))
            return serving.predictions(chosen, outputs)

        found: list[Any] = [None] * len(examples)
        batches = list(_batches(serving.requests(examples)))
        # One more than compute: it tokenizes and decodes meanwhile.
        predictions = mapped(predict, batches, cores() + 1)
        for rows in progress(batches):
            for row, prediction in zip(rows, next(predictions), strict=True):
                found[row] = prediction
        return found


def _wish(engine: str, threads: int | None, precision: Precision | None) -> Wish:
    here = registry.threads_of_tensorflow()
    if engine == EngineName.TENSORFLOW and threads not in (None, here):
        raise InputError(
            f"threads={threads}: TensorFlow has {here} in this process; before its first "
            "computation, tf.config.threading.set_intra_op_parallelism_threads changes that."
        )
    if engine == AUTO:
        return Wish(engine, threads, precision, threads_of_tensorflow=here)
    return Wish(engine, threads or here, precision, (), threads_of_tensorflow=here)


def _batches(requests: Mapping[str, Sequence[Any]]) -> Iterator[list[int]]:
    """Rows of like lengths, the longest first, so that memory is short at once or never."""
    lengths = np.array([sum(map(_length, row)) for row in zip(*requests.values(), strict=True)])
    order = np.argsort(-lengths, kind="stable").tolist()
    for first in range(0, len(order), _BATCH):
        yield order[first : first + _BATCH]


def _length(value: str | Sequence[str]) -> int:
    return len(value) if isinstance(value, str) else sum(map(len, value))


def _array(
    signature: str, name: str, value: Any, dtype_name: str, shape: Sequence[int | None]
) -> np.ndarray:
    """A value as the array that an input takes.

    Raises:
      InputError: it has another type or rank.
    """
    array = requests.as_array(f"{signature}: {name}", value)
    dtype, rank = tf.as_dtype(dtype_name), len(shape)
    fits = array.size == 0 or (array.dtype == object) == (dtype is tf.string)
    if not fits or array.ndim != rank:
        raise InputError(
            f"{signature}: {name} must be an array of {dtype.name} with {rank} "
            f"dimension{'s' if rank > 1 else ''}, the batch first."
        )
    return array if array.size else array.astype(dtype.as_numpy_dtype)


def _reason(error: tf.errors.OpError) -> str:
    """What went wrong in the graph, without where."""
    text = error.message
    if "assertion failed: [" in text:
        return text.split("assertion failed: [", 1)[1].split("]", 1)[0]
    if "Could not parse example" in text or "is required but could not be found" in text:
        return _NO_EXAMPLES
    lines = text.removeprefix("Graph execution error:").strip().splitlines()
    return (lines or [type(error).__name__])[0][:_LONGEST_REASON]
