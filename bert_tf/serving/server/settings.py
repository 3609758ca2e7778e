"""How a server serves."""

import dataclasses

from bert_tf.serving.engines.plan import AUTO, MAX_TOKENS, EngineName, Precision
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group
from pipelines.common.settings import Settings, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerSettings(Settings):
    """All but the model and the addresses."""

    group = Group.SERVER

    engine: str = setting(
        AUTO,
        "What computes: TensorFlow, or another runtime, for which models are converted once; auto: "
        "of those installed, what is the fastest on this machine, which is measured once.",
        choices=(AUTO, *EngineName),
        group=Group.MACHINE,
    )
    threads: int | None = setting(
        None,
        "Threads of one computation; as many computations run at once as there are cores for. Not "
        "given: what is the fastest.",
        group=Group.MACHINE,
        minimum=1,
    )
    precision: str | None = setting(
        None,
        "What is computed in. Not given: what the export was checked with (--precision of export).",
        choices=tuple(Precision),
        group=Group.MACHINE,
    )
    cache: str | None = None  # of converted models; None: bert-tf/engines in the user's cache
    versions: int = setting(
        1,
        "How many of the newest versions are served; requests that name none get the newest.",
        minimum=1,
    )
    poll_seconds: float = setting(5.0, "Time after which new versions are looked for.", above=0)
    most_bytes: int = setting(4 << 20, "Bytes that a request may have.", minimum=1)
    most_rows: int = setting(1024, "Rows that a request may have.", minimum=1)
    most_requests: int = setting(
        128,
        "Requests that are answered or wait at once; more are refused.",
        minimum=1,
    )
    most_tokens: int = setting(
        MAX_TOKENS,
        "Tokens of different requests that are computed together: fewer keep each wait shorter, "
        "more answer more requests a second.",
        minimum=1,
    )
    timeout: float = setting(60.0, "Seconds from the begin of a request to its answer.", above=0)
    certificate: str | None = setting(
        None,
        "File of a TLS certificate (PEM); with --key, clients connect by TLS. Not given: they do "
        "without.",
    )
    key: str | None = setting(None, "File of its private key (PEM). Not given: no TLS.")
    token_file: str | None = setting(
        None,
        "File with a token; clients must send it as `Authorization: Bearer TOKEN`. Not given: they "
        "need none.",
    )

    def check(self) -> None:
        """Raises InputError where a value makes no sense."""
        super().check()
        if (self.certificate is None) != (self.key is None):
            raise InputError("--certificate and --key: TLS needs both.")
