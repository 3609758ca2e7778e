"""An export in two halves: from requests to sequences, and from results to answers.

What stands between them is computed by an engine (`bert_tf.serving.engines`), for one request or
for the sequences of several at once.
"""

import math
from typing import Any

import numpy as np

from bert_tf.export import halves, reading, saved_model
from bert_tf.export.module import Served
from bert_tf.serving.direct import DirectSignature
from bert_tf.serving.engines import agreement, registry
from bert_tf.serving.engines.base import Compute, Sequences
from bert_tf.serving.engines.converted import Converted
from bert_tf.serving.engines.names import EngineName, Precision
from bert_tf.serving.engines.plans import MOST_TOKENS, Lane, Plan
from bert_tf.serving.saved_model_session import Arrays, SavedModelSession
from bert_tf.serving.scheduler import Scheduler, Step
from bert_tf.tasks.signatures import Computation
from pipelines.common.errors import InputError
from pipelines.common.threads import cores
from pipelines.tokenizers.packing import MODEL_INPUTS

_MOST_DIFFERENCE = 1e-3  # by which engines may differ in float32


class Program:
    """Answers requests with an export: its tokenizers and its decoding, round an engine.

    Several threads may ask at once: their sequences are computed together.

    Args:
      path: of a version that has its signatures in halves.
      plan: what computes.
      cache: folder for models that an engine wants converted.
      most_tokens: of sequences that are computed together, padding included.

    Attributes:
      differences: of other engines' results from TensorFlow's, the largest; 1 is the scale of the
        largest result.

    Raises:
      InputError: the export is damaged, or an engine is not installed.
    """

    def __init__(self, path: str, plan: Plan, cache: str, most_tokens: int = MOST_TOKENS):
        manifest: Any = saved_model.read_manifest(path)
        self._signatures = manifest["signatures"]
        self._session = SavedModelSession(f"{path}/{halves.FOLDER}", optimize=False)
        at_once = max(1, cores() // plan.together.threads)
        models = Converted(path, cache)
        together = _LoadedLane(path, plan.together, models, at_once)
        loaded = {plan.together: together}
        if plan.alone != plan.together:
            loaded[plan.alone] = _LoadedLane(path, plan.alone, models, 1)
        self._direct = together.direct
        self.differences = {
            lane: found.difference for lane, found in loaded.items() if found.difference is not None
        }
        alone = loaded[plan.alone].computations
        self._steps = {
            key: Step(computation.outputs, compute, alone[key][1])
            for key, (computation, compute) in together.computations.items()
        }
        self._scheduler = Scheduler(at_once, most_tokens, grouped=plan.grouped)

    def run(self, name: str, inputs: Arrays) -> dict[str, np.ndarray]:
        """The outputs of a signature.

        Args:
          name: of the signature.
          inputs: as it takes them.

        Raises:
          tf.errors.OpError: they make no sense.
        """
        direct = self._direct.get(name)
        known = direct.prepare(inputs) if direct else None
        if direct and known:
            return direct.finish(self._scheduler.submit(self._step(name), known).result())
        state = self._session.run(f"{name}/{halves.PREPARE}", inputs)
        sequences = Sequences(*(state.pop(key) for key in MODEL_INPUTS))
        results = self._scheduler.submit(self._step(name), sequences).result()
        state |= {halves.RESULT.format(number): value for number, value in enumerate(results)}
        return self._session.run(f"{name}/{halves.FINISH}", state)

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


_Key = tuple[int, str]  # the number of a model, and the name of what it computes


class _LoadedLane:
    """What an export computes, in one way.

    Args:
      path: of the export.
      lane: the way.
      models: where converted models are kept.
      at_once: computations that run at once.

    Attributes:
      computations: by the number of the model and their names, each with what computes it.
      direct: signatures that can do without their graphs.
      difference: from TensorFlow's results, the largest; None: it is TensorFlow.

    Raises:
      InputError: the engine is not installed, or its results are wrong.
    """

    def __init__(self, path: str, lane: Lane, models: Converted, at_once: int):
        self._lane, self._models = lane, models
        self.difference: float | None = None
        self.computations: dict[_Key, tuple[Computation, Compute]] = {}
        self.direct: dict[str, DirectSignature] = {}
        engine = registry.make(models, lane, at_once)
        for number, model in enumerate(reading.assembly(path, engine.dtype).models):
            tokenizer = model.source.bundle.tokenizer()
            for name, direct in model.direct(tokenizer).items():
                self.direct[name] = DirectSignature(direct, tokenizer)
            for name, computation in model.computations(tokenizer).items():
                compute = engine.load(f"{number}_{name}", computation)
                self.computations[number, name] = computation, compute
                if lane.engine is not EngineName.TENSORFLOW:
                    self._check(f"{number}_{name}", compute, computation, model)

    def _check(self, name: str, compute: Compute, computation: Computation, model: Served) -> None:
        def measured() -> float:
            found = agreement.largest_difference(compute, computation, model)
            if math.isfinite(found):
                return found
            raise InputError(
                f"{self._lane.engine} has results here that are no numbers; use "
                "--engine=tensorflow."
            )

        difference = self._models.number(
            f"{name}.{self._lane.engine}.{self._lane.precision}.json",
            measured,
        )
        self.difference = max(difference, self.difference or 0.0)
        if self._lane.precision is Precision.FLOAT32 and difference > _MOST_DIFFERENCE:
            raise InputError(
                f"{self._lane.engine} differs from TensorFlow by {difference:.1e} here, which is "
                "no rounding; use --engine=tensorflow."
            )
