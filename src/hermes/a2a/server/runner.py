"""Runs the agent for a task: a thread for its turn, its events as the task's, its end as the task's state."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Message, Part, TaskState

from hermes.a2a.server.access.principals import LOCAL, Peer
from hermes.a2a.server.access.rate_limits import Load
from hermes.a2a.server.approvals import approval_message, read_approval
from hermes.a2a.server.artifacts import Relay
from hermes.a2a.server.clarifying import clarifying_message, read_clarification
from hermes.a2a.server.content import UnusableMessage, content_of
from hermes.a2a.server.files import WrittenFile
from hermes.a2a.server.questions import RemotePerson
from hermes.a2a.server.redaction import visible
from hermes.a2a.server.store.contexts import Conversations, abandon_turn, is_new_context
from hermes.a2a.server.store.questions import Question, Questions, is_timeout
from hermes.a2a.server.task import LiveTask
from hermes.a2a.server.work import Run, Turn, Work
from hermes.agent.events import TurnResult
from hermes.agent.session import Session
from hermes.host import Host
from hermes.journal.questions import Questions as JournalQuestions
from hermes.peers.hops import hops_of

log = logging.getLogger("hermes.a2a")

#: How long a cancelled turn may take to come to its end before its caller is answered all the same.
_SECONDS_TO_STOP = 0.9
#: How long a conversation stays taken for a turn that does not come to its end.
_SECONDS_TO_LET_GO = 10.0
_SHUTDOWN = "the server stops"
_STOPPED = "The server was stopped before there was an answer. Send the message again."
_CANCELLED = "cancelled by the caller"


class TurnExecutor(AgentExecutor):
    """One task for each turn of the agent."""

    def __init__(self, host: Host, conversations: Conversations, questions: Questions, load: Load) -> None:
        self._host = host
        self._settings = host.config.a2a
        self._conversations = conversations
        self._questions = questions
        self._load = load
        self._runs: dict[str, Run] = {}

    # -- what requests call -------------------------------------------------------------------------------------

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answer a message: begin a task, or go on with the one that waits for this very message."""
        run = self._begin(context, event_queue)
        try:
            async with self._conversations.turn(run.context), self._load.slot():
                await self._work(run, context)
        except UnusableMessage as error:
            await self._end(run, TaskState.TASK_STATE_REJECTED, str(error))
        except Exception as error:
            # What went wrong is for the log; its words may hold anything.
            log.exception("task %s failed", run.task_id)
            await self._end(run, TaskState.TASK_STATE_FAILED, f"Agent error: {type(error).__name__}")
        finally:
            self._runs.pop(run.task_id, None)
            run.over.set()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Stop the work of a task, with everything it started, and say so."""
        task_id, context_id = context.task_id or "", context.context_id or ""
        run = self._runs.get(task_id)
        if run is None:
            await TaskUpdater(event_queue, task_id, context_id).cancel()
            return
        run.interrupt.cancel(_CANCELLED)
        if not run.idle.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(run.over.wait(), _SECONDS_TO_STOP)
        await self._end(run, TaskState.TASK_STATE_CANCELED)

    async def release(self, task_id: str) -> None:
        """A cancelled task asks nothing any more, and its turn is closed in the journal."""
        self._questions.forget(task_id)
        question = await self._questions.close(task_id)
        if question is None:
            return
        context = (question.owner, question.context_id)
        async with self._conversations.turn(context):
            session_id = await self._conversations.known(context)

            def close() -> None:
                if question.kind == "approval":
                    JournalQuestions(self._host.store).revoke(approval_id=question.id)
                abandon_turn(self._host, self._conversations.open(session_id, goes_on=True))

            await self._on_thread(close)

    async def stop(self) -> None:
        """The server ends: interrupt every turn and wait a little for what that brings about."""
        self._load.is_closing = True
        runs = list(self._runs.values())
        for run in runs:
            run.interrupt.cancel(_SHUTDOWN)
        if runs:
            await asyncio.wait([asyncio.ensure_future(run.over.wait()) for run in runs], timeout=2.0)

    # -- a task at work -----------------------------------------------------------------------------------------

    def _begin(self, context: RequestContext, queue: EventQueue) -> Run:
        user = context.call_context.user
        principal = user.principal if isinstance(user, Peer) else LOCAL
        task_id, context_id = context.task_id or "", context.context_id or ""
        updater = TaskUpdater(queue, task_id, context_id)
        is_watched = queue.is_watched if isinstance(queue, LiveTask) else lambda: True
        run = Run(task_id, (principal.name, context_id), principal, updater, is_watched)
        run.idle.set()
        self._runs[task_id] = run
        return run

    async def _work(self, run: Run, context: RequestContext) -> None:
        message = context.message
        if message is None:
            raise UnusableMessage("The request has no message.")
        waiting = self._questions.of(run.task_id)
        if waiting is not None:
            await self._take_answer(run, context, message, waiting)
            return
        blocking = self._questions.in_context(*run.context)
        if blocking is not None:
            raise UnusableMessage(
                f"Task {blocking.task_id} of this conversation waits for an answer. Answer or cancel it, then send "
                f"this again."
            )
        hops, most = hops_of(message.metadata), self._settings.max_hops
        if hops > most:
            raise UnusableMessage(f"This message came by way of {hops} agents, and at most {most} may be passed.")
        related = list(context.related_tasks)

        def talk(session: Session, relay: Relay) -> TurnResult | None:
            content = content_of(
                message,
                related,
                max_file_bytes=self._settings.max_file_bytes,
                allow_private=self._host.config.security.allow_private_urls,
            )
            return session.run(
                content, listener=relay.listen, interrupt=run.interrupt, request_key=run.task_id, task_id=run.task_id
            )

        await self._run_turn(run, context, talk, goes_on=False)

    async def _take_answer(self, run: Run, context: RequestContext, message: Message, waiting: Question) -> None:
        take = self._take_decision if waiting.kind == "approval" else self._take_clarification
        if not await take(run, message, waiting):
            await self._ask(run, waiting, "That was no clear answer. ")
            return
        await self._questions.close(run.task_id)

        def go_on(session: Session, relay: Relay) -> TurnResult | None:
            return session.finish_open_turn(listener=relay.listen, interrupt=run.interrupt)

        await self._run_turn(run, context, go_on, goes_on=True)

    async def _take_decision(self, run: Run, message: Message, waiting: Question) -> bool:
        choice = read_approval(message, waiting.id)
        if choice is None or (choice == "approve" and "approve" not in run.principal.scopes):
            return False
        reason = "nobody answered in time" if is_timeout(message, waiting) else "answered by the caller"
        rows = JournalQuestions(self._host.store)
        await self._on_thread(partial(rows.answer, waiting.id, "once" if choice == "approve" else "deny", reason))
        return True

    async def _take_clarification(self, run: Run, message: Message, waiting: Question) -> bool:
        answer = "" if is_timeout(message, waiting) else read_clarification(message, waiting)
        if answer is not None:
            await self._questions.answer(waiting, answer)
        return answer is not None

    async def _ask(self, run: Run, question: Question, note: str = "") -> None:
        ask = approval_message if question.kind == "approval" else clarifying_message
        await run.updater.requires_input(ask(run.updater, question, note))

    async def _run_turn(self, run: Run, context: RequestContext, turn: Turn, *, goes_on: bool) -> None:
        task = context.current_task
        relay = Relay(
            run.updater,
            self._host.redactor,
            show_tools=self._settings.show_tools,
            artifacts=0 if task is None else len(task.artifacts),
            is_watched=run.is_watched,
        )
        known = await self._conversations.known(run.context, is_new=is_new_context(context.call_context))
        work = Work(
            run,
            self._host,
            relay,
            RemotePerson(run.principal, self._settings, self._host.redactor, self._questions.answers(run.task_id)),
            partial(self._conversations.open, known, goes_on=goes_on),
            turn,
            context,
        )
        run.idle.clear()
        self._host.workers.submit(work.do)
        try:
            await run.updater.start_work()
            await relay.run()
        except asyncio.CancelledError:
            # The conversation stays taken until the turn has come to its end.
            run.interrupt.cancel(_CANCELLED)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(run.idle.wait(), _SECONDS_TO_LET_GO)
            raise
        if work.session is not None:
            self._conversations.keep(run.context, work.session, known)
        await self._conclude(run, relay, work)

    async def _conclude(self, run: Run, relay: Relay, work: Work) -> None:
        outcome = work.outcome
        if isinstance(outcome, Exception):
            raise outcome
        if isinstance(outcome, Question):
            await relay.cut()
            await self._questions.ask(outcome)
            await self._ask(run, outcome)
        elif outcome.status == "completed":
            await relay.finish(outcome.answer)
            await self._send_files(run, work.files)
            text = visible(outcome.answer, self._host.redactor) if self._settings.answer_in_status else ""
            await self._end(run, TaskState.TASK_STATE_COMPLETED, text, outcome)
        elif run.interrupt.reason == _CANCELLED:
            await relay.cut()
            await self._end(run, TaskState.TASK_STATE_CANCELED, result=outcome)
        else:
            await relay.cut()
            log.warning("task %s %s: %s", run.task_id, outcome.status, outcome.error or run.interrupt.reason)
            text = f"Agent error: {outcome.error_type}" if outcome.error_type else _STOPPED
            await self._end(run, TaskState.TASK_STATE_FAILED, text, outcome)

    async def _send_files(self, run: Run, files: list[WrittenFile]) -> None:
        for number, file in enumerate(files, 1):
            part = Part(raw=file.data, filename=file.name, media_type=file.media_type)
            artifact_id = f"{run.task_id}-file-{number}"
            await run.updater.add_artifact([part], artifact_id, file.name, append=False, last_chunk=True)

    async def _end(self, run: Run, state: TaskState, text: str = "", result: TurnResult | None = None) -> None:
        """Announce the task's last state, once."""
        if run.is_ended:
            return
        run.is_ended = True
        self._questions.forget(run.task_id)
        message = run.updater.new_agent_message([Part(text=text)]) if text else None
        await run.updater.update_status(state, message, metadata=None if result is None else _metadata(result))

    async def _on_thread(self, work: Callable[[], object]) -> None:
        done = asyncio.Event()
        loop = asyncio.get_running_loop()

        def run() -> None:
            try:
                work()
            finally:
                loop.call_soon_threadsafe(done.set)

        task = self._host.workers.submit(run)
        await done.wait()
        task.is_over(1.0)
        task.result()


def _metadata(result: TurnResult) -> dict[str, object]:
    """What a task cost and which conversation it belongs to."""
    usage = {name: amount for name, amount in result.usage.as_columns().items() if amount}
    return {
        "hermes.session_id": result.session_id,
        "hermes.model": result.model,
        "hermes.steps": result.steps,
        "hermes.usage": {**usage, "requests": result.usage.request_count},
    }
