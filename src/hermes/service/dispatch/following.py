"""Submitted turns as they are followed: by dispatchers for any number, by a caller that waits for one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from hermes.agent.events import Listener, Listeners, ignore_events
from hermes.agent.session import Session
from hermes.base.errors import JournalError
from hermes.base.scope import Interrupt
from hermes.host import Host
from hermes.journal.turns.lifecycle import Submission
from hermes.service.dispatch.port import DispatchedTurn, Dispatcher

log = logging.getLogger("hermes.dispatch")

Settled = Callable[[DispatchedTurn], None]

#: How soon an interrupt is noticed. The end of the turn is noticed at once.
_POLL_SECONDS = 0.05


class FollowedTurn:
    """A turn that others follow: who listens to its events, who waits for its end or a question, and its state now."""

    def __init__(self, turn_id: str) -> None:
        self.turn_id = turn_id
        self.listeners = Listeners(f"turn {turn_id}")
        self.watchers: list[Settled] = []
        self.now = DispatchedTurn("queued")

    def listen(self, listener: Listener) -> None:
        """Send its events there from now on, once."""
        if listener is not ignore_events and listener not in self.listeners.all:
            self.listeners.all.append(listener)

    def settle(self, now: DispatchedTurn) -> None:
        """It has ended or is suspended: its watchers are notified, once."""
        self.notify(self.take_watchers(now))

    def take_watchers(self, now: DispatchedTurn) -> list[Settled]:
        """Note its state; the watchers that are to be notified of it."""
        self.now = now
        watchers, self.watchers = self.watchers, []
        return watchers

    def notify(self, watchers: list[Settled]) -> None:
        """Tell them the state of the turn."""
        for settled in watchers:
            try:
                settled(self.now)
            except Exception:
                log.exception("the end of turn %s could not be reported", self.turn_id)


def follow(
    dispatcher: Dispatcher,
    turn_id: str,
    interrupt: Interrupt,
    *,
    listener: Listener = ignore_events,
    is_left: Callable[[], bool] = lambda: False,
) -> DispatchedTurn:
    """Wait until a turn has ended or is suspended, and stop it when the caller is interrupted.

    ``is_left`` says whether an interrupt leaves the turn to those who run it; its state is ``running`` then.
    """
    over = threading.Event()
    found: list[DispatchedTurn] = []

    def settled(now: DispatchedTurn) -> None:
        found.append(now)
        over.set()

    dispatcher.watch(turn_id, settled, listener=listener)
    is_stopped = False
    while not over.wait(_POLL_SECONDS):
        if not interrupt.cancelled or is_stopped:
            continue
        if is_left():
            return DispatchedTurn("running")
        try:
            dispatcher.cancel(turn_id, interrupt.reason)
            is_stopped = True
        except JournalError as error:
            log.warning("turn %s cannot be stopped; trying again: %s", turn_id, error)
            interrupt.wait(_POLL_SECONDS)
    return found[0]


def model_extra(provider: str, model: str) -> dict[str, Any]:
    """What the submission of a turn says for ``use_model``, when it is to be answered by another model."""
    return {"provider": provider, "model": model} if provider or model else {}


def use_model(host: Host, session: Session, submission: Submission) -> None:
    """Answer this turn with the model that the submission names, if it names one."""
    extra: dict[str, Any] = submission.options.get("extra", {})
    provider, model = extra.get("provider", ""), extra.get("model", "")
    if provider or model:
        session.use_next_turn(host.models.conversation(provider=provider, model=model))
