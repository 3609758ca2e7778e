"""Which websites may use a server through somebody's browser.

A browser sends requests wherever a website tells it to, with the rights of whoever sits there: to a
server that listens to this machine alone, for example. It names the website, which programs do not.
"""

import dataclasses
import functools
import ipaddress
from collections.abc import Mapping

from bert_tf.serving.server.faults import Fault, RefusalError

_LOCAL = ("localhost", "127.0.0.1", "[::1]")
_JSON = "application/json"


@dataclasses.dataclass(frozen=True)
class Sites:
    """What requests of browsers are refused.

    Attributes:
      host: the address that the server listens to.
    """

    host: str

    def check(self, method: str, headers: Mapping[str, str]) -> None:
        """Refuses what another website makes a browser send.

        Args:
          method: of HTTP.
          headers: of the request, by lower-case names.

        Raises:
          RefusalError: the host is a name of another machine (DNS rebinding), the origin is another
            website, or a browser posts what a form of any website can.
        """
        host, origin = headers.get("host", ""), headers.get("origin")
        if host and self._names and _name(host) not in self._names:
            raise RefusalError(
                Fault.FORBIDDEN,
                f"{host!r} is not a name of this machine; use localhost, or let a proxy send that "
                "as the Host.",
            )
        if origin is not None and not (host and origin.lower() in _origins(host)):
            raise RefusalError(Fault.FORBIDDEN, f"Pages of {origin!r} may not use this server.")
        by_browser = origin is not None or "sec-fetch-site" in headers
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method == "POST" and by_browser and kind != _JSON:
            raise RefusalError(
                Fault.MEDIA_TYPE, f"Browsers must send JSON, with Content-Type: {_JSON}."
            )

    @functools.cached_property
    def _names(self) -> frozenset[str]:
        """The names by which this machine alone is asked; empty: it listens to others, too."""
        try:
            local = ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            local = self.host.lower() == "localhost"
        own = f"[{self.host}]" if ":" in self.host else self.host
        return frozenset((*_LOCAL, own.lower())) if local else frozenset()


def _origins(host: str) -> tuple[str, str]:
    """How browsers name the pages of a host."""
    return f"http://{host.lower()}", f"https://{host.lower()}"


def _name(host: str) -> str:
    """The name in a Host, without its port."""
    name, _, port = host.rpartition(":")
    return (name if port.isdecimal() else host).lower()
