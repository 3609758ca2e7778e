"""An export in two halves: from requests to sequences, and from results to answers.

What stands between them is computed by an engine (`bert_tf.serving.engines`), for one request or
for the sequences of several at once.
"""

from typing import Any

import numpy as np

from bert_tf.export import halves, reading, saved_model
from bert_tf.serving.engines import registry
from bert_tf.serving.engines.base import Compute, ComputeEngine, Sequences
from bert_tf.serving.engines.converted import Converted
from bert_tf.serving.engines.plans import Plan
from bert_tf.serving.saved_model_session import Arrays, SavedModelSession
from bert_tf.serving.scheduler import Scheduler, Step
from bert_tf.tasks.signatures import Computation
from pipelines.common import files
from pipelines.common.threads import cores
from pipelines.tokenizers.packing import MODEL_INPUTS


def is_there(path: str) -> bool:
    """Whether an export has its signatures in halves; those of earlier versions have not."""
    return files.gfile.isdir(f"{path}/{halves.FOLDER}")


class Program:
    """Answers requests with an export: its tokenizers and its decoding, round an engine.

    Several threads may ask at once: their sequences are computed together.

    Args:
      path: of a version that `is_there`.
      plan: what computes.
      cache: folder for models that an engine wants converted.

    Raises:
      InputError: the export is damaged, or an engine is not installed.
    """

    def __init__(self, path: str, plan: Plan, cache: str):
        manifest: Any = saved_model.read_manifest(path)
        self._signatures = manifest["signatures"]
        self._session = SavedModelSession(f"{path}/{halves.FOLDER}", optimize=False)
        at_once = max(1, cores() // plan.together.threads)
        models = Converted.of(path, cache)
        self._steps = _steps(path, plan, models, at_once)
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


def _steps(path: str, plan: Plan, models: Converted, at_once: int) -> dict[tuple[int, str], Step]:
    """What each model of an export computes, by the number of the model and its name."""
    together = _loaded(path, registry.make(models, plan.together, at_once))
    alone = {}
    if plan.alone != plan.together:
        alone = _loaded(path, registry.make(models, plan.alone, 1))
    return {
        key: Step(computation.outputs, compute, alone[key][1] if alone else None)
        for key, (computation, compute) in together.items()
    }


def _loaded(path: str, engine: ComputeEngine) -> dict[tuple[int, str], tuple[Computation, Compute]]:
    found = {}
    for number, model in enumerate(reading.assembly(path, engine.dtype).models):
        tokenizer = model.source.bundle.tokenizer()
        for name, computation in model.computations(tokenizer).items():
            found[number, name] = computation, engine.load(f"{number}_{name}", computation)
    return found
