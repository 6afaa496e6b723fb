"""The transport of a replay: it answers every request to a model from the record, and opens no connection."""

from __future__ import annotations

import re
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, cast

import msgspec

from hermes.agent.pipelines.attempt import DigestingWire, request_content
from hermes.base.errors import BudgetExceeded, FailureReason, Interrupted, ProviderError
from hermes.base.http.client import HttpClient
from hermes.base.http.errors import AddressRefused
from hermes.base.scope import Interrupt, current_scope
from hermes.contract.events import TextDelta
from hermes.journal.history.rows import StoredCallRow
from hermes.journal.records import BudgetStop, FailureRecord, StoredReply, step_place
from hermes.models.endpoint import Endpoint
from hermes.models.reply import Completion, IncompleteReply, InterruptedReply, Reply, to_completion
from hermes.models.wires.provider_state import STATE_FIELD
from hermes.models.wires.wire import Delta, Wire
from hermes.record.recording import RecordedAttempt, Recording, TurnRecording
from hermes.trace.clean import Cleaner

_encode = msgspec.json.Encoder(order="deterministic").encode
#: The names of fences around what others wrote have a random part, so that no text can close one.
_FENCE = re.compile(rb"(</?[a-z]+-)[0-9a-f]{8}(?=[->])")


class Miss(msgspec.Struct, frozen=True):
    """A request beside the conversation that the record has no answer to, and the nearest one that it has."""

    request: dict[str, Any]
    nearest: dict[str, Any] | None


class NoNetwork(HttpClient):
    """An HTTP client that refuses every connection."""

    def open(self, method: str, url: str, *_arguments: Any, **_options: Any) -> NoReturn:
        """Refuse."""
        raise AddressRefused(f"a replay opens no connection; {method} {url.partition('?')[0]} was not sent")

    def request(self, method: str, url: str, *_arguments: Any, **_options: Any) -> NoReturn:
        """Refuse."""
        self.open(method, url)


