"""A server, from its start to its orderly end."""

import asyncio
import dataclasses
import errno
import gc
import signal
import socket
import threading

import tensorflow as tf
from absl import logging

from bert_tf.export import saved_model, warmup
from bert_tf.serving import selection
from bert_tf.serving.credentials import Identity
from bert_tf.serving.engines import converted
from bert_tf.serving.engines.plan import AUTO, ExecutionPlan, Precision
from bert_tf.serving.predictor import Predictor
from bert_tf.serving.server import listening
from bert_tf.serving.server.answers import Answerer, ModelSpec, RequestLimits, signature_of
from bert_tf.serving.server.faults import RefusalError
from bert_tf.serving.server.metrics import Metrics
from bert_tf.serving.server.settings import ServerSettings
from bert_tf.serving.server.versions import Versions, newest_complete
from pipelines.common.errors import InputError
from pipelines.common.machine import cores
from pipelines.common.parallel import mapped

# New containers after which Python looks for cycles. A JSON body of 4 MiB can have a million lists;
# by default it looks at all of the process, for half a second, many times while one is parsed.
_COLLECT_AFTER = 100_000


@dataclasses.dataclass(frozen=True)
class Address:
    """Where a server listens.

    Attributes:
      host: the address.
      rest_port: for REST and the page.
      grpc_port: for gRPC; None: nowhere.
    """

    host: str
    rest_port: int
    grpc_port: int | None

    def check(self) -> None:
        """Raises InputError where nobody can listen, before anything that takes time."""
        if self.grpc_port == self.rest_port:
            raise InputError(
                f"--grpc_port={self.grpc_port} and --rest_port={self.rest_port}: each protocol "
                "needs a port of its own; change one of them."
            )
        self._check_port("rest_port", self.rest_port)
        if self.grpc_port is not None:
            self._check_port("grpc_port", self.grpc_port)

    def of(self, port: int | None) -> str:
        """A port of the host, as URLs have it: IPv6 in brackets."""
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"

    def _check_port(self, flag: str, port: int) -> None:
        try:
            family, kind, _, _, place = socket.getaddrinfo(
                self.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            with socket.socket(family, kind) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(place)
        except OSError as error:
            if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
                raise InputError(
                    f"--host={self.host}: is no address of this machine; use 127.0.0.1 for this "
                    "machine alone, 0.0.0.0 for all that can reach it."
                ) from error
            raise InputError(
                f"--{flag}={port}: cannot be listened on ({error.strerror}); another program may "
                "have it."
            ) from error


def serve(folder: str, name: str, address: Address, settings: ServerSettings) -> None:
    """Serves a folder of versions until a signal comes, and answers what was asked before it ends.

    Args:
      folder: of the versions.
      name: what the model is called.
      address: where.
      settings: how.

    Raises:
      InputError: no version is complete, a file cannot be read, or a port is taken.
    """
    address.check()
    identity = Identity.of_files(settings.token_file, settings.certificate, settings.key)
    plan = _plan(newest_complete(folder), settings)
    # It has one number of threads in a process, from its first computation on.
    tf.config.threading.set_intra_op_parallelism_threads(plan.tensorflow_threads)
    print(f"computes with {plan}", flush=True)
    versions = Versions(folder, settings.versions, lambda path: _load(path, plan, settings))
    metrics = Metrics(lambda: sum(v.predictor.waiting for v in versions.known if v.predictor))
    limits = RequestLimits(
        settings.most_rows, settings.most_bytes, settings.most_requests, settings.timeout
    )
    answerer = Answerer(name, versions, limits, metrics)
    gc.set_threshold(_COLLECT_AFTER)
    ended = threading.Event()
    watch = threading.Thread(target=_watch, args=(versions, settings.poll_seconds, ended))
    watch.start()
    try:
        asyncio.run(_listen(answerer, address, settings, identity))
    finally:
        ended.set()
        watch.join()
        answerer.close()


def _plan(path: str, settings: ServerSettings) -> ExecutionPlan:
    threads = settings.threads
    if settings.engine != AUTO:  # then nothing has to be measured
        threads = threads or cores()
    precision = Precision(settings.precision) if settings.precision else None
    cache = settings.cache or converted.user_folder()
    return selection.choose(path, settings.engine, threads, precision, cache)


def _load(path: str, plan: ExecutionPlan, settings: ServerSettings) -> Predictor:
    """A version that has answered each of its warm-up requests."""
    predictor = Predictor(path, plan=plan, cache=settings.cache, max_tokens=settings.most_tokens)
    try:
        _warm_up(predictor, f"{path}/{saved_model.EXTRA}")
    except BaseException:
        predictor.close()
        raise
    if predictor.difference is not None:
        print(f"{plan}: within {predictor.difference:.1e} of TensorFlow", flush=True)
    return predictor


def _warm_up(predictor: Predictor, folder: str) -> None:
    def ask(request: warmup.WarmupRequest) -> None:
        asked = ModelSpec(predictor.path, signature=request.signature, method=request.method)
        predictor(signature_of(predictor, asked), **request.inputs)

    try:
        for _ in mapped(ask, warmup.read(folder), cores()):
            pass
    except (InputError, RefusalError) as error:
        raise InputError(f"{folder}/{warmup.FILE}: {error}") from error


def _watch(versions: Versions, seconds: float, ended: threading.Event) -> None:
    while not ended.is_set():
        try:
            versions.refresh()
        except Exception:  # a disk that is away comes back
            logging.exception("looking for new versions failed; it is tried again.")
        ended.wait(seconds)


async def _listen(
    answerer: Answerer, address: Address, settings: ServerSettings, identity: Identity
) -> None:
    remote = None
    if address.grpc_port is not None:
        remote = await listening.grpc_server(answerer, address.of(address.grpc_port), identity)
    scheme = "http" if settings.certificate is None else "https"
    remotely = f"gRPC on {address.of(address.grpc_port)}, " if address.grpc_port else ""
    place = f"{scheme}://{address.of(address.rest_port)}"
    print(f"{remotely}REST and a page on {place}; Ctrl-C stops it.", flush=True)
    files = (settings.certificate, settings.key) if settings.certificate and settings.key else None
    server = listening.rest_server(answerer, address.host, address.rest_port, identity, files)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, server.end)
    await server.serve()
    if remote:
        await remote.stop(listening.GRACE)
