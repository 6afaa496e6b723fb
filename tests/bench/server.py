"""A lean scripted model server in a process of its own, which notes when answers left and requests arrived.

It keeps no state between requests: a request's user message says what conversation this is (see ``Plan``), and the
number of tool results in it says how far the conversation has come.
"""

from __future__ import annotations

import contextlib
import re
import resource
import selectors
import signal
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any

import msgspec

#: How long a client is given to take in all but the last piece of an answer, as a real model would give it.
SETTLE_SECONDS = 0.002

_ANSWER = "The notes say what there is to say, and a plain answer of ordinary length follows from them: {token}."
_PLAN = re.compile(rb"bench rounds=(\d+) calls=(\d+) first=(\d+) hold=(\d+) commands=(\d+) think=(\d+)")
_TOKEN = re.compile(rb"token-[0-9a-f]+")
_TOOL_RESULT = re.compile(rb'"role": ?"tool"')
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Plan:
    """A conversation: so many rounds of so many tool calls each, which read notes, then an answer in words."""

    rounds: int = 0
    calls: int = 1
    #: The number of the first note that is read.
    first: int = 0
    #: Answer the first request only when so many conversations are waiting. More than 1 also sends without pause.
    hold: int = 1
    #: 1 to read the notes by commands of the terminal, 0 by the file tool.
    commands: int = 0
    #: Milliseconds that the model takes before it answers. Most rows have none: they measure what the host has to do.
    think: int = 0

    def query(self) -> str:
        """The user message that asks for it."""
        numbers = f"rounds={self.rounds} calls={self.calls} first={self.first} hold={self.hold}"
        return f"bench {numbers} commands={self.commands} think={self.think}"


def plan_of(body: bytes) -> Plan:
    found = _PLAN.search(body)
    if found is None:
        raise ValueError("the request holds no plan")
    return Plan(*map(int, found.groups()))


def note_name(number: int) -> str:
    return f"note-{number:04}.txt"


def answer_text(token: str) -> str:
    """The words a conversation ends with; ``token`` stands in the note that was read last."""
    return _ANSWER.format(token=token)


# -- answers --------------------------------------------------------------------------------------------------------


