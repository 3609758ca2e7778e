"""An export in two halves: from requests to sequences, and from results to answers.

What stands between them is computed by an engine (`bert_tf.serving.engines`), for one request or
for the sequences of several at once.
"""

import hashlib
import os
from typing import Any

import numpy as np

from bert_tf.export import halves, reading, saved_model
from bert_tf.serving.engines import registry
from bert_tf.serving.engines.base import Sequences
from bert_tf.serving.engines.converted import Converted
from bert_tf.serving.engines.names import EngineName
from bert_tf.serving.saved_model_session import Arrays, SavedModelSession
from bert_tf.serving.scheduler import Scheduler, Step
from pipelines.common import checksums, files
from pipelines.tokenizers.packing import MODEL_INPUTS


def is_there(path: str) -> bool:
    """Whether an export has its signatures in halves; those of earlier versions have not."""
    return files.gfile.isdir(f"{path}/{halves.FOLDER}")


class Program:
    """Answers requests with an export: its tokenizers and its decoding, round an engine.

    Several threads may ask at once: their sequences are computed together.

    Args:
      path: of a version that `is_there`.
      engine: what computes.
      threads: of one computation; None: as many as TensorFlow has for one.
      cache: folder for models that an engine wants converted; None: that of the user.

    Raises:
      InputError: the export is damaged, or the engine is not installed.
    """

    def __init__(
        self,
        path: str,
        engine: EngineName = EngineName.TENSORFLOW,
        threads: int | None = None,
        cache: str | None = None,
    ):
        manifest: Any = saved_model.read_manifest(path)
        self._signatures = manifest["signatures"]
        self._session = SavedModelSession(f"{path}/{halves.FOLDER}", optimize=False)
        threads = threads or registry.threads_of_tensorflow()
        at_once = max(1, registry.cores() // threads)
        models = Converted(cache or _user_cache(), _mark(path))
        self._steps = _steps(path, registry.make(engine, models, threads, at_once))
        self._scheduler = Scheduler(at_once)

    def run(self, name: str, inputs: Arrays) -> dict[str, np.ndarray]:
        """The outputs of a signature.

        Args:
          name: of the signature.
          inputs: as it takes them.

        Raises:
          tf.errors.OpError: they make no sense.
          QueueFullError: too much waits to be computed.
        """
        state = self._session.run(f"{name}/{halves.PREPARE}", inputs)
        sequences = Sequences(*(state.pop(key) for key in MODEL_INPUTS))
        results = self._scheduler.submit(self._step(name), sequences).result()
        known = {halves.RESULT.format(number): value for number, value in enumerate(results)}
        return self._session.run(f"{name}/{halves.FINISH}", {**state, **known})

    def _step(self, name: str) -> Step:
        signature = self._signatures[name]
        return self._steps[signature["model"], signature["computation"]]

    @property
    def waiting(self) -> int:
        """How many sequences wait to be computed."""
        return self._scheduler.waiting

    def close(self) -> None:
        """Answers what was asked, and ends."""
        self._scheduler.close()


def _steps(path: str, engine: registry.ComputeEngine) -> dict[tuple[int, str], Step]:
    """What each model of an export computes, by the number of the model and its name."""
    found = {}
    for number, model in enumerate(reading.assembly(path).models):
        tokenizer = model.source.bundle.tokenizer()
        for name, computation in model.computations(tokenizer).items():
            compute = engine.load(f"{number}_{name}", computation)
            found[number, name] = Step(computation.outputs, compute)
    return found


def _mark(path: str) -> str:
    """Of an export, by its contents."""
    sums = checksums.read(path)
    return hashlib.sha256(
        "".join(f"{sums[name]} {name}\n" for name in sorted(sums)).encode()
    ).hexdigest()[:16]


def _user_cache() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return f"{base}/bert-tf/engines"
