"""A real HTTP server on loopback that answers from a script, in any of the request formats."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import urlsplit

import msgspec

from hermes.testing.scripted.formats import FORMATS
from hermes.testing.scripted.replies import ScriptedReply, failure, text
from hermes.testing.scripted.script import RecordedRequest, Script, chooser, script_from_file

if TYPE_CHECKING:
    import ssl


class ScriptedProvider:
    """A scripted model behind a real socket. Use it as a context manager.

    ``script`` is one reply for every request; a list of replies used in order; a mapping from the last user
    text to such a reply or list; or a function from the ``RecordedRequest`` to a reply, which must not block.
    A plain string means ``text(...)``. A script that has run out answers status 500 and says so. With a
    ``tls`` context the server speaks HTTPS.
    """

    def __init__(
        self, script: Script = (), *, model: str = "scripted", port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        self.model = model
        self.requests: list[RecordedRequest] = []
        #: Connections accepted so far.
        self.connections = 0
        self._choose = chooser(script)
        self._port = port
        self._tls = tls
        self._arrival = threading.Condition()
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._failure: BaseException | None = None

    @property
    def base_url(self) -> str:
        """The address to configure as ``base_url``."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}/v1"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, name="scripted-provider", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop answering, close every connection and wait for the server's thread."""
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is not None:
            self._thread.join()

    def wait_for_request(self, count: int = 1, timeout: float = 30.0) -> RecordedRequest:
        """Block until ``count`` requests have arrived in all; returns the last of them."""
        with self._arrival:
            if not self._arrival.wait_for(lambda: len(self.requests) >= count, timeout):
                raise TimeoutError(f"{len(self.requests)} requests arrived within {timeout} s, expected {count}")
            return self.requests[count - 1]

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        loop = self._loop = asyncio.get_running_loop()
        stop = self._stop = asyncio.Event()
        visits: set[asyncio.Task[None]] = set()
        with socket.create_server(("127.0.0.1", self._port), backlog=4096) as listener:
            listener.setblocking(False)
            self._port = listener.getsockname()[1]
            # Not ``start_server``: it cannot end connections that are still in their TLS handshake. Not
            # ``sock_accept`` either: one that is cancelled may lose the connection it has just accepted.
            loop.add_reader(listener, self._accept, listener, visits)
            self._ready.set()
            await stop.wait()
            loop.remove_reader(listener)
            for visit in visits:
                visit.cancel()
            await asyncio.gather(*visits, return_exceptions=True)
        await asyncio.sleep(0)  # lets the transports run their last callbacks

    def _accept(self, listener: socket.socket, visits: set[asyncio.Task[None]]) -> None:
        try:
            sock, _ = listener.accept()
        except (BlockingIOError, ConnectionError):
            return  # the visitor has gone already
        sock.setblocking(False)
        # asyncio does this only for sockets whose protocol is spelt out; without it small pieces wait 40 ms.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connections += 1
        visit = asyncio.get_running_loop().create_task(self._attend(sock))
        visits.add(visit)

        def leave(visit: asyncio.Task[None]) -> None:
            visits.discard(visit)
            sock.close()  # a visit that was cancelled before it began has no transport to do it

        visit.add_done_callback(leave)

    async def _attend(self, sock: socket.socket) -> None:
        """Serve one connection until either side has enough of it."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        with contextlib.suppress(OSError, EOFError, ValueError, asyncio.LimitOverrunError):
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock, ssl=self._tls)
            writer = asyncio.StreamWriter(transport, protocol, reader, loop)
            try:
                await self._converse(reader, writer)
                writer.close()
                await writer.wait_closed()
            finally:
                writer.transport.abort()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await self._read_request(reader)) is not None:
            operation = (request.method, urlsplit(request.path).path)
            if operation[0] == "POST" and operation[1] in FORMATS:
                reply = self._next_reply(request)
            elif operation == ("GET", "/v1/models"):
                models = {"object": "list", "data": [{"id": self.model, "object": "model"}]}
                reply = ScriptedReply(pieces=(msgspec.json.encode(models),), content_type="application/json")
            else:
                reply = failure(404, f"nothing at {request.method} {request.path}", code="not_found")
            if not await self._answer(request, reply, reader, writer):
                return

    async def _read_request(self, reader: asyncio.StreamReader) -> RecordedRequest | None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        fields = _decode(body)
        with self._arrival:
            request = RecordedRequest(len(self.requests) + 1, method, path, headers, fields, time.monotonic())
            if method == "POST":
                self.requests.append(request)
                self._arrival.notify_all()
        return request

    def _next_reply(self, request: RecordedRequest) -> ScriptedReply:
        try:
            reply = self._choose(request)
        except Exception as error:
            return failure(500, f"the script raised {type(error).__name__}: {error}", code="script_error")
        return text(reply) if isinstance(reply, str) else reply

    async def _answer(
        self,
        request: RecordedRequest,
        reply: ScriptedReply,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Send one reply. True when the connection can take another request."""
        options = reply.options
        if delay := options.get("delay"):
            await asyncio.sleep(delay)
        hold = options.get("hold")
        while hold is not None and not hold.is_set():
            await asyncio.sleep(0.002)
        if options.get("drop"):
            return False
        if options.get("hang"):
            await reader.read()
            return False
        body = _ScriptedBody(request, reply, self.model)
        writer.write(body.head)
        chunk_delay = options.get("chunk_delay", 0.0)
        for piece in body.framed():
            if chunk_delay:
                await asyncio.sleep(chunk_delay)
            writer.write(piece)
            if chunk_delay or writer.transport.get_write_buffer_size() > 1_000_000:
                await writer.drain()
        await writer.drain()
        if body.cut_short and "hang_after" in options:
            await reader.read()
        return not body.cut_short and not reply.until_close


