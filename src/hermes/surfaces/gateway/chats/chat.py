"""A chat: its messages in order, the turn that answers one of them, and what the next message does meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hermes.agent.events import ignore_events
from hermes.base.errors import HermesError, QueueFull
from hermes.journal.questions import OWNER, QuestionRow
from hermes.service.live.questions import read_choice
from hermes.service.live.turn import LiveTurn, QuestionAnswered, QuestionAsked
from hermes.surfaces.gateway.adapter import BasePlatformAdapter, ProcessingOutcome
from hermes.surfaces.gateway.chats.answers import answer_messages, answer_text, is_dead_letter, turn_request
from hermes.surfaces.gateway.chats.commands import is_for_commands, run_chat_command
from hermes.surfaces.gateway.chats.questions import outgoing, question_messages
from hermes.surfaces.gateway.chats.work import ChatServices, ChatWork
from hermes.surfaces.gateway.store.attachments import NOT_STORED
from hermes.surfaces.gateway.store.inbox import ChatRow
from hermes.surfaces.gateway.store.outbox import OutgoingMessage

if TYPE_CHECKING:
    from hermes.agent.events import TurnResult

log = logging.getLogger("hermes.gateway")

_NEW_MESSAGE = "a new message arrived"
#: Seconds until a message is tried again for which there was no room.
_FULL_SECONDS = 1.0


class GatewayChat:
    """One conversation. All of its methods run on the loop of the services."""

    def __init__(self, services: ChatServices, row: ChatRow) -> None:
        self._services = services
        self.row = row
        self._arrived: deque[ChatWork] = deque()
        self._turns: deque[ChatWork] = deque()
        self._steered: list[ChatWork] = []
        self.current: ChatWork | None = None
        #: The question that the current turn waits for.
        self.question: QuestionRow | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._arrived) + len(self._turns) + (self.current is not None)

    @property
    def is_idle(self) -> bool:
        return not self._tasks

    @property
    def is_finishing(self) -> bool:
        """Whether a turn has ended, and its answer is being stored."""
        return self.current is not None and self.current.is_finishing

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """What runs for the chat."""
        return list(self._tasks.values())

    # -- arrival ------------------------------------------------------------------------------------------------

    def put(self, work: ChatWork) -> None:
        """Take a message. Those that were submitted by an earlier process go straight to their turn."""
        hooks = self._services.host.hooks
        is_plain = hooks.pre_gateway_dispatch is None and self.question is None and not self._arrived
        if work.turn_id or (is_plain and not is_for_commands(self._services.host, work.event)):
            self._enqueue(work)
            return
        self._arrived.append(work)
        self._start("arrivals", self._handle_arrivals)

    def _start(self, name: str, loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if name not in self._tasks:
            # In a context of its own: it outlives the message that an adapter is handing over now.
            self._tasks[name] = asyncio.create_task(self._run(name, loop), context=Context())

    async def _run(self, name: str, loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await loop()
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("chat %s: its messages stay in the inbox until the gateway is restarted", self.row.key)
        finally:
            self._tasks.pop(name, None)
            self._services.chat_idle(self.row.key)

    async def _handle_arrivals(self) -> None:
        while self._arrived:
            work = self._arrived[0]
            try:
                if work.message.attempts:
                    # It was being handled when a process ended: one such message at a time, so that the one which
                    # ends processes does not take others with it.
                    async with self._services.suspects:
                        await self._handle_arrival(work)
                else:
                    await self._handle_arrival(work)
            except Exception:
                log.exception("chat %s: message %d could not be handled", self.row.key, work.message.number)
                await self._give_up(work, "it could not be handled")
            self._arrived.remove(work)

    async def _handle_arrival(self, work: ChatWork) -> None:
        """Let plugins decide, then run a command, answer the open question, or queue a turn."""
        services = self._services
        # What follows may end the process: a message that does so every time is given up.
        if await services.blocking(services.inbox.count_attempt, work.message.number) > services.config.max_attempts:
            await self._give_up(work, f"it was tried {services.config.max_attempts} times")
            return
        # A message without an id was made by a command of another one, which plugins have seen.
        is_made = work.event.internal and not work.event.message_id
        if not is_made and not await services.blocking(services.pass_hooks, work.event):
            await self._finish(work)
            return
        if is_for_commands(services.host, work.event):
            texts = await run_chat_command(services, self, work)
            await self._finish(work, *texts)
            return
        question = self.question
        if question is not None and question.kind == "clarify":
            self.question = None  # the next message is no answer to it
            answer = read_choice(work.event.text, question.choices)
            await services.blocking(services.turns.questions.stored.answer, question.id, answer, "answered by message")
            await self._finish(work)
            return
        self._enqueue(work)

    def _enqueue(self, work: ChatWork) -> None:
        """Queue a turn, or, when one runs, do what the settings say."""
        busy = self.current is not None and not work.turn_id
        mode = self._services.config.when_busy
        if busy and mode == "steer" and self._steer(work):
            return
        # In the order in which they were accepted.
        if self._turns and self._turns[-1].message.number > work.message.number:
            rest = sorted([*self._turns, work], key=lambda one: one.message.number)
            self._turns = deque(rest)
        else:
            self._turns.append(work)
        if busy and mode == "interrupt":
            self._services.spawn(self.stop(_NEW_MESSAGE))
        self._start("turns", self._answer_all)

    def _steer(self, work: ChatWork) -> bool:
        session = self._services.host.open_sessions.get(self.row.session_id)
        if work.event.media_urls or NOT_STORED in work.event.metadata:
            return False  # only text can join a turn
        if self.question is not None or session is None or not session.steer(work.event.text):
            return False
        self._steered.append(work)
        return True

    # -- turns --------------------------------------------------------------------------------------------------

    async def _answer_all(self) -> None:
        while self._turns:
            work = self.current = self._turns.popleft()
            try:
                await self._answer(work)
            except Exception as error:
                log.exception("chat %s: message %d could not be answered", self.row.key, work.message.number)
                await self._give_up(work, f"{type(error).__name__}: {error}")
            finally:
                self.current = None

    async def _answer(self, work: ChatWork) -> None:
        adapter = self._services.adapters.get(work.message.platform)
        if adapter is not None and takes_part(adapter):
            work.context = copy_context()
            try:
                await adapter._process_message_background(work.event, self.row.key)  # pyright: ignore[reportPrivateUsage]
            except asyncio.CancelledError:
                raise
            except Exception as error:
                log.warning("%s: its adapter failed beside a turn: %s", work.message.platform, error, exc_info=True)
        if not work.is_done:
            await self.run_turn(work)

    async def run_turn(self, work: ChatWork, *, waits_for_sending: bool = False) -> ProcessingOutcome:
        """Run the turn of a message, through its questions, and put its answer into the outbox."""
        live = await self._begin(work)
        try:
            async for batch in live.follow():
                for entry in batch:
                    if isinstance(entry.event, QuestionAsked):
                        await self._ask(work, entry.event.question)
                    elif isinstance(entry.event, QuestionAnswered):
                        self.question = None
        finally:
            self.question = None
        assert live.result is not None
        return await self._deliver(work, live.result, waits_for_sending=waits_for_sending)

    async def _begin(self, work: ChatWork) -> LiveTurn:
        """Hand the turn of a message over, or take up the one that an earlier process has submitted."""
        services, row, redactor = self._services, self.row, self._services.host.redactor
        turns, live = services.turns, LiveTurn(row.session_id, redactor, loop=asyncio.get_running_loop())
        work.live, live.listener = live, ignore_events
        if work.turn_id:
            await services.blocking(turns.take_up, live, work.turn_id)
            return live
        ambient = services.session_store.take_ambient(row.session_id)

        def accept() -> str:
            return turns.accept(live, turn_request(services, row, work, ambient)).turn_id

        while not work.turn_id:
            try:
                work.turn_id = await services.blocking(accept)
            except QueueFull as error:
                log.info("chat %s waits: %s", row.key, error)
                await asyncio.sleep(_FULL_SECONDS)
        if work.is_stale:  # stopped before it began
            await services.blocking(turns.stop, live, _NEW_MESSAGE)
        return live

    async def _ask(self, work: ChatWork, question: QuestionRow) -> None:
        """Send the messages that ask a question of the turn."""
        services = self._services
        self.question = question
        owner = await services.blocking(services.owner_chat) if question.surface == OWNER else None
        texts = question_messages(question, self.row.key, work.source, owner, services.host.redactor)
        await services.blocking(services.inbox.set_waiting, work.message.number, texts)
        services.deliveries.wake()

    async def _deliver(self, work: ChatWork, result: TurnResult, *, waits_for_sending: bool) -> ProcessingOutcome:
        services = self._services
        joined = self._joined()
        texts = [] if work.is_stale else self._texts(work, result)
        futures = services.deliveries.watch([text.key for text in texts]) if waits_for_sending else []
        await services.blocking(
            services.inbox.finish,
            work.message.number,
            texts,
            state="dead" if is_dead_letter(result) else "done",
            error=services.host.redactor.redact(result.error or ""),
            also=[one.message.number for one in joined],
        )
        work.is_done = True
        services.deliveries.wake()
        sent = await asyncio.gather(*futures) if futures else []
        if result.status == "interrupted" or work.is_stale:
            return ProcessingOutcome.CANCELLED
        failed = result.status == "failed" or not all(sent)
        return ProcessingOutcome.FAILURE if failed else ProcessingOutcome.SUCCESS

    def _texts(self, work: ChatWork, result: TurnResult) -> list[OutgoingMessage]:
        services = self._services
        limit = services.message_limit(work.message.platform)
        return answer_messages(work, answer_text(work, result), services.host.redactor, limit)

    def _joined(self) -> list[ChatWork]:
        """The messages that joined the turn; those it did not see any more get a turn of their own."""
        steered, self._steered = self._steered, []
        if not steered:
            return []
        session = self._services.host.open_sessions.get(self.row.session_id)
        unseen = session.take_steering() if session is not None else []
        seen = len(steered) - len(unseen)
        self._turns.extendleft(reversed(steered[seen:]))
        return steered[:seen]

    async def stop(self, reason: str) -> bool:
        """Stop the turn that runs. Nothing that it still says is sent. False when none runs."""
        work = self.current
        if work is None:
            return False
        work.is_stale = True
        if not work.turn_id or work.live is None:
            return True
        try:
            await self._services.blocking(self._services.turns.stop, work.live, reason)
        except HermesError as error:
            log.warning("chat %s: its turn could not be stopped: %s", self.row.key, error)
        return True

    async def clear(self, reason: str) -> None:
        """Stop the turn that runs, drop those that wait, and wait until nothing runs."""
        dropped = list(self._turns)
        self._turns.clear()
        for work in dropped:
            await self._finish(work)
        await self.stop(reason)
        task = self._tasks.get("turns")
        if task is not None:
            await asyncio.wait([task])

    # -- the end of a message -----------------------------------------------------------------------------------

    async def _finish(self, work: ChatWork, *texts: str) -> None:
        services = self._services
        key = work.message.request_key
        redact = services.host.redactor.redact
        messages = [
            outgoing(f"{key}:{number}", work.source, redact(text), reply_to=work.event.message_id or "")
            for number, text in enumerate(texts)
            if text
        ]
        await services.blocking(services.inbox.finish, work.message.number, messages)
        work.is_done = True
        services.deliveries.wake()

    async def _give_up(self, work: ChatWork, error: str) -> None:
        """Dead letter: the message is kept, and not tried again."""
        services = self._services
        log.error("chat %s: message %d is given up: %s", self.row.key, work.message.number, error)
        text = "This message could not be answered and is not tried again. Please send it in other words."
        notice = outgoing(f"{work.message.request_key}:dead", work.source, text)
        try:
            redacted = services.host.redactor.redact(error)
            finish = services.inbox.finish
            await services.blocking(finish, work.message.number, [notice], state="dead", error=redacted)
        except HermesError:
            log.exception("chat %s: message %d stays open", self.row.key, work.message.number)
        work.is_done = True
        services.deliveries.wake()


def takes_part(adapter: BasePlatformAdapter | None) -> bool:
    """Whether an adapter wants to be with its turns: to show that it types, to react, to wrap them."""
    return adapter is not None and _takes_part(type(adapter))


@lru_cache(maxsize=100)
def _takes_part(kind: type[BasePlatformAdapter]) -> bool:
    methods = ("send_typing", "on_processing_start", "on_processing_complete", "_process_message_background")
    return any(getattr(kind, method, None) is not getattr(BasePlatformAdapter, method) for method in methods)
