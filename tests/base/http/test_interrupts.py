"""Cancelling a request, whatever it is waiting for."""

from __future__ import annotations

import _thread
import os
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from hermes.base.errors import Interrupted, ProviderError
from hermes.base.scope import Interrupt
from hermes.models.driver import Driver
from hermes.models.endpoint import Timeouts
from hermes.models.failures import ConnectTimeout
from hermes.models.reply import Completion, InterruptedReply, normalise
from hermes.models.wires.wire import Delta
from hermes.testing import ScriptedProvider, hanging, raw, text
from support.drivers import LoopPerRequest
from support.waiting import HANG

Ask = Callable[..., Completion]

#: Longer than any test waits: what ends at all was woken up.
NEVER = Timeouts(connect=600, first_byte=600, between_chunks=600, total=600)


class Waiting:
    """A request running in a thread of its own."""

    def __init__(self, ask: Ask, base_url: str, **options: Any) -> None:
        self.interrupt = Interrupt()
        self.outcome: BaseException | None = None
        self._run: Callable[[], Completion] = lambda: ask(base_url, interrupt=self.interrupt, timeouts=NEVER, **options)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._run()
        except BaseException as outcome:
            self.outcome = outcome

    def cancel(self) -> InterruptedReply:
        """Cancel it and wait for its end."""
        self.interrupt.cancel("test")
        self._thread.join(HANG)
        assert not self._thread.is_alive(), "it was not woken up"
        assert isinstance(self.outcome, InterruptedReply), repr(self.outcome)
        assert self.outcome.reason == "test"
        return self.outcome


@contextmanager
def listener(backlog: int = 16) -> Generator[tuple[socket.socket, int]]:
    with socket.create_server(("127.0.0.1", 0), backlog=backlog) as server:
        yield server, server.getsockname()[1]


def test_before_the_first_byte(ask: Ask) -> None:
    with ScriptedProvider(hanging()) as provider:
        waiting = Waiting(ask, provider.base_url)
        provider.wait_for_request()
        assert waiting.cancel().partial.content == ""


def test_in_the_middle_of_an_answer(ask: Ask) -> None:
    with ScriptedProvider(text("one two three", hang_after=500)) as provider:
        arrived = threading.Event()
        deltas: list[Delta] = []

        def note(delta: Delta) -> None:
            deltas.append(delta)
            arrived.set()

        waiting = Waiting(ask, provider.base_url, on_delta=note)
        assert arrived.wait(60)
        assert "one two three".startswith(waiting.cancel().partial.content)
        assert deltas


def test_a_cut_answer_is_never_taken_for_a_whole_one(ask: Ask) -> None:
    """A body that ends with its connection: the shutdown looks exactly like its regular end."""
    body = b'data: {"choices":[{"delta":{"content":"half"},"finish_reason":"stop"}]}\n\n'
    with ScriptedProvider(raw(body + b" " * 10, until_close=True, hang_after=len(body))) as provider:
        arrived = threading.Event()

        def note(_delta: Delta) -> None:
            arrived.set()

        waiting = Waiting(ask, provider.base_url, on_delta=note)
        assert arrived.wait(60)
        assert waiting.cancel().partial.content == "half"


def test_while_connecting(ask: Ask) -> None:
    with listener(backlog=0) as (_, port), ExitStack() as stack:
        _fill_backlog(port, stack)
        waiting = Waiting(ask, f"http://127.0.0.1:{port}/v1")
        waiting.cancel()


def test_connecting_has_a_limit(ask: Ask) -> None:
    with listener(backlog=0) as (_, port), ExitStack() as stack:
        _fill_backlog(port, stack)
        with pytest.raises(ProviderError, match=r"no connection to .* within 0.1 s \(timeout: connect\)") as caught:
            ask(f"http://127.0.0.1:{port}/v1", timeouts=Timeouts(connect=0.1))
        assert caught.value.reason == "timeout"
        assert isinstance(caught.value, ConnectTimeout)


