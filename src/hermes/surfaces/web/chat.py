"""The chat of the page: messages become turns of a dispatcher, their text streams to open pages, questions wait there.

A turn that asks something is suspended and holds no thread. It continues when its question is answered: in the page,
with ``hermes approvals``, or by anyone else who may, also after a restart.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator

from hermes.agent.session import Session
from hermes.base.errors import HermesError
from hermes.base.scope import new_session_id
from hermes.contract.events import TextWithdrawn
from hermes.host import Host
from hermes.journal.turns.lifecycle import Submission, open_submissions
from hermes.service.dispatch.port import Dispatcher, TurnEntry, TurnRequest
from hermes.service.live.questions import SuspendingResponder, asking
from hermes.service.live.turn import LiveEntry, LiveTurn, ReplyEnded, TextAdded
from hermes.service.live.turns import LiveTurns
from hermes.surfaces.web.live import JournalWatcher

PLATFORM = "web"

_LONGEST_MESSAGE = 200_000
#: Pieces of an answer that arrive faster than this are sent together.
_SECONDS_BETWEEN_PIECES = 0.04
#: How long turns may take to end by themselves, and after they were stopped.
_SECONDS_TO_SETTLE = 0.5
_SECONDS_TO_END = 3.0


def page_entry(host: Host) -> TurnEntry:
    """What surrounds a turn of the page: its questions are asked there. For the dispatcher, under ``PLATFORM``."""

    @contextlib.contextmanager
    def entered(session: Session, _submission: Submission) -> Generator[None]:
        session.can_withdraw_text = True
        with asking(host, session, SuspendingResponder(PLATFORM, timeout=None)):
            yield

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
        self._turns = LiveTurns(host, PLATFORM)
        self._watcher: JournalWatcher | None = None

    def use(self, watcher: JournalWatcher) -> None:
        """Publish to these pages, and take up what an earlier process left."""
        self._watcher = watcher
        if self._owns_dispatcher:
            self._dispatcher.start()
        for submission in self._turns.start(self._dispatcher):
            self._turns.take_up(self._live(submission.session_id), submission.turn_id)

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
        session_id = session_id or new_session_id()
        request = TurnRequest(session_id=session_id, message=text, request_key=key, platform=PLATFORM, cwd=cwd)
        ticket = self._turns.accept(self._live(session_id), request)
        return {"session": ticket.session_id, "turn": ticket.turn_id}

    def stop(self, session_id: str) -> bool:
        """Stop what runs and waits in a session. False when nothing did."""
        open_turns = [one for one in open_submissions(self._host.store) if one.session_id == session_id]
        stopped = [self._turns.stop_turn(one.turn_id, "stopped in the page") for one in open_turns]
        return any(stopped)

    def _live(self, session_id: str) -> LiveTurn:
        """A turn whose text goes to the pages of its session."""
        live = LiveTurn(session_id, self._host.redactor)

        def publish(text: str, resets: bool) -> None:
            if self._watcher is not None:
                self._watcher.publish(session_id, "text", {"text": text, "reset": resets})

        live.subscribe(_Streamed(publish))
        return live

    def close(self) -> None:
        """Stop the turns that run. What waits, for its start or for an answer, stays for the next process."""
        self._turns.close()
        if not self._owns_dispatcher or self._dispatcher.release(_SECONDS_TO_SETTLE):
            return
        for one in open_submissions(self._host.store):
            is_running = one.source == PLATFORM and one.state == "running"
            if is_running and not self._turns.questions.of_session(one.session_id):
                with contextlib.suppress(HermesError):
                    self._dispatcher.cancel(one.turn_id, "the page was stopped")
        self._dispatcher.release(_SECONDS_TO_END)


class _Streamed:
    """Sends the text of a turn on, in pieces that are worth a message."""

    def __init__(self, publish: Callable[[str, bool], None]) -> None:
        self._publish = publish
        self._waiting = ""
        self._sent_at = 0.0

    def __call__(self, entry: LiveEntry) -> None:
        match entry.event:
            case TextAdded() as added:
                self._waiting += added.text
                if time.monotonic() - self._sent_at > _SECONDS_BETWEEN_PIECES:
                    self._flush()
            case TextWithdrawn():
                self._waiting = ""
                self._publish("", True)
            case ReplyEnded():
                self._flush()
            case _:
                pass

    def _flush(self) -> None:
        if self._waiting:
            self._publish(self._waiting, False)
            self._waiting, self._sent_at = "", time.monotonic()
