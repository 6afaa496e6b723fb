"""The dispatcher port: the few calls with which surfaces hand turns over, follow them and stop them.

A turn is accepted on disk (state ``queued`` in the journal) before ``submit`` returns. What was accepted is run, by
this process or a later one. The turns of one session run one at a time, in the order in which they were submitted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

import msgspec

from hermes.agent.events import Listener, TurnResult, ignore_events
from hermes.agent.session import Session
from hermes.journal.turns.lifecycle import Submission

#: Turns of surfaces, and turns that another turn waits for: those have slots of their own, so that turns which wait
#: for others cannot keep them from running.
TURNS, CHILDREN = "turns", "children"


class TurnRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is to be answered. ``session_id`` may be that of a session that does not exist yet."""

    session_id: str
    message: str | list[dict[str, Any]]
    #: The idempotency key: the same one again is the same turn, and runs nothing a second time.
    request_key: str
    #: The surface: it chooses the toolsets, and the sender of the answers to questions.
    platform: str
    #: The folder of a new session, and its title; empty names it after its first message.
    cwd: str
    title: str = ""
    #: The caller it is for; empty is the owner of the home.
    principal: str = ""
    #: The id of the work at the surface, for hooks; it must be new. Empty makes one.
    task_id: str = ""
    #: Added to the message for this turn only.
    context: str = ""
    #: The answer is to be data, so one that is cut off is not continued.
    is_structured: bool = False
    #: Turns with a higher number start first.
    priority: int = 0
    queue: Literal["turns", "children"] = TURNS
    #: The surface has the message on disk itself and submits it again after a crash: nothing waits for the disk.
    is_stored: bool = False
    #: Further plain data for the surface's own ``TurnEntry``.
    extra: dict[str, Any] = {}


class TurnTicket(msgspec.Struct, frozen=True):
    """A turn that was accepted."""

    turn_id: str
    session_id: str
    #: False when the idempotency key was known already: nothing new will run.
    is_new: bool


class DispatchedTurn(msgspec.Struct, frozen=True):
    """A submitted turn and its current state.

    ``suspended``: it waits for the answer to a question (``journal.questions``) and holds no slot; ``resume`` continues
    it once the answer is stored. ``result`` is there when it has ended.
    """

    state: Literal["queued", "running", "suspended", "ended"]
    result: TurnResult | None = None


#: What a surface does around its turns, on their thread: attach a responder, join a trace.
TurnEntry = Callable[[Session, Submission], AbstractContextManager[object]]


class Dispatcher(Protocol):
    """Runs submitted turns. All calls are thread-safe."""

    def submit(self, request: TurnRequest, *, listener: Listener = ignore_events) -> TurnTicket:
        """Accept a turn. ``listener`` receives its live events, which are provisional, on another thread.

        Raises ``QueueFull`` when too many wait, and ``JournalError`` when the journal cannot be written or when the
        idempotency key was used for another message: nothing was accepted then.
        """
        ...

    def resume(self, turn_id: str, *, listener: Listener = ignore_events) -> None:
        """Queue a suspended turn again, before others of its session, because its question has been answered."""
        ...

    def cancel(self, turn_id: str, reason: str = "cancelled") -> bool:
        """Stop a turn wherever it is. One that has not started never does. False when it had ended already."""
        ...

    def watch(
        self,
        turn_id: str,
        settled: Callable[[DispatchedTurn], None],
        *,
        listener: Listener = ignore_events,
    ) -> None:
        """Call ``settled`` once, when the turn has ended or is suspended; at once when it is so already.

        For surfaces with many turns: no thread waits. ``settled`` may be called on any thread and must not block.
        ``listener`` receives the live events from now on.
        """
        ...

    @property
    def running(self) -> int:
        """How many turns this process runs."""
        ...

    def start(self) -> None:
        """Begin to run turns, first those that an earlier process left."""
        ...

    def release(self, timeout: float | None = None) -> bool:
        """Start no more turns, and wait until the running ones have ended. False when some had not in that time.

        What waits stays in the journal for the next process.
        """
        ...


class HasDispatcher(Protocol):
    """A server that runs turns, of its own and of the surfaces that are part of it."""

    @property
    def dispatcher(self) -> Dispatcher:
        """Runs the turns."""
        ...
