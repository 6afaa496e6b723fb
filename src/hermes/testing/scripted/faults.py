"""A server on loopback that answers wrongly, down to the last byte, and the faults that real ones have, by name."""

from __future__ import annotations

import contextlib
import functools
import gzip
import re
import socket
import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from hermes.base.errors import FailureReason, did_you_mean
from hermes.testing.scripted.replies import ScriptedCall, ScriptedReply, completion, events, text, tool_calls

if TYPE_CHECKING:
    import ssl

#: Bytes to send, or seconds to wait.
Step = bytes | float

#: A placeholder for the key of the request, so that a fault can send it back to the client.
ECHO = b"<the key of the request>"

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_KEY = re.compile(rb"\r\n(?:authorization: *bearer|x-api-key:) *([^\r\n]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a server in answering one request, and how a client should report it."""

    name: str
    #: In one sentence.
    what: str
    steps: Sequence[Step]
    #: What follows the last step: the connection is closed, reset or kept silent, or it takes the next request.
    ending: Literal["close", "reset", "hang", "keep"] = "close"
    #: The class of failure; ``None`` when it is a good answer all the same.
    reason: FailureReason | None = None
    #: Words that the message has.
    says: str = ""
    #: The text of the answer that arrived, and must not be lost.
    keeps: str = ""
    #: The address says https although the server does not speak TLS.
    pretends_tls: bool = False


def cuts(response: bytes) -> Iterator[Fault]:
    """One fault for every byte of a recorded response, head included: the connection ends right before that byte."""
    for at in range(len(response)):
        yield Fault(f"cut at byte {at}", "The connection ends in the middle.", (response[:at],))


class FaultServer:
    """Misbehaves as told. Use it as a context manager.

    The first request gets the first fault, and so on; the last fault serves all further ones. A name means
    the fault of that name in ``hermes.testing.FAULTS``. With ``socket_path`` the server listens on a Unix socket,
    with a ``tls`` context it speaks TLS first.
    """

    def __init__(
        self, *faults: Fault | str, tls: ssl.SSLContext | None = None, socket_path: str | Path | None = None
    ) -> None:
        self._faults = [FAULTS[fault] if isinstance(fault, str) else fault for fault in faults]
        if not self._faults:
            raise ValueError("a FaultServer needs at least one fault")
        self._tls = tls
        self._path = None if socket_path is None else str(socket_path)
        #: Every request, head and body, as it arrived.
        self.requests: list[bytes] = []
        #: Connections accepted so far.
        self.connections = 0
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._stopping = threading.Event()

    @property
    def base_url(self) -> str:
        """The address to configure as ``base_url``."""
        if self._path is not None:
            return f"http+unix://{self._path}/v1"
        scheme = "https" if self._tls or self._faults[0].pretends_tls else "http"
        return f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def __enter__(self) -> Self:
        if self._path is None:
            self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        else:
            self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._listener.bind(self._path)
            self._listener.listen(128)
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection and wait for the server's threads."""
        self._stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # closing alone does not wake the thread that accepts
        with self._lock:
            for sock in self._open:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, name="fault-server", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
                self._open.add(sock)
            self._start(self._attend, sock)
            if self._stopping.is_set():
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def _attend(self, sock: socket.socket) -> None:
        try:
            sock = self._secured(sock)
            while (request := self._read(sock)) and self._misbehave(sock, request) == "keep":
                pass
        except (OSError, ValueError):
            pass  # the client had enough
        finally:
            with self._lock:
                self._open.discard(sock)
            sock.close()

    def _secured(self, sock: socket.socket) -> socket.socket:
        if self._tls is None:
            return sock
        secured = self._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            self._open.discard(sock)  # it has handed its connection over
            self._open.add(secured)
        try:
            secured.do_handshake()
        except BaseException:
            secured.close()
            raise
        return secured

    def _read(self, sock: socket.socket) -> bytes:
        """One whole request; whatever comes first when it is not to be understood; nothing when the client is gone."""
        data = sock.recv(65536)
        if self._faults[0].pretends_tls:
            return data
        while b"\r\n\r\n" not in data:
            data += _more(sock)
        head = data.index(b"\r\n\r\n") + 4
        length = _LENGTH.search(data, 0, head)
        while length and len(data) < head + int(length[1]):
            data += _more(sock)
        return data

    def _misbehave(self, sock: socket.socket, request: bytes) -> str:
        with self._lock:
            fault = self._faults[min(len(self.requests), len(self._faults) - 1)]
            self.requests.append(request)
        key = _KEY.search(request)
        for step in fault.steps:
            if isinstance(step, bytes):
                sock.sendall(step.replace(ECHO, key[1] if key else b""))
            elif self._stopping.wait(step):
                return "close"
        if fault.ending == "hang":
            while sock.recv(65536):
                pass
        elif fault.ending == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return fault.ending


def _more(sock: socket.socket) -> bytes:
    data = sock.recv(65536)
    if not data:
        raise ConnectionError("the client has gone")
    return data


# -- the catalogue ----------------------------------------------------------------------------------------------------


_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
_LAST_CHUNK = b"0\r\n\r\n"
_MEGABYTE = 1024 * 1024


def recorded(reply: ScriptedReply) -> bytes:
    """A whole streamed response as it goes over the network, head and framing included."""
    pieces = events(reply, 1, "faulty", include_usage=True)
    return _STREAM_HEAD + b"".join(map(_chunk, pieces)) + _LAST_CHUNK


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _document(body: bytes, status: str = "200 OK", *, length: int | None = None, headers: str = "") -> bytes:
    framing = f"content-length: {len(body) if length is None else length}"
    if ECHO in body:
        framing = "connection: close"  # the length of the key is not known yet
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}{framing}\r\n\r\n"
    return head.encode() + body


