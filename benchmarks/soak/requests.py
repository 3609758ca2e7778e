"""Many clients of a server for minutes: no errors, the same answers, and constant memory.

Clients send one request after the other, with texts of one word to many, over REST and gRPC. Each
answer is compared with that of the export to the same request alone.
"""

import contextlib
import dataclasses
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.soak import small_inputs
from benchmarks.soak.outcomes import Case, Outcome, Workspace
from bert_tf.serving import client
from bert_tf.serving.predictor import Predictor
from tests.bert_tf.serving.server.served import Served

CATEGORY = "requests"
_CLIENTS = 32
_REQUESTS = 64  # different ones
_WORDS = "the small model reads every layer of a deep kernel and masks random heads".split()
_MAX_WORDS = 60
_WARM = 0.25  # fraction of the time after which memory must stay constant
_MAX_GROWTH = 1.1  # factor of memory
_TOLERANCE = 1e-4  # of floats: larger batches are summed in another order

Request = tuple[str, dict[str, Any]]
Outputs = dict[str, Any]


@dataclasses.dataclass
class _Tally:
    answers: int = 0
    failures: set[str] = dataclasses.field(default_factory=set)


def _requests(rng: random.Random) -> list[Request]:
    """Requests to all signatures, of one row to eight."""
    found: list[Request] = []
    for _ in range(_REQUESTS):
        rows = rng.choice((1, 1, 2, 8))
        texts = [" ".join(rng.choices(_WORDS, k=rng.randint(1, _MAX_WORDS))) for _ in range(rows)]
        name = rng.choice(("mood", "embed", "fill_mask"))
        if name == "fill_mask":
            texts = [f"{text} [MASK]" for text in texts]
        found.append((name, {"text": texts}))
    return found


def _same(found: Outputs, expected: Outputs) -> bool:
    return found.keys() == expected.keys() and all(
        found[name].ravel().tolist() == value.ravel().tolist()
        if value.dtype == object or not value.size  # JSON loses the shape of empty arrays
        else np.allclose(found[name], value, atol=_TOLERANCE)
        for name, value in expected.items()
    )


@contextlib.contextmanager
def make(workspace: Workspace) -> Iterator[Case]:
    """Yields the only case, which takes all of the time."""
    export = small_inputs.make(workspace.folder).export
    asked = _requests(workspace.rng(CATEGORY, 0))
    alone = Predictor(export)
    expected = [alone(name, **inputs) for name, inputs in asked]
    served, seconds = Served(export).wait(), 60 * workspace.minutes
    try:
        yield lambda number: _load(served, asked, expected, workspace.seed + number, seconds)
    finally:
        served.stop()


def _load(
    served: Served, asked: list[Request], expected: list[Outputs], seed: int, seconds: float
) -> Outcome:
    tally, lock = _Tally(), threading.Lock()
    end = time.monotonic() + seconds

    def ask(index: int) -> None:
        rng = random.Random(f"{seed}/{index}")
        connected = client.connect((served.rest, served.grpc)[index % 2])
        while time.monotonic() < end:
            number = rng.randrange(len(asked))
            name, inputs = asked[number]
            try:
                same = _same(connected.predict(name, **inputs), expected[number])
                failure = "" if same else f"{name}: the answer differs from that alone"
            except Exception as error:
                failure = f"{name}: {type(error).__name__}: {str(error)[:200]}"
            with lock:
                tally.answers += 1
                if failure:
                    tally.failures.add(failure)

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    time.sleep(seconds * _WARM)
    warm = served.memory >> 20
    for thread in threads:
        thread.join()
    last = served.memory >> 20
    failures = sorted(tally.failures)
    if last > _MAX_GROWTH * warm:
        failures.append(f"memory grew from {warm} to {last} MB")
    counts = {"requests": tally.answers, "megabytes when warm": warm, "megabytes at the end": last}
    return Outcome(counts, tuple(failures))
