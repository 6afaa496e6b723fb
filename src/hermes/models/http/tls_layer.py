"""TLS without a socket: what a connection says under encryption, as bytes in and bytes out."""

from __future__ import annotations

import ssl
from collections.abc import Generator

_PIECE = 65536


class TlsLayer:
    """One secured connection. Whoever owns the socket carries the bytes."""

    __slots__ = ("_incoming", "_outgoing", "_tls")

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    def handshake(self) -> Generator[bytes, bytes, None]:
        """Yields bytes to send, and is sent what arrived next. Raises ``ssl.SSLError`` when no trust comes about.

        Our last words wait for the first ``encrypt``: the server has nothing to answer to them.
        """
        while True:
            try:
                self._tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                self.receive((yield self._outgoing.read()))

    def encrypt(self, data: bytes | memoryview) -> bytes:
        """The bytes to send for plain ones."""
        self._tls.write(data)
        return self._outgoing.read()

    def receive(self, data: bytes) -> None:
        """Take what arrived; empty means that the other side has closed."""
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    def plain(self) -> bytes | None:
        """What has been decrypted by now: ``None`` when more must arrive, empty at the end of the stream."""
        try:
            return self._tls.read(_PIECE)
        except ssl.SSLWantReadError:
            return None
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""
