"""The state of a turn that a dispatcher has, waited for on the thread of a test."""

from __future__ import annotations

import threading

from hermes.agent.events import Listener, ignore_events
from hermes.host import Host
from hermes.journal.turns.lifecycle import find_submission
from hermes.service.dispatch.port import DispatchedTurn, Dispatcher


def wait_turn(
    dispatcher: Dispatcher, turn_id: str, *, timeout: float | None = None, listener: Listener = ignore_events
) -> DispatchedTurn:
    """Wait until the turn has ended or is suspended, or until the time is over; its state then."""
    over, found = threading.Event(), list[DispatchedTurn]()

    def settled(now: DispatchedTurn) -> None:
        found.append(now)
        over.set()

    dispatcher.watch(turn_id, settled, listener=listener)
    if over.wait(timeout):
        return found[0]
    host: Host = vars(dispatcher)["_host"]
    submission = host.store.read(lambda connection: find_submission(connection, turn_id))
    assert submission is not None
    assert submission.state in ("queued", "running")
    return DispatchedTurn(submission.state)
