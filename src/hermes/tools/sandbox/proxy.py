"""Network of a sandbox that reaches only some hosts: an HTTP proxy of ours is its only way out.

The sandbox has a network namespace without any route. A small program inside opens a port on its loopback, hands
the listening socket to this process over a Unix socket in the private temporary folder, and becomes the command. This
process accepts the connections and decides about each by the name of its host. The Unix socket stays open in the
command: its end is the end of the sandbox.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import urlsplit

log = logging.getLogger("hermes.sandbox")

#: The name of the Unix socket in the private folder.
_SOCKET = ".network"
_USUAL_PORTS = frozenset({80, 443})
_CONNECT_SECONDS = 30.0
_LONGEST_HEAD = 65_536
_CHUNK = 65_536
#: Connections that wait to be accepted, and those served at the same time for one command.
_BACKLOG = 64
_MOST_CONNECTIONS = 256

_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")

#: Runs inside the sandbox, with the path of the Unix socket and the command as arguments.
_OPENER = f"""
import os, socket, sys
port = socket.socket()
port.bind(("127.0.0.1", 0))
port.listen({_BACKLOG})
line = socket.socket(socket.AF_UNIX)
line.connect(sys.argv[1])
socket.send_fds(line, [b"1"], [port.fileno()])
line.recv(1)
address = "http://127.0.0.1:%d" % port.getsockname()[1]
port.close()
os.set_inheritable(line.fileno(), True)
os.environ.update(dict.fromkeys({_VARIABLES!r}, address), no_proxy="", NO_PROXY="")
os.execvp(sys.argv[2], sys.argv[2:])
"""


def is_allowed(host: str, port: int, patterns: Sequence[str]) -> bool:
    """Whether a pattern fits a host: ``example.org``, ``*.example.org`` or ``example.org:8443``."""
    host = host.lower().rstrip(".")
    for pattern in patterns:
        name, _, wanted = pattern.strip().lower().rpartition(":")
        if not name or not wanted.isdigit():
            name, wanted = pattern.strip().lower(), ""
        is_host = host.endswith(name[1:]) if name.startswith("*.") else host == name
        if is_host and (port == int(wanted) if wanted else port in _USUAL_PORTS):
            return True
    return False


class ProxyNetwork:
    """The way out of the sandboxes of a host. Thread-safe; close it at the end."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._hosts = tuple(hosts)
        self._lock = threading.Lock()
        self._listeners: dict[str, socket.socket] = {}

    def described(self) -> str:
        """The hosts that can be reached, for a message."""
        return ", ".join(self._hosts) or "no host"

    def wrap(self, arguments: Sequence[str], folder: str, inner_folder: str) -> list[str]:
        """The command line that opens the way out and then becomes the command.

        ``folder`` is the private temporary folder of the sandbox, ``inner_folder`` its name inside.
        """
        with self._lock:
            if folder not in self._listeners:
                self._listeners[folder] = self._listen(os.path.join(folder, _SOCKET))
        # The interpreter itself, not that of a virtual environment, which the sandbox may not show.
        python = os.path.realpath(sys.executable)
        return [python, "-I", "-S", "-c", _OPENER, os.path.join(inner_folder, _SOCKET), *arguments]

    def _listen(self, path: str) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX)
        try:
            with suppress(FileNotFoundError):
                os.unlink(path)
            listener.bind(path)
            listener.listen(_BACKLOG)
        except BaseException:
            listener.close()
            raise
        threading.Thread(target=self._welcome, args=(listener,), name="hermes-network", daemon=True).start()
        return listener

    def _welcome(self, listener: socket.socket) -> None:
        """Take the listening sockets that sandboxes hand over."""
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(line,), name="hermes-network", daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        """Serve one sandbox until its last process has ended."""
        with line:
            line.settimeout(_CONNECT_SECONDS)
            try:
                _, descriptors, _, _ = socket.recv_fds(line, 1, 8)
                ports = [socket.socket(fileno=descriptor) for descriptor in descriptors]
            except OSError:
                return
            try:
                if len(ports) == 1 and ports[0].getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    ports[0].setblocking(False)
                    line.sendall(b"1")
                    self._accept_until_end(ports[0], line)
            except OSError as error:
                log.debug("the network of a sandbox ended: %s", error)
            finally:
                for port in ports:
                    port.close()

    def _accept_until_end(self, port: socket.socket, line: socket.socket) -> None:
        slots = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        poller = select.poll()
        poller.register(port, select.POLLIN)
        poller.register(line, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poller.poll()}
            if line.fileno() in ready:
                return
            with suppress(BlockingIOError):
                client, _ = port.accept()
                client.settimeout(_CONNECT_SECONDS)
                slots.acquire()
                threading.Thread(target=self._answer, args=(client, slots), name="hermes-proxy", daemon=True).start()

    def _answer(self, client: socket.socket, slots: threading.BoundedSemaphore) -> None:
        try:
            with client:
                self._exchange(client)
        except (OSError, ValueError) as error:
            log.debug("a connection of a sandbox failed: %s", error)
        finally:
            slots.release()

    def _exchange(self, client: socket.socket) -> None:
        head, rest = _read_head(client)
        method, target, headers = _parse(head)
        is_tunnel = method == "CONNECT"
        parts = urlsplit(f"//{target}" if is_tunnel else target)
        host, port = parts.hostname or "", parts.port or (443 if is_tunnel else 80)
        refusal = self._refusal(host, port)
        if not host or (not is_tunnel and parts.scheme != "http"):
            refusal = "400 Bad Request", "the proxy of the sandbox takes CONNECT and http:// requests"
        if refusal is not None:
            _refuse(client, *refusal)
            return
        try:
            server = socket.create_connection((host, port), _CONNECT_SECONDS)
        except OSError as error:
            _refuse(client, "502 Bad Gateway", f"{host}:{port} cannot be reached: {error}")
            return
        with server:
            if is_tunnel:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                path = parts._replace(scheme="", netloc="").geturl() or "/"
                kept = [line for line in headers if not line.lower().startswith((b"proxy-", b"connection:"))]
                lines = [f"{method} {path} HTTP/1.1".encode("latin-1"), *kept, b"Connection: close", b"", b""]
                server.sendall(b"\r\n".join(lines))
            server.sendall(rest)
            _relay(client, server)

    def _refusal(self, host: str, port: int) -> tuple[str, str] | None:
        if is_allowed(host, port, self._hosts):
            return None
        log.info("a command in the sandbox was refused a connection to %s:%d", host, port)
        return "403 Forbidden", f"{host}:{port} is not in terminal.network"

    def close(self) -> None:
        """Stop taking sandboxes. Connections end with the commands that opened them."""
        with self._lock:
            for listener in self._listeners.values():
                with suppress(OSError):
                    listener.shutdown(socket.SHUT_RDWR)
                listener.close()
            self._listeners.clear()


def _read_head(client: socket.socket) -> tuple[bytes, bytes]:
    """The head of a request, and what was read beyond it."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = client.recv(_CHUNK)
        if not piece or len(data) > _LONGEST_HEAD:
            raise ValueError("no complete request")
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _parse(head: bytes) -> tuple[str, str, list[bytes]]:
    first, *headers = head.split(b"\r\n")
    words = first.decode("latin-1").split(" ")
    if len(words) != 3:
        raise ValueError("no request line")
    return words[0].upper(), words[1], headers


def _refuse(client: socket.socket, status: str, reason: str) -> None:
    body = f"{reason}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    client.sendall(head.encode() + body)


def _relay(client: socket.socket, server: socket.socket) -> None:
    """Copy in both directions until both sides have ended."""
    ways = {client: server, server: client}
    for one in ways:
        one.settimeout(None)
    while ways:
        ready, _, _ = select.select(list(ways), [], [])
        for source in ready:
            data = source.recv(_CHUNK)
            if data:
                ways[source].sendall(data)
            else:
                target = ways.pop(source)
                with suppress(OSError):
                    target.shutdown(socket.SHUT_WR)
