"""Managed execution: model and tool calls through the runtime, when an adaptive component wants them.

The calling thread does the work of a call all the same.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.contract.response import to_plain
from hermes.trace.tracker import OpenAttempt, OpenTool

from .loop import RelayLoop
from .relay import Kind, Relay
from .runtime_exporters import RuntimeExporters
from .sessions import RelaySpan
from .sink import Fields, RelaySink, about_of
from .tool_ends import status_of

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger("hermes.plugins.nemo_relay")

#: How long the runtime may take between two words.
_PATIENCE_SECONDS = 30.0
#: How long it may take to close a call whose outcome is known already.
_CLOSING_SECONDS = 5.0

#: Begins the runtime's execution of a call around the function it is given.
Begin = Callable[[Callable[[Any], Awaitable[Any]]], Awaitable[Any]]


class CallFailed(Exception):
    """Represents in the runtime's records what the call raised, which goes to the host as it is."""


@dataclass(slots=True)
class HandBack:
    """One managed call.

    The runtime works on the loop's thread. When it comes to the call itself, it hands the payload back to the thread
    that wants the result; that thread runs the call, so that its context, Ctrl-C and event loops of its own work as
    if nothing were in between.
    """

    loop: RelayLoop
    context: Context
    #: The payload the runtime is shown, and the one the call really takes.
    shown: Any
    payload: Any
    #: Makes of a result what the runtime may be shown.
    show: Callable[[Any], Any]
    _words: queue.SimpleQueue[_Word] = field(default_factory=queue.SimpleQueue["_Word"])
    _given_up: bool = False
    #: Whether the runtime's span represents the call, which it does unless the runtime failed before it.
    took_over: bool = False

    def run(self, begin: Begin, next_call: Callable[[Any], Any]) -> Any:
        """The call's result. An error before the call has run is the runtime's, any later one the call's own."""
        loop = self.loop.submit(lambda: self._manage(begin), self.context)
        word = self._next_word(_PATIENCE_SECONDS)
        self.took_over = word.error is None
        if word.future is None:
            # Not asked for at all: the runtime answered by itself, or failed, and the host then continues without it.
            return word.outcome()
        try:
            result = next_call(restored(word.value, self.shown, self.payload))
        except BaseException as error:
            _answer(loop, word.future, error=CallFailed(type(error).__name__))
            self._last_word()
            raise
        published = self.show(result)
        _answer(loop, word.future, published)
        last = self._last_word()
        while last is not None and last.future is not None:
            # A runtime that asks again gets the same answer: no call runs twice.
            _answer(loop, last.future, published)
            last = self._last_word()
        if last is None or last.error is not None or last.value == published:
            return result
        return restored(last.value, published, to_plain(result))

    async def _manage(self, begin: Begin) -> None:
        try:
            value = await begin(self._hand_back)
        except BaseException as error:
            self._words.put(_Word(error=error))
        else:
            self._words.put(_Word(value))

    async def _hand_back(self, payload: Any) -> Any:
        import asyncio

        if self._given_up:
            raise CallFailed("no caller waits for it any more")
        future = asyncio.get_running_loop().create_future()
        self._words.put(_Word(payload, future=future))
        return await future

    def _next_word(self, seconds: float) -> _Word:
        try:
            return self._words.get(timeout=seconds)
        except queue.Empty:
            self._given_up = True
            raise TimeoutError(f"nemo-relay did not answer within {seconds:g} s") from None

    def _last_word(self) -> _Word | None:
        try:
            return self._next_word(_CLOSING_SECONDS)
        except TimeoutError:
            return None


@dataclass(frozen=True, slots=True)
class _Word:
    """What the runtime says: with a future, run the call with this payload; without, it is over."""

    value: Any = None
    error: BaseException | None = None
    future: asyncio.Future[Any] | None = None

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


def _answer(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], value: Any = None, error: Exception | None = None
) -> None:
    def settle() -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)

    loop.call_soon_threadsafe(settle)


def restored(changed: Any, shown: Any, real: Any) -> Any:
    """What was changed, with everything that was not as it really is: what is shown is redacted."""
    if changed == shown:
        return real
    kinds = {changed.__class__, shown.__class__, real.__class__}
    if kinds == {dict}:
        return {
            name: restored(value, shown[name], real[name]) if name in shown and name in real else value
            for name, value in changed.items()
        }
    if kinds == {list}:
        known = min(len(shown), len(real))
        return [restored(value, shown[at], real[at]) if at < known else value for at, value in enumerate(changed)]
    return changed


class ManagedCalls:
    """The execution middleware of both kinds. A call whose start was not seen is run as if it were not there."""

    def __init__(self, relay: Relay, exporters: RuntimeExporters, sink: RelaySink, loop: RelayLoop) -> None:
        self._relay, self._exporters, self._sink, self._loop = relay, exporters, sink, loop
        if not relay.knows_call_ids:
            log.warning(
                "nemo-relay %s does not keep the ids of managed tool calls; equal calls at the same time "
                "cannot be distinguished in its events",
                relay.version,
            )

    def run_llm(self, *, request: dict[str, Any], next_call: Callable[[Any], Any], **fields: Any) -> Any:
        attempt = self._sink.tracker.attempt(fields["api_request_id"])
        name, more = fields["provider"] or "model", {"model_name": fields["model"]}
        return self._run(attempt, "llm", name, request, next_call, fields, more)

    def run_tool(self, *, args: dict[str, Any], next_call: Callable[[Any], Any], **fields: Any) -> Any:
        call_id = fields["tool_call_id"]
        tool = self._sink.tracker.tool(fields["session_id"], fields["turn_id"], call_id)
        more = {"tool_call_id": call_id} if self._relay.knows_call_ids else {}

        def run(given: Any) -> Any:
            status = "error"
            try:
                result = next_call(given)
                status = status_of(to_plain(result))
            finally:
                self._exporters.tool_ends.note(fields["session_id"], call_id, status)
            return result

        return self._run(tool, "tool", fields["tool_name"], args, run, fields, more)

    def _run(
        self,
        item: OpenAttempt | OpenTool | None,
        kind: Kind,
        name: str,
        payload: Any,
        next_call: Callable[[Any], Any],
        fields: Fields,
        more: Fields,
    ) -> Any:
        """Run a call through the runtime, whose span then represents it; else it is run as it would be anyway."""
        session = self._sink.find(fields["session_id"])
        span: RelaySpan | None = item.span if item is not None else None
        mode = self._exporters.managed_mode
        if session is None or span is None or not mode:
            return next_call(payload)
        shown = self._show(payload)
        about = {**about_of(fields, fields["session_id"]), "mode": mode}
        more = {**more, "handle": session.handle, "metadata": about, "data": {"mode": mode}}
        call = HandBack(self._loop, session.context(), shown, payload, self._show)
        span.is_managed = True
        try:
            return call.run(lambda function: self._relay.execute(kind, name, shown, function, **more), next_call)
        finally:
            span.is_managed = call.took_over

    def _show(self, value: Any) -> Any:
        return self._sink.clean.value(to_plain(value))
