"""Fixtures for the HTTP tests: the driver, direct and from an event loop, and endpoints with short time limits."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Generator, Mapping
from typing import Any

import pytest

from hermes.base.scope import Interrupt
from hermes.models.driver import Driver
from hermes.models.endpoint import Endpoint, Timeouts
from hermes.models.reply import Completion
from hermes.models.wires.chat.wire import ChatCompletions
from hermes.models.wires.wire import Delta, ModelRequest
from support import CERTIFICATE
from support.drivers import AnyDriver, LoopPerRequest

KEY = "sk-test-0123456789abcdef"

Ask = Callable[..., Completion]


@pytest.fixture(params=[Driver, LoopPerRequest], ids=["sync", "async"])
def driver(request: pytest.FixtureRequest) -> Generator[AnyDriver]:
    """Both drivers: what is tested with one holds for the other."""
    driver: AnyDriver = request.param()
    yield driver
    driver.close()


@pytest.fixture
def ask(driver: AnyDriver) -> Ask:
    """Sends one question to a base URL and returns the response."""
    wire = ChatCompletions()

    def send(
        base_url: str,
        *,
        stream: bool = True,
        timeouts: Timeouts | None = None,
        interrupt: Interrupt | None = None,
        on_delta: Callable[[Delta], object] | None = None,
        extra: Mapping[str, Any] | None = None,
        messages: list[dict[str, Any]] | None = None,
        **settings: Any,
    ) -> Completion:
        timeouts = timeouts or Timeouts(5, 5, 5, 20)
        endpoint = Endpoint(base_url, "scripted", "demo", KEY, timeouts=timeouts, **settings)
        question = messages or [{"role": "user", "content": "hello"}]
        kwargs = {**wire.kwargs(endpoint, ModelRequest(question, stream=stream)), **(extra or {})}
        return driver.send(endpoint, wire, kwargs, interrupt=interrupt or Interrupt(), on_delta=on_delta)

    return send


@pytest.fixture
def server_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


@pytest.fixture
def certificate() -> str:
    """A file with the certificate of ``server_tls``, for clients to trust."""
    return str(CERTIFICATE)
