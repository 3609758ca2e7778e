"""A server of a predictor that computes nothing, in a process of its own: it starts at once.

    stub.py --rest_port=8501 --grpc_port=8500 --idle=1 --seconds=2 --token=secret --descriptors=64

Everything between the network and the predictor is that of `bert-tf serve`.
"""

import argparse
import asyncio
import contextlib
import resource
import time

import numpy as np

from bert_tf.serving.credentials import Identity
from bert_tf.serving.server import listening
from bert_tf.serving.server.answers import Answerer, Metrics, RequestLimits
from bert_tf.serving.server.versions import Version, VersionState
from bert_tf.tasks.signatures import Method
from tests import commands
from tests.bert_tf.serving.server.served import Served
from tests.ports import free_ports

LARGE, LONG = 1 << 26, 1 << 23  # bytes of the answers of `large` and `long`
_SIGNATURES = {
    "first": Method.PREDICT,
    "large": Method.PREDICT,
    "slow": Method.PREDICT,
    "endless": Method.PREDICT,
    "long": Method.PREDICT,
}
_SIGNATURES |= {"classes": Method.CLASSIFY}
_INPUTS = {Method.PREDICT: "text", Method.CLASSIFY: "inputs"}


class Stub(Served):
    """A stub that runs; see `Served`.

    Args:
      **options: see above.
    """

    def __init__(self, **options):
        self.grpc_port, self.rest_port = free_ports(2)
        options |= {"grpc_port": self.grpc_port, "rest_port": self.rest_port}
        flags = (f"--{name}={value}" for name, value in options.items())
        self.process = commands.Running("tests.bert_tf.serving.server.stub", *flags)


class _Predictor:
    def __init__(self):
        self.manifest = {
            **dict.fromkeys(("parameters", "encoders", "precision"), 0),
            "date": "2026-01-02",
            "models": [],
            "signatures": {
                name: {
                    "method": method,
                    "inputs": {_INPUTS[method]: ["string", [None]]},
                    "outputs": {},
                }
                for name, method in _SIGNATURES.items()
            },
        }

    def counted(self, signature, /, **inputs):
        return self._answer(signature, **inputs), 0

    def _answer(self, signature, /, **inputs):
        (rows,) = inputs.values()
        if signature == "slow":
            time.sleep(2)
        if signature in ("large", "long"):
            size = LARGE if signature == "large" else LONG
            return {"answer": np.array([b"x" * size], object)}
        if signature == "classes":
            return {
                "classes": np.array([[b"a"]] * len(rows), object),
                "scores": np.ones([len(rows), 1], np.float32),
            }
        return {"answer": np.arange(len(rows), dtype=np.int32)}

    def stream(self, signature, /, text):
        while True:
            yield "x" * 100
            time.sleep(0.01)

    def close(self):
        pass


class _Versions:
    known = (Version(1, VersionState.AVAILABLE, predictor=_Predictor()),)
    ready = settled = True

    @contextlib.contextmanager
    def use(self, number):
        yield 1, self.known[0].predictor

    def close(self):
        pass


async def _serve(options, answerer):
    identity = Identity(options.token)
    # Kept: what nobody refers to stops to listen.
    remote = await listening.grpc_server(answerer, f"127.0.0.1:{options.grpc_port}", identity)
    await listening.RestServer(answerer, "127.0.0.1", options.rest_port, identity).serve()
    await remote.stop(0)


def main():
    """Serves until it is stopped."""
    parser = argparse.ArgumentParser()
    for name in ("rest_port", "grpc_port"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--idle", type=float, default=15)
    parser.add_argument("--age", type=float, default=60)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--requests", type=int, default=128)
    parser.add_argument("--descriptors", type=int)
    parser.add_argument("--token")
    options = parser.parse_args()
    listening.IDLE, listening.MAX_AGE = options.idle, options.age
    if options.descriptors:
        resource.setrlimit(resource.RLIMIT_NOFILE, (options.descriptors,) * 2)
    limits = RequestLimits(1024, 4 << 20, options.requests, options.seconds)
    answerer = Answerer({"bert": _Versions()}, limits, Metrics(lambda: 0))
    asyncio.run(_serve(options, answerer))


if __name__ == "__main__":
    main()
