"""Network of a sandbox that reaches only some hosts: an HTTP proxy of ours is its only way out.

The sandbox has a network namespace without any route. A small program inside opens a port on its loopback, hands
the listening socket to this process over a Unix socket in the private temporary folder, and becomes the first process
of the sandbox. This process accepts the connections and decides about each by the name of its host. The Unix socket
stays open in that first process: its end is the end of the sandbox.
"""

from __future__ import annotations

import logging
import os
import re
import select
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from hermes.base.errors import HermesError
from hermes.tools.sandbox.bubblewrap import KEPT_DESCRIPTOR
from hermes.tools.sandbox.network import Reach, split_pattern

log = logging.getLogger("hermes.sandbox")

#: The name of the Unix socket in the private folder.
_SOCKET = ".network"
#: The name of the program in it that brings ssh through the proxy.
_TUNNEL = ".network-tunnel"
#: A host that a command names reaches a person, in a question: it has nothing but what names and addresses have.
_HOST = re.compile(r"[\w.:-]{1,253}", re.ASCII)
_CONNECT_SECONDS = 30.0
_LONGEST_HEAD = 65_536
_CHUNK = 65_536
#: Connections that wait to be accepted, and those served at the same time for one command.
_BACKLOG = 64
_MOST_CONNECTIONS = 256

_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
#: Names of the sandbox itself. What a command serves there is reached without the proxy.
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

#: Runs inside the sandbox, with the path of the Unix socket, the word that names the command to us, and the command.
#: Every command waits for it: it imports no more than it needs.
_OPENER = f"""
import _socket, os, sys
port = _socket.socket()
port.bind(("127.0.0.1", 0))
port.listen({_BACKLOG})
line = _socket.socket(_socket.AF_UNIX)
line.connect(sys.argv[1])
handed = port.fileno().to_bytes(4, sys.byteorder)
line.sendmsg([sys.argv[2].encode()], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, handed)])
line.recv(1)
address = "http://127.0.0.1:%d" % port.getsockname()[1]
port.close()
os.dup2(line.fileno(), {KEPT_DESCRIPTOR})
os.environ.update(dict.fromkeys({_VARIABLES!r}, address))
os.execvp(sys.argv[3], sys.argv[3:])
"""

#: Runs inside the sandbox as the proxy command of ssh, with a host and a port.
_TUNNEL_PROGRAM = r"""
import os, select, socket, sys
from urllib.parse import urlsplit

proxy = urlsplit(os.environ["https_proxy"])
server = socket.create_connection((proxy.hostname, proxy.port))
server.sendall("CONNECT {0}:{1} HTTP/1.1\r\n\r\n".format(*sys.argv[1:]).encode())
head = b""
while not head.endswith(b"\r\n\r\n"):
    piece = server.recv(1)
    if not piece:
        sys.exit("the proxy of the sandbox ended the connection")
    head += piece
if head.split()[1:2] != [b"200"]:
    sys.exit(server.makefile().read().strip() or "the proxy of the sandbox refused")
ways = {0: server.fileno(), server.fileno(): 1}
while ways:
    for source in select.select(list(ways), [], [])[0]:
        data = os.read(source, 65536)
        target = ways[source]
        if not data:
            del ways[source]
            if target == 1:
                sys.exit()
            server.shutdown(socket.SHUT_WR)
        while data:
            data = data[os.write(target, data):]
"""


