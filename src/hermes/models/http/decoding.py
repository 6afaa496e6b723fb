"""Response bodies without their compression, bounded so that a small body cannot grow without end."""

from __future__ import annotations

import zlib

from hermes.errors import ProviderError
from hermes.models.endpoint import Endpoint
from hermes.models.failures import malformed

#: More than any answer; what exceeds it is a fault or an attack.
MAX_BODY_BYTES = 64 * 1024 * 1024

_PIECE = 1024 * 1024


class BodyDecoder:
    """Undoes the ``Content-Encoding`` and counts what comes out."""

    def __init__(self, endpoint: Endpoint, encoding: str) -> None:
        self._endpoint = endpoint
        self._size = 0
        self._zlib = None
        if encoding in ("gzip", "x-gzip", "deflate"):
            self._zlib = zlib.decompressobj(zlib.MAX_WBITS | 32)  # either header is recognised
        elif encoding not in ("", "identity"):
            raise malformed(endpoint, f"content encoding {encoding!r}, which was not asked for")

    def decode(self, data: bytes) -> bytes:
        """The plain bytes of the next piece of the body."""
        if self._zlib is not None:
            data = self._inflate(data)
        size = self._size = self._size + len(data)
        if size > MAX_BODY_BYTES:
            raise self._too_large()
        return data

    def _inflate(self, data: bytes) -> bytes:
        assert self._zlib is not None
        pieces: list[bytes] = []
        size = self._size
        try:
            while data:
                piece = self._zlib.decompress(data, _PIECE)
                pieces.append(piece)
                size += len(piece)
                if size > MAX_BODY_BYTES:
                    raise self._too_large()
                data = self._zlib.unconsumed_tail
        except zlib.error as error:
            raise malformed(self._endpoint, f"broken compression ({error})") from None
        return b"".join(pieces)

    def _too_large(self) -> ProviderError:
        return malformed(self._endpoint, f"a body of more than {MAX_BODY_BYTES // (1024 * 1024)} MB")
