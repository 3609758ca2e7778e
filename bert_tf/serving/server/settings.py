"""Settings of a server."""

import dataclasses
import re
from typing import Annotated

from bert_tf.serving.plan import AUTO, MAX_TOKENS, EngineName, Precision
from pipelines.common import optional
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Count, Group, Range, choice
from pipelines.common.settings import Settings

# The maxima are below those of gRPC and TensorFlow.
_Limited = Annotated[int, Range(minimum=1, maximum=1 << 16)]
_Seconds = Annotated[float, Range(above=0, maximum=1_000_000)]
_MODULES = ("uvicorn", "starlette", "prometheus_client", "tensorflow_serving")


def check_packages() -> None:
    """Raises InputError if a package of the extra `serving` is missing."""
    for module in _MODULES:
        optional.load(module, "serving")


def check_name(name: str, place: str) -> None:
    """Raises InputError, which begins with a place, if a model's name cannot be a part of URLs."""
    if not name or re.search(r"[/:?#%\s\0-\x1f]", name):
        raise InputError(
            f"{place}{name}: is a part of URLs; give a name without spaces and the characters "
            "/ : ? # and %."
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerSettings(Settings):
    """All settings but the model and the addresses.

    Flags:
      engine: Engine: TensorFlow, or another runtime, for which models are converted once; auto:
        ONNX Runtime if it is installed, or an engine in which a lower precision was checked.
      threads: Threads of one computation; as many computations run at once as there are cores for.
        Not given: all cores, at most four; with --docker, all cores.
      precision: Precision of the computation. Not given: that in which the export was checked
        (--precision of export).
      versions: Number of newest versions to serve; requests without a version get the newest.
      poll_seconds: Seconds between checks for new versions.
      max_bytes: Maximum bytes of a request.
      max_rows: Maximum rows of a request.
      max_requests: Maximum requests at once, until their answers are received; more are refused.
      max_tokens: Maximum tokens of different requests that are computed together: fewer shorten
        each wait, more raise the throughput.
      timeout: Seconds from the start of a request to its answer.
      certificate: File of a TLS certificate (PEM); with --key, clients connect by TLS. Not given:
        without.
      key: File of its private key (PEM). Not given: no TLS.
      token_file: File with a token; clients must send it as `Authorization: Bearer TOKEN`. Not
        given: no token is required.
      allow_origin: Websites whose pages may send requests, such as https://example.org. Not given:
        only the page of the server itself.
    """

    group = Group.SERVER

    engine: Annotated[str, choice((AUTO, *EngineName)), Group.MACHINE] = AUTO
    threads: Annotated[_Limited | None, Group.MACHINE] = None
    precision: Annotated[Precision | None, Group.MACHINE] = None
    versions: Count = 1
    poll_seconds: _Seconds = 5.0
    max_bytes: Annotated[int, Range(minimum=1, maximum=2**31 - 1)] = 4 << 20
    max_rows: Count = 2048
    max_requests: _Limited = 128
    max_tokens: Count = MAX_TOKENS
    timeout: _Seconds = 60.0
    certificate: str | None = None
    key: str | None = None
    token_file: str | None = None
    allow_origin: list | None = None

    def check(self) -> None:
        """Raises InputError if a value is invalid."""
        super().check()
        if (self.certificate is None) != (self.key is None):
            raise InputError("--certificate and --key: TLS needs both.")
        for origin in self.allow_origin or ():
            # As browsers write it: in lower case, without the usual port.
            if not re.fullmatch(r"(http(?!.*:80$)|https(?!.*:443$))://[^/\s*@A-Z]+", origin):
                raise InputError(
                    f"--allow_origin={origin}: give a website as browsers name it: scheme, host in "
                    "lower case, and the port unless it is the usual one, such as "
                    "https://example.org or http://localhost:3000."
                )
