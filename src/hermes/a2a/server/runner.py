"""Runs the agent for tasks: one turn for each message, its events as those of the task, its end as the task's state."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

from a2a.types import Message, Part, Role, Task, TaskState
from msgspec.structs import replace

from hermes.a2a.server.artifacts import ArtifactStream
from hermes.a2a.server.content import JSON, JSON_ONLY, UnusableMessage, content_of, data_part, written_files
from hermes.a2a.server.questions import (
    NO_ANSWER,
    SURFACE,
    WAITS_FOR_OWNER,
    CallerResponder,
    prompt_message,
    read_answer,
    timeout_answer,
)
from hermes.a2a.server.store.contexts import TASK_ENDED, ContextSessions
from hermes.a2a.server.store.tasks import SqliteTaskStore
from hermes.a2a.server.store.turns import RecordedTurn, left_turns, recorded_turn
from hermes.a2a.server.task import CANCELED, ActiveTask, TurnOutcome
from hermes.agent.events import TurnResult, changed_paths
from hermes.agent.session import Session
from hermes.errors import HermesError, SessionBusy, TurnSuspended
from hermes.host import Host
from hermes.http_server.outgoing import redacted
from hermes.http_server.rate_limits import TaskSlots
from hermes.journal.questions import OWNER, QuestionRow, Questions
from hermes.models.reply import EmptyReply
from hermes.peers.hops import hops_of, hops_scope
from hermes.trace.parent import joined

T = TypeVar("T")
log = logging.getLogger("hermes.a2a")

#: How long the next server waits for the sessions of one that was killed.
_SECONDS_UNTIL_FREE = 10.0
_SECONDS_BETWEEN_TRIES = 0.1

_NO_WORDS = "The agent gave no answer after it had changed these files:"
_STOPPED = "The server was stopped before there was an answer. Send the message again."


class TurnRunner:
    """Answers the messages of tasks: starts a turn, or continues the one that waits for this message."""

    def __init__(self, host: Host, contexts: ContextSessions, tasks: SqliteTaskStore, slots: TaskSlots) -> None:
        self._host = host
        self._settings = host.config.a2a
        self._contexts = contexts
        self._tasks = tasks
        self._slots = slots
        self._questions = Questions(host.store)
        #: The tasks that wait for the owner, by the id of the question.
        self._parked: dict[str, ActiveTask] = {}
        self._set_missing_deadlines()

    async def answer(self, task: ActiveTask, message: Message | None, related: list[Task]) -> None:
        """Answer a message, whatever happens. None continues a turn that waits: answered elsewhere, or not in time."""
        resumes = task.is_waiting or task.is_parked
        task.is_parked = False
        async with self._work(task):
            if resumes:
                await self._resume(task, message)
            elif message is not None:
                await self._start(task, message, related)

    @asynccontextmanager
    async def _work(self, task: ActiveTask) -> AsyncGenerator[None]:
        """The time in which a task has its conversation and a slot for itself; a failure ends the task."""
        try:
            async with self._contexts.turn(task.context), self._slots.slot():
                yield
        except UnusableMessage as error:
            await task.finish(TaskState.TASK_STATE_REJECTED, str(error))
        except Exception as error:
            # Only the class leaves: the text of an error may hold anything.
            log.exception("task %s failed", task.id)
            await task.finish(TaskState.TASK_STATE_FAILED, f"Agent error: {type(error).__name__}")

    async def release(self, task: ActiveTask) -> None:
        """Withdraw the question of a canceled task, and close its turn in the journal."""
        self._parked = {question_id: parked for question_id, parked in self._parked.items() if parked is not task}
        async with self._contexts.turn(task.context):
            session_id = await self._contexts.session_id(task.context)

            def close(session_id: str) -> None:
                for question in self._open_questions(session_id, SURFACE, OWNER):
                    self._questions.withdraw(question.id, "the task was canceled")
                self._contexts.open(session_id, task.context[0], resumes=True).abandon_open_turn(TASK_ENDED)

            if session_id is not None:
                await self._host.workers.run(partial(close, session_id))

    # -- what the last server left ------------------------------------------------------------------------------

    async def is_answered(self, task: ActiveTask) -> bool:
        """Whether a task that waits for its caller has the answer: in the journal, or as its last message."""
        session_id = await self._contexts.session_id(task.context)
        pending = await self._host.workers.run(partial(self._open_questions, session_id or "", SURFACE))
        return not pending or _undelivered(task) is not None

    async def recover(self, task: ActiveTask, related: list[Task]) -> None:
        """Finish a task of the last server: continue its turn, or start it when it was never accepted."""
        async with self._work(task):
            session_id = await self._contexts.session_id(task.context)
            answer = _undelivered(task) if task.is_waiting else None
            turn = None
            if session_id is not None:
                turn = await self._host.workers.run(partial(self._turn_of, session_id, task.id))
            asked = await self._host.workers.run(partial(self._open_questions, session_id or "", SURFACE, OWNER))
            if asked and asked[0].surface == OWNER:
                await self._park(task, asked[0])
            elif asked and answer is not None:
                await self._resume(task, answer)
            elif session_id is None or turn is None:
                await self._start(task, task.task.history[0], related)
            else:
                await self._finish_when_free(task, session_id, turn)

    async def _finish_when_free(self, task: ActiveTask, session_id: str, turn: RecordedTurn) -> None:
        """A process that the last server was just starting holds its locks for a moment longer than the server."""
        give_up = time.monotonic() + _SECONDS_UNTIL_FREE
        while True:
            try:
                return await self._finish(task, session_id, turn)
            except SessionBusy:
                if time.monotonic() > give_up:
                    raise
                await asyncio.sleep(_SECONDS_BETWEEN_TRIES)

    async def _finish(self, task: ActiveTask, session_id: str, turn: RecordedTurn) -> None:
        # What was stored of the artifacts may be older than the journal, or hold half an answer.
        texts = [redacted(text, self._host.redactor) for text in turn.texts]
        del task.task.artifacts[:]
        for number, text in enumerate(texts, 1):
            task.task.artifacts.add(artifact_id=f"{task.id}-{number}", name="answer", parts=[Part(text=text)])

        def finish(session: Session, stream: ArtifactStream) -> TurnResult | None:
            if turn.state == "running":
                return session.finish_open_turn(listener=stream.listen, interrupt=task.interrupt)
            return replace(session.result_of(task.id), tool_calls=turn.tool_calls)

        await self._run_turn(task, session_id, finish, resumes=True, last=texts[-1] if texts else "")

    async def close_left_turns(self, task_ids: Collection[str]) -> None:
        """Give up the turns that the last server left and that belong to none of these tasks: theirs have ended."""
        for session_id, request_key in await self._host.workers.run(partial(left_turns, self._host, SURFACE)):
            if request_key not in task_ids:
                context = await self._contexts.find(session_id)
                await self._host.workers.run(partial(self._close_left_turn, session_id, context[0] if context else ""))

    def _close_left_turn(self, session_id: str, owner: str) -> None:
        try:
            self._contexts.open(session_id, owner, resumes=True).abandon_open_turn(TASK_ENDED)
        except HermesError as error:
            log.warning("the turn that was left in session %s cannot be closed: %s", session_id, error)

    def _turn_of(self, session_id: str, task_id: str) -> RecordedTurn | None:
        shows_text = self._host.hooks.transform_llm_output is None
        return recorded_turn(self._host, session_id, task_id, shows_text=shows_text)

    # -- one message --------------------------------------------------------------------------------------------

    async def _start(self, task: ActiveTask, message: Message, related: list[Task]) -> None:
        blocking = self._tasks.waiting_in(task.context)
        if blocking is not None:
            raise UnusableMessage(
                f"Task {blocking} of this conversation waits for an answer. Answer or cancel it, then send this again."
            )
        parked = next((one.id for one in self._parked.values() if one.context == task.context), None)
        if parked is not None:
            raise UnusableMessage(
                f"Task {parked} of this conversation is {WAITS_FOR_OWNER}. Send this again when it has ended, or "
                f"cancel that task."
            )
        hops, max_hops = hops_of(message.metadata), self._settings.max_hops
        if hops > max_hops:
            raise UnusableMessage(f"This message was passed on by {hops} agents; at most {max_hops} are allowed.")

        wants_json = task.output_modes == (JSON,)

        def run(session: Session, stream: ArtifactStream) -> TurnResult | None:
            content = content_of(
                message,
                related,
                max_file_bytes=self._settings.max_file_bytes,
                allow_private=self._host.config.security.allow_private_urls,
            )
            return session.run(
                content,
                listener=stream.listen,
                interrupt=task.interrupt,
                request_key=task.id,
                task_id=task.id,
                context=JSON_ONLY if wants_json else "",
                is_structured=wants_json,
            )

        session_id = await self._contexts.session_id(task.context, is_new=task.has_new_context)
        await self._run_turn(task, session_id, run, resumes=False)

    async def _resume(self, task: ActiveTask, message: Message | None) -> None:
        """Continue the turn with the answer to its question; ask again when the answer is not clear."""
        session_id = await self._contexts.session_id(task.context)
        open_questions = await self._host.workers.run(partial(self._open_questions, session_id or "", SURFACE))
        # There is none when it was answered or revoked in another way.
        question = open_questions[0] if open_questions else None
        answer, reason = "", NO_ANSWER
        if question is not None and message is not None:
            found, reason = read_answer(message, question, task.principal), "answered by the caller"
            if found is None:
                await self._ask(task, question, "That was no clear answer. ")
                return
            answer = found
        elif question is not None:
            answer = timeout_answer(question)

        def resume(session: Session, stream: ArtifactStream) -> TurnResult | None:
            if question is not None:
                self._questions.answer(question.id, answer, reason)
            return session.finish_open_turn(listener=stream.listen, interrupt=task.interrupt)

        await self._run_turn(task, session_id, resume, resumes=True)

    async def _run_turn(
        self,
        task: ActiveTask,
        session_id: str | None,
        run: Callable[[Session, ArtifactStream], TurnResult | None],
        *,
        resumes: bool,
        last: str = "",
    ) -> None:
        stream = ArtifactStream(
            task.updater,
            self._host.redactor,
            show_tools=self._settings.show_tools,
            artifacts=len(task.task.artifacts),
            last=last,
            has_subscribers=task.has_subscribers,
        )

        # An answer comes directly from the caller, but the turn that it continues may have come a longer way.
        hops = max((hops_of(message.metadata) for message in task.task.history), default=0)

        stored = self._tasks.flush()

        def turn() -> TurnOutcome:
            session = task.session = self._contexts.open(session_id, task.context[0], resumes=resumes)
            # Task and conversation are stored before the message is accepted: what runs is found after a crash.
            if session.id != session_id:
                self._contexts.store(task.context, session.id)
            stored.result()
            # A chunk that does not append replaces the artifact that was begun.
            session.can_withdraw_text = True
            with hops_scope(hops):
                first = partial(run, session, stream)
                again = partial(session.finish_open_turn, listener=stream.listen, interrupt=task.interrupt)
                return self._run_on_thread(task, session, first, again)

        task.start_turn(self._host.workers, turn, stream.end)
        try:
            await task.updater.start_work()
            await stream.run()
        except asyncio.CancelledError:
            await task.abandon_turn()
            raise
        if task.session is not None:
            self._contexts.keep(task.context, task.session)
        await self._conclude(task, stream)

    def _run_on_thread(
        self,
        task: ActiveTask,
        session: Session,
        run: Callable[[], TurnResult | None],
        again: Callable[[], TurnResult | None],
    ) -> TurnOutcome:
        """Run the turn until it ends or waits; ``again`` continues one whose question was answered in the meantime."""
        host, settings = self._host, self._settings
        headers: dict[str, str] = task.call.state.get("headers", {})
        host.responders.attach(session.id, CallerResponder(task.principal, settings))
        try:
            with joined(headers.get("traceparent", ""), headers.get("tracestate", "")):
                while True:
                    try:
                        result = run()
                        break
                    except TurnSuspended:
                        asked = self._open_questions(session.id, SURFACE, OWNER)
                        if asked:
                            return asked[0]
                        run = again  # the owner was faster than the turn
        finally:
            host.responders.detach(session.id)
        if result is None:
            raise RuntimeError("the session has no turn to continue")
        if settings.files:
            task.files = written_files(result, session.cwd, host.runtime.guard, host.redactor, settings.max_file_bytes)
        return result

    async def _conclude(self, task: ActiveTask, stream: ArtifactStream) -> None:
        outcome = task.outcome
        if isinstance(outcome, Exception):
            raise outcome
        if isinstance(outcome, QuestionRow):
            await stream.cut()
            await (self._park(task, outcome) if outcome.surface == OWNER else self._ask(task, outcome))
        elif outcome.status in ("completed", "incomplete"):
            await stream.finish(outcome.answer)
            await self._send_data(task, outcome.answer)
            await self._send_files(task)
            text = redacted(outcome.answer, self._host.redactor) if self._settings.answer_in_status else ""
            await task.finish(TaskState.TASK_STATE_COMPLETED, text, _metadata(outcome))
        elif outcome.error_type == EmptyReply.__name__ and (written := changed_paths(outcome.tool_calls)):
            # The work is done and only the words are missing: a failure would have the caller repeat it.
            await self._send_files(task)
            text = redacted(f"{_NO_WORDS} {', '.join(written)}", self._host.redactor)
            await task.finish(TaskState.TASK_STATE_COMPLETED, text, _metadata(outcome))
        elif task.interrupt.reason == CANCELED:
            await stream.cut()
            await task.finish(TaskState.TASK_STATE_CANCELED, metadata=_metadata(outcome))
        else:
            await stream.cut()
            log.warning("task %s %s: %s", task.id, outcome.status, outcome.error or task.interrupt.reason)
            is_stopped = outcome.status == "interrupted" and not outcome.error_type
            text = _STOPPED if is_stopped else f"Agent error: {outcome.error_type or 'unknown'}"
            await task.finish(TaskState.TASK_STATE_FAILED, text, _metadata(outcome))

    async def _send_data(self, task: ActiveTask, answer: str) -> None:
        """Send an answer that is JSON as data too, to a caller that accepts it."""
        part = data_part(redacted(answer, self._host.redactor)) if JSON in task.output_modes else None
        if part is not None:
            await task.updater.add_artifact([part], f"{task.id}-data", "data", append=False, last_chunk=True)

    async def _send_files(self, task: ActiveTask) -> None:
        for number, file in enumerate(task.files, 1):
            part = Part(raw=file.data, filename=file.name, media_type=file.media_type)
            artifact_id = f"{task.id}-file-{number}"
            await task.updater.add_artifact([part], artifact_id, file.name, append=False, last_chunk=True)

    # -- questions ----------------------------------------------------------------------------------------------

    async def _ask(self, task: ActiveTask, question: QuestionRow, note: str = "") -> None:
        await task.updater.requires_input(prompt_message(task.updater, question, self._host.redactor, note))

    async def _park(self, task: ActiveTask, question: QuestionRow) -> None:
        """Wait for the owner, without a slot and without a thread."""
        task.is_parked = True
        self._parked[question.id] = task
        log.warning("task %s is %s: hermes approvals approve|deny %s", task.id, WAITS_FOR_OWNER, question.id)
        message = task.updater.new_agent_message([Part(text=WAITS_FOR_OWNER)])
        await task.updater.update_status(TaskState.TASK_STATE_WORKING, message)

    @property
    def has_parked(self) -> bool:
        """Whether any task waits for the owner."""
        return bool(self._parked)

    async def take_settled(self) -> list[ActiveTask]:
        """The tasks whose question the owner has answered, or did not answer in time. They wait no longer."""
        parked = list(self._parked)

        def find() -> list[str]:
            late = [question.id for question in self._questions.overdue(time.time()) if question.id in self._parked]
            for question_id in late:
                self._questions.answer(question_id, "deny", NO_ANSWER)
            return self._questions.settled(parked)

        found = await self._host.workers.run(find)
        return [task for question_id in found if (task := self._parked.pop(question_id, None)) is not None]

    async def overdue(self) -> list[QuestionRow]:
        """The questions that callers did not answer in time."""
        found = await self._host.workers.run(lambda: self._questions.overdue(time.time()))
        return [question for question in found if question.surface == SURFACE]

    async def withdraw(self, question: QuestionRow, reason: str) -> None:
        """Close a question without an answer."""
        await self._host.workers.run(lambda: self._questions.withdraw(question.id, reason))

    def _open_questions(self, session_id: str, *surfaces: str) -> list[QuestionRow]:
        """The questions that wait at these surfaces in a session, the oldest first."""
        found = self._questions.pending(session_id=session_id) if session_id else []
        return [question for question in reversed(found) if question.surface in surfaces]

    def _set_missing_deadlines(self) -> None:
        """Questions of older versions had their deadline elsewhere."""
        for question in self._questions.pending():
            if question.surface == SURFACE and question.deadline is None:
                self._questions.defer(question.id, time.time() + self._settings.approval_timeout)


def _undelivered(task: ActiveTask) -> Message | None:
    """The answer of a caller that is stored with its waiting task, and that the last server did not get to read."""
    history = task.task.history
    has_prompt = task.task.status.HasField("message")
    return history[-1] if history and not has_prompt and history[-1].role == Role.ROLE_USER else None


def _metadata(result: TurnResult) -> dict[str, object]:
    """Session, model and usage of a turn."""
    usage = {_camel_case(name): amount for name, amount in result.usage.as_columns().items() if amount}
    # A provider that reports no usage was asked all the same.
    requests = max(result.usage.request_count, result.steps)
    return {
        "hermes.session_id": result.session_id,
        "hermes.model": result.model,
        "hermes.steps": result.steps,
        "hermes.finish_reason": result.finish_reason,
        "hermes.usage": {**usage, "requests": requests},
    }


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
