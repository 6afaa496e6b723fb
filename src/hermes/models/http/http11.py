"""The HTTP side of one connection: requests to bytes, bytes to the parts of an answer. It touches no socket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import h11

from hermes.models.http.network_errors import ConnectionLost, NotHttp, UnsendableHeader

#: The longest head an answer may have.
_MAX_HEAD = 100 * 1024
_HTTP = b"HTTP/1."
_END = (h11.EndOfMessage, h11.ConnectionClosed)


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of an answer. Header names are lower case."""

    status: int
    headers: dict[str, str]


class Conversation:
    """Requests and answers on one connection, one after the other."""

    __slots__ = ("_h11", "_is_closed")

    def __init__(self) -> None:
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)
        self._is_closed = False

    def ask(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> list[bytes]:
        """The bytes of a request, in the pieces they are to be sent in."""
        try:
            head = self._h11.send(h11.Request(method=method, target=target, headers=headers)) or b""
        except (h11.LocalProtocolError, UnicodeEncodeError, TypeError):
            raise UnsendableHeader from None
        self._h11.send_with_data_passthrough(h11.Data(data=body))
        self._h11.send(h11.EndOfMessage())
        # One piece is one packet; a long body is not worth copying for that.
        return [head + body] if len(body) < 65536 else [head, body]

    def receive(self, data: bytes) -> None:
        """Take what arrived; empty means that the other side has closed."""
        if not data and self._h11.their_state is h11.SEND_RESPONSE:
            begun, _ = self._h11.trailing_data
            if not _HTTP.startswith(begun[: len(_HTTP)]):
                raise NotHttp("it said something else and closed")
            raise ConnectionLost("the server disconnected before it answered")
        self._is_closed = not data
        self._h11.receive_data(data)

    def next(self) -> Head | bytes | Literal["more", "end"]:
        """The next part of the answer: its head, a piece of the body, its end, or that more must arrive first."""
        while True:
            try:
                event = self._h11.next_event()
            except h11.RemoteProtocolError as error:
                raise NotHttp(str(error)) from None
            if event is h11.NEED_DATA:
                return "more"
            if isinstance(event, h11.Data):
                return bytes(event.data)
            if event is h11.PAUSED or isinstance(event, _END):
                return "end"
            if isinstance(event, h11.Response):
                headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
                return Head(event.status_code, headers)
            # Only informational answers are left, and they say nothing that matters here.

    def start_over(self) -> bool:
        """Get ready for the next request; false when this connection cannot take one."""
        state = self._h11
        if self._is_closed:
            return False  # the answer ended with the connection, which nothing in its head need announce
        if state.our_state is not h11.DONE or state.their_state is not h11.DONE or state.trailing_data[0]:
            return False  # bytes after the end would be taken for the next answer
        state.start_next_cycle()
        return True
