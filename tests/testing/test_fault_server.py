"""The server that misbehaves behaves as told."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hermes.testing import FAULTS, Fault, FaultServer, cuts, recorded, text
from support import CERTIFICATE
from support.waiting import wait_until

REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nauthorization: Bearer sk-mine\r\ncontent-length: 2\r\n\r\n{}"


def call(server: FaultServer) -> socket.socket:
    parts = urlsplit(server.base_url)
    sock = socket.create_connection((parts.hostname, parts.port), timeout=60)
    sock.sendall(REQUEST)
    return sock


def read_all(sock: socket.socket) -> bytes:
    data = b""
    while more := sock.recv(65536):
        data += more
    return data


def test_exactly_these_bytes_then_the_end() -> None:
    fault = Fault("x", "Two pieces.", (b"one ", 0.01, b"two"))
    with FaultServer(fault) as server, call(server) as sock:
        assert read_all(sock) == b"one two"
    assert server.requests == [REQUEST]
    assert server.connections == 1


def test_each_request_has_its_fault_and_the_last_serves_the_rest() -> None:
    first, rest = Fault("a", "", (b"a",), "keep"), Fault("b", "", (b"b",), "keep")
    with FaultServer(first, rest) as server, call(server) as sock:
        answers = [sock.recv(1)]
        for _ in range(2):
            sock.sendall(REQUEST)
            answers.append(sock.recv(1))
    assert answers == [b"a", b"b", b"b"]
    assert server.connections == 1


def test_a_reset_is_one() -> None:
    with FaultServer(Fault("x", "", (), "reset")) as server, call(server) as sock, pytest.raises(ConnectionResetError):
        sock.recv(1)


def test_silence_lasts_until_the_server_is_closed() -> None:
    before = set(threading.enumerate())
    with FaultServer("silence", "stall") as server, call(server) as sock:
        wait_until(lambda: server.requests, "the first request")
        with call(server) as other:
            sock.settimeout(0.1)
            with pytest.raises(TimeoutError):
                sock.recv(1)
            server.close()
            sock.settimeout(10)
            assert sock.recv(1) == b""
            assert read_all(other).startswith(b"HTTP/1.1 200 OK")
    assert set(threading.enumerate()) <= before  # a thread of an earlier test may have ended meanwhile


def test_a_long_wait_does_not_hold_up_the_end() -> None:
    with FaultServer(Fault("x", "", (b"a", 60.0))) as server, call(server) as sock:
        assert sock.recv(1) == b"a"


def test_the_key_is_thrown_back() -> None:
    with FaultServer("echoed_key") as server, call(server) as sock:
        assert b"provided: sk-mine" in read_all(sock)


def test_over_tls_and_over_a_file(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    with FaultServer("no_http", tls=context) as server:
        assert server.base_url.startswith("https://")
        trusting = ssl.create_default_context(cafile=CERTIFICATE)
        parts = urlsplit(server.base_url)
        with (
            socket.create_connection((parts.hostname, parts.port)) as plain,
            trusting.wrap_socket(plain, server_hostname="127.0.0.1") as sock,
        ):
            sock.sendall(REQUEST)
            assert sock.recv(100).startswith(b"220 mail")
        with socket.create_connection((parts.hostname, parts.port)):  # a visitor that never says a word
            pass
    path = tmp_path / "x.sock"
    with FaultServer("no_http", socket_path=path) as server, socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(path))
        sock.sendall(REQUEST)
        assert sock.recv(100).startswith(b"220 mail")


def test_a_cut_for_every_byte() -> None:
    whole = recorded(text("hi"))
    faults = list(cuts(whole))
    assert len(faults) == len(whole)
    with FaultServer(faults[40]) as server, call(server) as sock:
        assert read_all(sock) == whole[:40]


def test_the_catalogue() -> None:
    assert list(FAULTS) == [fault.name for fault in FAULTS.values()]
    assert len(FAULTS) == len(set(FAULTS)) >= 25
    assert all(fault.what.endswith(".") for fault in FAULTS.values())
    assert all((fault.reason is None) == (not fault.says) for fault in FAULTS.values())


def test_a_name_that_is_not_in_it() -> None:
    with pytest.raises(KeyError, match="there is no fault 'gzip'; did you mean 'gzip_bomb'"):
        FaultServer("gzip")
    with pytest.raises(ValueError, match="at least one fault"):
        FaultServer()
