"""Who may ask a server, and whom a client trusts: tokens and certificates, from files."""

import base64
import binascii
import dataclasses
import hmac
import ssl

from pipelines.common.errors import InputError


@dataclasses.dataclass(frozen=True)
class Access:
    """How a client is let in, and whom it trusts.

    Attributes:
      token: is sent with each request, as `Authorization: Bearer TOKEN`.
      authority: file of certificates (PEM) of who may vouch for a server; None: the system's.
    """

    token: str | None = None
    authority: str | None = None

    @classmethod
    def of_files(cls, token: str | None, authority: str | None) -> "Access":
        """What files hold.

        Args:
          token: the file of the token.
          authority: see above.

        Raises:
          InputError: the file cannot be read, or holds no token.
        """
        return cls(token and _token(token), authority)

    @property
    def headers(self) -> dict[str, str]:
        """What is sent with each request."""
        return {} if self.token is None else {"authorization": f"Bearer {self.token}"}

    def trust(self) -> ssl.SSLContext:
        """Whom a client trusts, for HTTPS.

        Raises:
          InputError: the file cannot be read, or holds no certificates.
        """
        try:
            return ssl.create_default_context(cafile=self.authority)
        except OSError as error:  # SSLError is one
            raise InputError(
                f"{self.authority}: cannot be read, or holds no certificates in PEM ({error})."
            ) from error

    def certificates(self) -> bytes | None:
        """The certificates of the authority, PEM; None: the system's.

        Raises:
          InputError: see `trust`.
        """
        if self.authority is None:
            return None
        self.trust()
        return _content(self.authority)


@dataclasses.dataclass(frozen=True)
class Identity:
    """Whom a server lets in, and how it shows who it is.

    Attributes:
      token: that clients must know; None: nobody is asked.
      pair: the private key and its certificates, both PEM; None: no TLS.
    """

    token: str | None = None
    pair: tuple[bytes, bytes] | None = None

    @classmethod
    def of_files(cls, token: str | None, certificate: str | None, key: str | None) -> "Identity":
        """What files hold.

        Args:
          token: the file of the token; None: nobody is asked.
          certificate: of certificates, PEM; None: no TLS.
          key: of the private key, PEM.

        Raises:
          InputError: one cannot be read or holds something else, or the key is of another
            certificate.
        """
        known = token and _token(token)
        if certificate is None or key is None:
            return cls(known)
        pair = _content(key), _content(certificate)
        try:
            # An empty password, because a key that wants one would be asked for it here.
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                certificate, key, password=""
            )
        except (OSError, ValueError) as error:  # SSLError is an OSError
            raise InputError(
                f"--certificate={certificate}, --key={key}: are no certificate and its private "
                f"key, in PEM and without a password ({error})."
            ) from error
        return cls(known, pair)

    def admits(self, authorization: str | bytes, scheme: str = "Bearer") -> bool:
        """Whether a client knows the token; compared in constant time.

        Args:
          authorization: the value of its header, or metadata, of that name.
          scheme: Bearer; or Basic, as browsers ask for: any user, the token as the password.
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
    """The token in a file.

    Raises:
      InputError: the file cannot be read, or holds none.
    """
    try:
        token = _content(path).decode("ascii").strip()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: holds no token, which is of ASCII characters.") from error
    if not token:
        raise InputError(f"{path}: holds no token.")
    return token


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
