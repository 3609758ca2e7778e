"""The SavedModel of an export as TensorFlow Serving runs it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the tokenizer's ops)

from bert_tf.export import quiet_tensorflow
from bert_tf.serving.engines import registry
from pipelines.common.errors import InputError

_LONGEST_REASON = 200  # characters
Arrays = Mapping[str, np.ndarray]


class SavedModelSession:
    """Runs the signatures of a SavedModel by the engine that TensorFlow Serving has.

    Args:
      folder: of the SavedModel.
      optimize: whether graphs are optimized, which takes seconds at the first request of each
        signature, and speeds up those that compute.

    Raises:
      InputError: it cannot be loaded.
    """

    def __init__(self, folder: str, optimize: bool = True):
        # A request is a chain of small operations: handing them to other threads costs more than
        # it gains.
        config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=-1)
        # What computes first in a process decides for all that follows.
        config.intra_op_parallelism_threads = registry.threads_of_tensorflow()
        config.graph_options.rewrite_options.disable_meta_optimizer = not optimize
        with tf.Graph().as_default(), quiet_tensorflow.quiet():
            self._session = tf.compat.v1.Session(config=config)
            loaded = self._load(folder)
        self.definitions: dict[str, Any] = {
            name: signature
            for name, signature in loaded.signature_def.items()
            if not name.startswith("__")
        }
        self._calls: dict[str, Callable[..., Sequence[np.ndarray]]] = {}

    def _load(self, folder: str) -> Any:
        try:
            return tf.compat.v1.saved_model.load(self._session, ["serve"], folder)
        except Exception as error:  # of a damaged graph, TensorFlow may say anything
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise InputError(
                f"{folder}: cannot be loaded ({reason[:_LONGEST_REASON]}); it is damaged, or no "
                "SavedModel. Copy it again."
            ) from error

    def run(self, name: str, inputs: Arrays) -> dict[str, np.ndarray]:
        """The outputs of a signature.

        Args:
          name: of the signature.
          inputs: as it takes them.

        Raises:
          tf.errors.OpError: they make no sense.
        """
        definition = self.definitions[name]
        if name not in self._calls:
            self._calls[name] = self._session.make_callable(
                [info.name for info in definition.outputs.values()],
                [info.name for info in definition.inputs.values()],
            )
        found = self._calls[name](*(inputs[key] for key in definition.inputs))
        return dict(zip(definition.outputs, found, strict=True))

    @property
    def differences(self) -> dict[Any, float]:
        """Of results from TensorFlow's: none, it is TensorFlow."""
        return {}

    @property
    def waiting(self) -> int:
        """How many sequences wait to be computed: none, each request is computed by itself."""
        return 0

    def close(self) -> None:
        """Lets go of the memory."""
        self._session.close()
