"""Sends a wire's requests over real connections, in the caller's thread."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hermes.contract.response import Record
from hermes.errors import Interrupted
from hermes.models.endpoint import Endpoint, Timeouts
from hermes.models.http.exchange import Exchange
from hermes.models.reply import InterruptedReply
from hermes.models.wires.wire import Wire
from hermes.scope import Interrupt

if TYPE_CHECKING:
    from hermes.models.http.carrier import Carrier
    from hermes.models.http.transfer import OnDelta


class Driver:
    """Sends requests and feeds the answers to the wire's parser. One serves all threads of a process.

    The HTTP library is imported with the first request, so that a command which sends none does not pay for it.
    """

    def __init__(self) -> None:
        self._carrier: Carrier | None = None
        self._lock = threading.Lock()

    def send(
        self,
        endpoint: Endpoint,
        wire: Wire,
        kwargs: Mapping[str, Any],
        *,
        interrupt: Interrupt,
        on_delta: OnDelta | None = None,
    ) -> Record:
        """One request and its whole answer; ``on_delta`` sees the pieces as they arrive.

        Raises ``ProviderError`` (an ``IncompleteReply`` when part of an answer had arrived) or, when the
        interrupt is cancelled, ``InterruptedReply``. A numeric ``timeout`` in ``kwargs`` limits the whole call.
        """
        from hermes.models.http.transfer import Transfer

        interrupt.check()
        request = wire.http_request(endpoint, kwargs)
        parser = wire.parser(endpoint, streaming=bool(kwargs.get("stream")), tools=bool(kwargs.get("tools")))
        transfer = Transfer(endpoint, wire, request, parser, on_delta)
        exchange = Exchange(interrupt, timeouts_of(endpoint, kwargs))
        forget = interrupt.add_callback(exchange.shut_down)
        try:
            self._ready_carrier().carry(transfer, exchange)
            return transfer.result()
        except Interrupted as stop:
            raise InterruptedReply(stop.reason, parser.partial()) from None
        finally:
            forget()

    def close(self) -> None:
        """Close the connections that are idle. One that is in use is closed by its own request."""
        if self._carrier is not None:
            self._carrier.close()

    def _ready_carrier(self) -> Carrier:
        if self._carrier is None:
            from hermes.models.http.carrier import Carrier

            with self._lock:
                self._carrier = self._carrier or Carrier()
        return self._carrier


def timeouts_of(endpoint: Endpoint, kwargs: Mapping[str, Any]) -> Timeouts:
    """The endpoint's limits; a numeric ``timeout`` of the request is the limit for the whole of it."""
    total = kwargs.get("timeout")
    if isinstance(total, int | float) and total > 0:
        return replace(endpoint.timeouts, total=float(total))
    return endpoint.timeouts
