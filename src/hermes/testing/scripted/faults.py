"""A server on loopback that answers wrongly, down to the last byte: what a client must survive."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from hermes.base.errors import FailureReason

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
        from hermes.testing.scripted.fault_catalogue import FAULTS

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
