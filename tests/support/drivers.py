"""The driver, direct and from an event loop, behind one interface, so that one suite tests both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from hermes.base.http.threads import run_in_thread
from hermes.base.scope import Interrupt
from hermes.models.driver import Driver
from hermes.models.endpoint import Endpoint
from hermes.models.reply import Completion
from hermes.models.wires.wire import Delta, Wire


class AnyDriver(Protocol):
    """The interface of both."""

    def send(
        self,
        endpoint: Endpoint,
        wire: Wire,
        kwargs: Mapping[str, Any],
        *,
        interrupt: Interrupt,
        on_delta: Callable[[Delta], object] | None = None,
    ) -> Completion: ...

    def close(self) -> None: ...


class LoopPerRequest:
    """The driver as an event loop reaches it: on a worker thread. Each request has a loop of its own."""

    def __init__(self) -> None:
        self._driver = Driver()

    def send(self, *arguments: Any, interrupt: Interrupt, **options: Any) -> Completion:
        return asyncio.run(
            run_in_thread(lambda own: self._driver.send(*arguments, interrupt=own, **options), interrupt)
        )

    def close(self) -> None:
        self._driver.close()
