"""Incremental splitter for server-sent events (SSE)."""

from __future__ import annotations

import msgspec

from hermes.base.errors import ProviderError

#: No real event comes near this; a line that does is a broken server, not an answer.
MAX_EVENT_BYTES = 8 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"


class EventSplitter(msgspec.Struct):
    """Collects the ``data`` of each event. Event names and ids are dropped: every wire repeats them in the data."""

    _line: bytearray = bytearray()
    _data: list[bytes] = []
    _size: int = 0
    _after_cr: bool = False
    _at_start: bool = True

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes; returns the data of every event they complete."""
        if data.endswith(b"\n\n") and not (self._line or self._data or self._after_cr) and b"\r" not in data:
            # Whole events of one line each: the usual case, at a fraction of the cost.
            events = data[6:-2].split(b"\n\ndata: ")
            is_usual = data.startswith(b"data: ") and data.count(b"\n") == 2 * len(events)
            if is_usual and len(data) < MAX_EVENT_BYTES:
                self._at_start = False
                return events
        return self._feed(data)

    def _feed(self, data: bytes) -> list[bytes]:
        data = self._with_plain_newlines(data)
        cut = data.rfind(b"\n")
        if cut < 0:
            self._line += data
            self._check_size(len(self._line))
            return []
        if self._line:
            self._line += data[:cut]
            whole, self._line = bytes(self._line), bytearray()
        else:
            whole = data[:cut]
        self._line += data[cut + 1 :]
        return self._events(whole)

    def finish(self) -> list[bytes]:
        """The event still open when the body ends. Some servers leave out the last blank line."""
        rest = bytes(self._line)
        self._line.clear()
        return self._events(rest + b"\n\n" if rest else b"\n")

    def _events(self, lines: bytes) -> list[bytes]:
        found: list[bytes] = []
        if self._at_start:
            self._at_start = False
            lines = lines.removeprefix(_BOM)
        for line in lines.split(b"\n"):
            if line.startswith(b"data:"):
                value = line[6:] if line.startswith(b" ", 5) else line[5:]
                self._size += len(value) + 1
                self._check_size(self._size)
                self._data.append(value)
            elif not line and self._data:
                found.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                self._data.clear()
                self._size = 0
        return found

    def _with_plain_newlines(self, data: bytes) -> bytes:
        """Every line ending as one newline, even when a carriage return and its newline arrive apart."""
        if self._after_cr and data:
            self._after_cr = False
            data = data.removeprefix(b"\n")
        if b"\r" not in data:
            return data
        self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _check_size(self, size: int) -> None:
        if size > MAX_EVENT_BYTES:
            limit = MAX_EVENT_BYTES // (1024 * 1024)
            raise ProviderError(f"an event of more than {limit} MB", reason="malformed")
