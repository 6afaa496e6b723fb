"""Middleware that wraps a call: a nested chain whose failures never run the call twice nor lose its outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from threading import get_ident
from time import perf_counter
from typing import Any, Literal

from hermes.contract.hooks import OBSERVER_SCHEMA
from hermes.contract.middleware import MIDDLEWARE, MIDDLEWARE_SCHEMA
from hermes.hooks.callback import PLAIN_ANSWERS, Callback, is_awaitable
from hermes.hooks.copies import is_flat, renew
from hermes.hooks.threads import run_on_private_loop

Base = Callable[[Any], Any]

_TRACE = "middleware_trace"

#: ``waiting``: next_call was not used yet. ``running``: the rest of the chain runs. ``succeeded`` and
#: ``failed``: what came of it. ``unwinding``: it was broken off, and so is everything above it.
State = Literal["waiting", "running", "succeeded", "failed", "unwinding"]


class ExecutionChain:
    """All callbacks of ``llm_execution`` or ``tool_execution``, the first registered outermost.

    Immutable: a change in the table makes a new one. One chain may run in many threads and inside itself.
    """

    __slots__ = ("callbacks", "key", "kind", "original_key")

    def __init__(self, kind: str, callbacks: tuple[Callback, ...]) -> None:
        spec = MIDDLEWARE[kind]
        self.kind = kind
        self.callbacks = callbacks
        self.key = spec.payload
        self.original_key = spec.original

    def run(self, payload: dict[str, Any], base: Base, context: Mapping[str, Any]) -> Any:
        """Run ``base`` inside the callbacks and return what the outermost one returns.

        ``base`` receives the very ``payload`` unless a callback changed it. ``context`` may hold the true
        ``original_*``; otherwise the payload is the original. An exception of ``base`` reaches the callbacks,
        and the caller, as the object it is.
        """
        return _Passage(self, base, payload, context).enter(0, payload)


class _Passage:
    """One call on its way through a chain."""

    __slots__ = (
        "_base", "_callbacks", "_fields", "_flat", "_key", "_original_key", "_seconds_below", "context", "thread",
    )  # fmt: skip

    def __init__(self, chain: ExecutionChain, base: Base, payload: Any, context: Mapping[str, Any]) -> None:
        self._callbacks = chain.callbacks
        self._key = chain.key
        self._base = base
        self._fields: dict[str, Any] = {
            "telemetry_schema_version": OBSERVER_SCHEMA,
            "middleware_schema_version": MIDDLEWARE_SCHEMA,
            chain.original_key: payload,
            **context,
        }
        self._original_key = chain.original_key
        #: The payload, when plain copies are enough to isolate everything the callbacks are given: the usual tool call.
        usual = is_flat(payload) and is_flat(self._fields[chain.original_key]) and not self._fields.get(_TRACE)
        self._flat: object = payload if usual else None
        #: How long the part of the chain took that was entered last.
        self._seconds_below = 0.0
        self.thread = get_ident()
        self.context = copy_context()

    def enter(self, index: int, payload: Any) -> Any:
        """Run the chain from the callback at ``index`` on."""
        started = perf_counter()
        if index == len(self._callbacks):
            try:
                return self._base(payload)
            finally:
                self._seconds_below = perf_counter() - started
        callback = self._callbacks[index]
        link = _Link(self, index, payload)
        fields, key = self._fields, self._key
        fields[key] = payload
        fields["next_call"] = link.next_call
        if payload is self._flat and callback.names is None:
            given = fields.copy()
            given[key] = link.given = payload.copy()
            given[self._original_key] = fields[self._original_key].copy()
            given[_TRACE] = []
        else:
            given = callback.arguments(fields)
            link.given = given.get(key)
        error: Exception | None = None
        value: Any = None
        self._seconds_below = 0.0
        try:
            value = callback.function(**given)
            if value.__class__ not in PLAIN_ANSWERS and is_awaitable(value):
                # Its next_call blocks, so it gets a loop of its own rather than holding up the shared one.
                value = run_on_private_loop(value)
        except Exception as raised:
            error = raised
        finally:
            state = link.state if link.state != "waiting" else link.close()
            seconds = perf_counter() - started
            callback.calls += 1
            callback.seconds += seconds - self._seconds_below
            self._seconds_below = seconds
        if state == "unwinding":
            raise link.unwinding
        if error is not None:
            return link.raised(callback, state, error)
        return value if value is not None else link.returned_none(callback, state)


class _Link:
    """One callback's turn in one passage, and what its next_call has come to."""

    __slots__ = (
        "_error", "_index", "_passage", "_payload", "_result", "given", "permit", "state", "unwinding",
    )  # fmt: skip

    def __init__(self, passage: _Passage, index: int, payload: Any) -> None:
        self._passage = passage
        self._index = index
        self._payload = payload
        #: The thread that takes the one item out may continue; taking it is atomic.
        self.permit = [None]
        #: The callback's copy of the payload: changing it in place is as good as passing it on.
        self.given: Any = None
        self.state: State = "waiting"
        #: Set once the state is ``succeeded``.
        self._result: Any
        #: Set once the state is ``failed``.
        self._error: Exception
        #: Set once the state is ``unwinding``: a KeyboardInterrupt, SystemExit or Interrupted from below, which goes
        #: on up whatever the callback does.
        self.unwinding: BaseException

    def next_call(self, payload: Any = None) -> Any:
        """Run the rest of the chain, once, with ``payload`` or else the current one.

        What is passed on is the runtime's own object, or a copy of what the callback made of it.
        """
        try:
            self.permit.pop()
        except IndexError:
            if self.state == "waiting":
                raise RuntimeError("next_call was called after its middleware had returned") from None
            raise RuntimeError("next_call was called twice; the call runs at most once") from None
        self.state = "running"
        passage, current = self._passage, self._payload
        chosen = self.given if payload is None else payload
        try:
            changed = chosen is not None and bool(chosen != current)
        except Exception:
            changed = True  # what cannot be compared is taken as new
        if changed:
            current = renew(chosen, current)
        try:
            if get_ident() == passage.thread:
                result = passage.enter(self._index + 1, current)
            else:
                # Called from a thread of the plugin's own: the current ids come along.
                result = passage.context.copy().run(passage.enter, self._index + 1, current)
        except Exception as error:
            self._error, self.state = error, "failed"
            raise
        except BaseException as error:
            self.unwinding, self.state = error, "unwinding"
            raise
        self._result, self.state = result, "succeeded"
        return result

    def close(self) -> State:
        """Refuse next_call from here on: one kept for later must not run the call behind everybody's back."""
        with suppress(IndexError):
            self.permit.pop()
            return "waiting"
        # A thread of the plugin's own may hold it without having said so yet.
        return "running" if self.state == "waiting" else self.state

    def returned_none(self, callback: Callback, state: State) -> None:
        """None is a result like any other, but it cannot stand for a call that failed."""
        if state == "failed":
            callback.failed(RuntimeError("returned None although the call had failed"), "the failure is passed on")
            raise self._error
        if state == "succeeded" and self._result is not None:
            callback.failed(RuntimeError("returned None although the call had a result"), "None is the result")

    def raised(self, callback: Callback, state: State, error: Exception) -> Any:
        """What the callback's exception means."""
        if state == "waiting":
            callback.failed(error, "the call continues without it")
            return self._passage.enter(self._index + 1, self._payload)
        if state == "succeeded":
            callback.failed(error, "the result it had received is kept")
            return self._result
        if state != "failed" or error is not self._error:
            callback.failed(error, "its error is the outcome")
        raise error