#: The beginning of an answer, and nothing that ends it.
_HALF = events(text("Half of it"), 1, "faulty", include_usage=True)[:3]
_BEGUN = _STREAM_HEAD + b"".join(map(_chunk, _HALF))
_ANSWER = completion(text("All of it."), 1, "faulty")
_EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}\n\n'


def _bomb() -> bytes:
    """A few hundred kilobytes that become 80 megabytes of blanks."""
    packer = zlib.compressobj(1, wbits=zlib.MAX_WBITS | 16)
    blank = b" " * _MEGABYTE
    return b"".join(packer.compress(blank) for _ in range(80)) + packer.flush()


def _packed(pieces: list[bytes]) -> bytes:
    """Compressed so that all of it can be unpacked at once, although more may follow."""
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    return packer.compress(b"".join(pieces)) + packer.flush(zlib.Z_SYNC_FLUSH)


def _drip(data: bytes, seconds: float) -> list[Step]:
    return [step for at in range(len(data)) for step in (data[at : at + 1], seconds)]


_TOOLS_TWICE = tool_calls(
    [ScriptedCall("read_file", {"path": "a"}, "same"), ScriptedCall("read_file", {"path": "b"}, "same")]
)
_BROKEN_ARGUMENTS = tool_calls([ScriptedCall("read_file", '{"path": ', "call_1")])
_HINTS = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" * 20


#: Name; what follows the last step; the class of failure, none when it is a good answer all the same; whether the text
#: that arrived is kept; what happens; words of the message.
_TABLE = """
silence          | hang  | timeout      |      | The request is taken and never answered. | no answer
slow_headers     | hang  | timeout      |      | Half a head, then silence. | stalled
dripping_headers | hang  | timeout      |      | A head that comes a byte at a time and has no end. | in all
stall            | hang  | timeout      | kept | An answer that stops in the middle. | stalled
only_comments    | hang  | timeout      |      | A stream that is kept alive and says nothing. | in all
half_chunk       | close | truncated    | kept | A chunk that is cut. | broke off
reset            | reset | truncated    | kept | The connection is reset. | broke off
chunked_garbage  | close | truncated    | kept | What should be the size of a chunk is not. | broke off
length_too_long  | close | truncated    |      | A body shorter than its content-length. | cut off
length_too_short | keep  | truncated    |      | A body longer than its content-length. | cut off
second_answer    | keep  |              |      | A good answer, followed by a second one that was not requested. |
early_hints      | keep  |              |      | Informational answers before the real one. |
no_http          | close | malformed    |      | Something that is not HTTP. | HTTP
endless_head     | close | malformed    |      | A head of a megabyte. | does not answer in HTTP
no_tls           | close | connection   |      | A plain port under an https address. | use http://
bad_utf8         | keep  | malformed    | kept | Bytes that are not UTF-8. | a bad event
same_tool_ids    | keep  |              |      | Two tool calls with one id. |
broken_arguments | keep  |              |      | Tool arguments that are not JSON. |
long_line        | close | malformed    |      | One line of ten megabytes. | more than 8 MB
deep_nesting     | keep  | malformed    |      | JSON nested a hundred thousand deep. | cannot be read
gzip_bomb        | close | malformed    |      | A small body that unpacks to 80 MB. | more than 64 MB
cut_gzip         | close | truncated    |      | A compressed body that is cut. | cut off
broken_gzip | close | malformed    | kept | A compressed stream that turns into something else. | broken compression
web_page         | keep  | malformed    |      | A sign-in page. | Sign in
empty_body       | keep  | truncated    |      | Success and no body. | before the answer began
error_as_success | close | overloaded   |      | Status 200 with an error. | busy
error_midway     | close | overloaded   | kept | An answer that turns into an error. | busy
echoed_key       | close | auth         |      | A refusal that shows the key. | 401
redirect         | keep  | bad_request  |      | A redirect to another host. | redirects to http://other.invalid
cut_error        | close | server_error |      | An error whose body breaks off. | upstream fai
"""


