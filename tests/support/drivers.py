"""Both drivers behind one face, so that one suite tests them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from hermes.contract.response import Record
from hermes.models.endpoint import Endpoint
from hermes.models.http.async_driver import AsyncDriver
from hermes.models.wires.wire import Delta, Wire
from hermes.scope import Interrupt


class AnyDriver(Protocol):
    """What both drivers have in common, once the waiting is left out of it."""

    def send(
        self,
        endpoint: Endpoint,
        wire: Wire,
        kwargs: Mapping[str, Any],
        *,
        interrupt: Interrupt,
        on_delta: Callable[[Delta], object] | None = None,
    ) -> Record: ...

    def close(self) -> None: ...


class LoopPerRequest:
    """The async driver as a blocking one. Each request has an event loop of its own; the connections outlive it."""

    def __init__(self) -> None:
        self._driver = AsyncDriver()

    def send(self, *arguments: Any, **options: Any) -> Record:
        return asyncio.run(self._driver.send(*arguments, **options))

    def close(self) -> None:
        self._driver.close()
