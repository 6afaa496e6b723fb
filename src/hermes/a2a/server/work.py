"""One task at work: its turn on a thread of its own, and what comes of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from a2a.server.agent_execution import RequestContext
from a2a.server.tasks import TaskUpdater

from hermes.a2a.server.access.principals import Principal
from hermes.a2a.server.artifacts import Relay
from hermes.a2a.server.files import WrittenFile, files_of
from hermes.a2a.server.questions import RemotePerson
from hermes.a2a.server.store.contexts import Context
from hermes.a2a.server.store.questions import Question
from hermes.agent.events import TurnResult
from hermes.agent.session import Session
from hermes.errors import TurnSuspended
from hermes.host import Host
from hermes.peers.hops import arrived, hops_of
from hermes.scope import Interrupt
from hermes.trace.parent import joined

Outcome = TurnResult | Question | Exception


@dataclass(slots=True)
class Run:
    """One task at work."""

    task_id: str
    context: Context
    principal: Principal
    updater: TaskUpdater
    #: Whether somebody sees what happens while it happens.
    is_watched: Callable[[], bool]
    interrupt: Interrupt = field(default_factory=Interrupt)
    #: Set while there is no thread at work for it.
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    #: Whether the task's last state was announced.
    is_ended: bool = False


Turn = Callable[[Session, Relay], TurnResult | None]


class Work:
    """The turn of a task, to be done on a thread of its own."""

    def __init__(
        self,
        run: Run,
        host: Host,
        relay: Relay,
        person: RemotePerson,
        open_session: Callable[[], Session],
        turn: Turn,
        context: RequestContext,
    ) -> None:
        self._run = run
        self._host = host
        self._relay = relay
        self._person = person
        self._open_session = open_session
        self._turn = turn
        self._headers: dict[str, str] = context.call_context.state.get("headers", {})
        # An answer comes straight from the caller, but the work it lets go on was asked for from further away.
        task = context.current_task
        self._hops = 0 if task is None else max((hops_of(said.metadata) for said in task.history), default=0)
        self._loop = asyncio.get_running_loop()
        self.session: Session | None = None
        self.outcome: Outcome = RuntimeError("the turn is gone")
        #: What the turn wrote, when callers get that.
        self.files: list[WrittenFile] = []

    def do(self) -> None:
        """Run the turn to its end, or to where it has to wait."""
        run = self._run
        try:
            session = self.session = self._open_session()
            self._host.responders.attach(session.id, self._person)
            traceparent, tracestate = (self._headers.get(name, "") for name in ("traceparent", "tracestate"))
            with arrived(self._hops), joined(traceparent, tracestate):
                self.outcome = self._turn(session, self._relay) or self.outcome
            self.files = self._written(session)
        except TurnSuspended:
            self.outcome = self._person.question(run.task_id, *run.context) or self.outcome
        except Exception as error:
            self.outcome = error
        except BaseException as error:  # a plugin may try to end the program
            self.outcome = RuntimeError(type(error).__name__)
        finally:
            if self.session is not None:
                self._host.responders.detach(self.session.id)
            self._relay.end()
            with contextlib.suppress(RuntimeError):  # the loop has ended before the turn did
                self._loop.call_soon_threadsafe(run.idle.set)

    def _written(self, session: Session) -> list[WrittenFile]:
        host = self._host
        if not host.config.a2a.files or not isinstance(self.outcome, TurnResult):
            return []
        return files_of(self.outcome, session.cwd, host.runtime.guard, host.redactor, host.config.a2a.max_file_bytes)
