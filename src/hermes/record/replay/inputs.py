"""Recorded inputs: those of the turns of a run, and the answers of the user that was asked."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import cast, get_args

from hermes.agent.approvals.question import call_digest
from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest, Choice
from hermes.agent.context.inputs import PromptFacts
from hermes.base.errors import HermesError
from hermes.base.scope import Interrupt, current_scope
from hermes.journal.questions import QuestionRow
from hermes.journal.records import SteeringRecord, WindowRecord
from hermes.models.endpoint import Endpoint
from hermes.record.recording import Recording, TurnRecording


class RecordedInputs:
    """The inputs of the turns of a recording."""

    def __init__(self, recording: Recording) -> None:
        self._sessions = {session.id: session for session in recording.family()}
        self._turns = {turn.id: turn for session in recording.family() for turn in session.turns}

    def turn_id(self, session_id: str, turn: int) -> str | None:
        """The recorded id, from which the ids of children are made."""
        session = self._sessions.get(session_id)
        return session.turns[turn].id if session is not None and turn < len(session.turns) else None

    def facts(self, session_id: str, turn_id: str) -> PromptFacts:
        """The folder, the system, the day, the files and the memory that the prompt was made from."""
        del session_id  # a turn has one session
        turn = self._turns.get(turn_id)
        return PromptFacts() if turn is None else turn.facts()

    def texts(self, session_id: str, turn_id: str, step: int) -> list[str]:
        """The messages that were added to the turn after a step."""
        del session_id
        turn = self._turns.get(turn_id)
        added: SteeringRecord | None = None if turn is None else turn.steps.get(f"steer:{step}")
        return [] if added is None else list(added.texts)


class RecordedWindows:
    """The context windows that servers told when the turns of a recording ran."""

    def __init__(self, recording: Recording) -> None:
        self._turns = {turn.id: turn for session in recording.family() for turn in session.turns}

        #: The turns that have asked.
        self._asked: set[str] = set()

    def known(self, endpoint: Endpoint) -> int | None:
        """What had been told when the running turn was set up, and since."""
        turn = self._running()
        if turn is not None and turn.id in self._asked:
            return self._told(turn)
        del endpoint  # a turn has one
        return None if turn is None else turn.setup.window or None

    def find(self, endpoint: Endpoint, interrupt: Interrupt) -> int | None:
        """What was told in the running turn."""
        del endpoint, interrupt
        turn = self._running()
        if turn is None:
            return None
        self._asked.add(turn.id)
        return self._told(turn)

    def _told(self, turn: TurnRecording) -> int | None:
        return next((step.tokens for step in turn.steps.values() if isinstance(step, WindowRecord)), None)

    def _running(self) -> TurnRecording | None:
        scope = current_scope.get()
        return None if scope is None else self._turns.get(scope.turn_id)


class RecordedResponder:
    """Answers approvals as the user did then. What was not asked then is denied."""

    def __init__(self, questions: Sequence[QuestionRow]) -> None:
        self.surface = questions[0].surface if questions else "replay"
        self._lock = threading.Lock()
        self._answers: dict[str, deque[QuestionRow]] = defaultdict(deque)
        for question in questions:
            if question.answer is not None:
                self._answers[question.digest].append(question)

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        """The recorded answer about this very call."""
        interrupt.check()
        with self._lock:
            recorded = self._answers.get(call_digest(request.tool, request.args))
            if not recorded:
                return ApprovalAnswer("deny", "this was not asked when the run was recorded")
            answer = recorded.popleft()
        if answer.answer not in get_args(Choice):
            raise HermesError(f"the recorded answer {answer.answer!r} is none that a user can give")
        return ApprovalAnswer(cast("Choice", answer.answer), answer.reason)

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        """None: a recorded tool does not ask."""
        del question, choices, interrupt
        return None
