"""Runner of tasks: gives each message to the dispatcher as a turn, and reports its events and its end as the task's."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial

from a2a.types import Message, Part, Role, Task, TaskState

from hermes.a2a.server.artifacts import ArtifactStream
from hermes.a2a.server.content import JSON, JSON_ONLY, UnusableMessage, content_of, data_part, written_files
from hermes.a2a.server.entry import SURFACE, task_extra
from hermes.a2a.server.questions import (
    NO_ANSWER,
    WAITS_FOR_OWNER,
    prompt_message,
    read_answer,
    shown_question_id,
    timeout_answer,
)
from hermes.a2a.server.store.contexts import ContextSessions
from hermes.a2a.server.store.tasks import JournalTaskStore
from hermes.a2a.server.task import CANCELED, ActiveTask
from hermes.agent.events import Listener, TurnResult, changed_paths, ignore_events
from hermes.dispatch.choose import runs_on_workers
from hermes.dispatch.port import CHILDREN, TURNS, DispatchedTurn, Dispatcher, TurnRequest
from hermes.dispatch.results import completed_result, recorded_steps
from hermes.errors import HermesError, JournalError, QueueFull, SessionBusy
from hermes.host import Host
from hermes.http_server.outgoing import redacted
from hermes.http_server.rate_limits import TaskSlots
from hermes.journal.questions import OWNER, QuestionRow, Questions
from hermes.journal.turns.lifecycle import open_submissions
from hermes.models.reply import EmptyReply
from hermes.peers.hops import hops_of
from hermes.scope import Interrupt

log = logging.getLogger("hermes.a2a")

#: Seconds between two tries while the journal cannot be used.
_SECONDS_BETWEEN_TRIES = 1.0
#: Without subscribers, a task is marked as working a little later: not while its turn is being started.
_SECONDS_TO_START = 0.002

_NO_WORDS = "The agent gave no answer after it had changed these files:"
#: Why the turn of a task that has ended is given up.
_TASK_ENDED = "its task has ended"
_STOPPED = "The server was stopped before there was an answer. Send the message again."

#: Submits or continues a turn with this listener; the ids of the turn and of its session. Blocking.
Begin = Callable[[Listener], tuple[str, str]]
#: Receives the state of a turn, once it has ended or waits.
Report = Callable[[TurnResult | QuestionRow], None]


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
        #: Whether turns run on workers, and continue when this server stops.
        self.is_remote = runs_on_workers(host.config)
        self._questions = Questions(host.store)
        #: The tasks that wait for the owner, by the id of the question.
        self._parked: dict[str, ActiveTask] = {}
        #: The turns that wait for an answer since they ran here, by session.
        self._suspended_here: dict[str, str] = {}

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
        except (UnusableMessage, QueueFull) as error:
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
                turn_id = self._turn_of(session_id, task.id)
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
            asked = await self._host.workers.run(partial(self._open_questions, session_id or "", SURFACE, OWNER))
            if asked and asked[0].surface == OWNER:
                await self._park(task, asked[0])
            elif asked and answer is not None:
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

        def begin(_listener: Listener) -> tuple[str, str]:
            if not self._open_questions(session_id, SURFACE, OWNER):  # the answer may be there, and not delivered
                self._dispatcher.resume(turn_id)
            return turn_id, session_id

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
            self._dispatcher.cancel(turn_id, _TASK_ENDED)
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

        def begin(listener: Listener) -> tuple[str, str]:
            request = self._turn_request(task, message, related)
            return self._dispatcher.submit(request, listener=listener).turn_id, request.session_id

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

        def begin(listener: Listener) -> tuple[str, str]:
            turn_id = None if session_id is None else self._turn_of(session_id, task.id)
            if session_id is None or turn_id is None:
                raise RuntimeError("the session has no turn to continue")
            if question is not None:
                self._questions.answer(question.id, answer, reason)
            self._suspended_here.pop(session_id, None)
            self._dispatcher.resume(turn_id, listener=listener)
            return turn_id, session_id

        await self._run_turn(task, begin)

    async def _run_turn(self, task: ActiveTask, begin: Begin, *, last: str = "", rejoins: bool = False) -> None:
        """Begin a turn and follow it until it ends or waits. ``rejoins``: it may be running already."""
        stream = ArtifactStream(
            task.updater,
            self._host.redactor,
            show_tools=self._settings.show_tools,
            artifacts=len(task.task.artifacts),
            last=last,
            has_subscribers=task.has_subscribers,
            is_whole=not rejoins,
        )

        def run(report: Report) -> None:
            turn_id, session_id = begin(stream.listen)
            task.interrupt.add_callback(partial(self._stop, turn_id, task.interrupt))
            self._watch(turn_id, session_id, report, stream.listen if rejoins else ignore_events)

        task.start_turn(self._host.workers, run, stream.end)
        try:
            if not task.has_subscribers():
                await asyncio.sleep(_SECONDS_TO_START)
            await task.updater.start_work()
            await stream.run()
        except asyncio.CancelledError:
            stream.close()
            if task.interrupt.cancelled or not self.is_remote:
                await task.abandon_turn()
            raise
        stream.close()
        await self._conclude(task, stream, is_live=not rejoins and not self.is_remote)

    def _watch(self, turn_id: str, session_id: str, report: Report, listener: Listener = ignore_events) -> None:
        def settled(now: DispatchedTurn) -> None:
            if now.result is not None:
                report(now.result)
            else:
                self._host.workers.submit(partial(self._try, partial(self._suspended, turn_id, session_id, report)))

        self._dispatcher.watch(turn_id, settled, listener=listener)

    def _suspended(self, turn_id: str, session_id: str, report: Report) -> None:
        """Report the question of a turn that waits for an answer; continue one whose answer was faster than it."""
        asked = self._open_questions(session_id, SURFACE, OWNER)
        if asked:
            if self._tasks.is_shared and not self.is_remote:
                self._suspended_here[session_id] = turn_id
            report(asked[0])
            return
        self._dispatcher.resume(turn_id)
        self._watch(turn_id, session_id, report)

    def _stop(self, turn_id: str, interrupt: Interrupt) -> None:
        """Have a turn stopped, wherever it runs. Does not wait for it."""
        cancel = partial(self._dispatcher.cancel, turn_id, interrupt.reason)
        self._host.workers.submit(partial(self._try, cancel))

    def _try(self, work: Callable[[], object]) -> None:
        """Do what must be done, as soon as the journal can be used."""
        while True:
            try:
                work()
                return
            except JournalError as error:
                if self._host.workers.is_closed:
                    return
                log.warning("the journal cannot be used; trying again: %s", error)
                time.sleep(_SECONDS_BETWEEN_TRIES)
            except Exception:
                log.exception("a turn cannot be followed")
                return

    async def _conclude(self, task: ActiveTask, stream: ArtifactStream, *, is_live: bool) -> None:
        """Make the state of a task from that of its turn. ``is_live``: every event of the turn has come through."""
        outcome = task.outcome
        if isinstance(outcome, Exception):
            raise outcome
        if isinstance(outcome, QuestionRow):
            await stream.cut()
            await (self._park(task, outcome) if outcome.surface == OWNER else self._ask(task, outcome))
            return
        outcome = await self._complete(task, stream, outcome, is_live=is_live)
        if outcome.status in ("completed", "incomplete"):
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

    async def _complete(
        self, task: ActiveTask, stream: ArtifactStream, result: TurnResult, *, is_live: bool
    ) -> TurnResult:
        """The result with everything recorded of its turn; the artifacts become those of the record."""
        if not is_live:
            result = await self._host.workers.run(partial(completed_result, self._host.store, result))
            texts = await self._host.workers.run(partial(self._texts, result.session_id, result.turn_id))
            await stream.correct(task.task.artifacts, texts)
        if self._settings.files:
            task.files = await self._host.workers.run(
                partial(
                    written_files,
                    result,
                    self._contexts.workspace(task.principal),
                    self._host.runtime.guard,
                    self._host.redactor,
                    self._settings.max_file_bytes,
                )
            )
        return result

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