class ProxyNetwork:
    """The way out of the sandboxes of a host. Thread-safe; close it at the end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[str, socket.socket] = {}
        #: What the commands may reach that have not opened their way out yet, by the word that names each.
        self._expected: dict[str, Reach] = {}

    def opener(self, folder: str, inner_folder: str, reach: Reach) -> list[str]:
        """The program that opens the way out, and then becomes the command that follows it.

        ``folder`` is the private temporary folder of the sandbox, ``inner_folder`` its name inside.
        """
        word = os.urandom(16).hex()
        with self._lock:
            self._expected[word] = reach
            if folder not in self._listeners:
                self._listeners[folder] = self._listen(os.path.join(folder, _SOCKET))
                with open(os.path.join(folder, _TUNNEL), "w", encoding="utf-8") as file:
                    file.write(_TUNNEL_PROGRAM)
        return [_python(), "-I", "-S", "-c", _OPENER, os.path.join(inner_folder, _SOCKET), word]

    def _listen(self, path: str) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX)
        # The name of a socket has at most about a hundred characters, and that of a folder may be longer.
        folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with suppress(FileNotFoundError):
                os.unlink(path)
            listener.bind(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
            listener.listen(_BACKLOG)
        except BaseException:
            listener.close()
            raise
        finally:
            os.close(folder)
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
                word, descriptors, _, _ = socket.recv_fds(line, 64, 8)
                ports = [socket.socket(fileno=descriptor) for descriptor in descriptors]
            except OSError:
                return
            reach = self._expected.pop(word.decode("ascii", "replace"), None)
            try:
                if (
                    reach is not None
                    and len(ports) == 1
                    and ports[0].getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                ):
                    ports[0].setblocking(False)
                    line.sendall(b"1")
                    self._accept_until_end(ports[0], line, reach)
            except OSError as error:
                log.debug("the network of a sandbox ended: %s", error)
            finally:
                for port in ports:
                    port.close()

    def _accept_until_end(self, port: socket.socket, line: socket.socket, reach: Reach) -> None:
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
                threading.Thread(
                    target=self._answer, args=(client, slots, reach), name="hermes-proxy", daemon=True
                ).start()

    def _answer(self, client: socket.socket, slots: threading.BoundedSemaphore, reach: Reach) -> None:
        try:
            with client:
                _exchange(client, reach)
        except (OSError, ValueError) as error:
            log.debug("a connection of a sandbox failed: %s", error)
        finally:
            slots.release()

    def close(self) -> None:
        """Stop taking sandboxes. Connections end with the commands that opened them."""
        with self._lock:
            for listener in self._listeners.values():
                with suppress(OSError):
                    listener.shutdown(socket.SHUT_RDWR)
                listener.close()
            self._listeners.clear()


def _python() -> str:
    """The interpreter itself, not that of a virtual environment, which the sandbox may not show."""
    return os.path.realpath(sys.executable)


def proxy_variables(reach: Reach, inner_folder: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Variables for a command with this way out, beside those that name the proxy."""
    # A service of the machine that the settings name is reached by the proxy, by the same name.
    names = [name for name in _LOOPBACK if name not in {split_pattern(host)[0] for host in reach.hosts}]
    variables = dict.fromkeys(("no_proxy", "NO_PROXY"), ",".join(names)) | {"NODE_USE_ENV_PROXY": "1"}
    if not {"GIT_SSH", "GIT_SSH_COMMAND"} & environment.keys():
        tunnel = f"{_python()} -I -S {os.path.join(inner_folder, _TUNNEL)} %h %p"
        variables["GIT_SSH_COMMAND"] = f"ssh -o ProxyCommand='{tunnel}'"
    return variables


def _exchange(client: socket.socket, reach: Reach) -> None:
    """Serve one request: a tunnel, or a single request that is passed on."""
    head, rest = _read_head(client)
    method, target, headers = _parse(head)
    is_tunnel = method == "CONNECT"
    parts = urlsplit(f"//{target}" if is_tunnel else target)
    host, port = parts.hostname or "", parts.port or (443 if is_tunnel else 80)
    if not _HOST.fullmatch(host) or (not is_tunnel and parts.scheme != "http"):
        _refuse(client, "400 Bad Request", "the proxy of the sandbox takes CONNECT and http:// requests")
        return
    if not reach.allows(host, port):
        log.info("a command in the sandbox was refused a connection to %s:%d", host, port)
        _refuse(client, "403 Forbidden", f"{host}:{port} is not among the hosts of the sandbox (terminal.network)")
        return
    try:
        server, more = _connect(host, port, is_tunnel=is_tunnel)
    except (OSError, HermesError) as error:
        _refuse(client, "502 Bad Gateway", f"{host}:{port} cannot be reached: {error}")
        return
    with server:
        if is_tunnel:
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            path = target if more is not None else parts._replace(scheme="", netloc="").geturl() or "/"
            kept = [line for line in headers if not line.lower().startswith((b"proxy-", b"connection:"))]
            first = f"{method} {path} HTTP/1.1".encode("latin-1")
            server.sendall(b"\r\n".join([first, *kept, *(more or ()), b"Connection: close", b"", b""]))
        server.sendall(rest)
        _relay(client, server)


def _connect(host: str, port: int, *, is_tunnel: bool) -> tuple[socket.socket, list[bytes] | None]:
    """A connection to a server, by the proxy that the environment of Hermes names for it.

    When that proxy takes the request itself, also the lines of the head that are meant for it.
    """
    from hermes.base.http.address import Address
    from hermes.base.http.proxy import Route, parse_proxy, proxy_for

    url = proxy_for("https" if is_tunnel else "http", host)
    if url is None:
        return socket.create_connection((host, port), _CONNECT_SECONDS), None
    proxy = parse_proxy(url)
    server = socket.create_connection((proxy.host, proxy.port), _CONNECT_SECONDS)
    try:
        steps = Route(Address("https" if is_tunnel else "http", host, port), proxy).tunnel()
        if steps is None:
            return server, [f"{name}: {value}".encode("latin-1") for name, value in proxy.login()]
        to_send = next(steps)
        with suppress(StopIteration):
            while True:
                server.sendall(to_send)
                # Byte by byte: what follows the answer is for the command, and a server of ssh speaks first.
                to_send = steps.send(server.recv(1))
        return server, None
    except BaseException:
        server.close()
        raise


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
