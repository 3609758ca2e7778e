"""The runtime of exports: it is loaded once, and then answers without delay."""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf import tasks
from bert_tf.export import module, reading, saved_model
from bert_tf.models.base_config import EncoderConfig
from bert_tf.serving import engines, inputs, selection
from bert_tf.serving.engines import (
    Arrays,
    Batch,
    ConvertedModels,
    Engine,
    Outputs,
    SavedModelSession,
)
from bert_tf.serving.plan import MAX_TOKENS, EngineName, ExecutionPlan, Precision
from bert_tf.serving.scheduler import Executable, Scheduler
from bert_tf.tasks import Task
from bert_tf.tasks.signatures import Computation, PlainTexts
from pipelines.common.errors import InputError
from pipelines.common.machine import cores
from pipelines.common.parallel import mapped
from pipelines.labelled import bucketing
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.packing import MODEL_INPUTS

_BATCH = 32
_MAX_REASON = 200  # characters
_NOT_EXAMPLES = "inputs are not serialized tf.Examples with the features that it takes."
_DEFAULT = "serving_default"


class _PlainPath(NamedTuple):
    """Pre- and postprocessing of short plain texts without TensorFlow."""

    texts: PlainTexts
    tokenizer: Tokenizer
    postprocess: Callable[[Sequence[Any], Any], Any]


class _LoadedSignature(NamedTuple):
    """A signature, ready to answer.

    It does not refer to the model, which other engines release, unless it generates text.
    """

    name: str
    sample: Mapping[str, Any]
    executable: Executable
    plain: _PlainPath | None
    stream: Callable[[str | bytes], Iterator[str]] | None


