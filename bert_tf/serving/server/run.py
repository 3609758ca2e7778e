"""A server, from its start to its orderly end."""

import asyncio
import dataclasses
import functools
import gc
import signal
import threading
from collections.abc import Collection, Mapping, Sequence

import tensorflow as tf
from absl import logging

from bert_tf.serving import selection
from bert_tf.serving.credentials import Identity
from bert_tf.serving.plan import ExecutionPlan, Precision
from bert_tf.serving.predictor import Predictor
from bert_tf.serving.server import listening
from bert_tf.serving.server.answers import Answerer, Metrics, RequestLimits
from bert_tf.serving.server.settings import ServerSettings
from bert_tf.serving.server.versions import Versions, newest_complete
from pipelines.common import stopping
from pipelines.common.errors import InputError
from pipelines.common.machine import cores
from pipelines.common.parallel import mapped

# New containers after which Python searches for cycles. A JSON body of 4 MiB can have a million
# lists; by default Python searches the whole process, for half a second, many times while it is
# parsed.
_COLLECT_AFTER = 100_000
# Seconds to free what is loaded when all requests are answered. With `listening.GRACE` it is less
# than what supervisors wait before they kill (docs/guides/production.md).
_CLOSING = 5.0


@dataclasses.dataclass(frozen=True)
class Address:
    """Host and ports of a server; `grpc_port` may be None. `rest_flag` names the other port."""

    host: str
    rest_port: int
    grpc_port: int | None
    rest_flag: str = "rest_port"

    def check(self) -> None:
        """Raises InputError if a port cannot be opened, before anything that takes time."""
        if self.grpc_port == self.rest_port:
            raise InputError(
                f"--grpc_port={self.grpc_port} and --rest_port={self.rest_port}: each protocol "
                "needs a port of its own; change one of them."
            )
        for flag, port in ((self.rest_flag, self.rest_port), ("grpc_port", self.grpc_port)):
            for opened in [] if port is None else listening.open_port(flag, self.host, port):
                opened.close()

    def of(self, port: int | None) -> str:
        """A port of the host, as in URLs: IPv6 in brackets."""
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"


def serve(models: Mapping[str, str], address: Address, settings: ServerSettings) -> None:
    """Serves folders of versions until a signal arrives, and answers the current requests.

    Args:
      models: the folder of the versions of each model, by its name on the server.
      address: to listen on.
      settings: all others.

    Raises:
      InputError: no version is complete, a file cannot be read, or a port is taken.
    """
    address.check()
    identity = Identity.of_files(settings.token_file, settings.certificate, settings.key)
    precision = Precision(settings.precision) if settings.precision else None
    plans: dict[str, ExecutionPlan] = {}
    errors = []
    for name, folder in models.items():
        try:
            path = newest_complete(folder)
            plans[name] = selection.choose(path, settings.engine, settings.threads, precision)
        except InputError as error:  # the others are served, and so is this one when it is complete
            errors.append(error)
        else:
            print(f"{name} is computed with {plans[name]}", flush=True)
    if not plans:
        raise errors[0]
    # The first computation of a process sets the number of threads for all others.
    threads = max(plan.tensorflow_threads for plan in plans.values())
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    versions = {}
    for name, folder in models.items():
        plan = plans.get(name)
        load = functools.partial(_load, plan=plan, precision=precision, settings=settings)
        versions[name] = Versions(folder, settings.versions, load)
    known = versions.values()
    # The last reference to a version's predictor may go at any time.
    metrics = Metrics(
        lambda: sum(p.waiting for each in known for v in each.known if (p := v.predictor))
    )
    limits = RequestLimits(
        settings.max_rows, settings.max_bytes, settings.max_requests, settings.timeout
    )
    answerer = Answerer(versions, limits, metrics)
    gc.set_threshold(_COLLECT_AFTER)
    ended = threading.Event()
    watch = threading.Thread(target=_watch, args=(known, settings.poll_seconds, ended), daemon=True)
    watch.start()
    try:
        origins = [origin.lower() for origin in settings.allow_origin or ()]
        asyncio.run(_listen(answerer, address, identity, origins))
    finally:
        ended.set()
        stopping.end_at_once()  # at a second signal
        # A version may be loading for minutes, and a computation that nobody waits for goes on.
        closing = threading.Thread(target=_close, args=(watch, answerer), daemon=True)
        closing.start()
        closing.join(_CLOSING)
    if closing.is_alive():
        stopping.leave(0)


def _close(watch: threading.Thread, answerer: Answerer) -> None:
    watch.join()
    answerer.close()


def _load(
    path: str, plan: ExecutionPlan | None, precision: Precision | None, settings: ServerSettings
) -> Predictor:
    """A version that has answered a request of each signature, in a precision it was checked in.

    Without a plan, as no version was complete when the server started, it gets one of its own.

    Raises:
      InputError: it was not checked in this precision, or cannot be loaded.
    """
    plan = plan or selection.choose(path, settings.engine, settings.threads, precision)
    checked = selection.precision_of(path, plan.engine, precision)
    plan = dataclasses.replace(plan, precision=checked)
    predictor = Predictor(path, plan=plan, max_tokens=settings.max_tokens)
    try:
        for _ in mapped(lambda x: predictor(x[0], **x[1]), predictor.samples.items(), cores()):
            pass  # the first requests are the slowest
    except BaseException:
        predictor.close()
        raise
    if predictor.difference is not None:
        print(f"{plan}: within {predictor.difference:.1e} of TensorFlow", flush=True)
    gc.collect()  # the weights that another engine has converted
    return predictor


def _watch(models: Collection[Versions], seconds: float, ended: threading.Event) -> None:
    reported = dict.fromkeys(models, "")
    while not ended.is_set():
        for versions in models:
            if ended.is_set():
                return
            reason = ""
            try:
                versions.refresh()
            except Exception as error:  # a missing disk may come back
                reason = f"{type(error).__name__}: {error}"
                if reason != reported[versions]:
                    logging.exception("the check for new versions failed; it is tried again.")
            reported[versions] = reason
        ended.wait(seconds)


async def _listen(
    answerer: Answerer, address: Address, identity: Identity, origins: Sequence[str]
) -> None:
    remote = None
    if address.grpc_port is not None:
        remote = await listening.grpc_server(answerer, address.of(address.grpc_port), identity)
    scheme = "http" if identity.files is None else "https"
    remotely = f"gRPC on {address.of(address.grpc_port)}, " if address.grpc_port else ""
    place = f"{scheme}://{address.of(address.rest_port)}"
    print(f"{remotely}REST and a page on {place}; Ctrl-C stops it.", flush=True)
    server = listening.RestServer(answerer, address.host, address.rest_port, identity, origins)
    stops = list[asyncio.Future[None]]()

    def end() -> None:
        grace = 0 if server.should_exit else listening.GRACE  # a second signal ends at once
        server.end()
        if remote:
            stops.append(asyncio.ensure_future(remote.stop(grace)))

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, end)
    await server.serve()
    await asyncio.gather(*stops)
