"""A proxy before a PostgreSQL server: cuts a connection in the middle of a commit, or all of them as a network does."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

#: Before: the server never sees the commit. After: it makes it, and its answer is lost.
Cut = Literal["before", "after"]


class CutProxy:
    """Passes everything on until it is told to cut; then the next commit is the last thing of its connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname or "127.0.0.1", parts.port or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.url = urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}"))
        self.cut: Cut | None = None
        self.cuts = 0
        self._passes = threading.Event()
        self._passes.set()
        self._is_refusing = False
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def block(self) -> None:
        """Nothing passes any more, in either direction, and neither side is told."""
        self._passes.clear()

    def refuse(self) -> None:
        """All connections break, and new ones do so at once."""
        self._is_refusing = True
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def heal(self) -> None:
        """Everything passes again."""
        self._is_refusing = False
        self._passes.set()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                if self._is_refusing:
                    client.close()
                    continue
                server = socket.create_connection(self._server)
                self._ends += [client, server]
                threading.Thread(target=self._to_server, args=(client, server), daemon=True).start()
                threading.Thread(target=self._to_client, args=(client, server), daemon=True).start()

    def _to_server(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                self._passes.wait()
                if self.cut is not None and b"COMMIT" in data:
                    how, self.cut = self.cut, None
                    self.cuts += 1
                    if how == "after":
                        # Nothing more reaches the client, but the server gets and makes the commit.
                        client.shutdown(socket.SHUT_WR)
                        server.sendall(data)
                        server.recv(1 << 16)
                    client.shutdown(socket.SHUT_RDWR)
                    break
                server.sendall(data)
        for end in (client, server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _to_client(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                self._passes.wait()
                client.sendall(data)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
