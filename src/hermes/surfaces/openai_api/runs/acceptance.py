"""Acceptance of requests: each becomes one turn, once, and is followed, stopped and found again by its id."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace
from starlette.types import Receive

from hermes.agent.events import TurnResult, ignore_events
from hermes.agent.session import Session
from hermes.base.errors import JournalError, QueueFull
from hermes.base.http_server.outgoing import redacted
from hermes.base.http_server.principals import Principal, Principals
from hermes.base.scope import new_id
from hermes.host import Host
from hermes.journal.bodies import clean_text
from hermes.journal.turns.lifecycle import Submission
from hermes.service.dispatch.port import Dispatcher, TurnRequest
from hermes.service.dispatch.results import turn_usage
from hermes.service.live.questions import asking
from hermes.service.live.turn import LiveEntry, TurnOver
from hermes.service.live.turns import LiveTurns
from hermes.surfaces.openai_api.content import ClientConversation, user_content
from hermes.surfaces.openai_api.conversations import PLATFORM, ConversationFinder, SessionHeaders
from hermes.surfaces.openai_api.documents import ApprovalDocument
from hermes.surfaces.openai_api.errors import ApiError, not_found
from hermes.surfaces.openai_api.runs.questions import caller_responder, read_answer, shown_question
from hermes.surfaces.openai_api.runs.run import ApiRun
from hermes.surfaces.openai_api.runs.store import PREFIXES, ApiRequestRow, ApiRequests, RequestKind
from hermes.surfaces.openai_api.sse import unless_gone
from hermes.trace.parent import joined

T = TypeVar("T")

#: Time for the ends of turns to reach their clients when the server stops.
_SECONDS_TO_REPORT = 1.0
#: Runs that have ended and whose events can still be read.
_MAX_ENDED = 200


class RunOrder(NamedTuple):
    """What a client asks for, whichever endpoint it uses."""

    kind: RequestKind
    principal: Principal
    conversation: ClientConversation
    #: The exact body, of which the same idempotency key must be a repetition.
    body: bytes
    #: What the answer repeats of the request.
    document: dict[str, Any]
    #: The events are sent while the turn runs.
    streams: bool = False
    #: Added to the instructions: the wanted format of the answer.
    answer_format: str = ""
    idempotency_key: str = ""
    headers: SessionHeaders = SessionHeaders()
    #: Continue this session of the caller, or the one of this response.
    session_id: str = ""
    previous_response_id: str = ""
    trace: tuple[str, str] = ("", "")


class ApiRuns:
    """All requests of one server. Its coroutines are for the server's loop."""

    def __init__(self, host: Host, principals: Principals) -> None:
        self._host = host
        self._settings = host.config.gateway
        self._principals = principals
        self.requests = ApiRequests(host.store)
        self._finder = ConversationFinder(host, self.requests)
        self._turns = LiveTurns(host, PLATFORM, finish=self._finish)
        self._live: dict[str, ApiRun] = {}
        self._ended: OrderedDict[str, ApiRun] = OrderedDict()
        self._is_stopping = False
        #: Held while it is decided which of two requests with one key begins its run.
        self._accepting = threading.Lock()
        for principal in principals:
            self._finder.folder(principal)  # a wrong setting is reported at the start

    # -- life ---------------------------------------------------------------------------------------------------

    async def start(self, dispatcher: Dispatcher) -> None:
        """Use a dispatcher, which runs the turns of an earlier process too."""
        await self.on_worker(partial(self.requests.drop_old, self._settings.api.keep_days))
        await self.on_worker(partial(self._turns.start, dispatcher))

    async def cut_off(self) -> None:
        """Answer every client that still waits: the server stops, and the next one continues what has not ended."""
        await self.on_worker(partial(self._turns.wait_for_reports, _SECONDS_TO_REPORT))
        self._is_stopping = True
        for live in list(self._live.values()):
            live.stop_waiting()

    def close(self) -> None:
        """Look for answers no longer. Turns that run are the dispatcher's."""
        self._turns.close()

    async def on_worker(self, work: Callable[[], T]) -> T:
        """Run blocking work on a worker thread."""
        return await self._host.workers.run(work)

    # -- around the turn, on its thread ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def entered(self, session: Session, submission: Submission) -> Generator[None]:
        """What surrounds each turn of the API: its responder, and the trace of its client."""
        live = self._live.get(submission.request_key)
        if live is not None:
            live.started()  # not every run listens to the events of its turn
        extra: dict[str, Any] = submission.options.get("extra", {})
        principal = self._principals.named(extra.get("caller", ""))
        session.sender_id = principal.name  # also that of the owner
        # A streamed answer cannot take text back; the reader of a run's events gets an event for it.
        session.can_withdraw_text = not extra.get("streams", False)
        timeout, can_answer = self._settings.approval_timeout, extra.get("kind") == "run"
        responder = caller_responder(principal, timeout, can_answer=can_answer)
        with asking(self._host, session, responder), joined(*extra.get("trace", ("", ""))):
            yield

    # -- accepting ----------------------------------------------------------------------------------------------

    async def accept(self, order: RunOrder) -> ApiRun:
        """The run of a request: a new one, or the one that the same idempotency key has started."""
        return await self.on_worker(partial(self._accept, order, asyncio.get_running_loop()))

    def _accept(self, order: RunOrder, loop: asyncio.AbstractEventLoop) -> ApiRun:
        row, content = self._stored(order)
        with self._accepting:
            live = self._live.get(row.id) or self._ended.get(row.id)
            if live is not None:
                return live
            live = self._new_live(row, loop)
        if not order.streams and order.kind != "run":
            live.listener = ignore_events
        try:
            if content is None:
                self._find_turn(live)
            else:
                self._turns.accept(live, self._turn_request(order, row, content))
        except BaseException as error:
            self._live.pop(live.id, None)
            if content is not None and isinstance(error, JournalError | QueueFull):
                self.requests.drop(live.id)
            if isinstance(error, QueueFull):
                later = (("Retry-After", "5"),)
                raise ApiError(503, str(error), kind="server_error", code="overloaded", headers=later) from None
            raise
        return live

    def _new_live(self, row: ApiRequestRow, loop: asyncio.AbstractEventLoop) -> ApiRun:
        live = self._live[row.id] = ApiRun(row, self._host.redactor, loop, show_tools=self._settings.api.show_tools)
        live.subscribe(partial(self._note_end, live))
        if self._is_stopping:
            live.stop_waiting()
        return live

    def _stored(self, order: RunOrder) -> tuple[ApiRequestRow, str | list[dict[str, Any]] | None]:
        """The request with the same key, or this one, stored; and the message, unless it has a turn already.

        It has none when the server was killed between the two steps of acceptance.
        """
        digest = hashlib.sha256(b"%s\0%s" % (order.kind.encode(), order.body)).hexdigest()
        key, content = order.idempotency_key, None
        known = self.requests.with_key(order.principal.name, key) if key else None
        if known is None or self.requests.turn(known) is None:
            allow_private = self._host.config.security.allow_private_urls
            content = user_content(order.conversation.message, allow_private=allow_private)
        if known is None:
            known = self.requests.add(self._row(order, digest, self._session_id(order)))
        if known.digest != digest:
            raise ApiError(
                422,
                f"Idempotency-Key {key!r} was used for another request; use a new key for a new request",
                code="idempotency_key_reused",
            )
        return known, content

    def _session_id(self, order: RunOrder) -> str:
        if order.session_id:
            return self._finder.own_session(order.principal, order.session_id)
        named = self._finder.named(order.principal, order.headers)
        if named is not None:
            return named
        if order.previous_response_id:
            return self._finder.after_response(order.principal, order.previous_response_id)
        return self._finder.by_history(order.principal, order.conversation)

    def _row(self, order: RunOrder, digest: str, session_id: str) -> ApiRequestRow:
        return ApiRequestRow(
            id=new_id(PREFIXES[order.kind]),
            principal=order.principal.name,
            key=clean_text(order.idempotency_key) or None,
            digest=digest,
            session_id=session_id,
            # Of a conversation that the server has, the client's history says nothing.
            fingerprint=order.conversation.fingerprints()[-1] if order.kind == "chat" else "",
            document=order.document,
            created_at=time.time(),
            deleted=not order.document.get("store", True),
        )

    def _turn_request(self, order: RunOrder, row: ApiRequestRow, content: str | list[dict[str, Any]]) -> TurnRequest:
        instructions = order.conversation.instructions
        told = f"Instructions of the client:\n{instructions}" if instructions else ""
        return TurnRequest(
            session_id=row.session_id,
            message=content,
            request_key=row.id,
            task_id=row.id,
            platform=PLATFORM,
            cwd=str(self._finder.folder(order.principal)),
            principal=self._finder.owner_of(order.principal),
            context="\n\n".join(filter(None, (told, order.answer_format))),
            is_structured=bool(order.answer_format),
            extra={
                "caller": order.principal.name,
                "kind": order.kind,
                "streams": order.streams,
                "trace": list(order.trace),
            },
        )

    def _find_turn(self, live: ApiRun) -> bool:
        """Follow the turn of a run; whether it has not ended."""
        turn = self.requests.turn(live.row)
        if turn is None:
            raise not_found(f"the conversation of {live.id} was deleted", "session_not_found")
        if turn.state == "running":
            live.status = "in_progress"
        self._turns.take_up(live, turn.id)
        return turn.state in ("queued", "running")

    # -- the end of a turn ----------------------------------------------------------------------------------------

    def _finish(self, result: TurnResult) -> TurnResult:
        """The result as clients see it."""
        if not result.usage.request_count:  # from the record
            result = replace(result, usage=turn_usage(self._host.store, result.session_id, result.turn_id))
        return replace(result, answer=redacted(result.answer, self._host.redactor))

    def _note_end(self, live: ApiRun, entry: LiveEntry) -> None:
        if not isinstance(entry.event, TurnOver):
            return
        if live.row.kind == "run":
            self._ended[live.id] = live
            if len(self._ended) > _MAX_ENDED:
                self._ended.popitem(last=False)
        self._live.pop(live.id, None)

    # -- found by id ----------------------------------------------------------------------------------------------

    async def find(self, principal: Principal, request_id: str, *kinds: RequestKind) -> ApiRun:
        """The run of a request of this caller; ``ApiError`` when there is none."""
        row = await self.on_worker(partial(self._own_row, principal, request_id))
        if row is None or row.deleted or (kinds and row.kind not in kinds):
            raise not_found(f"there is nothing with the id {request_id!r}")
        live = self._live.get(row.id) or self._ended.get(row.id)
        if live is not None and live.status == "queued":
            await self.on_worker(partial(self._look_for_start, live))  # a worker may run it
        if live is None:
            live = self._new_live(row, asyncio.get_running_loop())
            try:
                if not await self.on_worker(partial(self._find_turn, live)):
                    await live.wait()
            except BaseException:
                self._live.pop(row.id, None)
                raise
        return live

    def _own_row(self, principal: Principal, request_id: str) -> ApiRequestRow | None:
        row = self.requests.get(request_id, principal.name)
        return row if row is not None and self._finder.is_own(principal, row.session_id, or_new=True) else None

    def _look_for_start(self, live: ApiRun) -> None:
        turn = self.requests.turn(live.row)
        if turn is not None and turn.state == "running":
            live.started()

    async def result(self, live: ApiRun, receive: Receive) -> TurnResult:
        """The result of a run for a client that waits for it; ``ClientGone`` when that does not."""
        try:
            return await unless_gone(live.wait(), receive)
        finally:
            if not live.has_ended:
                await self.left(live)

    async def stop(self, live: ApiRun, reason: str) -> bool:
        """Stop a run. False when it had ended."""
        return await self.on_worker(partial(self._turns.stop, live, reason))

    async def left(self, live: ApiRun) -> None:
        """A client has gone: its turn ends too, when the settings say so and no other client can ask for it.

        A server that stops sends its clients away itself, and the next one continues their turns.
        """
        if self._is_stopping:
            return
        if not self._settings.api.cancel_on_disconnect or live.row.key or live.has_ended or live.followers:
            return
        if live.row.kind == "run" or live.row.document.get("background"):
            return
        await self.stop(live, "the client closed the connection")

    async def waiting_for(self, live: ApiRun) -> list[dict[str, Any]]:
        """The open questions of a run that waits, oldest first, as its events have them."""
        if live.status != "waiting":
            return []
        asked = await self.on_worker(partial(self._turns.questions.of_session, live.session_id))
        return [shown_question(question, self._host.redactor) for question in asked]

    async def answer(self, live: ApiRun, principal: Principal, given: ApprovalDocument) -> str:
        """Store the answer to a question of a run; the id of the question."""
        questions = self._turns.questions

        def answer() -> str:
            asked = questions.of_session(live.session_id)
            question_id, text, reason = read_answer(asked, principal, given)
            return questions.answer(question_id, text, reason, by=principal.name).id

        return await self.on_worker(answer)

    @property
    def counts(self) -> dict[str, int]:
        """How many runs there are, by state."""
        found = {"queued": 0, "in_progress": 0, "waiting": 0}
        for live in self._live.values():
            if live.status in found:
                found[live.status] += 1
        return found
