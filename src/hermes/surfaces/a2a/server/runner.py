"""Runner of tasks: gives each message to the dispatcher as a turn, and reports its events and its end as the task's."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial

from a2a.types import Message, Part, Role, Task, TaskState

from hermes.agent.events import TurnResult, changed_paths, ignore_events
from hermes.base.errors import HermesError, JournalError, QueueFull, SessionBusy
from hermes.base.http_server.outgoing import redacted
from hermes.base.http_server.rate_limits import TaskSlots
from hermes.base.scope import Interrupt
from hermes.host import Host
from hermes.journal.questions import OWNER, QuestionRow, Questions
from hermes.journal.turns.lifecycle import open_submissions
from hermes.models.reply import EmptyReply
from hermes.service.dispatch.choose import runs_on_workers
from hermes.service.dispatch.port import CHILDREN, TURNS, Dispatcher, TurnRequest
from hermes.service.dispatch.results import completed_result, recorded_steps
from hermes.service.live.questions import NO_ANSWER
from hermes.service.live.turn import LiveEntry, LiveTurn, QuestionAnswered, TurnOver
from hermes.service.live.turns import LiveTurns
from hermes.surfaces.a2a.server.artifacts import ArtifactStream
from hermes.surfaces.a2a.server.content import (
    JSON,
    JSON_ONLY,
    UnusableMessage,
    WrittenFile,
    content_of,
    data_part,
    written_files,
)
from hermes.surfaces.a2a.server.entry import SURFACE, task_extra
from hermes.surfaces.a2a.server.questions import (
    WAITS_FOR_OWNER,
    prompt_message,
    read_answer,
    shown_question_id,
    timeout_answer,
)
from hermes.surfaces.a2a.server.store.contexts import ContextSessions
from hermes.surfaces.a2a.server.store.tasks import JournalTaskStore
from hermes.surfaces.a2a.server.task import CANCELED, ActiveTask
from hermes.tools.peers.hops import hops_of

log = logging.getLogger("hermes.a2a")

#: Seconds between two tries while the journal cannot be used.
_SECONDS_BETWEEN_TRIES = 1.0
#: Time that a task whose job was canceled waits for its turn.
_ABANDON_SECONDS = 10.0
#: Without subscribers, a task is marked as working a little later: not while its turn is being started.
_SECONDS_TO_START = 0.002

_NO_WORDS = "The agent gave no answer after it had changed these files:"
#: Why the turn of a task that has ended is given up.
_TASK_ENDED = "its task has ended"
_STOPPED = "The server was stopped before there was an answer. Send the message again."

#: Submits or continues a turn that is followed with this stream. Blocking.
Begin = Callable[[ArtifactStream], object]


class TurnRunner:
    """Answers the messages of tasks: starts a turn, or continues the one that waits for this message."""

    def __init__(
        self,
        host: Host,
        contexts: ContextSessions,
        tasks: JournalTaskStore,
        slots: TaskSlots,
        dispatcher: Dispatcher,
    ) -> None:
        self._host = host
        self._settings = host.config.a2a
        self._contexts = contexts
        self._tasks = tasks
        self._slots = slots
        self._dispatcher = dispatcher
        # Without platforms: each task that was left continues its own turn.
        # The answer of a caller may come to another server, which continues the turn then.
        self._turns = LiveTurns(host, asks_one=True, watches=lambda question: question.surface == OWNER)
        self._turns.start(dispatcher)
        #: Whether turns run on workers, and continue when this server stops.
        self.is_remote = runs_on_workers(host.config)
        self._questions = Questions(host.store)
        #: Called on the loop with a task that waited for the owner, when its turn continues.
        self.on_settled: Callable[[ActiveTask], None] = lambda _task: None
        #: The turns that wait for an answer since they ran here, by session.
        self._suspended_here: dict[str, str] = {}

    async def answer(self, task: ActiveTask, message: Message | None, related: list[Task]) -> None:
        """Answer a message, whatever happens. None continues a turn that waits: answered elsewhere, or not in time."""
        parked, task.is_parked = task.stream if task.is_parked else None, False
        async with self._work(task):
            if parked is not None:
                await self._run_turn(task, None, continued=parked)
            elif task.is_waiting:
                await self._resume(task, message)
            elif message is not None:
                await self._start(task, message, related)

    @asynccontextmanager
    async def _work(self, task: ActiveTask) -> AsyncGenerator[None]:
        """The time in which a task has its conversation and a slot for itself; a failure ends the task."""
        try:
            async with self._contexts.turn(task.context), self._slots.slot():
                yield
        except (UnusableMessage, QueueFull) as error:
            await task.finish(TaskState.TASK_STATE_REJECTED, str(error))
        except Exception as error:
            # Only the class leaves: the text of an error may hold anything.
            log.exception("task %s failed", task.id)
            await task.finish(TaskState.TASK_STATE_FAILED, f"Agent error: {type(error).__name__}")

    async def release(self, task: ActiveTask) -> None:
        """Withdraw the question of a canceled task, and close its turn in the journal."""
        async with self._contexts.turn(task.context):
            session_id = await self._contexts.session_id(task.context)

            def close(session_id: str) -> None:
                turn_id = self._turn_of(session_id, task.id)
                self._turns.questions.forget(turn_id or "")
                for question in self._open_questions(session_id, SURFACE, OWNER):
                    self._questions.withdraw(question.id, "the task was canceled")
                if turn_id is not None:
                    self._close_left_turn(turn_id)

            if session_id is not None:
                await self._host.workers.run(partial(close, session_id))

    # -- what the last server left ------------------------------------------------------------------------------

    async def waits_as_before(self, task: ActiveTask) -> bool:
        """Whether a task still waits for the answer to the question that it shows.

        Not when the answer is there, in the journal or as its last message. Its turn may have continued by now, and
        then it has asked another question.
        """
        session_id = await self._contexts.session_id(task.context)
        pending = await self._host.workers.run(partial(self._open_questions, session_id or "", SURFACE))
        shown = shown_question_id(task.task.status.message)
        return _undelivered(task) is None and any(question.id == shown for question in pending)

    async def recover(self, task: ActiveTask, related: list[Task]) -> None:
        """Finish a task of the last server: follow its turn, or start it when it was never accepted."""
        async with self._work(task):
            session_id = await self._contexts.session_id(task.context)
            task.session_id = session_id or await self._contexts.begin(task.context)
            answer = _undelivered(task) if task.is_waiting else None
            turn_id = None
            if session_id is not None:
                turn_id = await self._host.workers.run(partial(self._turn_of, session_id, task.id))
            asked = await self._host.workers.run(partial(self._open_questions, session_id or "", SURFACE))
            if asked and answer is not None:
                await self._resume(task, answer)
            elif session_id is None or turn_id is None:
                await self._start(task, task.task.history[0], related)
            else:
                await self._rejoin(task, session_id, turn_id)

    async def _rejoin(self, task: ActiveTask, session_id: str, turn_id: str) -> None:
        """Follow a turn that runs already, or has ended."""
        # What was stored of the artifacts may be older than the journal, or hold half an answer.
        texts = await self._host.workers.run(partial(self._texts, session_id, turn_id))
        del task.task.artifacts[:]
        for number, text in enumerate(texts, 1):
            task.task.artifacts.add(artifact_id=f"{task.id}-{number}", name="answer", parts=[Part(text=text)])

        def begin(stream: ArtifactStream) -> None:
            if not self._open_questions(session_id, SURFACE, OWNER):  # the answer may be there, and not delivered
                self._dispatcher.resume(turn_id)
            self._turns.take_up(stream.live, turn_id, listener=stream.listen)

        await self._run_turn(task, begin, last=texts[-1] if texts else "", rejoins=True)

    async def close_left_turns(self) -> None:
        """Give up the turns that were left, and whose tasks have ended."""
        # In this order: a task is stored before its turn is.
        left = await self._host.workers.run(partial(open_submissions, self._host.store))
        open_tasks = {stored.task.id for stored in await self._tasks.not_ended()}
        for submission in left:
            if submission.source != SURFACE or submission.request_key in open_tasks:
                continue
            # The tasks of a server may still be in the file of a former version.
            if await self._contexts.find(submission.session_id) is not None:
                await self._host.workers.run(partial(self._close_left_turn, submission.turn_id))

    def _close_left_turn(self, turn_id: str) -> None:
        try:
            self._turns.stop_turn(turn_id, _TASK_ENDED)
        except SessionBusy:
            pass  # the server that runs it finds out
        except HermesError as error:
            log.warning("the turn %s, which was left, cannot be closed: %s", turn_id, error)

    def _turn_of(self, session_id: str, task_id: str) -> str | None:
        turn = self._host.sessions.turn_of(session_id, task_id)
        return None if turn is None else turn["id"]

    def _texts(self, session_id: str, turn_id: str) -> list[str]:
        """What the model has said in a turn, as callers may see it; nothing when a plugin may replace it."""
        if self._host.hooks.transform_llm_output is not None:
            return []
        steps = recorded_steps(self._host.store, turn_id, session_id)
        return [redacted(text, self._host.redactor) for text in steps.texts]

    # -- one message --------------------------------------------------------------------------------------------

    async def _start(self, task: ActiveTask, message: Message, related: list[Task]) -> None:
        hops, max_hops = hops_of(message.metadata), self._settings.max_hops
        if hops > max_hops:
            raise UnusableMessage(f"This message was passed on by {hops} agents; at most {max_hops} are allowed.")

        if not task.has_new_context:
            await self._host.workers.run(partial(self._clear_the_way, task))

        def begin(stream: ArtifactStream) -> None:
            self._turns.accept(stream.live, self._turn_request(task, message, related))

        await self._run_turn(task, begin)

    def _clear_the_way(self, task: ActiveTask) -> None:
        """Refuse a message while another task of its conversation asks; close turns whose tasks have ended."""
        others = self._tasks.open_in(*task.context)
        for other, state in others.items():
            if state == TaskState.TASK_STATE_INPUT_REQUIRED:
                raise UnusableMessage(
                    f"Task {other} of this conversation waits for an answer. Answer or cancel it, then send this again."
                )
            is_working = other != task.id and state == TaskState.TASK_STATE_WORKING
            if is_working and self._open_questions(task.session_id, OWNER):
                raise UnusableMessage(
                    f"Task {other} of this conversation is {WAITS_FOR_OWNER}. Send this again when it has ended, or "
                    f"cancel that task."
                )
        if suspended := self._suspended_here.pop(task.session_id, ""):
            self._close_left_turn(suspended)  # another server has continued it
        if self._host.open_sessions.get(task.session_id) is None:
            for key, turn_id in self._host.sessions.open_turns(task.session_id).items():
                if key not in others:
                    self._dispatcher.cancel(turn_id, _TASK_ENDED)

    def _turn_request(self, task: ActiveTask, message: Message, related: list[Task]) -> TurnRequest:
        content = content_of(
            message,
            related,
            max_file_bytes=self._settings.max_file_bytes,
            allow_private=self._host.config.security.allow_private_urls,
        )
        wants_json = task.output_modes == (JSON,)
        hops = hops_of(message.metadata)
        headers: dict[str, str] = task.call.state.get("headers", {})
        return TurnRequest(
            session_id=task.session_id,
            message=content,
            request_key=task.id,
            task_id=task.id,
            platform=SURFACE,
            cwd=str(self._contexts.workspace(task.principal)),
            principal=task.principal.name,
            context=JSON_ONLY if wants_json else "",
            is_structured=wants_json,
            # The agent that passed the message on waits in a turn, which may be one of ours.
            queue=CHILDREN if hops else TURNS,
            is_stored=True,
            extra=task_extra(
                may_approve=task.principal.may_approve,
                hops=hops,
                trace=(headers.get("traceparent", ""), headers.get("tracestate", "")),
            ),
        )

    async def _resume(self, task: ActiveTask, message: Message | None) -> None:
        """Continue the turn with the answer to its question; ask again when the answer is not clear."""
        session_id = await self._contexts.session_id(task.context)
        task.session_id = session_id or ""
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

        def begin(stream: ArtifactStream) -> None:
            turn_id = None if session_id is None else self._turn_of(session_id, task.id)
            if session_id is None or turn_id is None:
                raise RuntimeError("the session has no turn to continue")
            if question is not None:
                self._questions.answer(question.id, answer, reason)
            self._suspended_here.pop(session_id, None)
            self._dispatcher.resume(turn_id, listener=stream.listen)
            self._turns.take_up(stream.live, turn_id, listener=ignore_events)

        await self._run_turn(task, begin)

    async def _run_turn(
        self,
        task: ActiveTask,
        begin: Begin | None,
        *,
        continued: ArtifactStream | None = None,
        last: str = "",
        rejoins: bool = False,
    ) -> None:
        """Begin a turn and follow it until it ends or waits.

        ``continued`` followed it until it waited for the owner; it continues by itself. ``rejoins``: it may be running
        already.
        """
        live = LiveTurn(task.session_id, self._host.redactor) if continued is None else continued.live
        rejoins = rejoins or (continued is not None and continued.rejoins)
        stream = task.stream = ArtifactStream(
            task.updater,
            live,
            show_tools=self._settings.show_tools,
            artifacts=len(task.task.artifacts),
            last=last,
            start=0 if continued is None else continued.at,
            has_subscribers=task.has_subscribers,
            rejoins=rejoins,
        )

        def run() -> None:
            try:
                if begin is not None:
                    begin(stream)
                task.interrupt.add_callback(partial(self._stop, stream.live, task.interrupt))
            except Exception as error:
                stream.fail(error)

        self._host.workers.submit(run)
        try:
            if not task.has_subscribers():
                await asyncio.sleep(_SECONDS_TO_START)
            await task.updater.start_work()
            await stream.run()
        except asyncio.CancelledError:
            stream.close()
            if task.interrupt.cancelled or not self.is_remote:
                # The conversation stays locked until the turn has ended, within limits.
                task.interrupt.cancel(CANCELED)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stream.ended.wait(), _ABANDON_SECONDS)
            raise
        stream.close()
        await self._conclude(task, stream, is_live=not rejoins and not self.is_remote)

    def _stop(self, live: LiveTurn, interrupt: Interrupt) -> None:
        """Have a turn stopped, wherever it runs, as soon as the journal can be used. Does not wait for it."""

        def stop() -> None:
            while not self._host.workers.is_closed:
                try:
                    self._turns.stop(live, interrupt.reason)
                    return
                except JournalError as error:
                    log.warning("the journal cannot be used; trying again: %s", error)
                    time.sleep(_SECONDS_BETWEEN_TRIES)

        self._host.workers.submit(stop)

    async def _conclude(self, task: ActiveTask, stream: ArtifactStream, *, is_live: bool) -> None:
        """Make the state of a task from that of its turn. ``is_live``: every event of the turn has come through."""
        outcome = stream.outcome
        if isinstance(outcome, Exception):
            raise outcome
        if isinstance(outcome, QuestionRow):
            await stream.cut()
            if self._tasks.is_shared and not self.is_remote:
                self._suspended_here[stream.live.session_id] = stream.live.turn_id
            await (self._park(task, outcome) if outcome.surface == OWNER else self._ask(task, outcome))
            return
        assert outcome is not None
        outcome, files = await self._complete(task, stream, outcome, is_live=is_live)
        if outcome.status in ("completed", "incomplete"):
            await stream.finish(outcome.answer)
            await self._send_data(task, outcome.answer)
            await self._send_files(task, files)
            text = redacted(outcome.answer, self._host.redactor) if self._settings.answer_in_status else ""
            await task.finish(TaskState.TASK_STATE_COMPLETED, text, _metadata(outcome))
        elif outcome.error_type == EmptyReply.__name__ and (written := changed_paths(outcome.tool_calls)):
            # The work is done and only the words are missing: a failure would have the caller repeat it.
            await self._send_files(task, files)
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

    async def _complete(
        self, task: ActiveTask, stream: ArtifactStream, result: TurnResult, *, is_live: bool
    ) -> tuple[TurnResult, list[WrittenFile]]:
        """The result with everything recorded of its turn, and its files; artifacts become those of the record."""
        if not is_live:
            result = await self._host.workers.run(partial(completed_result, self._host.store, result))
            texts = await self._host.workers.run(partial(self._texts, result.session_id, result.turn_id))
            await stream.correct(task.task.artifacts, texts)
        files: list[WrittenFile] = []
        if self._settings.files:
            files = await self._host.workers.run(
                partial(
                    written_files,
                    result,
                    self._contexts.workspace(task.principal),
                    self._host.runtime.guard,
                    self._host.redactor,
                    self._settings.max_file_bytes,
                )
            )
        return result, files

    async def _send_data(self, task: ActiveTask, answer: str) -> None:
        """Send an answer that is JSON as data too, to a caller that accepts it."""
        part = data_part(redacted(answer, self._host.redactor)) if JSON in task.output_modes else None
        if part is not None:
            await task.updater.add_artifact([part], f"{task.id}-data", "data", append=False, last_chunk=True)

    async def _send_files(self, task: ActiveTask, files: list[WrittenFile]) -> None:
        for number, file in enumerate(files, 1):
            part = Part(raw=file.data, filename=file.name, media_type=file.media_type)
            artifact_id = f"{task.id}-file-{number}"
            await task.updater.add_artifact([part], artifact_id, file.name, append=False, last_chunk=True)

    # -- questions ----------------------------------------------------------------------------------------------

    async def _ask(self, task: ActiveTask, question: QuestionRow, note: str = "") -> None:
        await task.updater.requires_input(prompt_message(task.updater, question, self._host.redactor, note))

    async def _park(self, task: ActiveTask, question: QuestionRow) -> None:
        """Wait for the owner, without a slot and without a thread."""
        task.is_parked = True
        log.warning("task %s is %s: hermes approvals approve|deny %s", task.id, WAITS_FOR_OWNER, question.id)
        message = task.updater.new_agent_message([Part(text=WAITS_FOR_OWNER)])
        await task.updater.update_status(TaskState.TASK_STATE_WORKING, message)
        loop = asyncio.get_running_loop()

        def added(entry: LiveEntry) -> None:
            if isinstance(entry.event, QuestionAnswered | TurnOver):
                with contextlib.suppress(RuntimeError):  # the loop has ended before
                    loop.call_soon_threadsafe(self.on_settled, task)

        assert task.stream is not None
        task.stream.live.subscribe(added)

    def close(self) -> None:
        """Look for answers no longer; the next server does."""
        self._turns.close()

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
