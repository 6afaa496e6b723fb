"""URLs: the server of a URL, its address, and the request target there."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlsplit

from hermes.base.errors import ConfigError
from hermes.base.http.errors import InvalidUrl

#: Schemes of a server that listens on a Unix socket.
SOCKET_SCHEMES = ("http+unix", "unix")

_SOCKET_SUFFIXES = (".sock", ".socket")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_SAFE = "/%:@!$&'()*+,;=~"


class Address(NamedTuple):
    """One server: a host and a port, or a socket file."""

    scheme: str
    host: str
    port: int
    #: The file of a server on a Unix socket; the other fields are ``http`` and ``localhost`` then.
    socket_path: str = ""

    @property
    def origin(self) -> str:
        """Scheme, host and port as a URL."""
        if self.socket_path:
            return f"http+unix://{self.socket_path}"
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """Host and port, without the default port; also the ``Host`` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its address. A name that merely begins like one is not."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@lru_cache(maxsize=256)
def parse_url(url: str) -> tuple[Address, str]:
    """The server of a URL and the request target there. An international host name gets its ASCII form."""
    try:
        parts = urlsplit(url)
        if parts.scheme in SOCKET_SCHEMES:
            socket_path, path = split_socket_path(url)
            return Address("http", "localhost", 80, socket_path), _target(path, parts.query)
        host = parts.hostname or ""
        if parts.scheme not in _DEFAULT_PORTS or not host:
            raise InvalidUrl(f"only http and https URLs can be requested, not {_without_password(url)}")
        ascii_host = host if host.isascii() else host.encode("idna").decode()
        port = parts.port or _DEFAULT_PORTS[parts.scheme]
    except ValueError as error:
        raise InvalidUrl(f"{_without_password(url)} is not a URL: {error}") from None
    return Address(parts.scheme, ascii_host, port), _target(parts.path, parts.query)


def split_socket_path(url: str) -> tuple[str, str]:
    """The socket file in a URL and the path after it.

    The file is either percent-encoded in the place of the host (``http+unix://%2Frun%2Fllm/v1``) or the beginning of
    the path up to a name that ends in ``.sock`` or ``.socket`` (``http+unix:///run/llm.sock/v1``).
    """
    parts = urlsplit(url)
    if "%2f" in parts.netloc.lower():
        return unquote(parts.netloc), parts.path
    names = _path_after_scheme(parts).split("/")
    for position, name in enumerate(names):
        if name.endswith(_SOCKET_SUFFIXES):
            return unquote("/".join(names[: position + 1])), "/".join(["", *names[position + 1 :]])
    raise ConfigError(
        f"base_url {url!r} names no socket file: its name ends in .sock, as in http+unix:///run/llm.sock/v1, "
        f"or is percent-encoded in the place of the host, as in http+unix://%2Frun%2Fllm/v1"
    )


def _without_password(url: str) -> str:
    """The URL for a message; the part before an @ may be a password."""
    return repr(url[:60]) if "@" not in url else "this one"


def _path_after_scheme(parts: SplitResult) -> str:
    """The path from its first character on, also when two slashes made its first name look like a host."""
    return f"/{parts.netloc}{parts.path}" if parts.netloc else parts.path


def _target(path: str, query: str) -> str:
    target = quote(path or "/", safe=_SAFE)
    return f"{target}?{quote(query, safe=_SAFE + '?')}" if query else target
