"""An export in two halves: from requests to sequences, and from results to answers.

What stands between them is computed by an engine (`bert_tf.serving.engines`), for one request or
for the sequences of several at once.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the tokenizer's ops)

from bert_tf.export import halves, quiet_tensorflow
from bert_tf.serving.engines.base import Sequences
from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.tokenizers.packing import MODEL_INPUTS

# A half is a chain of small operations: handing them to other threads costs more than it gains.
_IN_CALLERS_THREAD = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=-1)
Arrays = Mapping[str, np.ndarray]
_Function = Callable[[Arrays], dict[str, np.ndarray]]


class Program:
    """What an export does before and after it computes.

    Args:
      path: of a version.

    Raises:
      InputError: the export has no such program.
    """

    def __init__(self, path: str):
        folder = f"{path}/{halves.FOLDER}"
        if not files.gfile.isdir(folder):
            raise InputError(
                f"{path}: was exported by an earlier version, for TensorFlow's engine only; export "
                "it again (make export)."
            )
        with tf.Graph().as_default(), quiet_tensorflow.quiet():
            self._session = tf.compat.v1.Session(config=_IN_CALLERS_THREAD)
            loaded = tf.compat.v1.saved_model.load(self._session, ["serve"], folder)
        self._definitions = loaded.signature_def
        self._functions: dict[str, _Function] = {}

    def prepare(self, signature: str, inputs: Arrays) -> tuple[Sequences, Arrays]:
        """Sequences of a request, and what `finish` needs besides their results.

        Args:
          signature: its name.
          inputs: of the signature.

        Raises:
          tf.errors.OpError: the inputs make no sense.
        """
        found = self._run(f"{signature}/{halves.PREPARE}", inputs)
        return Sequences(*(found.pop(name) for name in MODEL_INPUTS)), found

    def finish(
        self, signature: str, state: Arrays, results: Sequence[np.ndarray]
    ) -> dict[str, np.ndarray]:
        """The outputs of a signature.

        Args:
          signature: its name.
          state: what `prepare` left.
          results: of the sequences.
        """
        given = {halves.RESULT.format(number): value for number, value in enumerate(results)}
        return self._run(f"{signature}/{halves.FINISH}", {**state, **given})

    def _run(self, name: str, values: Arrays) -> dict[str, np.ndarray]:
        function = self._functions.get(name) or self._make(name)
        return function(values)

    def _make(self, name: str) -> _Function:
        definition: Any = self._definitions[name]
        run = self._session.make_callable(
            [info.name for info in definition.outputs.values()],
            [info.name for info in definition.inputs.values()],
        )
        inputs, outputs = list(definition.inputs), list(definition.outputs)

        def function(values: Arrays) -> dict[str, np.ndarray]:
            found = run(*(values[key] for key in inputs))
            return dict(zip(outputs, found, strict=True))

        self._functions[name] = function
        return function
