"""Servers on a socket file of this machine, directly and from an event loop."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from hermes.base.errors import ProviderError
from hermes.base.scope import Interrupt
from hermes.models.endpoint import Timeouts
from hermes.models.reply import Completion, InterruptedReply, normalise
from hermes.testing import FaultServer
from support.waiting import finish

Ask = Callable[..., Completion]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ALL_PROXY", "http://proxy.invalid")  # no proxy stands before a file
    return tmp_path / "llm.sock"


def test_an_answer_over_a_socket_file(ask: Ask, path: Path) -> None:
    with FaultServer("early_hints", socket_path=path) as server:
        for url in (f"http+unix://{path}/v1", f"unix://{path}/v1", f"http+unix://{str(path).replace('/', '%2F')}/v1"):
            assert normalise(ask(url)).content == "All of it."
        assert server.connections == 1
        assert server.base_url == f"http+unix://{path}/v1"
    first = server.requests[0]
    assert first.startswith(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n")


def test_a_socket_file_that_is_not_there(ask: Ask, path: Path) -> None:
    with pytest.raises(
        ProviderError, match=r"cannot connect to http\+unix://.*No such file.*check the socket file"
    ) as caught:
        ask(f"unix://{path}/v1")
    assert caught.value.reason == "connection"


def test_a_path_that_is_too_long(ask: Ask, tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match=r"cannot connect to .*too long"):
        ask(f"unix://{tmp_path}/{'x' * 200}.sock/v1")


def test_a_server_that_is_too_busy_to_take_the_call(ask: Ask, path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, ExitStack() as stack:
        server.bind(str(path))
        server.listen(0)
        _fill_queue(path, stack)
        with pytest.raises(ProviderError, match="timeout: connect"):
            ask(f"unix://{path}/v1", timeouts=Timeouts(connect=0.2))
        interrupt = Interrupt()
        timer = threading.Timer(0.1, interrupt.cancel)
        timer.start()
        never = Timeouts(connect=600, total=600)
        with pytest.raises(InterruptedReply):
            finish(lambda: ask(f"unix://{path}/v1", interrupt=interrupt, timeouts=never))
        timer.join()


def _fill_queue(path: Path, stack: ExitStack) -> None:
    for _ in range(20):
        caller = stack.enter_context(socket.socket(socket.AF_UNIX))
        caller.setblocking(False)
        if caller.connect_ex(str(path)):
            return
    pytest.skip("this system accepts connections beyond the backlog")
