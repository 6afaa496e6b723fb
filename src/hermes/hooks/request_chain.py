"""Middleware that rewrites a request: each callback sees what the one before it made of the payload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple, cast

from hermes.contract.hooks import OBSERVER_SCHEMA
from hermes.contract.middleware import MIDDLEWARE, MIDDLEWARE_SCHEMA
from hermes.hooks.callback import Callback, is_awaitable
from hermes.hooks.copies import renew
from hermes.hooks.threads import AsyncLoop

Payload = dict[str, Any]
TraceEntry = dict[str, str]

_TRACE_FIELDS = ("source", "reason", "name")


class RequestOutcome(NamedTuple):
    """What a chain made of a payload."""

    #: The effective payload; the very object that went in when no callback replaced it.
    payload: Payload
    original: Payload
    changed: bool
    #: One entry for each callback that replaced the payload, in order.
    trace: list[TraceEntry]
    #: The plugins of those callbacks, whatever the entries call themselves.
    changed_by: Sequence[str] = ()


class RequestChain:
    """All callbacks of ``llm_request`` or ``tool_request``. Immutable: a change in the table makes a new one."""

    __slots__ = ("_key", "_loop", "_original_key", "callbacks", "kind")

    def __init__(self, kind: str, callbacks: tuple[Callback, ...], loop: AsyncLoop) -> None:
        spec = MIDDLEWARE[kind]
        self.kind = kind
        self.callbacks = callbacks
        self._key = spec.payload
        self._original_key = spec.original
        self._loop = loop

    def run(self, payload: Payload, context: Mapping[str, Any]) -> RequestOutcome:
        """Offer the payload to every callback in registration order.

        Callbacks receive copies of the payload, of the original and of ``context``'s containers; only what
        they return under the payload's key counts, as a complete replacement. One that raises or returns
        anything else is skipped.
        """
        fields: dict[str, Any] = {
            "telemetry_schema_version": OBSERVER_SCHEMA,
            "middleware_schema_version": MIDDLEWARE_SCHEMA,
            **context,
            self._key: payload,
            self._original_key: payload,
        }
        trace: list[TraceEntry] = []
        changed_by: list[str] = []
        for callback in self.callbacks:
            answer = self._call(callback, callback.arguments(fields))
            if isinstance(answer.get(self._key), dict):
                # Its own copy, so that what the plugin does to its objects later stays out of the request.
                fields[self._key] = renew(answer[self._key], fields[self._key])
                trace.append(_trace_entry(answer, callback.plugin))
                changed_by.append(callback.plugin)
        return RequestOutcome(fields[self._key], payload, bool(trace), trace, changed_by)

    def _call(self, callback: Callback, given: dict[str, Any]) -> dict[str, Any]:
        """The callback's answer; empty when it gave none that can be used."""
        started = perf_counter()
        try:
            answer = callback.function(**given)
            if is_awaitable(answer):
                answer = self._loop.run(answer, f"plugin {callback.plugin!r} in {self.kind}")
        except Exception as error:
            callback.failed(error, "the request continues without it")
            return {}
        finally:
            callback.calls += 1
            callback.seconds += perf_counter() - started
        return cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}


def _trace_entry(answer: dict[str, Any], plugin: str) -> TraceEntry:
    named = ((name, answer.get(name)) for name in _TRACE_FIELDS)
    return {name: value for name, value in named if isinstance(value, str) and value} or {"source": plugin}
