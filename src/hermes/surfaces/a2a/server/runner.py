"""Runner of tasks: gives the message of a task to the dispatcher as a turn, and reports its events, questions and end.

One coroutine answers a task from its message to its end. While the task waits for its caller or for the owner, it holds
neither a slot nor its conversation; the turn goes on by itself when the answer is stored (``service/live``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial

from a2a.types import Message, Part, Role, Task, TaskState

from hermes.agent.events import TurnResult, changed_paths
from hermes.base.errors import HermesError, QueueFull, SessionBusy
from hermes.base.http_server.outgoing import redacted
from hermes.base.http_server.rate_limits import TaskSlots
from hermes.host import Host
from hermes.journal.questions import OWNER, QuestionRow
from hermes.journal.turns.lifecycle import open_submissions
from hermes.models.reply import EmptyReply
from hermes.service.dispatch.choose import runs_on_workers
from hermes.service.dispatch.port import CHILDREN, TURNS, Dispatcher, TurnRequest
from hermes.service.dispatch.results import completed_result, recorded_steps
from hermes.service.live.turn import LiveTurn, QuestionAsked, TurnOver
from hermes.service.live.turns import LiveTurns
from hermes.surfaces.a2a.server.artifacts import ArtifactStream
from hermes.surfaces.a2a.server.content import (
    JSON,
    JSON_ONLY,
    UnusableMessage,
    content_of,
    data_part,
    written_files,
)
from hermes.surfaces.a2a.server.entry import SURFACE
from hermes.surfaces.a2a.server.questions import WAITS_FOR_OWNER, prompt_message, read_answer, shown_question_id
from hermes.surfaces.a2a.server.store.contexts import ContextSessions
from hermes.surfaces.a2a.server.store.tasks import JournalTaskStore
from hermes.surfaces.a2a.server.task import CANCELED, ActiveTask
from hermes.tools.peers.hops import hops_of

log = logging.getLogger("hermes.a2a")

#: Time that a task whose job was canceled waits for its turn.
_ABANDON_SECONDS = 10.0
#: Without subscribers, a task is marked as working a little later: not while its turn is being started.
_SECONDS_TO_START = 0.002

_NO_WORDS = "The agent gave no answer after it had changed these files:"
#: Why the turn of a task that has ended is given up.
_TASK_ENDED = "its task has ended"
_STOPPED = "The server was stopped before there was an answer. Send the message again."
_UNCLEAR = "That was no clear answer. "

#: Hands over the turn of a task, or takes it up. Blocking.
Begin = Callable[[], object]


class TurnRunner:
    """Answers tasks."""

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
        self._turns = LiveTurns(host, asks_one=True)
        self._turns.start(dispatcher)
        #: Whether turns run on workers, and continue when this server stops.
        self.is_remote = runs_on_workers(host.config)

    def close(self) -> None:
        """Look for answers no longer; the next server does."""
        self._turns.close()

    # -- one task -----------------------------------------------------------------------------------------------

    async def answer(self, task: ActiveTask, related: list[Task], *, is_left: bool = False) -> None:
        """Answer a task, whatever happens. ``is_left``: another server has begun with it."""
        live = LiveTurn(task.session_id, self._host.redactor, loop=asyncio.get_running_loop())
        stream = ArtifactStream(
            task.updater, live, show_tools=self._settings.show_tools, has_subscribers=task.has_subscribers
        )
        outcome: TurnResult | QuestionRow | None = None
        try:
            while outcome is None or isinstance(outcome, QuestionRow):
                async with self._contexts.turn(task.context), self._slots.slot():
                    begin = None
                    if outcome is None:
                        begin = await self._rejoining(task, stream) if is_left else None
                        begin = begin or await self._beginning(task, stream, related)
                    outcome = await self._follow(task, stream, begin)
                    await self._conclude(task, stream, outcome)
                if isinstance(outcome, QuestionRow):
                    await live.changed(stream.at)
                    await task.refresh()  # the answer may have come to another server
        except (UnusableMessage, QueueFull) as error:
            await task.finish(TaskState.TASK_STATE_REJECTED, str(error))
        except Exception as error:
            # Only the class leaves: the text of an error may hold anything.
            log.exception("task %s failed", task.id)
            await task.finish(TaskState.TASK_STATE_FAILED, f"Agent error: {type(error).__name__}")

    async def _follow(self, task: ActiveTask, stream: ArtifactStream, begin: Begin | None) -> TurnResult | QuestionRow:
        """Report a turn until it ends or waits."""
        live = stream.live

        def run(begin: Begin) -> None:
            try:
                begin()
                task.interrupt.add_callback(lambda: self._turns.stop_soon(live, task.interrupt.reason))
            except Exception as error:
                live.cut_off(error)  # for who waits for its log

        task.is_begun, task.is_parked = True, False
        if begin is not None:
            self._host.workers.submit(partial(run, begin))
        try:
            if task.is_asked:
                await live.changed(stream.at)
            elif not task.has_subscribers():
                await asyncio.sleep(_SECONDS_TO_START)
            following = live.log[stream.at :]
            if not following or not isinstance(following[0].event, QuestionAsked | TurnOver):
                await task.updater.start_work()
            return await stream.run()
        except asyncio.CancelledError:
            if task.interrupt.cancelled or not self.is_remote:
                # The conversation stays locked until the turn has ended, within limits.
                task.interrupt.cancel(CANCELED)
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(live.wait(), _ABANDON_SECONDS)
            raise

    # -- its beginning ------------------------------------------------------------------------------------------

    async def _beginning(self, task: ActiveTask, stream: ArtifactStream, related: list[Task]) -> Begin:
        """Hands over the turn of a new task."""
        message = task.task.history[0]
        hops, max_hops = hops_of(message.metadata), self._settings.max_hops
        if hops > max_hops:
            raise UnusableMessage(f"This message was passed on by {hops} agents; at most {max_hops} are allowed.")
        if not task.has_new_context:
            await self._host.workers.run(partial(self._clear_the_way, task))
        return lambda: self._turns.accept(stream.live, self._turn_request(task, message, related))

    def _clear_the_way(self, task: ActiveTask) -> None:
        """Refuse a message while another task of its conversation asks; close turns whose tasks have ended."""
        others = self._tasks.open_in(*task.context)
        for other, state in others.items():
            if state == TaskState.TASK_STATE_INPUT_REQUIRED:
                raise UnusableMessage(
                    f"Task {other} of this conversation waits for an answer. Answer or cancel it, then send this again."
                )
            is_working = other != task.id and state == TaskState.TASK_STATE_WORKING
            if is_working and self._open_question(task.session_id, OWNER):
                raise UnusableMessage(
                    f"Task {other} of this conversation is {WAITS_FOR_OWNER}. Send this again when it has ended, or "
                    f"cancel that task."
                )
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
            extra={
                "may_approve": task.principal.may_approve,
                "hops": hops,
                "trace": [headers.get("traceparent", ""), headers.get("tracestate", "")],
            },
        )

    async def _rejoining(self, task: ActiveTask, stream: ArtifactStream) -> Begin | None:
        """Takes up the turn of a task that another server has left; None when it was never accepted."""
        session_id = await self._contexts.session_id(task.context)
        task.session_id = session_id or await self._contexts.begin(task.context)
        turn_id = await self._host.workers.run(partial(self._turn_of, task.session_id, task.id))
        if turn_id is None:
            return None
        message = _undelivered(task)
        if message is not None:
            await self._store_answer(*await self._read_answer(task, message))
        # What was stored of the artifacts may be older than the journal, or hold half an answer.
        texts = await self._host.workers.run(partial(self._texts, task.session_id, turn_id))
        del task.task.artifacts[:]
        for number, text in enumerate(texts, 1):
            task.task.artifacts.add(artifact_id=f"{task.id}-{number}", name="answer", parts=[Part(text=text)])
        stream.rejoin(texts)
        stream.live.session_id = task.session_id
        return lambda: self._turns.take_up(stream.live, turn_id)

    def _texts(self, session_id: str, turn_id: str) -> list[str]:
        """What the model has said in a turn, as callers may see it; nothing when a plugin may replace it."""
        if self._host.hooks.transform_llm_output is not None:
            return []
        steps = recorded_steps(self._host.store, turn_id, session_id)
        return [redacted(text, self._host.redactor) for text in steps.texts]

    # -- its end ------------------------------------------------------------------------------------------------

    async def _conclude(self, task: ActiveTask, stream: ArtifactStream, outcome: TurnResult | QuestionRow) -> None:
        """Make the state of a task from that of its turn."""
        if isinstance(outcome, QuestionRow):
            await stream.cut()
            await (self._park(task, outcome) if outcome.surface == OWNER else self._ask(task, outcome))
            return
        outcome, files = await self._complete(task, stream, outcome)
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
        self, task: ActiveTask, stream: ArtifactStream, result: TurnResult
    ) -> tuple[TurnResult, list[Part]]:
        """The result with everything recorded of its turn, and its files; artifacts become those of the record."""
        if stream.rejoins or self.is_remote:  # not every event of the turn has come through
            result = await self._host.workers.run(partial(completed_result, self._host.store, result))
            texts = await self._host.workers.run(partial(self._texts, result.session_id, result.turn_id))
            await stream.correct(task.task.artifacts, texts)
        files: list[Part] = []
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

    async def _send_files(self, task: ActiveTask, files: list[Part]) -> None:
        for number, file in enumerate(files, 1):
            artifact_id = f"{task.id}-file-{number}"
            await task.updater.add_artifact([file], artifact_id, file.filename, append=False, last_chunk=True)

    # -- questions ----------------------------------------------------------------------------------------------

    async def _ask(self, task: ActiveTask, question: QuestionRow) -> None:
        if not task.is_waiting or shown_question_id(task.task.status.message) != question.id:
            await task.updater.requires_input(prompt_message(task.updater, question, self._host.redactor))

    async def _park(self, task: ActiveTask, question: QuestionRow) -> None:
        """Wait for the owner, without a slot and without a thread."""
        task.is_parked = True
        task.release()
        log.warning("task %s is %s: hermes approvals approve|deny %s", task.id, WAITS_FOR_OWNER, question.id)
        message = task.updater.new_agent_message([Part(text=WAITS_FOR_OWNER)])
        await task.updater.update_status(TaskState.TASK_STATE_WORKING, message)

    async def reply(self, task: ActiveTask, message: Message) -> bool:
        """Take a message as the answer to the question of its task; False when another one came first.

        The turn continues with it, at the server that asked. An answer that is not clear is asked for again.
        """
        if not task.session_id:
            task.session_id = await self._contexts.session_id(task.context) or ""
        question, answer = await self._read_answer(task, message)
        prompt = None
        if question is not None and answer is None:
            prompt = prompt_message(task.updater, question, self._host.redactor, _UNCLEAR)
        if not await task.add_answer(message, prompt):
            return False
        await self._store_answer(question, answer)
        return True

    async def _read_answer(self, task: ActiveTask, message: Message) -> tuple[QuestionRow | None, str | None]:
        """The question of a task, unless it was answered or revoked in another way; and the answer, if it is clear."""
        question = await self._host.workers.run(partial(self._open_question, task.session_id, SURFACE))
        return question, None if question is None else read_answer(message, question, task.principal)

    async def _store_answer(self, question: QuestionRow | None, answer: str | None) -> None:
        if question is not None and answer is not None:
            answered = (question.id, answer, "answered by the caller")
            await self._host.workers.run(partial(self._turns.questions.answer, *answered, by=question.principal))

    def _open_question(self, session_id: str, surface: str) -> QuestionRow | None:
        """The oldest question that waits at a surface in a session."""
        asked = self._turns.questions.of_session(session_id) if session_id else []
        return next((question for question in asked if question.surface == surface), None)

    # -- turns whose tasks have ended ---------------------------------------------------------------------------

    async def close_turn(self, task: ActiveTask) -> None:
        """Close the turn of a task that was canceled here and is answered by another server, or by none."""
        session_id = await self._contexts.session_id(task.context)
        turn_id = await self._host.workers.run(partial(self._turn_of, session_id or "", task.id))
        if turn_id is not None:
            await self._host.workers.run(partial(self._close_left_turn, turn_id))

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
        return None if turn is None else turn.id


def _undelivered(task: ActiveTask) -> Message | None:
    """The answer of a caller that is stored with its task, and that the last server did not get to read."""
    history = task.task.history
    is_answered = task.is_asked and not task.is_waiting and bool(history)
    return history[-1] if is_answered and history[-1].role == Role.ROLE_USER else None


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
