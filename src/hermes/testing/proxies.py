"""Proxy servers on loopback: one that tunnels by HTTP CONNECT and one that speaks SOCKS 5."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

Greeter = Callable[[socket.socket, "ProxyServer"], int | None]


@dataclass
class ProxyServer:
    """A proxy that connects every client to that port of loopback, whatever host it asked for."""

    port: int = 0
    #: The requests: the head of each CONNECT, or ``host:port`` of each SOCKS request.
    asked: list[bytes] = field(default_factory=list[bytes])
    #: The answer to a CONNECT; another status than 200 ends the connection.
    status: bytes = b"200 OK"
    #: The login that a SOCKS proxy requires.
    login: bytes = b""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@contextmanager
def connect_proxy(status: bytes = b"200 OK") -> Generator[ProxyServer]:
    """A proxy that answers CONNECT."""
    with _serving(ProxyServer(status=status), _answer_connect) as server:
        yield server


@contextmanager
def socks_proxy(login: bytes = b"") -> Generator[ProxyServer]:
    """A SOCKS 5 proxy; ``login`` is ``name:password``."""
    with _serving(ProxyServer(login=login), _answer_socks) as server:
        yield server


@contextmanager
def _serving(server: ProxyServer, greet: Greeter) -> Generator[ProxyServer]:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            _attend(self.request, server, greet)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as listener:
        server.port = listener.server_address[1]
        acceptor = threading.Thread(target=listener.serve_forever, args=(0.02,))
        acceptor.start()
        try:
            yield server
        finally:
            listener.shutdown()
            acceptor.join()


def _attend(client: socket.socket, server: ProxyServer, greet: Greeter) -> None:
    with client, suppress(ConnectionError):
        port = greet(client, server)
        if port is None:
            return
        with socket.create_connection(("127.0.0.1", port)) as upstream:
            back = threading.Thread(target=_pump, args=(upstream, client))
            back.start()
            _pump(client, upstream)
            back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _answer_connect(client: socket.socket, server: ProxyServer) -> int | None:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += _exactly(client, 1)
    server.asked.append(head)
    client.sendall(b"HTTP/1.1 " + server.status + b"\r\n\r\n")
    return int(head.split(b" ")[1].rpartition(b":")[2]) if server.status.startswith(b"200") else None


def _answer_socks(client: socket.socket, server: ProxyServer) -> int | None:
    _, count = _exactly(client, 2)
    offered = _exactly(client, count)
    method = 2 if server.login else 0
    if method not in offered:
        client.sendall(b"\x05\xff")
        return None
    client.sendall(bytes([5, method]))
    if server.login:
        name = _exactly(client, _exactly(client, 2)[1])
        password = _exactly(client, _exactly(client, 1)[0])
        if name + b":" + password != server.login:
            client.sendall(b"\x01\x01")
            return None
        client.sendall(b"\x01\x00")
    _exactly(client, 4)
    host = _exactly(client, _exactly(client, 1)[0])
    port = int.from_bytes(_exactly(client, 2), "big")
    server.asked.append(b"%b:%d" % (host, port))
    if host == b"forbidden.invalid":
        client.sendall(b"\x05\x02\x00\x01\0\0\0\0\0\0")
        return None
    # One byte at a time: an answer may arrive in any pieces. The address it names is a host name here.
    for byte in b"\x05\x00\x00\x03\x04exit\x00\x50":
        client.sendall(bytes([byte]))
    return port


def _exactly(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = client.recv(count - len(data))
        if not more:
            raise ConnectionError("the client has gone")
        data += more
    return data
