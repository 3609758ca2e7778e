"""Steps for a run that is to take a number of minutes, by the speed that is measured first."""

import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from absl import logging

from bert_tf.pretraining.settings import PretrainingSettings
from pipelines.common.errors import InputError
from pipelines.common.texts import counted

_COMPILING = 2  # calls that are not timed
_GROUP_SECONDS = 1.0  # calls that are timed together take about as long
_LARGEST_GROUP = 20  # calls
SECONDS = 5.0  # to measure for, at the least
_GROUPS = 3  # to measure, at the least


def seconds_per_call(call: Callable[[], Callable[[], Any]]) -> float:
    """Measures a call that may go on in the background when it returns.

    Args:
      call: begins a call; what it returns waits for its end.

    Returns:
      The median of several groups of calls.
    """
    for _ in range(_COMPILING):
        call()()
    begin = time.perf_counter()
    call()()
    alone = time.perf_counter() - begin
    size = min(max(1, round(_GROUP_SECONDS / max(alone, 1e-6))), _LARGEST_GROUP)
    found: list[float] = []
    while len(found) < _GROUPS or sum(found) < SECONDS:
        begin = time.perf_counter()
        for _ in range(size):
            wait = call()
        wait()
        found.append(time.perf_counter() - begin)
    return statistics.median(found) / size


def fitted(settings: PretrainingSettings, seconds: Sequence[float]) -> PretrainingSettings:
    """The settings with as many steps as fit into their minutes.

    Args:
      settings: with `minutes`; the steps of its phases and warm-ups keep their proportions.
      seconds: of a step of each phase.

    Raises:
      InputError: the minutes are not enough for a step of each phase.
    """
    assert settings.minutes is not None
    asked = sum(p.steps * s for p, s in zip(settings.phases, seconds, strict=True))
    factor = 60 * settings.minutes / asked
    if any(round(factor * phase.steps) < 1 for phase in settings.phases):
        shown = ", ".join(f"{value:.3g}" for value in seconds)
        raise InputError(
            f"--minutes={settings.minutes:g}: a step takes {shown} s here, which is too long for "
            "one; give more minutes, a smaller --batch_size or a smaller --model."
        )
    phases = tuple(
        dataclasses.replace(phase, steps=round(factor * phase.steps)) for phase in settings.phases
    )
    warmups = settings.phase_warmup_steps
    found = dataclasses.replace(
        settings,
        phases=phases,
        warmup_steps=round(factor * settings.warmup_steps),
        phase_warmup_steps=warmups and tuple(round(factor * steps) for steps in warmups),
    )
    logging.info(
        "%s at %s s a step: %s.",
        counted(settings.minutes, "minute"),
        ", ".join(f"{value:.3g}" for value in seconds),
        " and ".join(counted(phase.steps, "step") for phase in phases),
    )
    return found


def recorded(settings: PretrainingSettings, identity: dict[str, Any]) -> PretrainingSettings:
    """The settings with the steps that a run began with, if it was to take as long.

    Args:
      settings: as asked.
      identity: the run.json of the run.
    """
    if identity["settings"].get("minutes") != settings.minutes:
        return settings
    steps = [phase["steps"] for phase in identity["phases"]]
    if len(steps) != len(settings.phases):
        return settings
    pairs = zip(settings.phases, steps, strict=True)
    warmups = identity["settings"].get("phase_warmup_steps")
    return dataclasses.replace(
        settings,
        phases=tuple(dataclasses.replace(phase, steps=count) for phase, count in pairs),
        warmup_steps=identity["settings"]["warmup_steps"],
        phase_warmup_steps=warmups and tuple(warmups),
    )
