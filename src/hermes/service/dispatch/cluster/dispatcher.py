"""The dispatcher of a surface in a cluster: hands turns over to workers, and follows them."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from typing import Any, cast

import msgspec

from hermes.agent.events import Listener, ignore_events
from hermes.base.errors import JournalError, SessionNotFound
from hermes.host import Host
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.postgres import turn_queue
from hermes.journal.turns.lifecycle import Submission, accept_turn, cancel_queued
from hermes.service.dispatch.cluster.connections import ChannelListener, cluster_store
from hermes.service.dispatch.cluster.live import decode_event
from hermes.service.dispatch.execution import Execution
from hermes.service.dispatch.following import FollowedTurn, Settled, model_extra
from hermes.service.dispatch.port import DispatchedTurn, TurnRequest, TurnTicket

log = logging.getLogger("hermes.cluster")

#: How often turns that are waited for are looked up, for the case that a notification was lost.
_LOOK_SECONDS = 1.0


class _WorkerTurn(FollowedTurn):
    #: Whether the worker of the turn sends its events here; its end it reports anyway.
    is_live = False


class ClusterDispatcher:
    """Submits turns to the workers of a cluster. Implements ``Dispatcher``; runs nothing itself."""

    def __init__(self, host: Host, *, workspace: str = "") -> None:
        """``workspace`` is the name of the workers that share the files of these turns; empty is all workers."""
        self._host = host
        self._workspace = workspace
        self._execution = Execution(host, lambda _platform: None)
        self._channel = f"hermes_follow_{os.urandom(8).hex()}"
        self._followed: dict[str, _WorkerTurn] = {}
        #: The turns that the last look found settled. Their notification may be on its way, with their last events.
        self._found_settled: set[str] = set()
        self._changed = threading.Condition()
        self._has_offered = False
        self._subscription = ChannelListener(
            cluster_store(host),
            self._channel,
            self._receive,
            connected=self._offer_left,
            tick=self._look,
            seconds=_LOOK_SECONDS,
        )

    # -- the port -----------------------------------------------------------------------------------------------

    def submit(self, request: TurnRequest, *, listener: Listener = ignore_events) -> TurnTicket:
        session, submission, message = self._execution.prepare(self._with_model(request))
        is_live = listener is not ignore_events
        options = {
            **submission.options,
            "follower": self._channel,
            **({"listeners": [self._channel]} if is_live else {}),
        }
        submission = msgspec.structs.replace(submission, options=options)

        def write(connection: JournalConnection) -> tuple[Submission, bool]:
            turn_queue.lock_session(connection, session.id)
            accepted, is_new = accept_turn(connection, session, submission, message, self._execution.limits)
            if is_new:
                turn_queue.offer(connection, accepted.turn_id, self._workspace)
            return accepted, is_new

        if is_live:
            with self._changed:  # before a worker can have it
                followed = self._follow(submission.turn_id)
                followed.listen(listener)
                followed.is_live = True
        try:
            accepted, is_new = self._host.store.write(write)
        except BaseException:
            self._forget(submission.turn_id)
            raise
        if not is_new:
            self._forget(submission.turn_id)
            if is_live:
                self.watch(accepted.turn_id, lambda _turn: None, listener=listener)
        return TurnTicket(accepted.turn_id, accepted.session_id, is_new)

    def _with_model(self, request: TurnRequest) -> TurnRequest:
        """The request for the model that this process was started with, unless it names one itself."""
        asked, options = request.extra, self._host.options
        if asked.get("provider") or asked.get("model"):
            return request
        chosen = model_extra(options.provider, options.model)
        return msgspec.structs.replace(request, extra={**asked, **chosen}) if chosen else request

    def resume(self, turn_id: str, *, listener: Listener = ignore_events) -> None:
        submission = self._execution.submission(turn_id)
        if listener is not ignore_events:
            with self._changed:
                self._follow(turn_id).listen(listener)

        def write(connection: JournalConnection) -> None:
            turn_queue.lock_session(connection, submission.session_id)
            if turn_queue.resume(connection, turn_id) and listener is not ignore_events:
                turn_queue.add_listener(connection, turn_id, self._channel)

        with self._changed:
            followed = self._followed.get(turn_id)
            if followed is not None and followed.now.state == "suspended":
                followed.now = DispatchedTurn("queued")
        self._host.store.write(write)

    def cancel(self, turn_id: str, reason: str = "cancelled") -> bool:
        submission = self._execution.submission(turn_id)
        if submission.state not in ("queued", "running"):
            return False
        if not cancel_queued(self._host.store, turn_id, reason):
            is_suspended = self._mark_cancelled(submission, reason)
            if not is_suspended:
                return is_suspended is not None
            self._execution.abandon(submission, reason)
        self._settle(turn_id, DispatchedTurn("ended", self._execution.result(turn_id)))
        self._host.store.write(turn_queue.wake_workers)  # the next turn of its session may wait for them
        return True

    def watch(
        self,
        turn_id: str,
        settled: Settled,
        *,
        listener: Listener = ignore_events,
    ) -> None:
        with self._changed:
            followed = self._follow(turn_id)
            followed.watchers.append(settled)
            followed.listen(listener)
            was_live, before = followed.is_live, followed.now.state
            is_new = bool(followed.listeners.all) and not was_live
            followed.is_live = was_live or is_new
        if is_new:
            self._host.store.write(lambda connection: turn_queue.add_listener(connection, turn_id, self._channel))
        try:
            now = self._recorded(turn_id)  # it may have ended before it was followed
        except JournalError:
            self._forget(turn_id)
            raise
        # A turn whose events are sent here settles when the last of them was received, not when the journal says so.
        if now.state in ("ended", "suspended") and (not was_live or now.state == before):
            self._settle(turn_id, now)

    def start(self) -> None:
        self._subscription.start()

    @property
    def running(self) -> int:
        return 0  # workers run them

    def release(self, timeout: float | None = None) -> bool:
        self._subscription.close()
        return True

    # -- inside -------------------------------------------------------------------------------------------------

    def _offer_left(self, connection: JournalConnection) -> None:
        """Once: leave turns to the workers that an earlier process of a surface accepted to run them itself."""
        if not self._has_offered:
            turn_queue.offer_left(connection)
            self._has_offered = True

    def _mark_cancelled(self, submission: Submission, reason: str) -> bool | None:
        """Have the worker of a turn stop it. True when it is suspended and no worker has it; None when it has ended."""

        def write(connection: JournalConnection) -> bool | None:
            turn_queue.lock_session(connection, submission.session_id)
            return turn_queue.mark_cancelled(connection, submission.turn_id, reason)

        return self._host.store.write(write)

    def _follow(self, turn_id: str) -> _WorkerTurn:
        return self._followed.setdefault(turn_id, _WorkerTurn(turn_id))

    def _forget(self, turn_id: str) -> None:
        with self._changed:
            self._followed.pop(turn_id, None)

    def _settle(self, turn_id: str, now: DispatchedTurn) -> None:
        with self._changed:
            followed = self._followed.get(turn_id)
            if followed is None:
                return
            watchers = followed.take_watchers(now)
            if now.state == "ended":
                del self._followed[turn_id]
        followed.notify(watchers)

    def _receive(self, payload: str) -> None:
        message = cast("dict[str, Any]", msgspec.json.decode(payload))
        with self._changed:
            followed = self._followed.get(message["turn"])
        if followed is None:
            return
        for encoded in message["events"]:
            event = decode_event(encoded)
            if event is not None:
                followed.listeners(event)
        if message.get("state"):
            self._settle(message["turn"], self._recorded(message["turn"]))

    def _look(self, _connection: object) -> None:
        """Settle turns whose notification was lost: those that two looks in a row found settled."""
        with self._changed:
            waited = [turn_id for turn_id, followed in self._followed.items() if followed.watchers]
        if not waited:
            self._found_settled.clear()
            return
        with contextlib.suppress(JournalError):  # it is looked for again
            settled = self._host.store.read(lambda connection: turn_queue.settled(connection, waited))
            missed, self._found_settled = settled & self._found_settled, settled
            for turn_id in missed:
                now = self._recorded(turn_id)
                if now.state in ("ended", "suspended"):
                    self._settle(turn_id, now)

    def _recorded(self, turn_id: str) -> DispatchedTurn:
        state = self._host.store.read(lambda connection: turn_queue.state_of(connection, turn_id))
        if state is None:
            raise SessionNotFound(f"there is no submitted turn {turn_id!r}")
        if state in ("queued", "running", "suspended"):
            return DispatchedTurn(state)
        return DispatchedTurn("ended", self._execution.result(turn_id))
