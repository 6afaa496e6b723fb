"""Where the server of a URL listens, and what of the URL is said to it."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlsplit

from hermes.errors import ConfigError

#: Schemes of a server that listens on a file of this machine.
SOCKET_SCHEMES = ("http+unix", "unix")

_SOCKET_ENDINGS = (".sock", ".socket")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_SAFE = "/%:@!$&'()*+,;=~"


class Address(NamedTuple):
    """One server: a host and a port, or a socket file."""

    scheme: str
    host: str
    port: int
    #: The file of a server on this machine; the rest says ``http`` and ``localhost`` then.
    socket_path: str = ""

    @property
    def origin(self) -> str:
        """The server as people write it."""
        if self.socket_path:
            return f"http+unix://{self.socket_path}"
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """Host and port, without a port that goes without saying; also the ``Host`` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


def is_this_machine(host: str) -> bool:
    """Whether a host is the machine we run on, by its address. A name that merely begins like one is not."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@lru_cache(maxsize=256)
def locate(url: str) -> tuple[Address, str]:
    """The server of a URL and the request target there. An international host name takes its ASCII form."""
    parts = urlsplit(url)
    if parts.scheme in SOCKET_SCHEMES:
        socket_path, path = split_socket_path(url)
        return Address("http", "localhost", 80, socket_path), _target(path, parts.query)
    host = parts.hostname or ""
    ascii_host = host if host.isascii() else host.encode("idna").decode()
    port = parts.port or _DEFAULT_PORTS[parts.scheme]
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
        if name.endswith(_SOCKET_ENDINGS):
            return unquote("/".join(names[: position + 1])), "/".join(["", *names[position + 1 :]])
    raise ConfigError(
        f"base_url {url!r} names no socket file: its name ends in .sock, as in http+unix:///run/llm.sock/v1, "
        f"or stands percent-encoded in the place of the host, as in http+unix://%2Frun%2Fllm/v1"
    )


def _path_after_scheme(parts: SplitResult) -> str:
    """The path from its first character on, also when two slashes made its first name look like a host."""
    return f"/{parts.netloc}{parts.path}" if parts.netloc else parts.path


def _target(path: str, query: str) -> str:
    target = quote(path or "/", safe=_SAFE)
    return f"{target}?{quote(query, safe=_SAFE + '?')}" if query else target