class RecordedTransport:
    """Answers from a recording. Thread-safe: the sessions of children share it.

    A conversation is answered in the order of its record. Requests beside it (summaries, ``ctx.llm``) come in any
    order and are found by their content.
    """

    def __init__(self, recording: Recording) -> None:
        self._turns = {turn.id: turn for session in recording.family() for turn in session.turns}
        self._lock = threading.Lock()
        self._clean = Cleaner()
        self.misses: list[Miss] = []
        #: How many requests the running turn of a session has made.
        self.position: Callable[[str], int] = lambda _session_id: 0
        self._aside: dict[bytes, deque[tuple[StoredCallRow, dict[str, Any]]]] = {}
        #: The turns whose budget has ended.
        self._stopped: set[str] = set()
        self.reset()

    def reset(self) -> None:
        """Begin again with the first answer."""
        with self._lock:
            self.misses.clear()
            self._stopped.clear()
            self._aside = defaultdict(deque)
            for turn in self._turns.values():
                for call in turn.calls:
                    content = call.exchange()
                    if content is not None:
                        self._aside[self._key(content["request"])].append((call, content))

    def send(
        self,
        endpoint: Endpoint,
        wire: Wire,
        kwargs: Mapping[str, Any],
        *,
        interrupt: Interrupt,
        on_delta: Callable[[Delta], None] | None = None,
        on_wait: Callable[[], object] | None = None,
    ) -> Completion:
        """The recorded answer; a recorded failure is raised again."""
        if on_wait is not None:
            on_wait()
        interrupt.check()
        scope = current_scope.get()
        turn = self._turns.get(scope.turn_id) if scope else None
        if isinstance(wire, DigestingWire) and scope is not None and turn is not None:
            wire.http_request(endpoint, kwargs)  # its digest is what the record is compared by
            return self._answer(scope.session_id, turn, on_delta)
        return self._answer_aside(endpoint, kwargs)

    # -- the conversation ---------------------------------------------------------------------------------------

    def _answer(self, session_id: str, turn: TurnRecording, on_delta: Callable[[Delta], None] | None) -> Completion:
        index = self.position(session_id) - (turn.id in self._stopped)
        attempt = turn.attempts[index] if index < len(turn.attempts) else None
        budget = _budget_before(turn, attempt)
        if budget is not None and (attempt is None or turn.id not in self._stopped):
            # The budget ended before this call; the answer that concludes the turn is asked for next, if it was.
            self._stopped.add(turn.id)
            raise BudgetExceeded(budget)
        if attempt is None:
            raise _end_of(turn)
        following = turn.attempts[index + 1 : index + 2]
        if isinstance(attempt.body, FailureRecord):
            raise self._failure(attempt, attempt.body, following[0] if following else None, on_delta)
        reply = _reply(attempt.body.reply)
        if on_delta is not None and reply.content:
            on_delta(TextDelta(reply.content))
        return _completion(reply)

    def _failure(
        self,
        attempt: RecordedAttempt,
        body: FailureRecord,
        following: RecordedAttempt | None,
        on_delta: Callable[[Delta], None] | None,
    ) -> BaseException:
        partial = _reply(body.partial) if body.partial else None
        text = (body.error or "").partition(": ")[2]
        if body.reason == "interrupted":
            return InterruptedReply(text, partial or Reply())
        follows = following is not None and following.key == attempt.key
        if partial is not None and not follows and on_delta is not None and partial.content:
            on_delta(TextDelta(partial.content))  # text that was shown is not asked for again
        error = ProviderError(text, reason=cast("FailureReason", body.reason), retry_after=0.0)
        if partial is not None:
            error = IncompleteReply(text, partial=partial, reason=cast("FailureReason", body.reason), retry_after=0.0)
        error.retryable = error.retryable and following is not None and following.is_like(attempt)
        return error

    # -- beside it ----------------------------------------------------------------------------------------------

    def _answer_aside(self, endpoint: Endpoint, kwargs: Mapping[str, Any]) -> Completion:
        request = self._clean.value(request_content(kwargs))
        with self._lock:
            found = self._aside.get(self._key(request))
            if not found:
                self.misses.append(Miss(request, self._nearest(request)))
                raise ProviderError(
                    f"{endpoint.provider}: the record has no answer to this request", reason="bad_request"
                )
            call, content = found.popleft()
        if content["reply"] is None:
            error = ProviderError((call.error or "").partition(": ")[2], reason="server_error", retry_after=0.0)
            error.retryable = bool(found)
            raise error
        return _completion(_reply(content["reply"]))

    def _key(self, request: dict[str, Any]) -> bytes:
        return _FENCE.sub(rb"\1", _encode(request))

    def _nearest(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The recorded request that begins most like this one."""
        asked = _encode(request)
        recorded = list(self._aside)
        if not recorded:
            return None
        best = max(recorded, key=lambda one: _common(one, asked))
        return cast("dict[str, Any]", msgspec.json.decode(best))


def _common(first: bytes, second: bytes) -> int:
    length = min(len(first), len(second))
    return next((at for at in range(length) if first[at] != second[at]), length)


def _completion(reply: Reply) -> Completion:
    """A recorded reply as the server sent it, with the state that it wants back."""
    completion = to_completion(reply)
    completion["choices"][0]["message"][STATE_FIELD] = reply.provider_state
    return completion


def _reply(recorded: StoredReply | dict[str, Any]) -> Reply:
    body: dict[str, Any] = msgspec.to_builtins(recorded)
    return msgspec.convert({**body, "usage": body.get("usage") or None}, Reply)


def _budget_before(turn: TurnRecording, attempt: RecordedAttempt | None) -> str | None:
    """Why a budget stopped the turn before an attempt, or after the last one."""
    if attempt is not None:
        stop: BudgetStop | None = turn.steps.get(f"budget:{step_place(attempt.key).step}")
    else:
        stop = next((step for step in turn.steps.values() if isinstance(step, BudgetStop)), None)
    return None if stop is None else stop.why


def _end_of(turn: TurnRecording) -> BaseException:
    """The record has no further request: the turn was interrupted here, or it asks more than it did."""
    if turn.state == "interrupted":
        return Interrupted(turn.error or "interrupted")
    return ProviderError("the record has no further request in this turn", reason="bad_request")
