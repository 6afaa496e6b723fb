"""A worker: runs turns that surfaces submitted, beside other workers on any number of machines."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextvars import Context
from typing import TYPE_CHECKING, TypeVar

import msgspec

from hermes.agent.events import Listener
from hermes.base.config.schema.sections import WorkerConfig
from hermes.base.errors import JournalError, LeaseLost, SessionBusy
from hermes.base.scope import Interrupt
from hermes.contract.events import TurnEvent
from hermes.host import Host
from hermes.journal.questions import has_pending
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.postgres.runner import PostgresRunner
from hermes.journal.store.postgres.turn_queue import (
    CONTROL,
    TakenTurn,
    TakeSettings,
    give_back,
    lock_session,
    suspend,
    wake_workers,
)
from hermes.journal.turns.lifecycle import LOOP_VERSION, Submission, find_submission
from hermes.service.dispatch.cluster.connections import ChannelListener, Publisher, cluster_store
from hermes.service.dispatch.cluster.membership import Membership
from hermes.service.dispatch.cluster.taking import TurnTaking
from hermes.service.dispatch.execution import Execution
from hermes.service.dispatch.port import CHILDREN, TURNS, DispatchedTurn, TurnEntry

if TYPE_CHECKING:
    from hermes.service.dispatch.metrics import TurnMetrics

T = TypeVar("T")
log = logging.getLogger("hermes.cluster")

#: Seconds between two tries to take up a turn whose session another process has, and how long its slot is held for it.
_BUSY_PAUSE, _BUSY_SECONDS = 0.2, 3.0
#: Seconds until a turn whose session is busy for longer is taken again.
_LATER_SECONDS = 5.0
#: How long a worker that starts waits until it is notified of turns. It takes turns all the same.
_LISTEN_SECONDS = 5.0
#: The exit status of a worker that others have replaced.
EVICTED = 75


class _RunningTurn:
    def __init__(self, taken: TakenTurn) -> None:
        self.turn_id, self.session_id, self.queue = taken
        self.interrupt = Interrupt()
        #: The channels that its end is sent to, and those that its events are sent to.
        self.followers: tuple[str, ...] = ()
        self.listeners: tuple[str, ...] = ()

    def add_listeners(self, channels: Iterable[str]) -> None:
        """Send its events to these channels too, and tell them how it ends."""
        self.followers = tuple(dict.fromkeys((*self.followers, *channels)))
        self.listeners = tuple(dict.fromkeys((*self.listeners, *channels)))


class Worker:
    """Turns of a cluster in this process. ``start`` returns when it takes turns; ``stop`` waits for those it runs."""

    def __init__(
        self,
        host: Host,
        settings: WorkerConfig,
        *,
        entry_for: Callable[[str], TurnEntry | None] = lambda _platform: None,
        metrics: TurnMetrics | None = None,
    ) -> None:
        self._host = host
        self._metrics = metrics
        self._store = cluster_store(host)
        self._execution = Execution(host, entry_for)
        #: In the order in which they were taken.
        self._running: list[_RunningTurn] = []
        self._changed = threading.Condition()
        self.is_draining = threading.Event()
        self.id = host.runner.id
        self._taking = TurnTaking(
            self._store,
            TakeSettings(self.id, settings.workspace, LOOP_VERSION, settings.max_running_of_principal),
            {TURNS: settings.slots, CHILDREN: settings.child_slots},
            self._start,
            poll_seconds=settings.poll_seconds,
        )
        self._publisher = Publisher(self._store)
        self._membership = Membership(self, settings)
        self._control = ChannelListener(
            self._store, CONTROL, self._receive, connected=self._membership.join, tick=self._membership.tick
        )

    # -- life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Join the cluster and take turns."""
        runner = self._host.runner
        if isinstance(runner, PostgresRunner):
            runner.on_eviction = self.evicted
        runner.start()
        self._publisher.start()
        self._control.start()
        self._control.is_connected.wait(_LISTEN_SECONDS)  # no notification is missed from now on
        self._taking.start()

    def stop(self, timeout: float) -> bool:
        """Take no more turns and leave when those that run have ended. False when some had not in that time.

        Others continue what is left.
        """
        self.is_draining.set()
        self._taking.close()
        with self._changed:
            is_done = self._changed.wait_for(lambda: not self._running, timeout)
        self._control.close()
        self._publisher.close()
        if is_done:
            self._host.store.write(self._membership.leave)
        return is_done

    @property
    def running(self) -> int:
        """How many turns run here."""
        with self._changed:
            return len(self._running)

    def problems(self) -> list[str]:
        """Why this worker takes no turns; nothing when it does."""
        found: list[str] = []
        if not self._control.is_connected.is_set():
            found.append("the database cannot be reached")
        if self.is_draining.is_set():
            found.append("it drains")
        return found

    # -- what the membership asks for ---------------------------------------------------------------------------

    def running_turns(self) -> set[str]:
        with self._changed:
            return {turn.turn_id for turn in self._running}

    def evicted(self) -> None:
        log.error("this worker was removed by others, who continue its turns; it leaves at once")
        logging.shutdown()
        os._exit(EVICTED)  # nothing of it may run on: its turns run elsewhere

    def drain(self) -> None:
        if not self.is_draining.is_set():
            log.info("asked to drain: no more turns are taken")
            self._taking.stop()
            self.is_draining.set()

    def cancel(self, turn_id: str, reason: str) -> None:
        with self._changed:
            for turn in self._running:
                if turn.turn_id == turn_id:
                    turn.interrupt.cancel(reason)

    # -- turns --------------------------------------------------------------------------------------------------

    def _start(self, taken: TakenTurn) -> None:
        """Begin to run a turn that this worker has taken."""
        turn = _RunningTurn(taken)
        with self._changed:
            self._running.append(turn)
        # In a context of its own: what plugins keep in context variables stays with its turn.
        self._host.workers.submit(lambda: Context().run(self._run_taken, turn))

    def _run_taken(self, turn: _RunningTurn) -> None:
        try:
            self._wait_for_earlier(turn)
            if self._metrics is None:
                self._run(turn)
            else:
                with self._metrics.turn() as states:
                    states.append(self._run(turn))
        except LeaseLost as error:
            log.warning("turn %s was left: %s", turn.turn_id, error)
        except BaseException:  # a plugin may try to end the program
            # Taking it up again counts in the journal: a turn that always fails like this ends as a dead letter.
            log.exception("turn %s was cut off and is taken up again", turn.turn_id)
        finally:
            with self._changed:
                self._running.remove(turn)
                self._changed.notify_all()
            self._taking.ended(turn.queue)

    def _wait_for_earlier(self, turn: _RunningTurn) -> None:
        """Wait for the end of the work of an earlier turn of the session here, whose end is recorded already."""

        def is_first() -> bool:
            return turn is next(one for one in self._running if one.session_id == turn.session_id)

        with self._changed:
            self._changed.wait_for(is_first)

    def _run(self, turn: _RunningTurn) -> str:
        submission = self._submission(turn.turn_id)
        if submission is None:
            return "gone"
        if self._metrics is not None and submission.state == "queued":
            self._metrics.waited(time.time() - submission.submitted_at)
        self._follow(turn, submission)
        while True:
            now = self._run_when_free(turn, submission)
            if now is None:
                self._postpone(submission)
                return "postponed"
            if now.state != "suspended":
                break
            if self._suspend(submission):
                self._publisher.send(turn.followers, turn.turn_id, None, "suspended")
                return "suspended"
            # The answer was faster than the turn.
        if self.is_draining.is_set():
            self._write(wake_workers)  # the next turn of its session is for them
        self._publisher.send(turn.followers, turn.turn_id, None, "ended")
        return "ended"

    def _follow(self, turn: _RunningTurn, submission: Submission) -> None:
        """Who is notified about a turn: its submission says so, and a notification may have come in between."""
        follower = submission.options.get("follower")
        with self._changed:
            if follower and follower not in turn.followers:
                turn.followers += (follower,)
            turn.add_listeners(submission.options.get("listeners", ()))

    def _run_when_free(self, turn: _RunningTurn, submission: Submission) -> DispatchedTurn | None:
        """Run a turn; None when another process has had its session for long."""
        give_up = time.monotonic() + _BUSY_SECONDS
        while True:
            try:
                return self._execution.run(submission, self._listener(turn), turn.interrupt)
            except SessionBusy as error:
                if time.monotonic() > give_up:
                    log.info("turn %s waits: %s", turn.turn_id, error)
                    return None
            except LeaseLost:
                raise
            except JournalError as error:
                # The database is away: what was recorded is there when it comes back.
                log.warning("turn %s is tried again: %s", turn.turn_id, error)
                give_up = time.monotonic() + _BUSY_SECONDS
            time.sleep(_BUSY_PAUSE)

    def _listener(self, turn: _RunningTurn) -> Listener:
        def listen(event: TurnEvent) -> None:
            if turn.listeners:
                self._publisher.send(turn.listeners, turn.turn_id, event)

        return listen

    def _submission(self, turn_id: str) -> Submission | None:
        return self._when_reached(
            lambda: self._host.store.read(lambda connection: find_submission(connection, turn_id))
        )

    def _suspend(self, submission: Submission) -> bool:
        """Give the slot back while the turn waits for an answer. False when the answer is there."""

        def write(connection: JournalConnection) -> bool:
            lock_session(connection, submission.session_id)
            if not has_pending(connection, submission.session_id):
                return False
            suspend(connection, submission.turn_id, self.id)
            return True

        return self._write(write)

    def _postpone(self, submission: Submission) -> None:
        turn_id = submission.turn_id
        self._write(lambda connection: give_back(connection, turn_id, self.id, seconds=_LATER_SECONDS))

    def _write(self, work: Callable[[JournalConnection], T]) -> T:
        return self._when_reached(lambda: self._host.store.write(work))

    def _when_reached(self, use: Callable[[], T]) -> T:
        """Use the database, for which a turn that runs waits as long as it takes."""
        while True:
            try:
                return use()
            except JournalError as error:
                log.warning("the database cannot be used; trying again: %s", error)
                time.sleep(_BUSY_PAUSE)

    # -- notifications ------------------------------------------------------------------------------------------

    def _receive(self, payload: str) -> None:
        message: dict[str, str] = msgspec.json.decode(payload)
        if "cancel" in message:
            self.cancel(message["cancel"], message.get("reason", ""))
        elif "follow" in message:
            with self._changed:
                for turn in self._running:
                    if turn.turn_id == message["follow"]:
                        turn.add_listeners((message["to"],))
        elif "wake" in message:
            self._taking.wake()