class _ScriptedBody:
    """The bytes of one response: its head and its framed pieces, cut where the reply's options say."""

    def __init__(self, request: RecordedRequest, reply: ScriptedReply, model: str) -> None:
        streaming = bool(request.body.get("stream"))
        content_type = reply.content_type or ("text/event-stream" if streaming else "application/json")
        if reply.pieces is not None:
            self._pieces = list(reply.pieces)
        else:
            form = FORMATS[urlsplit(request.path).path]
            number, body = request.number, request.body
            self._pieces = (
                form.stream(reply, number, model, body) if streaming else [form.document(reply, number, model)]
            )
        framing = f"content-length: {len(self._pieces[0])}" if len(self._pieces) == 1 else "transfer-encoding: chunked"
        self._chunked = len(self._pieces) != 1 and not reply.until_close
        headers = {"content-type": content_type, **reply.options.get("headers", {})}
        lines = [f"HTTP/1.1 {reply.status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
        lines.append("connection: close" if reply.until_close else framing)
        self.head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        limits = (reply.options.get("truncate_after"), reply.options.get("hang_after"))
        self._limit = min((limit for limit in limits if limit is not None), default=None)
        self.cut_short = self._limit is not None

    def framed(self) -> Iterator[bytes]:
        left = self._limit
        for piece in self._pieces:
            data = piece if left is None else piece[:left]
            if data:
                yield b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data
            if left is not None:
                left -= len(data)
                if left == 0:
                    return
        if self._chunked and not self.cut_short:
            yield b"0\r\n\r\n"


def _decode(body: bytes) -> dict[str, Any]:
    """The request's JSON object; one that cannot be read is kept as text, for the test to see."""
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
        fields = msgspec.json.decode(body)
        if isinstance(fields, dict):
            return cast("dict[str, Any]", fields)
    return {"unreadable": body.decode("utf-8", "replace")} if body else {}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a scripted provider as a process; its URL is the first line it prints."""
    import argparse
    import signal
    import sys

    parser = argparse.ArgumentParser(prog="python -m hermes.testing.scripted", description=main.__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--reply", default="Hello from the script.", help="the answer to every request")
    parser.add_argument("--script", help="a JSON file: a list of replies, or an object from user text to replies")
    parser.add_argument("--by-step", action="store_true", help="pick from the list by the turn's step")
    options = parser.parse_args(arguments)
    try:
        script = script_from_file(options.script, stepwise=options.by_step) if options.script else options.reply
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        parser.error(f"--script {options.script}: {getattr(error, 'strerror', None) or error}")
    stop = threading.Event()

    def end(_number: int, _frame: object) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    with ScriptedProvider(script, port=options.port) as provider:
        sys.stdout.write(provider.base_url + "\n")
        sys.stdout.flush()
        stop.wait()