def answer(plan: Plan, body: bytes) -> list[bytes]:
    """The pieces of the HTTP response, each to be sent by itself."""
    results = len(_TOOL_RESULT.findall(body))
    if results < plan.rounds * plan.calls:
        deltas, reason = _call_deltas(plan, results), "tool_calls"
    else:
        tokens = _TOKEN.findall(body)
        words = answer_text(tokens[-1].decode() if tokens else "nothing").split(" ")
        deltas, reason = [{"content": word if at == 0 else f" {word}"} for at, word in enumerate(words)], "stop"
    events = [_event([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
    events.append(_event([{"index": 0, "delta": {}, "finish_reason": reason}]))
    usage = {"prompt_tokens": len(body) // 4, "completion_tokens": 20, "total_tokens": len(body) // 4 + 20}
    events.append(_event([], usage=usage))
    last = _chunk(events.pop()) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return [head, *map(_chunk, events), last]


def _call_deltas(plan: Plan, done: int) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
    for at in range(plan.calls):
        number = done + at
        note = note_name(plan.first + number)
        opening = {"name": "terminal" if plan.commands else "read_file", "arguments": ""}
        deltas.append({"tool_calls": [{"index": at, "id": f"call_{number}", "type": "function", "function": opening}]})
        arguments = f'{{"command": "cat {note}"}}' if plan.commands else f'{{"path": "{note}"}}'
        deltas += [
            {"tool_calls": [{"index": at, "function": {"arguments": part}}]} for part in (arguments[:9], arguments[9:])
        ]
    return deltas


def _event(choices: list[dict[str, Any]], **more: Any) -> bytes:
    envelope = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "bench"}
    return b"data: " + msgspec.json.encode({**envelope, "choices": choices, **more}) + b"\n\n"


def _response(status: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


# -- connections ----------------------------------------------------------------------------------------------------


class _Peer:
    """One connection and what has arrived of its next request."""

    __slots__ = ("_data", "_whole", "connection")

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._data = bytearray()
        self._whole = 0

    def receive(self) -> tuple[bytes, bytes] | None:
        """The head and the body of a request once it is complete. ``ConnectionError`` at the end of the stream."""
        data = self.connection.recv(1 << 20)
        if not data:
            raise ConnectionError
        self._data += data
        if not self._whole:
            end = self._data.find(b"\r\n\r\n")
            if end < 0:
                return None
            length = _LENGTH.search(self._data, 0, end)
            self._whole = end + 4 + (int(length.group(1)) if length else 0)
        if len(self._data) < self._whole:
            return None
        head, _, body = bytes(self._data).partition(b"\r\n\r\n")
        self._data.clear()
        self._whole = 0
        return head, body


class Server:
    """All connections, served by one thread: sending never waits, because answers are smaller than socket buffers."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        self._held: list[tuple[_Peer, list[bytes]]] = []
        self._connections = 0
        self._peak = 0
        #: For each request: when all of it had arrived, and when the last piece of its answer left, in nanoseconds.
        self._marks: list[tuple[int, int]] = []
        self._last_body = b""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def serve(self) -> None:
        """Answer until the other end of stdin is closed: no server outlives its bench."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is sys.stdin:
                    return
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._serve_peer(key.data)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector.register(connection, selectors.EVENT_READ, _Peer(connection))
        self._connections += 1
        self._peak = max(self._peak, self._connections)

    def _serve_peer(self, peer: _Peer) -> None:
        try:
            request = peer.receive()
            if request is not None:
                self._respond(peer, *request, time.perf_counter_ns())
        except ValueError as error:
            peer.connection.sendall(_response(b"400 Bad Request", str(error).encode()))
        except ConnectionError:
            self._selector.unregister(peer.connection)
            peer.connection.close()
            self._connections -= 1

    def _respond(self, peer: _Peer, head: bytes, body: bytes, arrived: int) -> None:
        if head.startswith(b"GET "):
            peer.connection.sendall(self._report())
            return
        plan = plan_of(body)
        self._last_body = body
        pieces = answer(plan, body)
        if plan.hold > 1 and _TOOL_RESULT.search(body) is None:
            self._hold(peer, pieces, plan.hold)
            return
        time.sleep(plan.think / 1000)
        for piece in pieces[:-1]:
            peer.connection.sendall(piece)
        if plan.hold == 1:
            time.sleep(SETTLE_SECONDS)
        # Noted before the call, which already wakes the client: a server that is held up here must not hide its time.
        self._marks.append((arrived, time.perf_counter_ns()))
        peer.connection.sendall(pieces[-1])

    def _hold(self, peer: _Peer, pieces: list[bytes], count: int) -> None:
        """Answer all that wait as soon as there are so many: until then, all of them are really under way."""
        self._held.append((peer, pieces))
        if len(self._held) < count:
            return
        for waiting, answers in self._held:
            with contextlib.suppress(ConnectionError):
                for piece in answers:
                    waiting.connection.sendall(piece)
        self._held.clear()

    def _report(self) -> bytes:
        """What was noted since the last report."""
        report = {"marks": self._marks, "peak": self._peak, "body": self._last_body.decode("utf-8", "replace")}
        body = msgspec.json.encode(report)
        self._marks, self._peak, self._last_body = [], self._connections, b""
        return _response(b"200 OK", body)


def raise_file_limit() -> None:
    """Allow this process as many open files as the system lets it have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main() -> None:
    """Serve until stdin ends; the address is the first line on stdout."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the bench; the server ends with it
    raise_file_limit()
    server = Server()
    sys.stdout.write(server.address + "\n")
    sys.stdout.flush()
    server.serve()


if __name__ == "__main__":
    main()
