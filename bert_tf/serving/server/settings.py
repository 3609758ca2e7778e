"""Settings of a server."""

import dataclasses

from bert_tf.serving.plan import AUTO, MAX_TOKENS, EngineName, Precision
from pipelines.common import optional
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group
from pipelines.common.settings import Settings, setting

_MODULES = ("uvicorn", "starlette", "prometheus_client", "tensorflow_serving")


def check_packages() -> None:
    """Raises InputError if a package of the extra `serving` is missing."""
    for module in _MODULES:
        optional.load(module, "serving")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerSettings(Settings):
    """All settings but the model and the addresses."""

    group = Group.SERVER

    engine: str = setting(
        AUTO,
        "Engine: TensorFlow, or another runtime, for which models are converted once; auto: ONNX "
        "Runtime if it is installed, or an engine in which a lower precision was checked.",
        choices=(AUTO, *EngineName),
        group=Group.MACHINE,
    )
    threads: int | None = setting(
        None,
        "Threads of one computation; as many computations run at once as there are cores for. Not "
        "given: all cores, at most four; with --docker, all cores.",
        group=Group.MACHINE,
        minimum=1,
    )
    precision: str | None = setting(
        None,
        "Precision of the computation. Not given: that in which the export was checked "
        "(--precision of export).",
        choices=tuple(Precision),
        group=Group.MACHINE,
    )
    versions: int = setting(
        1,
        "Number of newest versions to serve; requests without a version get the newest.",
        minimum=1,
    )
    poll_seconds: float = setting(5.0, "Seconds between checks for new versions.", above=0)
    max_bytes: int = setting(4 << 20, "Maximum bytes of a request.", minimum=1)
    max_rows: int = setting(2048, "Maximum rows of a request.", minimum=1)
    max_requests: int = setting(
        128,
        "Maximum requests at once, until their answers are received; more are refused.",
        minimum=1,
    )
    max_tokens: int = setting(
        MAX_TOKENS,
        "Maximum tokens of different requests that are computed together: fewer shorten each wait, "
        "more raise the throughput.",
        minimum=1,
    )
    timeout: float = setting(60.0, "Seconds from the start of a request to its answer.", above=0)
    certificate: str | None = setting(
        None,
        "File of a TLS certificate (PEM); with --key, clients connect by TLS. Not given: without.",
    )
    key: str | None = setting(None, "File of its private key (PEM). Not given: no TLS.")
    token_file: str | None = setting(
        None,
        "File with a token; clients must send it as `Authorization: Bearer TOKEN`. Not given: no "
        "token is required.",
    )

    def check(self) -> None:
        """Raises InputError if a value is invalid."""
        super().check()
        if (self.certificate is None) != (self.key is None):
            raise InputError("--certificate and --key: TLS needs both.")
