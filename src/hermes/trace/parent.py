"""Incoming trace context (W3C ``traceparent``): the trace that the current turn belongs to."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping
from contextvars import ContextVar

_carrier: ContextVar[Mapping[str, str] | None] = ContextVar("hermes_trace_parent", default=None)


@contextlib.contextmanager
def joined(traceparent: str, tracestate: str = "") -> Generator[None]:
    """Turns that run in the block belong to this W3C trace context, taken from a request's headers.

    For servers: call it in the thread that runs the turn. An empty one changes nothing, and one
    that is not valid is left to the exporters, which ignore it.
    """
    if not traceparent:
        yield
        return
    headers = {"traceparent": traceparent, "tracestate": tracestate}
    token = _carrier.set({name: value for name, value in headers.items() if value})
    try:
        yield
    finally:
        _carrier.reset(token)


def incoming() -> Mapping[str, str]:
    """The headers that the current turn came with, empty when there were none."""
    return _carrier.get() or {}
