"""Middleware that rewrites a request: each callback sees what the one before it made of the payload."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from hermes.contract.hooks import OBSERVER_SCHEMA
from hermes.contract.middleware import MIDDLEWARE, MIDDLEWARE_SCHEMA
from hermes.hooks.answers import plain
from hermes.hooks.callback import FAILED, LATE, Callback
from hermes.hooks.copies import renew

Payload = dict[str, Any]
TraceEntry = dict[str, str]

_TRACE_FIELDS = ("source", "reason", "name")
_CONSEQUENCE = "the request continues without it"
#: Answers of these types that are empty mean no change, as None does.
_EMPTY = frozenset({dict, list, str, bool})


class _Malformed(TypeError):
    """An answer that is no replacement of the payload."""


def _no_problem(_payload: Payload) -> None:
    """Any payload will do."""


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

    __slots__ = ("_key", "_original_key", "callbacks", "kind")

    def __init__(self, kind: str, callbacks: tuple[Callback, ...]) -> None:
        spec = MIDDLEWARE[kind]
        self.kind = kind
        self.callbacks = callbacks
        self._key = spec.payload
        self._original_key = spec.original

    def run(
        self, payload: Payload, context: Mapping[str, Any], problem: Callable[[Payload], str | None] = _no_problem
    ) -> RequestOutcome:
        """Offer the payload to every callback in registration order.

        Callbacks receive copies of the payload, of the original and of ``context``'s containers; only what
        they return under the payload's key counts, as a complete replacement. One that raises or returns
        anything else is skipped, and so is one whose replacement has a ``problem``.
        """
        fields: dict[str, Any] = {
            "telemetry_schema_version": OBSERVER_SCHEMA,
            "middleware_schema_version": MIDDLEWARE_SCHEMA,
            **context,
            self._key: payload,
            self._original_key: payload,
        }
        session: Any = context.get("session_id")
        session = session if type(session) is str else ""
        trace: list[TraceEntry] = []
        changed_by: list[str] = []
        for callback in self.callbacks:
            answer = callback.ask(callback.arguments(fields), session, _CONSEQUENCE)
            if answer is None or answer is FAILED or answer is LATE or (type(answer) in _EMPTY and not answer):
                continue
            try:
                entry = self._take_over(answer, fields, callback, problem)
            except _Malformed as error:
                callback.failed(error, _CONSEQUENCE)
            except BaseException as error:
                callback.blame(error, _CONSEQUENCE)
            else:
                trace.append(entry)
                changed_by.append(callback.plugin)
        return RequestOutcome(fields[self._key], payload, bool(trace), trace, changed_by)

    def _take_over(
        self, answer: Any, fields: dict[str, Any], callback: Callback, problem: Callable[[Payload], str | None]
    ) -> TraceEntry:
        """Replace the payload by what the callback answered; the entry for the trace."""
        if not issubclass(type(answer), dict):
            raise _Malformed(f"it returned {type(answer).__name__}; {{{self._key!r}: {{...}}}} or None is expected")
        # Only the outermost level is read here; what is deeper becomes plain where it is copied.
        found: dict[Any, Any] = dict(dict[Any, Any].items(answer))
        value: Any = found.get(self._key)
        if not issubclass(type(value), dict):
            raise _Malformed(f"{self._key!r} in its answer is {type(value).__name__}; a dict is expected")
        # Its own copy, so that what the plugin does to its objects later stays out of the request.
        is_plain = type(value) is dict
        replacement = renew(value if is_plain else plain(value, keep_objects=True), fields[self._key])
        wrong = problem(replacement)
        if wrong:
            raise _Malformed(f"{self._key!r} in its answer cannot be used: {wrong}")
        fields[self._key] = replacement
        return _trace_entry(found, callback.plugin)


def _trace_entry(answer: dict[str, Any], plugin: str) -> TraceEntry:
    named = ((name, plain(answer.get(name))) for name in _TRACE_FIELDS)
    return {name: value for name, value in named if isinstance(value, str) and value} or {"source": plugin}
