"""Questions of turns: who is asked, how a question is written for others, and the wait for its answer.

The questions themselves are in the journal (``journal/questions.py``), for every surface. A turn that asks is suspended
and holds no thread. It continues when its questions are answered, by anyone who may and from any process, or when their
time is over; also after a restart.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Generator, Sequence
from typing import NoReturn

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest, Choice, Responder
from hermes.agent.session import Session
from hermes.base.errors import HermesError, JournalError, SessionNotFound, TurnSuspended
from hermes.base.sanitize import Redactor
from hermes.base.sanitize.hidden import escape_hidden
from hermes.base.scope import Interrupt
from hermes.host import Host
from hermes.journal.questions import OWNER, QuestionRow, Questions, abridged
from hermes.journal.store.port import Store

log = logging.getLogger("hermes.live")

NO_ANSWER = "no answer in time"

#: Seconds between two looks for answers, and after a look that failed.
_LOOK_EVERY, _LOOK_AFTER_FAILURE = 0.1, 1.0
#: Of a responder that waits on its thread.
_LOOK_FOR_ONE = 0.2
_CHOICES: dict[str, Choice] = {"once": "once", "session": "session", "always": "always"}


# -- who is asked ----------------------------------------------------------------------------------------------------


class SuspendingResponder:
    """The ``Responder`` of a surface that shows questions and takes their answers elsewhere: it suspends the turn."""

    def __init__(
        self,
        surface: str,
        *,
        timeout: float | None,
        asks_owner: bool = False,
        decide: Callable[[ApprovalRequest], ApprovalAnswer | None] = lambda _request: None,
        can_answer: bool = True,
    ) -> None:
        """``timeout`` is how many seconds an answer may take; None is any time.

        ``asks_owner``: approvals are for the owner, not for the user of the surface. ``decide`` gives the answer to an
        approval that needs no one to be asked. ``can_answer``: the user sees questions of the model and can answer.
        """
        self.surface = surface
        self.approval_surface = OWNER if asks_owner else surface
        self._timeout = timeout
        self._decide = decide
        self._can_answer = can_answer

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        """Suspend the turn until there is an answer."""
        interrupt.check()
        return self._decide(request) or self._suspend()

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        """Suspend the turn until there is an answer; at once without one when the user cannot give any."""
        interrupt.check()
        return self._suspend() if self._can_answer else None

    def _suspend(self) -> NoReturn:
        raise TurnSuspended(None if self._timeout is None else time.time() + self._timeout)


def refusing_unkept(reason: str) -> Callable[[ApprovalRequest], ApprovalAnswer | None]:
    """Denies what can be allowed for one call only: it is about approvals themselves, or hides what it does."""
    return lambda request: None if request.can_be_kept else ApprovalAnswer("deny", reason)


class JournalResponder:
    """The ``Responder`` of a surface whose turns keep their thread: waits until an approval is answered in the journal.

    Questions of the model are not for the client of such a call: it decides by itself and says what it assumed.
    """

    def __init__(self, surface: str, questions: Questions, *, timeout: float, asks_owner: bool) -> None:
        self.surface = surface
        self.approval_surface = OWNER if asks_owner else surface
        self._questions = questions
        self._timeout = timeout

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        """The stored answer, as soon as there is one; ``timeout`` when there is none in time."""
        deadline = time.monotonic() + self._timeout
        while time.monotonic() < deadline:
            row = self._questions.get(request.id)
            if row is not None and row.state != "pending":
                return ApprovalAnswer(_CHOICES.get(row.answer or "", "deny"), row.reason, row.answered_by)
            if interrupt.wait(_LOOK_FOR_ONE):
                interrupt.check()
        return ApprovalAnswer("timeout")

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        """None: no one answers."""
        return None


@contextlib.contextmanager
def asking(host: Host, session: Session, responder: Responder) -> Generator[None]:
    """Send the questions of a session there while its turn runs."""
    host.responders.attach(session.id, responder)
    try:
        yield
    finally:
        host.responders.detach(session.id)


# -- words -----------------------------------------------------------------------------------------------------------


def outgoing_subject(question: QuestionRow, redactor: Redactor, limit: int) -> str:
    """What a question is about, for others: without secrets and hidden characters, and not too long."""
    return abridged(escape_hidden(redactor.redact(question.subject)), limit)


def read_choice(text: str, choices: Sequence[str]) -> str:
    """The answer to a question of the model: the choice of that number, or the words themselves."""
    words = text.strip()
    number = int(words) if words.isdecimal() and len(words) < 3 else 0
    return choices[number - 1] if 1 <= number <= len(choices) else words


# -- the wait for answers --------------------------------------------------------------------------------------------


class OpenQuestions:
    """The open questions of suspended turns of one surface. A thread looks for their answers while there are any.

    ``continue_turn`` is called on that thread with the id of a turn whose questions are all answered, or overdue.
    """

    def __init__(self, store: Store, continue_turn: Callable[[str], None]) -> None:
        self._store = store
        self._continue_turn = continue_turn
        self.stored = Questions(store)
        #: The turn of each question, and when it counts as unanswered.
        self._open: dict[str, tuple[str, float]] = {}
        #: The turns that wait for nothing any more.
        self._ready: list[str] = []
        self._changed = threading.Condition()
        #: The journal as it was at the last look; None has it looked at again.
        self._mark: object = None
        self._thread: threading.Thread | None = None
        self._is_closed = self._is_answered = False

    def watch(self, turn_id: str, asked: Sequence[QuestionRow]) -> None:
        """Look for the answers to the questions of a turn that was suspended, from now on."""
        with self._changed:
            self._open.update((one.id, (turn_id, one.deadline or math.inf)) for one in asked)
            self._mark = None  # the answer may have come before it was looked for
            if asked and self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._watch, name="hermes-questions", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def of_session(self, session_id: str) -> list[QuestionRow]:
        """The open questions of a session, oldest first."""
        return list(reversed(self.stored.pending(session_id=session_id)))

    def answer(self, question_id: str, answer: str, reason: str, *, by: str = "") -> QuestionRow:
        """Store an answer and who gave it; a turn that waits for it here continues at once."""
        row = self.stored.answer(question_id, answer, reason, by=by)
        with self._changed:
            self._mark, self._is_answered = None, True
            self._changed.notify_all()
        return row

    def forget(self, turn_id: str) -> None:
        """Look for the answers of a turn no longer: it is about to be stopped, which withdraws its questions."""
        with self._changed:
            self._open = {question: one for question, one in self._open.items() if one[0] != turn_id}

    def close(self) -> None:
        """End the thread. The questions stay in the journal for the next process."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    # -- the thread ---------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        pause = _LOOK_EVERY
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._open or self._ready or self._is_closed)
                self._changed.wait_for(lambda: self._is_closed or self._is_answered, pause)
                if self._is_closed:
                    return
                self._is_answered = False
            try:
                self._look()
                pause = _LOOK_EVERY
            except Exception as error:
                if self._is_closed:
                    return
                pause = _LOOK_AFTER_FAILURE
                is_ours = not isinstance(error, HermesError)  # its place is worth a log
                log.warning("answers cannot be looked for; trying again: %s", error, exc_info=is_ours)

    def _look(self) -> None:
        now = self._store.change_mark()
        if self._expire() or now != self._mark:
            self._mark = now
            self._take_answered()
        while self._ready:
            turn_id = self._ready[0]
            try:
                self._continue_turn(turn_id)
            except Exception as error:
                if isinstance(error, JournalError) and not isinstance(error, SessionNotFound):
                    raise  # it is tried again
                # Such as a session that was deleted: the other turns must not wait for it.
                log.exception("turn %s cannot be continued with the answer to its question", turn_id)
            self._ready.pop(0)

    def _expire(self) -> bool:
        """Answer the questions whose time is over: an approval timed out, a question of the model has no answer."""
        now = time.time()
        with self._changed:
            late = [question_id for question_id, (_, deadline) in self._open.items() if deadline <= now]
        for question in self.stored.overdue(now) if late else ():
            if question.id in late:
                self.stored.answer(question.id, "timeout" if question.kind == "approval" else "", NO_ANSWER)
        return bool(late)

    def _take_answered(self) -> None:
        with self._changed:
            asked = list(self._open)
        settled = self.stored.settled(asked)
        with self._changed:
            turns = {self._open.pop(question_id)[0]: None for question_id in settled if question_id in self._open}
            left = {turn_id for turn_id, _ in self._open.values()}
            self._ready += [turn_id for turn_id in turns if turn_id not in left]