def test_while_a_name_is_looked_up(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answer = threading.Event(), threading.Event()

    def slow_resolver(*_: object, **__: object) -> list[Any]:
        asked.set()
        answer.wait(600)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", slow_resolver)
    waiting = Waiting(ask, "http://slow.invalid/v1")
    assert asked.wait(60)
    waiting.cancel()
    with pytest.raises(ProviderError, match="timeout: connect"):
        ask("http://slow.invalid/v1", timeouts=Timeouts(connect=0.1))
    answer.set()


def test_during_the_tls_handshake(ask: Ask) -> None:
    with listener() as (server, port):
        waiting = Waiting(ask, f"https://127.0.0.1:{port}/v1")
        connection, _ = server.accept()
        with connection:
            assert connection.recv(1)  # the handshake has begun
            waiting.cancel()


def test_the_tls_handshake_has_a_limit(ask: Ask) -> None:
    with listener() as (_, port), pytest.raises(ProviderError, match="timeout: connect"):
        ask(f"https://127.0.0.1:{port}/v1", timeouts=Timeouts(connect=0.1))


def test_during_an_answer_over_tls(
    ask: Ask, server_tls: ssl.SSLContext, certificate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", certificate)
    with ScriptedProvider([text("ok"), hanging()], tls=server_tls) as provider:
        assert normalise(ask(provider.base_url)).content == "ok"
        waiting = Waiting(ask, provider.base_url)
        provider.wait_for_request(2)
        waiting.cancel()
        assert provider.connections == 1


def test_while_a_large_request_goes_out(ask: Ask) -> None:
    with listener() as (server, port):
        waiting = Waiting(ask, f"http://127.0.0.1:{port}/v1", messages=[{"role": "user", "content": "x" * 40_000_000}])
        connection, _ = server.accept()
        with connection:
            assert connection.recv(10)
            waiting.cancel()


def test_before_anything_was_sent(ask: Ask) -> None:
    interrupt = Interrupt()
    interrupt.cancel()
    with ScriptedProvider("ok") as provider:
        with pytest.raises(Interrupted):
            ask(provider.base_url, interrupt=interrupt)
        assert provider.connections == 0


@pytest.mark.parametrize(
    *("driver, is_early", [(Driver, False), (Driver, True), (LoopPerRequest, False)]), indirect=["driver"]
)
@pytest.mark.usefixtures("driver")
def test_by_a_signal_in_the_waiting_thread_itself(ask: Ask, is_early: bool) -> None:
    """Ctrl-C: the handler runs in the very thread that is blocked in the read.

    ``is_early``: the signal came just before the read began to wait, so that it does not end the wait.
    """
    interrupt = Interrupt()
    before = signal.signal(signal.SIGUSR1, lambda _number, _frame: interrupt.cancel("signal"))
    try:
        with ScriptedProvider(hanging()) as provider:

            def press() -> None:
                provider.wait_for_request()
                if is_early:
                    _thread.interrupt_main(signal.SIGUSR1)  # marks it as arrived, and wakes no system call
                else:
                    os.kill(os.getpid(), signal.SIGUSR1)

            thread = threading.Thread(target=press)
            thread.start()
            with pytest.raises(InterruptedReply, match="signal"):
                ask(provider.base_url, interrupt=interrupt, timeouts=NEVER)
            thread.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_cancelled_request_disturbs_no_other(ask: Ask) -> None:
    with ScriptedProvider([text("first"), hanging(), text("third"), text("fourth")]) as provider:
        finished = Interrupt()
        ask(provider.base_url, interrupt=finished)
        waiting = Waiting(ask, provider.base_url)
        provider.wait_for_request(2)
        finished.cancel()  # its connection is now in use by the other request
        assert waiting.outcome is None
        waiting.cancel()
        for answer in ("third", "fourth"):
            assert normalise(ask(provider.base_url)).content == answer


def _fill_backlog(port: int, stack: ExitStack) -> None:
    """Connect until the listener's queue is full, so that the next connect is left without an answer."""
    for _ in range(20):
        sock = stack.enter_context(socket.socket())
        sock.settimeout(0.1)
        try:
            sock.connect(("127.0.0.1", port))
        except TimeoutError:
            return
    pytest.skip("this system accepts connections beyond the backlog")
