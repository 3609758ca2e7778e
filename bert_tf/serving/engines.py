"""Engines, which run the parts of an export: TensorFlow, and other runtimes for computations."""

import abc
import dataclasses
import functools
import hashlib
import json
import math
import os
import queue
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the tokenizer's ops)

from bert_tf.export import conversion, reading, saved_model
from bert_tf.export.module import RESULT, quiet
from bert_tf.models import fused_ops
from bert_tf.models.base_config import EncoderConfig
from bert_tf.serving.plan import EngineName, Precision
from bert_tf.tasks.signatures import Computation, Tensors
from pipelines.common import files, json_files, machine, optional
from pipelines.common.errors import InputError
from pipelines.common.machine import cores
from pipelines.tokenizers.packing import MODEL_INPUTS

_FORMAT = 5  # of converted models; those of another format are converted again
_PACKAGES = ("bert-tf", "tensorflow", "onnxruntime", "openvino", "ai-edge-litert", "tf2onnx")
_MAX_DIFFERENCE = 1e-3  # of float32 results between engines
_SHAPES = ((1, 8), (3, 24))  # sequences and tokens for the comparison


class Batch(NamedTuple):
    """Padded sequences, int32 [sequences, length] each, in the order of `MODEL_INPUTS`."""

    ids: np.ndarray
    mask: np.ndarray
    types: np.ndarray


Arrays = Mapping[str, np.ndarray]
Outputs = dict[str, np.ndarray]
# Results of a batch; the first axis of each is that of the sequences.
Compute = Callable[[Batch], Sequence[np.ndarray]]


def environment() -> list[str | None]:
    """The processor and the versions of packages, on which results and speed depend."""

    def version(package: str) -> str | None:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return None

    return [machine.processor(), *map(version, _PACKAGES)]


class ConvertedModels:
    """The converted models of an export, cached in a folder on a local disk."""

    def __init__(self, export: str, folder: str):
        self._export, self._folder = export, folder

    @functools.cached_property
    def _key(self) -> str:
        """Checksum of the export, of the format of conversions, and of what decides the results."""
        values = [_FORMAT, environment(), saved_model.checksums(self._export)]
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]

    def path(self, name: str, convert: Callable[[], bytes]) -> str:
        """The file of a model; `convert` makes its contents if it does not exist."""
        path = f"{self._folder}/{self._key}/{name}"
        if not files.gfile.exists(path):
            files.write_bytes(path, convert(), shared=True)
        return path

    def onnx(
        self, name: str, computation: Computation, quantize: Callable[[bytes], bytes] | None = None
    ) -> str:
        """The file of a computation in ONNX, or of what a function of `conversion` makes of it."""
        path = self.path(f"{name}.onnx", lambda: conversion.to_onnx(traced(computation)))
        if quantize is None:
            return path
        ending = f"{quantize.__name__}.onnx"
        return self.path(f"{name}.{ending}", lambda: quantize(Path(path).read_bytes()))