def _steps() -> dict[str, Sequence[Step]]:
    """What is sent of each fault."""
    packed = "content-encoding: gzip\r\n"
    error = b'{"error": {"message": "busy, key %b", "code": 503}}' % ECHO
    refused = b'{"error": {"message": "Incorrect API key provided: %b", "code": "invalid_api_key"}}' % ECHO
    elsewhere = "location: http://other.invalid/v1/chat/completions\r\n"
    long_head = b"HTTP/1.1 200 OK\r\nx-long: "
    unpacked = _UNTIL_CLOSE.replace(b"connection", b"content-encoding: gzip\r\nconnection")
    return {
        "silence": (),
        "slow_headers": (_STREAM_HEAD[:30],),
        "dripping_headers": _drip(long_head + b"x" * 2000, 0.05),
        "stall": (_BEGUN,),
        "only_comments": (_STREAM_HEAD, *([_chunk(b": waiting\n\n"), 0.05] * 200)),
        "half_chunk": (_BEGUN + b"64\r\ndata: {",),
        "reset": (_BEGUN, 0.05),
        "chunked_garbage": (_BEGUN + b"size? " + ECHO + b"\r\n",),
        "length_too_long": (_document(_ANSWER[:-20], length=len(_ANSWER) + 99),),
        "length_too_short": (_document(_ANSWER, length=len(_ANSWER) - 20),),
        "second_answer": (_document(_ANSWER) + _document(b'{"choices": []}'),),
        "early_hints": (_HINTS + _document(_ANSWER),),
        "no_http": (b"220 mail " + ECHO + b"\r\n",),
        "endless_head": (long_head + b"x" * _MEGABYTE,),
        "no_tls": (b"HTTP/1.1 400 Bad Request\r\n\r\n",),
        "bad_utf8": (_BEGUN + _chunk(_EVENT % b"\xff\xfe") + _LAST_CHUNK,),
        "same_tool_ids": (recorded(_TOOLS_TWICE),),
        "broken_arguments": (recorded(_BROKEN_ARGUMENTS),),
        "long_line": (_UNTIL_CLOSE + b"data: " + b"x" * (10 * _MEGABYTE),),
        "deep_nesting": (_document(b'{"choices":' + b"[" * 100_000),),
        "gzip_bomb": (_document(_bomb(), headers=packed),),
        "cut_gzip": (_document(gzip.compress(_ANSWER)[:-30], headers=packed),),
        "broken_gzip": (unpacked, _packed(_HALF), 0.05, b"\xff" * 99),
        "web_page": (_document(b"<title>Sign in</title>"),),
        "empty_body": (_document(b""),),
        "error_as_success": (_document(error),),
        "error_midway": (_UNTIL_CLOSE + b"".join(_HALF) + b"data: " + error + b"\n\n",),
        "echoed_key": (_document(refused, "401 No"),),
        "redirect": (_document(b"", "307 Moved", headers=elsewhere),),
        "cut_error": (_document(b"upstream fai", "502 Bad", length=500),),
    }


class _Catalogue(Mapping[str, Fault]):
    """Made on first use: some of the faults are megabytes."""

    def __getitem__(self, name: str) -> Fault:
        try:
            return _all()[name]
        except KeyError:
            raise KeyError(f"there is no fault {name!r}{did_you_mean(name, _all())}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(_all())

    def __len__(self) -> int:
        return len(_all())


@functools.cache
def _all() -> dict[str, Fault]:
    steps, faults = _steps(), dict[str, Fault]()
    for line in _TABLE.strip().splitlines():
        name, ending, reason, kept, what, says = (cell.strip() for cell in line.split("|"))
        keeps = "Half of " if kept else ""
        how: Any = (ending, reason or None, says, keeps)
        faults[name] = Fault(name, what, steps[name], *how, pretends_tls=name == "no_tls")
    return faults


#: Every fault by name.
FAULTS: Mapping[str, Fault] = _Catalogue()
