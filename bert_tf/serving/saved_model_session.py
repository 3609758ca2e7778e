"""Runs the signatures of a SavedModel, as TensorFlow Serving does."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the tokenizer's ops)

from bert_tf.export import module, reading
from bert_tf.serving import engines

Arrays = Mapping[str, np.ndarray]
Outputs = dict[str, np.ndarray]


class SavedModelSession:
    """Runs the signatures of a SavedModel as TensorFlow Serving does.

    Args:
      folder: of the SavedModel.
      optimize: whether graphs are optimized. That takes seconds at the first request of each
        signature, and speeds up those that compute.

    Raises:
      InputError: it cannot be loaded.
    """

    def __init__(self, folder: str, optimize: bool = True):
        # A request is a chain of small operations: handing them to other threads costs more than
        # it gains.
        config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=-1)
        # The first computation of a process sets the number of threads for all others.
        config.intra_op_parallelism_threads = engines.tensorflow_threads()
        config.graph_options.rewrite_options.disable_meta_optimizer = not optimize
        with tf.Graph().as_default(), module.quiet():
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
