"""Middleware that wraps a call: a nested chain whose failures never run the call twice nor lose its outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from sys import getrecursionlimit
from threading import get_ident
from time import perf_counter
from typing import Any, Literal

from hermes.base.errors import Interrupted
from hermes.contract.hooks import OBSERVER_SCHEMA
from hermes.contract.middleware import MIDDLEWARE, MIDDLEWARE_SCHEMA
from hermes.hooks.answers import plain
from hermes.hooks.callback import PLAIN_ANSWERS, Callback, describe, is_awaitable
from hermes.hooks.copies import renew, same
from hermes.hooks.threads.event_loop import run_on_private_loop
from hermes.hooks.threads.runner import OWN_SIGNALS, CallOutcome, run_here
from hermes.hooks.threads.timed_call import TimedCall, restore_recursion_limit

Base = Callable[[Any], Any]
#: Raises when a value cannot be the result of the call.
Accept = Callable[[Any], object]

_WITHOUT_IT = "the call continues without it"
_CULPRIT = "_hermes_culprit"

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

    def run(self, payload: dict[str, Any], base: Base, context: Mapping[str, Any], accept: Accept | None = None) -> Any:
        """Run ``base`` inside the callbacks and return what the outermost one returns.

        ``base`` receives the very ``payload`` unless a callback changed it. ``context`` may hold the true
        ``original_*``; otherwise the payload is the original. An exception of ``base`` reaches the callbacks,
        and the caller, as the object it is. A callback whose own result ``accept`` refuses has failed.
        """
        return _Passage(self, base, payload, context, accept).enter(0, payload)


class _Passage:
    """One call on its way through a chain."""

    __slots__ = (
        "_base", "_callbacks", "_fields", "_key", "_seconds_below", "_session", "accept", "context", "recursion_limit",
    )  # fmt: skip

    def __init__(
        self, chain: ExecutionChain, base: Base, payload: Any, context: Mapping[str, Any], accept: Accept | None
    ) -> None:
        self._callbacks = chain.callbacks
        self._key = chain.key
        self._base = base
        session: Any = context.get("session_id")
        self._session = session if type(session) is str else ""
        self.accept = accept
        self.recursion_limit = getrecursionlimit()
        self._fields: dict[str, Any] = {
            "telemetry_schema_version": OBSERVER_SCHEMA,
            "middleware_schema_version": MIDDLEWARE_SCHEMA,
            chain.original_key: payload,
            **context,
        }
        #: How long the part of the chain took that was entered last.
        self._seconds_below = 0.0
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
        if callback.breaker.failures and callback.breaker.is_open:
            callback.left_out(_WITHOUT_IT)
            return self.enter(index + 1, payload)
        link = _Link(self, index, payload)
        self._fields[self._key], self._fields["next_call"] = payload, link.next_call
        given = callback.arguments(self._fields)
        link.given = given.get(self._key)
        self._seconds_below = 0.0
        try:
            value, error = self._call(callback, link, given)
        except Interrupted:
            if link.state != "succeeded":
                raise
            value, error = link.result, None  # the callback did not end in time, but the call has
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
        if callback.breaker.failures:
            callback.breaker.record_success()
        return value if value is not None else link.returned_none(callback, state)

    def _call(self, callback: Callback, link: _Link, given: dict[str, Any]) -> CallOutcome:
        call = link.call = TimedCall(callback.plugin, callback.limit, wraps=True)
        function = callback.function

        def work() -> Any:
            value = function(**given)
            if type(value) not in PLAIN_ANSWERS and is_awaitable(value):
                # Its next_call blocks, so it gets a loop of its own rather than holding up the shared one.
                value = run_on_private_loop(value)
            return link.accepted(value)

        if callback.runner is None:
            call.thread = get_ident()
            return run_here(work, {})
        return callback.runner.run(work, {}, call, self._session)


class _Link:
    """One callback's turn in one passage, and what its next_call has come to."""

    __slots__ = (
        "_error", "_index", "_passage", "_payload", "call", "given", "permit", "result", "state", "unwinding",
    )  # fmt: skip

    def __init__(self, passage: _Passage, index: int, payload: Any) -> None:
        self._passage = passage
        self._index = index
        self._payload = payload
        #: The thread that takes the one item out may continue; taking it is atomic.
        self.permit = [None]
        #: The callback's copy of the payload: changing it in place is as good as passing it on.
        self.given: Any = None
        #: The call of the callback, whose clock is paused while the rest of the chain runs.
        self.call: TimedCall
        self.state: State = "waiting"
        #: Set once the state is ``succeeded``.
        self.result: Any
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
        call, passage, current = self.call, self._passage, self._payload
        call.enter_host()
        self.state = "running"
        try:
            restore_recursion_limit(passage.recursion_limit)
            chosen = self.given if payload is None else payload
            if chosen is not None and not same(chosen, current):
                current = renew(chosen, current)
            if get_ident() == call.thread:
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
        finally:
            call.leave_host()
        self.result, self.state = result, "succeeded"
        return result

    def accepted(self, value: Any) -> Any:
        """The value that the callback returned, as plain data where it is data. Raises when it cannot be a result."""
        if self.state == "succeeded" and value is self.result:
            return value
        if type(value) not in PLAIN_ANSWERS:
            value = plain(value, keep_objects=True)
        accept = self._passage.accept
        if accept is not None:
            try:
                accept(value)
            except BaseException as error:
                raise UnusableResult(f"what it returned is not a result of the call ({describe(error)})") from error
        return value

    def close(self) -> State:
        """Refuse next_call from here on: one kept for later must not run the call behind everybody's back."""
        with suppress(IndexError):
            self.permit.pop()
            return "waiting"
        # A thread of the plugin's own may hold it without having said so yet, unless the call was given up before.
        return "running" if self.state == "waiting" and not self.call.given_up else self.state

    def returned_none(self, callback: Callback, state: State) -> None:
        """None is a result like any other, but it cannot stand for a call that failed."""
        if state == "failed":
            callback.failed(RuntimeError("returned None although the call had failed"), "the failure is passed on")
            raise self._error
        if state == "succeeded" and self.result is not None:
            callback.failed(RuntimeError("returned None although the call had a result"), "None is the result")

    def raised(self, callback: Callback, state: State, error: BaseException) -> Any:
        """What the callback's exception means."""
        if not isinstance(error, Exception):
            if not isinstance(error, OWN_SIGNALS):
                callback.failed(error, "it ends the turn")
                name_culprit(error, callback)
            raise error
        if isinstance(error, UnusableResult) and state == "failed":
            callback.failed(error, "the failure is passed on")
            raise self._error
        if state == "waiting":
            callback.blame(error, _WITHOUT_IT)
            return self._passage.enter(self._index + 1, self._payload)
        if state == "succeeded":
            callback.blame(error, "the result it had received is kept")
            return self.result
        if state != "failed" or error is not self._error:
            callback.failed(error, "its error is the outcome")
        raise error


class UnusableResult(TypeError):
    """Execution middleware returned what cannot be the result of the call."""


def name_culprit(error: BaseException, callback: Callback) -> None:
    """Note on an exception which middleware raised it, because it passes as it is and ends the turn."""
    with suppress(BaseException):  # the class may be the plugin's own
        vars(error).setdefault(_CULPRIT, f"plugin {callback.plugin!r} raised {describe(error)} in {callback.site}")


def culprit_of(error: BaseException) -> str:
    """The sentence about the middleware that raised an exception; empty when none did."""
    try:
        found = vars(error).get(_CULPRIT)
    except BaseException:
        return ""
    return found if type(found) is str else ""