class Predictor:
    """Answers requests with an export.

    Preprocessing and postprocessing are the export's own graphs. An engine runs the computation
    between them, for the sequences of several requests at once.

    An export is a program: loading one, and sending it requests, runs code of its author with the
    rights of this process. Load exports only from people you trust.

    >>> predictor = Predictor("savedmodels/bert")
    >>> predictor("mrpc", text_a=["It rained."], text_b=["Rain fell."])["label"]
    array([b'1'], dtype=object)

    Args:
      path: of a version, or of a folder of versions: the newest one.
      engine: runs the computations; "auto": the first installed one of those that suit the
        precision, see `selection.choose`.
      threads: of one computation; None: those of TensorFlow in this process
        (`tf.config.threading`).
      precision: in which to multiply; None: that in which the export was checked.
      cache: folder for converted models; None: that of the user.
      plan: in place of engine, threads and precision.
      max_tokens: of different requests that are computed together; fewer shorten each wait.

    Attributes:
      path: of the version.
      manifest: of the version.
      plan: the execution plan.
      difference: the largest difference of the engine's results from TensorFlow's, relative to the
        largest result; None if TensorFlow is the engine.

    Raises:
      InputError: the path is not an export, or it is damaged or was not checked in this precision;
        or the engine is unknown, not installed or computes something else; or TensorFlow has
        another number of threads.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        engine: EngineName | str = EngineName.TENSORFLOW,
        threads: int | None = None,
        precision: Precision | str | None = None,
        cache: str | None = None,
        plan: ExecutionPlan | None = None,
        max_tokens: int = MAX_TOKENS,
    ):
        self.path = saved_model.newest(os.fspath(path))
        self.manifest = saved_model.check_complete(self.path)
        cache = cache or engines.user_folder()
        if plan is None:
            here = engines.tensorflow_threads()
            if engine == EngineName.TENSORFLOW and threads not in (None, here):
                raise InputError(
                    f"threads={threads}: TensorFlow has {here} in this process; before its first "
                    "computation, tf.config.threading.set_intra_op_parallelism_threads changes "
                    "that."
                )
            if precision not in (None, *Precision):
                known = ", ".join(Precision)
                raise InputError(f"precision {precision!r}: is unknown; use one of {known}.")
            kind = Precision(precision) if precision else None
            plan = selection.choose(self.path, engine, threads or here, kind)
        self.plan = plan
        self.difference: float | None = None
        self._session = SavedModelSession(f"{self.path}/{saved_model.PARTS}")
        self._loaded = self._load(ConvertedModels(self.path, cache))
        concurrency = max(1, cores() // plan.threads)
        self._scheduler = Scheduler(concurrency, max_tokens, plan.batches)

    def _load(self, models: ConvertedModels) -> dict[str, _LoadedSignature]:
        """The signatures by name; each computation is loaded once."""
        plan = self.plan
        loader = engines.ENGINES[plan.engine](models, plan.precision, plan.threads)
        found: dict[str, _LoadedSignature] = {}
        assembly = reading.assembly(self.path, loader.dtype)
        for number, model in enumerate(assembly.models):
            executables: dict[str, Executable] = {}
            for signature in model.signatures:
                key = signature.computation.name
                if key not in executables:
                    name, config = f"{number}_{key}", model.source.bundle.config
                    executables[key] = self._executable(name, signature.computation, config, loader)
                plain = None
                if signature.plain:
                    plain = _PlainPath(signature.plain, model.tokenizer, signature.postprocess)
                found[signature.name] = _LoadedSignature(
                    signature.name, signature.sample, executables[key], plain, signature.stream
                )
        return found

    def _executable(
        self, name: str, computation: Computation, config: EncoderConfig, loader: Engine
    ) -> Executable:
        """Loads a computation, and compares its results with TensorFlow's."""
        if not computation.portable:
            compute = engines.compute_with_tensorflow(computation)
            return Executable(computation.outputs, compute, computation.rows_at_once)
        compute = loader.load(name, computation)
        if loader.name is not EngineName.TENSORFLOW:
            found = loader.difference(name, compute, computation, config)
            self.difference = max(found, self.difference or 0.0)
        return Executable(computation.outputs, compute)

    @property
    def signatures(self) -> dict[str, dict[str, tf.DType]]:
        """Names and dtypes of the inputs of each signature."""
        return {
            name: {key: tf.as_dtype(dtype) for key, (dtype, _) in signature["inputs"].items()}
            for name, signature in self.manifest["signatures"].items()
        }

    @property
    def samples(self) -> dict[str, Mapping[str, Any]]:
        """A small valid request of each signature, such as for a warm-up."""
        return {name: loaded.sample for name, loaded in self._loaded.items()}

    def __call__(self, signature: str | None = None, /, **values: Any) -> Outputs:
        """Answers one request; several threads may call at once.

        Args:
          signature: its name; None: that of the first task.
          **values: a batch of each input of the signature; str, bytes or numbers.

        Returns:
          NumPy arrays by name, the batch first; strings are bytes.

        Raises:
          InputError: the signature is unknown, or does not take these inputs.
        """
        return self.counted(signature, **values)[0]

    def counted(self, signature: str | None = None, /, **values: Any) -> tuple[Outputs, int]:
        """Answers as a call does; also returns the number of tokens of all sequences."""
        known = self.manifest["signatures"]
        name = next(iter(known)) if signature in (None, _DEFAULT) else signature
        if name not in known:
            listed = ", ".join(sorted(known))
            raise InputError(f"{self.path}: has no signature {name!r}; it has {listed}.")
        arrays = self._arrays(name, values)
        with _refused(name):
            return self._run(self._loaded[name], arrays)

    def _arrays(self, name: str, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The inputs of a signature; raises InputError if it does not take them."""
        specs = self.manifest["signatures"][name]["inputs"]
        if values.keys() != specs.keys():
            raise InputError(
                f"{name}: takes {', '.join(sorted(specs))}, not "
                f"{', '.join(sorted(values)) or 'nothing'}."
            )
        return {key: _array(name, key, values[key], *spec) for key, spec in specs.items()}

    def stream(self, signature: str, /, **values: Any) -> Iterator[str]:
        """Answers a request of one text in parts, which join to the output of the signature.

        Args:
          signature: its name.
          **values: as for a call, a batch of one text.

        Raises:
          InputError: the signature is unknown, does not take these inputs, or its outputs come at
            once.
        """
        loaded = self._loaded.get(signature)
        if loaded is None or loaded.stream is None:
            able = ", ".join(name for name, each in self._loaded.items() if each.stream)
            raise InputError(
                f"{signature}: cannot be streamed; signatures that can: {able or 'none'}."
            )
        (text,) = self._arrays(signature, values).values()
        if len(text) != 1:
            raise InputError(f"{signature}: a stream has one text, not {len(text)}.")
        return self._streamed(loaded.name, loaded.stream, text[0])

    def _streamed(
        self, name: str, parts: Callable[[str | bytes], Iterator[str]], text: str | bytes
    ) -> Iterator[str]:
        with _refused(name):
            yield from parts(text)

    def _run(self, loaded: _LoadedSignature, arrays: Arrays) -> tuple[Outputs, int]:
        name, _, executable, plain, _ = loaded
        if plain:
            batch = inputs.pack_plain(plain.texts, plain.tokenizer, arrays)
            if batch is not None:
                results = self._scheduler.submit(executable, batch).result()
                return plain.postprocess(results, {}), int(batch.mask.sum())
        state = self._session.run(f"{name}/{module.PREPROCESS}", arrays)
        batch = Batch(*(state.pop(key) for key in MODEL_INPUTS))
        results = self._scheduler.submit(executable, batch).result()
        state |= {module.RESULT.format(number): value for number, value in enumerate(results)}
        return self._session.run(f"{name}/{module.POSTPROCESS}", state), int(batch.mask.sum())

    @property
    def waiting(self) -> int:
        """Number of sequences that wait to be computed."""
        return self._scheduler.waiting

    def close(self) -> None:
        """Answers the current requests, and frees the memory."""
        self._scheduler.close()
        self._session.close()

    def task(self, name: str | None = None) -> Task:
        """The task with a name, or the only task, of the export.

        Raises:
          InputError: the task is unknown, or there are several to choose from.
        """
        known = saved_model.tasks_of(self.manifest)
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
        """Predictions of a task of this export for examples, in their order.

        `progress` wraps the batches, to show progress.
        """
        if not examples:
            return []
        if getattr(task, "document_context", False):
            logging.warning(
                "%s was trained with document context; exports see each text alone.", task.name
            )

        def predict(rows: list[int]) -> list[Any]:
            chosen = [examples[row] for row in rows]
            outputs = self(task.request_signature, **task.requests(chosen))
            return task.from_outputs(chosen, outputs)

        found: list[Any] = [None] * len(examples)
        texts = [chain(*task.requests([example]).values()) for example in examples]
        lengths = np.array([sum(map(_length, each)) for each in texts])
        # The longest first, so that memory runs out at once or never.
        batches = [rows.tolist() for rows in bucketing.evaluation_order(-lengths, _BATCH)]
        # One thread more than compute: it tokenizes and decodes meanwhile.
        predictions = mapped(predict, batches, cores() + 1)
        for rows in progress(batches):
            for row, prediction in zip(rows, next(predictions), strict=True):
                found[row] = prediction
        return found


def _length(value: str | Sequence[str]) -> int:
    return len(value) if isinstance(value, str) else sum(map(len, value))


def _array(
    signature: str, name: str, value: Any, dtype_name: str, shape: Sequence[int | None]
) -> np.ndarray:
    """A value as the array that an input takes."""
    array = inputs.as_array(f"{signature}: {name}", value)
    dtype, rank = tf.as_dtype(dtype_name), len(shape)
    fits = array.size == 0 or (array.dtype == object) == (dtype is tf.string)
    if not fits or array.ndim != rank:
        raise InputError(
            f"{signature}: {name} must be an array of {dtype.name} with {rank} "
            f"dimension{'s' if rank > 1 else ''}, the batch first."
        )
    return array if array.size else array.astype(dtype.as_numpy_dtype)


@contextlib.contextmanager
def _refused(name: str) -> Iterator[None]:
    """Makes errors of TensorFlow in a signature InputErrors."""
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise InputError(f"{name}: out of memory; send fewer or shorter texts.") from error
    except tf.errors.OpError as error:
        raise InputError(f"{name}: {_reason(error)}") from error
    except UnicodeDecodeError as error:  # TensorFlow's message contains the bytes
        raise InputError(f"{name}: {_NOT_EXAMPLES}") from error


def _reason(error: tf.errors.OpError) -> str:
    """The reason of an error, without the place in the graph."""
    text = error.message
    if "assertion failed: [" in text:
        return text.split("assertion failed: [", 1)[1].split("]", 1)[0]
    if "Could not parse example" in text or "is required but could not be found" in text:
        return _NOT_EXAMPLES
    lines = text.removeprefix("Graph execution error:").strip().splitlines()
    return (lines or [type(error).__name__])[0][:_MAX_REASON]
