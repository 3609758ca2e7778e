"""Tokens and certificates of servers and clients, from files."""

import base64
import binascii
import dataclasses
import hmac
import ssl

from pipelines.common.errors import InputError


@dataclasses.dataclass(frozen=True)
class Access:
    """Token and trusted certificates of a client."""

    token: str | None = None  # sent with each request, as `Authorization: Bearer TOKEN`
    authority: str | None = None  # file of certificates (PEM) of trusted authorities

    @classmethod
    def of_files(cls, token: str | None, authority: str | None) -> "Access":
        """Reads the token from its file; raises InputError if there is none."""
        return cls(token and _token(token), authority)

    @property
    def headers(self) -> dict[str, str]:
        """Headers of each request."""
        return {} if self.token is None else {"authorization": f"Bearer {self.token}"}

    def ssl_context(self) -> ssl.SSLContext:
        """The trusted certificates for HTTPS; raises InputError if the file has none."""
        try:
            return ssl.create_default_context(cafile=self.authority)
        except OSError as error:  # SSLError is one
            raise InputError(
                f"{self.authority}: cannot be read, or does not contain certificates in PEM "
                f"({error})."
            ) from error

    def certificates(self) -> bytes | None:
        """The certificates of the authorities, PEM; None: the system's."""
        if self.authority is None:
            return None
        self.ssl_context()
        return _content(self.authority)


@dataclasses.dataclass(frozen=True)
class Identity:
    """Token and certificate of a server."""

    token: str | None = None  # required from clients
    pair: tuple[bytes, bytes] | None = None  # private key and its certificates, PEM, for TLS
    files: tuple[str, str] | None = None  # those of the certificates and of the key

    @classmethod
    def of_files(cls, token: str | None, certificate: str | None, key: str | None) -> "Identity":
        """Reads token, certificates (PEM) and private key (PEM) from their files.

        Raises:
          InputError: a file cannot be read or has something else, or the key is of another
            certificate.
        """
        known = token and _token(token)
        if certificate is None or key is None:
            return cls(known)
        pair = _content(key), _content(certificate)
        try:
            # With an empty password, because Python asks at the terminal for a missing one.
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                certificate, key, password=""
            )
        except (OSError, ValueError) as error:  # SSLError is an OSError
            raise InputError(
                f"--certificate={certificate}, --key={key}: are not a certificate and its private "
                f"key, in PEM and without a password ({error})."
            ) from error
        return cls(known, pair, (certificate, key))

    def admits(self, authorization: str | bytes, scheme: str = "Bearer") -> bool:
        """Whether a client knows the token; compared in constant time.

        Args:
          authorization: value of the header or metadata of this name.
          scheme: Bearer; or Basic, for browsers: any user name, the token as the password.
        """
        if self.token is None:
            return True
        given = authorization if isinstance(authorization, bytes) else authorization.encode()
        kind, _, credentials = given.partition(b" ")
        if kind.lower() != scheme.lower().encode():
            return False
        if scheme == "Basic":
            try:
                credentials = base64.b64decode(credentials).partition(b":")[2]
            except binascii.Error:
                return False
        return hmac.compare_digest(credentials.strip(), self.token.encode())


def _token(path: str) -> str:
    try:
        token = _content(path).decode("ascii").strip()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: does not contain a token of ASCII characters.") from error
    if not token:
        raise InputError(f"{path}: is empty; write a token into it.")
    if not token.isprintable():
        raise InputError(f"{path}: has several lines, or control characters; a token is one line.")
    return token


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
