"""A chat: its messages in order, the turn that answers one of them, and what the next message does meanwhile."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hermes.dispatch.port import DispatchedTurn, TurnRequest
from hermes.errors import CommitUnknown, HermesError, QueueFull
from hermes.gateway.access import Sender, workspace_path
from hermes.gateway.adapter import BasePlatformAdapter, MessageEvent, ProcessingOutcome, SessionSource
from hermes.gateway.chats.answers import answer_messages, answer_text, is_dead_letter, turn_context, turn_message
from hermes.gateway.chats.commands import is_for_commands, run_chat_command
from hermes.gateway.chats.ending import AnswerWithTurn
from hermes.gateway.chats.questions import (
    NO_ANSWER,
    SURFACE,
    outgoing,
    question_messages,
    read_clarification,
    timeout_answer,
)
from hermes.gateway.store.attachments import NOT_STORED
from hermes.gateway.store.inbox import ChatRow, Completion, IncomingMessage
from hermes.journal.questions import OWNER, QuestionRow
from hermes.journal.store.connection import JournalConnection

if TYPE_CHECKING:
    from hermes.agent.events import TurnResult
    from hermes.gateway.gateway import Gateway
    from hermes.gateway.store.outbox import OutboxRow, OutgoingMessage

log = logging.getLogger("hermes.gateway")

#: A function to watch a turn with, for any thread, and what it brings to the loop.
ExpectedTurn = tuple[Callable[[DispatchedTurn], None], asyncio.Future[DispatchedTurn]]

_NEW_MESSAGE = "a new message arrived"
#: Seconds until a message is tried again for which there was no room.
_FULL_SECONDS = 1.0


class ChatWork:
    """One message on its way through a chat."""

    __slots__ = (
        *("context", "ending", "event", "is_done", "is_stale", "message", "row", "sender", "settled", "source"),
        "turn_id",
    )

    def __init__(
        self, message: IncomingMessage, event: MessageEvent, source: SessionSource, sender: Sender, row: ChatRow
    ) -> None:
        self.message = message
        self.event = event
        self.source = source
        self.sender = sender
        #: The chat as it was when the message was accepted.
        self.row = row
        #: What its adapter sets beyond this, its turn has too.
        self.context = Context()
        #: Its turn, once it was submitted.
        self.turn_id = ""
        #: The end of the turn, when it was submitted with the message.
        self.settled: asyncio.Future[DispatchedTurn] | None = None
        #: What is stored with the end of the turn.
        self.ending: AnswerWithTurn | None = None
        #: The turn was stopped: whatever it still says is not sent.
        self.is_stale = False
        self.is_done = False


class GatewayChat:
    """One conversation. All of its methods run on the loop of the gateway."""

    def __init__(self, gateway: Gateway, row: ChatRow) -> None:
        self._gateway = gateway
        self.row = row
        self._arrived: deque[ChatWork] = deque()
        self._turns: deque[ChatWork] = deque()
        #: The next message, while its turn is submitted with the end of the one before it.
        self._following: ChatWork | None = None
        self._steered: list[ChatWork] = []
        self.current: ChatWork | None = None
        #: The question that the current turn waits for.
        self.question: QuestionRow | None = None
        self._answered: asyncio.Future[None] | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        #: A turn has ended, and its answer is being stored.
        self.is_finishing = False

    def __len__(self) -> int:
        waiting = len(self._arrived) + len(self._turns) + (self._following is not None)
        return waiting + (self.current is not None)

    @property
    def is_idle(self) -> bool:
        return not self._tasks

    @property
    def only_answers(self) -> bool:
        """Whether the current message is all there is to do: none waits behind it, and none joined its turn."""
        return not (self._arrived or self._turns or self._steered or self._following)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """What runs for the chat."""
        return list(self._tasks.values())

    # -- arrival ------------------------------------------------------------------------------------------------

    def put(self, work: ChatWork) -> None:
        """Take a message. Those that were submitted by an earlier process go straight to their turn."""
        hooks = self._gateway.host.hooks
        is_plain = hooks.pre_gateway_dispatch is None and self.question is None and not self._arrived
        if work.turn_id or (is_plain and not is_for_commands(self._gateway.host, work.event)):
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
            self._gateway.chat_idle(self)

    async def _handle_arrivals(self) -> None:
        while self._arrived:
            work = self._arrived[0]
            try:
                if work.message.attempts:
                    # It was being handled when a process ended: one such message at a time, so that the one which
                    # ends processes does not take others with it.
                    async with self._gateway.suspects:
                        await self._handle_arrival(work)
                else:
                    await self._handle_arrival(work)
            except Exception:
                log.exception("chat %s: message %d could not be handled", self.row.key, work.message.number)
                await self._give_up(work, "it could not be handled")
            self._arrived.remove(work)

    async def _handle_arrival(self, work: ChatWork) -> None:
        """Let plugins decide, then run a command, answer the open question, or queue a turn."""
        gateway = self._gateway
        # What follows may end the process: a message that does so every time is given up.
        if await gateway.blocking(gateway.inbox.count_attempt, work.message.number) > gateway.config.max_attempts:
            await self._give_up(work, f"it was tried {gateway.config.max_attempts} times")
            return
        if not work.event.internal and not await gateway.blocking(gateway.pass_hooks, work.event):
            await self._finish(work)
            return
        if is_for_commands(gateway.host, work.event):
            texts = await run_chat_command(gateway, self, work)
            await self._finish(work, *texts)
            return
        question = self.question
        if question is not None and question.kind == "clarify":
            answer = read_clarification(work.event.text, question)
            await gateway.blocking(gateway.questions.answer, question.id, answer, "answered by message")
            await self._finish(work)
            self.continue_turn()
            return
        self._enqueue(work)

    def _enqueue(self, work: ChatWork) -> None:
        """Queue a turn, or, when one runs, do what the settings say."""
        busy = self.current is not None and not work.turn_id
        mode = self._gateway.config.when_busy
        if busy and mode == "steer" and self._steer(work):
            return
        # In the order in which they were accepted.
        if self._turns and self._turns[-1].message.number > work.message.number:
            rest = sorted([*self._turns, work], key=lambda one: one.message.number)
            self._turns = deque(rest)
        else:
            self._turns.append(work)
        if busy and mode == "interrupt":
            self._gateway.spawn(self.stop(_NEW_MESSAGE))
        self._start("turns", self._answer_all)

    def _steer(self, work: ChatWork) -> bool:
        session = self._gateway.host.open_sessions.get(self.row.session_id)
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
        adapter = self._gateway.adapters.get(work.message.platform)
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
        gateway = self._gateway
        if work.settled is not None:
            if work.is_stale:  # stopped before it began
                await gateway.blocking(gateway.dispatcher.cancel, work.turn_id, _NEW_MESSAGE)
            now = await work.settled
        else:
            now = await (gateway.settled(work.turn_id) if work.turn_id else self._submit(work))
        while now.state == "suspended":
            await self._wait_for_answer(work)
            await gateway.blocking(gateway.dispatcher.resume, work.turn_id)
            now = await gateway.settled(work.turn_id)
        self.is_finishing = True
        try:
            result = now.result
            assert result is not None
            return await self._deliver(work, result, waits_for_sending=waits_for_sending)
        finally:
            self.is_finishing = False

    async def _deliver(self, work: ChatWork, result: TurnResult, *, waits_for_sending: bool) -> ProcessingOutcome:
        gateway = self._gateway
        stored = None if work.ending is None else work.ending.completion
        if stored is not None:
            return await self._send_stored(work, stored)
        joined = self._joined()
        texts = [] if work.is_stale else self._texts(work, result)
        futures = gateway.deliveries.watch([text.key for text in texts]) if waits_for_sending else []
        completion = Completion(
            *(work.message.number, texts),
            state="dead" if is_dead_letter(result) else "done",
            error=gateway.host.redactor.redact(result.error or ""),
            also=[one.message.number for one in joined],
            claims=work.message.platform in gateway.adapters,
        )
        claimed = await self._complete(completion)
        work.is_done = True
        gateway.deliveries.send(claimed)
        if len(claimed) < len(texts):
            gateway.deliveries.wake()
        self.is_finishing = False
        sent = await asyncio.gather(*futures) if futures else []
        if result.status == "interrupted" or work.is_stale:
            return ProcessingOutcome.CANCELLED
        failed = result.status == "failed" or not all(sent)
        return ProcessingOutcome.FAILURE if failed else ProcessingOutcome.SUCCESS

    async def _send_stored(self, work: ChatWork, stored: Completion) -> ProcessingOutcome:
        """Send the answer that was stored with the end of the turn."""
        gateway = self._gateway
        work.is_done = True
        gateway.deliveries.send(stored.claimed)
        gateway.unsent.discard(work.message.number)
        if not stored.is_claimed:
            gateway.deliveries.wake()
        joined = [one.message.number for one in self._joined()]
        if joined:  # at the very last moment
            await gateway.blocking(gateway.inbox.finish, Completion(joined[0], also=joined[1:]))
        self.is_finishing = False
        return ProcessingOutcome.CANCELLED if work.is_stale else ProcessingOutcome.SUCCESS

    async def _complete(self, completion: Completion) -> list[OutboxRow]:
        """Store the end of a message, and with it the turn of the next one, when one waits for nothing else."""
        gateway, row = self._gateway, self.row
        adapter = gateway.adapters.get(row.platform)
        is_plain = self._turns and not self._turns[0].turn_id and not takes_part(adapter)
        if not is_plain or gateway.is_stopping or gateway.session_store.has_ambient(row.session_id):
            return await gateway.blocking(gateway.inbox.finish, completion)
        following = self._following = self._turns.popleft()
        settle, settled = gateway.expect_turn()
        try:
            turn_id = await gateway.blocking(self._complete_and_submit, completion, following, row, settle)
            if turn_id:
                following.turn_id, following.settled = turn_id, settled
        finally:
            self._following = None
            self._turns.appendleft(following)
        return completion.claimed

    def _complete_and_submit(
        self, completion: Completion, following: ChatWork, row: ChatRow, settle: Callable[[DispatchedTurn], None]
    ) -> str:
        """The turn, or nothing when it could not be submitted. Blocks."""
        gateway, key = self._gateway, following.message.request_key

        def store(connection: JournalConnection) -> str:
            completion.store(connection)
            return key

        try:
            ticket = gateway.dispatcher.submit_with(
                turn_request(gateway, row, following.event, following.sender, key), store
            )
        except CommitUnknown:
            raise
        except Exception as error:  # such as a queue that is full: it is submitted by itself, and tried again
            log.debug("chat %s: the end of a message is stored without the next turn: %s", row.key, error)
            gateway.inbox.finish(completion)
            return ""
        assert ticket is not None
        following.ending = AnswerWithTurn(gateway, following)
        gateway.dispatcher.watch(ticket.turn_id, settle, ending=following.ending)
        return ticket.turn_id

    def _texts(self, work: ChatWork, result: TurnResult) -> list[OutgoingMessage]:
        gateway = self._gateway
        limit = gateway.message_limit(work.message.platform)
        return answer_messages(work, answer_text(work, result), gateway.host.redactor, limit)

    def _joined(self) -> list[ChatWork]:
        """The messages that joined the turn; those it did not see any more get a turn of their own."""
        steered, self._steered = self._steered, []
        if not steered:
            return []
        session = self._gateway.host.open_sessions.get(self.row.session_id)
        unseen = session.take_steering() if session is not None else []
        seen = len(steered) - len(unseen)
        self._turns.extendleft(reversed(steered[seen:]))
        return steered[:seen]

    async def _submit(self, work: ChatWork) -> DispatchedTurn:
        """Hand the turn of a message over, and wait until it has ended or is suspended."""
        gateway, row = self._gateway, self.row
        ambient = gateway.session_store.take_ambient(row.session_id)
        settle, settled = gateway.expect_turn()
        while True:
            try:
                work.turn_id = await gateway.blocking(self._submit_now, work, row, ambient, settle)
                break
            except QueueFull as error:
                log.info("chat %s waits: %s", row.key, error)
                await asyncio.sleep(_FULL_SECONDS)
        if work.is_stale:  # stopped before it began
            await gateway.blocking(gateway.dispatcher.cancel, work.turn_id, _NEW_MESSAGE)
        return await settled

    def _submit_now(self, work: ChatWork, row: ChatRow, ambient: str, settle: Callable[[DispatchedTurn], None]) -> str:
        """Hand the turn of a message over. Blocks: one change of threads for all of it."""
        gateway = self._gateway
        request = turn_request(gateway, row, work.event, work.sender, work.message.request_key, ambient)
        turn_id = gateway.dispatcher.submit(request).turn_id
        gateway.dispatcher.watch(turn_id, settle)
        return turn_id

    async def stop(self, reason: str) -> bool:
        """Stop the turn that runs. Nothing that it still says is sent. False when none runs."""
        work = self.current
        if work is None:
            return False
        work.is_stale = True
        if not work.turn_id:
            return True
        try:
            await self._gateway.blocking(self._gateway.dispatcher.cancel, work.turn_id, reason)
        except HermesError as error:
            log.warning("chat %s: its turn could not be stopped: %s", self.row.key, error)
        self.continue_turn()
        return True

    async def clear(self, reason: str) -> None:
        """Stop the turn that runs, drop those that wait, and wait until nothing runs."""
        dropped = list(self._turns)
        self._turns.clear()
        if self._following is not None:
            self._following.is_stale = True
        for work in dropped:
            await self._finish(work)
        await self.stop(reason)
        task = self._tasks.get("turns")
        if task is not None:
            await asyncio.wait([task])

    # -- questions ----------------------------------------------------------------------------------------------

    def continue_turn(self) -> None:
        """The open question was answered or withdrawn."""
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)

    async def _wait_for_answer(self, work: ChatWork) -> None:
        gateway = self._gateway
        found = await gateway.blocking(lambda: gateway.questions.pending(session_id=self.row.session_id))
        asked = [question for question in reversed(found) if question.surface in (SURFACE, OWNER)]
        if not asked:
            return  # answered already
        question = self.question = asked[0]
        self._answered = asyncio.get_running_loop().create_future()
        gateway.asked[question.id] = self
        try:
            owner = await gateway.blocking(gateway.owner_chat) if question.surface == OWNER else None
            texts = question_messages(question, self.row.key, work.source, owner, gateway.host.redactor)
            await gateway.blocking(gateway.inbox.set_waiting, work.message.number, texts)
            gateway.deliveries.wake()
            deadline = question.deadline or time.time() + gateway.config.approval_timeout
            await asyncio.wait_for(self._answered, max(deadline - time.time(), 0.01))
        except TimeoutError:
            await gateway.blocking(gateway.questions.answer, question.id, timeout_answer(question), NO_ANSWER)
        finally:
            gateway.asked.pop(question.id, None)
            self.question, self._answered = None, None

    # -- the end of a message -----------------------------------------------------------------------------------

    async def _finish(self, work: ChatWork, *texts: str) -> None:
        gateway = self._gateway
        key = work.message.request_key
        redact = gateway.host.redactor.redact
        messages = [
            outgoing(f"{key}:{number}", work.source, redact(text), reply_to=work.event.message_id or "")
            for number, text in enumerate(texts)
            if text
        ]
        await gateway.blocking(gateway.inbox.finish, Completion(work.message.number, messages))
        work.is_done = True
        gateway.deliveries.wake()

    async def _give_up(self, work: ChatWork, error: str) -> None:
        """Dead letter: the message is kept, and not tried again."""
        gateway = self._gateway
        log.error("chat %s: message %d is given up: %s", self.row.key, work.message.number, error)
        text = "This message could not be answered and is not tried again. Please send it in other words."
        notice = outgoing(f"{work.message.request_key}:dead", work.source, text)
        try:
            redacted = gateway.host.redactor.redact(error)
            completion = Completion(work.message.number, [notice], state="dead", error=redacted)
            await gateway.blocking(gateway.inbox.finish, completion)
        except HermesError:
            log.exception("chat %s: message %d stays open", self.row.key, work.message.number)
        work.is_done = True
        gateway.deliveries.wake()


def turn_request(
    gateway: Gateway, row: ChatRow, event: MessageEvent, sender: Sender, request_key: str = "", ambient: str = ""
) -> TurnRequest:
    """The turn that answers a message. Blocks: it reads images."""
    cwd = workspace_path(gateway.host, row.principal)
    return TurnRequest(
        session_id=row.session_id,
        message=turn_message(event, cwd.resolve()) if event.media_urls else turn_message(event),
        request_key=request_key,
        # Tools of plugins know the task as the session, by which they find the chat again.
        task_id=row.session_id,
        platform=row.platform,
        cwd=str(cwd),
        principal=row.principal,
        context=turn_context(event, gateway.entries.get(row.platform), ambient),
        extra={"sender_id": sender.user_id, "role": sender.role},
        is_stored=True,
    )


def takes_part(adapter: BasePlatformAdapter | None) -> bool:
    """Whether an adapter wants to be with its turns: to show that it types, to react, to wrap them."""
    return adapter is not None and _takes_part(type(adapter))


@lru_cache(maxsize=100)
def _takes_part(kind: type[BasePlatformAdapter]) -> bool:
    methods = ("send_typing", "on_processing_start", "on_processing_complete", "_process_message_background")
    return any(getattr(kind, method, None) is not getattr(BasePlatformAdapter, method) for method in methods)