def user_folder() -> str:
    """Folder of the user's converted models."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return f"{base}/bert-tf/engines"


def _for_one_thread(
    make: Callable[[], Any], use: Callable[[Any, dict[str, np.ndarray]], Sequence[np.ndarray]]
) -> Compute:
    """A computation with objects for one thread at a time; one is made when all are in use."""
    free: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def compute(batch: Batch) -> Sequence[np.ndarray]:
        try:
            item = free.get_nowait()
        except queue.Empty:
            item = make()
        try:
            return use(item, _inputs(batch))
        finally:
            free.put(item)

    return compute


def _inputs(batch: Batch) -> dict[str, np.ndarray]:
    return dict(zip(MODEL_INPUTS, batch, strict=True))


def _results(found: Mapping[str, Any]) -> list[Any]:
    """Results of `traced` in their order."""
    return [found[RESULT.format(number)] for number in range(len(found))]


class Engine(abc.ABC):
    """Runs computations in a precision, as many at once as there are cores for.

    Raises:
      InputError: a package is not installed.
    """

    name: EngineName
    modules: Sequence[str] = ()  # top-level modules of optional packages that it needs
    extra = ""  # of the installation, which has these packages
    dtype = "float32"  # of the weights that it loads

    def __init__(self, models: ConvertedModels, precision: Precision, threads: int):
        self._models, self._precision, self._threads = models, precision, threads
        self._concurrency = max(1, cores() // threads)

    @abc.abstractmethod
    def load(self, name: str, computation: Computation) -> Compute:
        """Loads a computation under a name; several threads may call the result at once."""

    def difference(
        self, name: str, compute: Compute, computation: Computation, config: EncoderConfig
    ) -> float:
        """The largest difference of a loaded computation from TensorFlow's; it is cached.

        Returns:
          The difference on random sequences, relative to the largest result, at least 1.

        Raises:
          InputError: the engine fails, or a result is NaN or infinite, or differs in float32 by
            more than rounding.
        """

        def measure() -> float:
            reference = compute_with_tensorflow(computation)
            rng = np.random.default_rng(0)
            worst = 0.0
            for count, tokens in _SHAPES:
                shape = (count, min(tokens, config.max_seq_length))
                ids = rng.integers(0, config.vocab_size, shape, np.int32)
                batch = Batch(ids, np.ones_like(ids), np.zeros_like(ids))
                try:
                    results = compute(batch)
                except Exception as error:  # each runtime has errors of its own
                    raise InputError(
                        f"{self.name} does not run this model; use --engine=tensorflow ({error})."
                    ) from error
                for found, exact in zip(results, reference(batch), strict=True):
                    if np.issubdtype(exact.dtype, np.floating):
                        difference = float(np.abs(found - exact).max())
                        worst = max(worst, difference / max(1.0, float(np.abs(exact).max())))
                        self._check(worst if np.isfinite(found).all() else math.inf)
            return worst

        place = f"{name}.{self.name}.{self._precision}.json"
        path = self._models.path(place, lambda: json.dumps(measure()).encode())
        return json_files.read(path, float)

    def _check(self, difference: float) -> None:
        if not math.isfinite(difference):
            raise InputError(f"{self.name} computes NaN or infinity here; use --engine=tensorflow.")
        if self._precision is Precision.FLOAT32 and difference > _MAX_DIFFERENCE:
            raise InputError(
                f"{self.name} differs from TensorFlow by {difference:.1e} here, which rounding "
                "does not explain; use --engine=tensorflow."
            )


def compute_with_tensorflow(computation: Computation) -> Compute:
    """A computation in TensorFlow, in this process; one that is not portable runs in chunks."""
    if computation.portable:
        whole, skipping = (traced(computation, skip) for skip in (False, True))
    else:
        chunked = dataclasses.replace(
            computation, function=lambda inputs, _: computation.in_chunks(inputs)
        )
        whole = skipping = traced(chunked)

    def compute(batch: Batch) -> Sequence[np.ndarray]:
        function = whole if batch.mask.all() else skipping
        found = function(**_inputs(Batch(*map(tf.convert_to_tensor, batch))))
        return [value.numpy() for value in _results(found)]

    return compute


class TensorFlowEngine(Engine):
    """TensorFlow in this process, with the threads of its pool."""

    name = EngineName.TENSORFLOW

    def __init__(self, models: ConvertedModels, precision: Precision, threads: int):
        super().__init__(models, precision, threads)
        if precision is Precision.BFLOAT16:
            self.dtype = "bfloat16"

    def load(self, name: str, computation: Computation) -> Compute:
        return compute_with_tensorflow(computation)


class OnnxRuntimeEngine(Engine):
    """ONNX Runtime on a CPU, in float32 or int8."""

    name = EngineName.ONNXRUNTIME
    modules = ("onnxruntime", "tf2onnx")
    extra = "onnx"

    def __init__(self, models: ConvertedModels, precision: Precision, threads: int):
        super().__init__(models, precision, threads)
        self._runtime = optional.load("onnxruntime", self.extra)
        self._options = self._runtime.SessionOptions()
        self._options.intra_op_num_threads = threads
        self._options.log_severity_level = 3  # errors; it warns of every weight that is not read
        # Spinning threads notice work sooner, and take the processor from all others: only where
        # nothing else is computed.
        spinning = str(int(self._concurrency == 1))
        self._options.add_session_config_entry("session.intra_op.allow_spinning", spinning)

    def load(self, name: str, computation: Computation) -> Compute:
        quantize = conversion.onnx_in_int8 if self._precision is Precision.INT8 else None
        path = self._models.onnx(name, computation, quantize)
        session = self._runtime.InferenceSession(path, self._options, ["CPUExecutionProvider"])
        return lambda batch: session.run(None, _inputs(batch))


class OpenVinoEngine(Engine):
    """OpenVINO on a CPU, in float32, bfloat16 or int8."""

    name = EngineName.OPENVINO
    modules = ("openvino", "tf2onnx")
    extra = "openvino"

    def __init__(self, models: ConvertedModels, precision: Precision, threads: int):
        super().__init__(models, precision, threads)
        self._core = optional.load("openvino", self.extra).Core()
        self._settings = {
            "INFERENCE_PRECISION_HINT": "bf16" if precision is Precision.BFLOAT16 else "f32",
            "INFERENCE_NUM_THREADS": threads * self._concurrency,
            "NUM_STREAMS": self._concurrency,
        }
        if precision is Precision.INT8:
            self._settings["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 128  # the default is slower

    def load(self, name: str, computation: Computation) -> Compute:
        quantize = conversion.onnx_with_int8_weights if self._precision is Precision.INT8 else None
        path = self._models.onnx(name, computation, quantize)
        model = self._core.compile_model(path, "CPU", self._settings)
        names = [RESULT.format(number) for number in range(len(computation.outputs))]

        def infer(request: Any, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
            found = request.infer(inputs, share_inputs=True, share_outputs=True)
            return [found[name].copy() for name in names]

        return _for_one_thread(model.create_infer_request, infer)


class LiteRtEngine(Engine):
    """LiteRT on a CPU, in float32 or int8."""

    name = EngineName.LITERT
    modules = ("ai_edge_litert",)
    extra = "litert"

    def load(self, name: str, computation: Computation) -> Compute:
        runtime = optional.load("ai_edge_litert.interpreter", self.extra)
        quantized = self._precision is Precision.INT8
        path = self._models.path(
            f"{name}{'.int8' * quantized}.tflite",
            lambda: conversion.to_litert(traced(computation), quantized),
        )
        threads = self._threads

        def make() -> Any:
            return runtime.Interpreter(path, num_threads=threads).get_signature_runner()

        return _for_one_thread(make, lambda run, inputs: _results(run(**inputs)))


ENGINES: dict[EngineName, type[Engine]] = {
    kind.name: kind for kind in (TensorFlowEngine, OnnxRuntimeEngine, OpenVinoEngine, LiteRtEngine)
}


def installed() -> list[EngineName]:
    """The engines with all their packages installed."""
    return [name for name, kind in ENGINES.items() if all(map(optional.is_there, kind.modules))]


def tensorflow_threads() -> int:
    """The threads that TensorFlow has for one computation in this process."""
    return tf.config.threading.get_intra_op_parallelism_threads() or cores()


def traced(computation: Computation, skip_padding: bool = False) -> Any:
    """A computation as a concrete function of `MODEL_INPUTS`; it returns `RESULT` by name."""

    def function(**inputs: tf.Tensor) -> Tensors:
        with fused_ops.inference():
            found = computation.function(inputs, skip_padding)
        return {RESULT.format(number): value for number, value in enumerate(found)}

    specs = {name: tf.TensorSpec([None, None], tf.int32, name) for name in MODEL_INPUTS}
    return tf.function(function, autograph=False).get_concrete_function(**specs)


class SavedModelSession:
    """Runs the signatures of a SavedModel as TensorFlow Serving does.

    Args:
      folder: of the SavedModel.

    Raises:
      InputError: it cannot be loaded.
    """

    def __init__(self, folder: str):
        # A request is a chain of small operations: handing them to other threads costs more than
        # it gains.
        config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=-1)
        # The first computation of a process sets the number of threads for all others.
        config.intra_op_parallelism_threads = tensorflow_threads()
        # Optimizing takes seconds at the first request of each signature; these do not compute.
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        with tf.Graph().as_default(), quiet():
            self._session = tf.compat.v1.Session(config=config)
            try:
                loaded = tf.compat.v1.saved_model.load(self._session, ["serve"], folder)
            except Exception as error:  # TensorFlow raises many types for damaged graphs
                raise reading.damaged(folder, error) from error
        self._definitions = loaded.signature_def
        self._calls: dict[str, Callable[..., Sequence[np.ndarray]]] = {}

    def run(self, name: str, inputs: Arrays) -> Outputs:
        """The outputs of a signature for its inputs.

        Raises:
          tf.errors.OpError: the inputs are invalid.
        """
        definition = self._definitions[name]
        if name not in self._calls:
            self._calls[name] = self._session.make_callable(
                [info.name for info in definition.outputs.values()],
                [info.name for info in definition.inputs.values()],
            )
        found = self._calls[name](*(inputs[key] for key in definition.inputs))
        return dict(zip(definition.outputs, found, strict=True))

    def close(self) -> None:
        """Frees the memory."""
        self._session.close()
