"""A search by Hypothesis for an input that a program does not take well."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
from hypothesis import strategies as st

from benchmarks.soak.outcomes import Outcome
from pipelines.common.errors import InputError

_HANGS = 60  # seconds that an input may take
_SHOWN = 300  # characters of one that failed

RIGHT, TOLD = "taken as right", "told in one line"


class WrongError(AssertionError):
    """What a program did with an input is not right, or not told in a line."""


class _Hang(BaseException):
    """A program took too long; no Exception, which it could mend."""


def search(
    what: str, inputs: st.SearchStrategy[Any], trial: Callable[[Any], str], seed: int, count: int
) -> Outcome:
    """Tries inputs until one fails, which is then made small.

    Args:
      what: is tried, for names.
      inputs: to draw from.
      trial: tries one, and gives the name of what came of it; raises what is wrong. InputErrors
        are taken for good where they are one line.
      seed: of the drawing.
      count: of inputs.
    """
    counts = {f"{what}, {name}": 0 for name in (RIGHT, TOLD)}
    last: list[Any] = [None]

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )
    @hypothesis.given(inputs)
    def run(value: Any) -> None:
        last[0] = value
        with _in_time():
            name = _tried(trial, value)
        counts[f"{what}, {name}"] = counts.get(f"{what}, {name}", 0) + 1

    failures = []
    try:
        run()
    except (Exception, _Hang) as error:
        how = f"{type(error).__name__}: {str(error)[:_SHOWN]}"
        failures.append(f"{what}: {how}: {str(last[0])[:_SHOWN]}")
    return Outcome({"inputs": sum(counts.values()), **counts}, tuple(failures))


def _tried(trial: Callable[[Any], str], value: Any) -> str:
    try:
        return trial(value)
    except InputError as error:
        text = str(error)
        if len(text.splitlines()) != 1 or len(text) < 10:
            raise WrongError(f"not one line: {text!r}") from error
        return TOLD


@contextlib.contextmanager
def _in_time() -> Iterator[None]:
    def end(*_: object) -> None:
        raise _Hang(f"longer than {_HANGS} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(_HANGS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
