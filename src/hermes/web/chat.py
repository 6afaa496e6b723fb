"""The chat of the page: messages become turns of a dispatcher, their text streams to open pages, questions wait there.

A turn that asks something is suspended and holds no thread. It continues when its question is answered: in the page,
with ``hermes approvals``, or by anyone else who may, also after a restart.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Sequence

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
from hermes.agent.session import Session
from hermes.contract.events import AttemptAnswered, TextDelta, TextWithdrawn, TurnEvent
from hermes.dispatch.port import DispatchedTurn, Dispatcher, TurnEntry, TurnRequest
from hermes.errors import HermesError, TurnSuspended
from hermes.host import Host
from hermes.journal.questions import Questions
from hermes.journal.turns.lifecycle import Submission, open_submissions
from hermes.scope import Interrupt, new_session_id
from hermes.web.live import JournalWatcher

PLATFORM = "web"

_LONGEST_MESSAGE = 200_000
#: Pieces of an answer that arrive faster than this are sent together.
_SECONDS_BETWEEN_PIECES = 0.04
#: How long turns may take to end by themselves, and after they were stopped.
_SECONDS_TO_SETTLE = 0.5
_SECONDS_TO_END = 3.0


class PageResponder:
    """Suspends a turn until its question is answered, however long that takes."""

    surface = PLATFORM

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        """Wait for the answer without a thread."""
        interrupt.check()
        raise TurnSuspended(None)

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        """Wait for the answer without a thread."""
        interrupt.check()
        raise TurnSuspended(None)


def page_entry(host: Host) -> TurnEntry:
    """What surrounds a turn of the page: its questions are asked there. For the dispatcher, under ``PLATFORM``."""

    @contextlib.contextmanager
    def entered(session: Session, _submission: Submission) -> Generator[None]:
        session.can_withdraw_text = True
        host.responders.attach(session.id, PageResponder())
        try:
            yield
        finally:
            host.responders.detach(session.id)

    return entered


class PageChat:
    """Sends messages of the page to the agent. Thread-safe.

    The dispatcher is given, because a gateway has one for all of its surfaces; its entry for ``PLATFORM`` is
    ``page_entry``. ``release`` ends the dispatcher of a page that has its own.
    """

    def __init__(self, host: Host, dispatcher: Dispatcher, *, owns_dispatcher: bool = True) -> None:
        self._host = host
        self._dispatcher = dispatcher
        self._owns_dispatcher = owns_dispatcher
        self._questions = Questions(host.store)
        #: The turns that wait for an answer, with their sessions.
        self._suspended: dict[str, str] = {}
        self._lock = threading.Lock()
        self._watcher: JournalWatcher | None = None

    def use(self, watcher: JournalWatcher) -> None:
        """Publish to these pages, and take up what an earlier process left."""
        self._watcher = watcher
        watcher.listeners.append(self._continue_answered)
        watcher.keep_watching = lambda: bool(self._suspended)
        if self._owns_dispatcher:
            self._dispatcher.start()
        for submission in open_submissions(self._host.store):
            if submission.source == PLATFORM:
                self._follow(submission.turn_id, submission.session_id)

    def send(self, text: str, session_id: str, key: str) -> dict[str, str]:
        """Accept a message for a session, or for a new one. It is on disk when this returns."""
        if not text.strip() or len(text) > _LONGEST_MESSAGE:
            raise HermesError(f"a message has 1 to {_LONGEST_MESSAGE:,} characters")
        if not key or len(key) > 200:
            raise HermesError("a message needs a key of its own, with which it is accepted once")
        cwd = str(self._host.cwd)
        if session_id:
            row = self._host.sessions.get(session_id)
            if row.principal or row.parent_id:
                whose = f"of {row.principal}" if row.principal else "of a child agent"
                raise HermesError(f"session {row.id} is one {whose}; begin a session of your own")
            session_id, cwd = row.id, row.cwd
        ticket = self._dispatcher.submit(
            TurnRequest(
                session_id=session_id or new_session_id(), message=text, request_key=key, platform=PLATFORM, cwd=cwd
            )
        )
        self._follow(ticket.turn_id, ticket.session_id)
        return {"session": ticket.session_id, "turn": ticket.turn_id}

    def stop(self, session_id: str) -> bool:
        """Stop what runs and waits in a session. False when nothing did."""
        open_turns = [one for one in open_submissions(self._host.store) if one.session_id == session_id]
        stopped = [self._dispatcher.cancel(one.turn_id, "stopped in the page") for one in open_turns]
        with self._lock:
            for one in open_turns:
                self._suspended.pop(one.turn_id, None)
        return any(stopped)

    def _follow(self, turn_id: str, session_id: str) -> None:
        """Stream the text of a turn, and notice when it asks something."""

        def settled(now: DispatchedTurn) -> None:
            with self._lock:
                if now.state == "suspended":
                    self._suspended[turn_id] = session_id
                else:
                    self._suspended.pop(turn_id, None)
            if now.state == "suspended" and self._watcher is not None:
                self._watcher.look_again()  # the answer may have come before this was noted

        self._dispatcher.watch(turn_id, settled, listener=_Streamed(self._publisher(session_id)))

    def _publisher(self, session_id: str) -> Callable[[str, bool], None]:
        def publish(text: str, resets: bool) -> None:
            if self._watcher is not None:
                self._watcher.publish(session_id, "text", {"text": text, "reset": resets})

        return publish

    def _continue_answered(self) -> None:
        """Continue the turns whose questions have been answered. Called after every commit."""
        with self._lock:
            waiting = list(self._suspended.items())
        for turn_id, session_id in waiting:
            if not self._questions.pending(session_id=session_id):
                with self._lock:
                    self._suspended.pop(turn_id, None)
                self._dispatcher.resume(turn_id)
                self._follow(turn_id, session_id)

    def close(self) -> None:
        """Stop the turns that run. What waits, for its start or for an answer, stays for the next process."""
        if not self._owns_dispatcher or self._dispatcher.release(_SECONDS_TO_SETTLE):
            return
        for one in open_submissions(self._host.store):
            is_running = one.source == PLATFORM and one.state == "running"
            if is_running and not self._questions.pending(session_id=one.session_id):
                with contextlib.suppress(HermesError):
                    self._dispatcher.cancel(one.turn_id, "the page was stopped")
        self._dispatcher.release(_SECONDS_TO_END)


class _Streamed:
    """The listener of a turn: sends its text on, in pieces that are worth a message."""

    def __init__(self, publish: Callable[[str, bool], None]) -> None:
        self._publish = publish
        self._waiting = ""
        self._sent_at = 0.0

    def __call__(self, event: TurnEvent) -> None:
        if isinstance(event, TextDelta):
            self._waiting += event.text
            if time.monotonic() - self._sent_at > _SECONDS_BETWEEN_PIECES:
                self._flush()
        elif isinstance(event, TextWithdrawn):
            self._waiting = ""
            self._publish("", True)
        elif isinstance(event, AttemptAnswered):
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._publish(self._waiting, False)
            self._waiting, self._sent_at = "", time.monotonic()
