"""Many clients of a server for minutes: no error, answers as alone, memory that stays.

Clients ask one after the other request of texts of one word to many, over REST and gRPC. Each
answer is compared with what the export answers to that request alone.
"""

import contextlib
import dataclasses
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.soak import small
from benchmarks.soak.outcomes import Case, Outcome, Place
from bert_tf.serving import client
from bert_tf.serving.predictor import Predictor
from tests.bert_tf.serving.server.served import Served

ROOM = "requests"
_CLIENTS = 32
_REQUESTS = 64  # different ones
_WORDS = "the small model reads every layer of a deep kernel and masks random heads".split()
_LONGEST = 60  # words
_WARM = 0.25  # share of the time after which memory must stay
_GROWTH = 1.1  # times that memory may be
_SAME = 1e-4  # of floats: sums of other batches are of another order


@dataclasses.dataclass
class _Tally:
    """What the clients have seen."""

    answers: int = 0
    failures: list[str] = dataclasses.field(default_factory=list)


def _megabytes(served: Served) -> int:
    """The memory of a server."""
    status = Path(f"/proc/{served.process.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) >> 10


def _requests(rng: random.Random) -> list[tuple[str, dict[str, Any]]]:
    """Requests of all signatures, of one row to several, and of one word to many."""
    found: list[tuple[str, dict[str, Any]]] = []
    for _ in range(_REQUESTS):
        rows = [
            rng.choices(_WORDS, k=rng.randint(1, _LONGEST)) for _ in range(rng.choice((1, 1, 2, 8)))
        ]
        texts = [" ".join(row) for row in rows]
        name = rng.choice(("mood", "embed", "fill_mask"))
        if name == "fill_mask":
            texts = [f"{text} [MASK]" for text in texts]
        found.append((name, {"text": texts}))
    return found


def _same(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return found.keys() == wanted.keys() and all(
        found[name].ravel().tolist() == value.ravel().tolist()
        if value.dtype == object or not value.size  # JSON does not tell the axes of nothing
        else np.allclose(found[name], value, atol=_SAME)
        for name, value in wanted.items()
    )


@contextlib.contextmanager
def make(place: Place, minutes: float) -> Iterator[Case]:
    """Gives the only case, which takes all of the time, with a server that ends with it."""
    export = small.make(place.folder).export
    asked = _requests(place.rng(ROOM, 0))
    alone = Predictor(export)
    wanted = [alone(name, **inputs) for name, inputs in asked]
    served = Served(export).wait()
    try:
        yield lambda number: _load(served, asked, wanted, place.seed + number, 60 * minutes)
    finally:
        served.stop()


def _load(
    served: Served,
    asked: list[tuple[str, dict[str, Any]]],
    wanted: list[dict[str, Any]],
    seed: int,
    seconds: float,
) -> Outcome:
    tally, lock, begin = _Tally(), threading.Lock(), time.monotonic()
    end = begin + seconds

    def ask(index: int) -> None:
        rng = random.Random(f"{seed}/{index}")
        connected = client.connect((served.rest, served.grpc)[index % 2])
        while time.monotonic() < end:
            number = rng.randrange(len(asked))
            name, inputs = asked[number]
            try:
                same = _same(connected.predict(name, **inputs), wanted[number])
                failure = "" if same else f"{name}: another answer than alone"
            except Exception as error:
                failure = f"{name}: {type(error).__name__}: {str(error)[:200]}"
            with lock:
                tally.answers += 1
                if failure:
                    tally.failures.append(failure)

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    time.sleep(seconds * _WARM)
    warm = _megabytes(served)
    for thread in threads:
        thread.join()
    last = _megabytes(served)
    failures = sorted(set(tally.failures))
    if last > _GROWTH * warm:
        failures.append(f"memory grew from {warm} to {last} MB")
    counts = {"requests": tally.answers, "megabytes when warm": warm, "megabytes at the end": last}
    return Outcome(counts, tuple(failures))
