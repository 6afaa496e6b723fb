"""Tools, inputs and users of a replay: they return what they returned when the run was recorded, and run nothing."""

from __future__ import annotations

import re
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, cast, get_args

from msgspec.structs import replace

from hermes.agent.approvals.question import call_digest
from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest, Choice
from hermes.agent.children.assignments import DELEGATE
from hermes.agent.context.inputs import PromptFacts
from hermes.base.errors import HermesError, Interrupted
from hermes.base.scope import Interrupt, current_scope
from hermes.journal.bodies import message_text
from hermes.journal.questions import QuestionRow
from hermes.journal.records import CallRecord, SteeringRecord, WindowRecord
from hermes.models.endpoint import Endpoint
from hermes.record.recording import Recording, TurnRecording
from hermes.tools.declarations.origin import fetches
from hermes.tools.registry import Args, Effect, Tool, ToolContext, ToolRegistry
from hermes.tools.results import is_marked, tool_error
from hermes.tools.skills.skills import TOOL_NAMES as SKILL_TOOLS

_FAILED = "Tool execution failed: "
_CANCELLED = re.compile(r"The call was cancelled \((.*)\)", re.DOTALL)


class RecordedTools:
    """Replaces the tools of a host."""

    def __init__(self, recording: Recording) -> None:
        self._turns = {turn.id: turn for session in recording.family() for turn in session.turns}
        #: Recorded tools that this host does not have.
        self.missing: list[str] = []

    def install(self, registry: ToolRegistry) -> None:
        """Replace every tool, and add those that only the record knows."""
        offered = self._offered()
        for tool in list(registry.all().values()):
            recorded = replace(tool, run=self._run_of(tool), preview=None)
            if callable(tool.untrusted) and tool.untrusted is not fetches:
                recorded = replace(recorded, untrusted=self._was_marked)
            if tool.available is not None:
                recorded = replace(recorded, available=partial(offered.__contains__, tool.name))
            registry.add(recorded, override=True)
        effects = self._effects()
        for name, definition in offered.items():
            if registry.get(name) is None:
                self.missing.append(name)
                effect: Effect = effects.get(name, "unsafe")
                parameters: dict[str, Any] = definition.get("parameters") or {}
                about: str = definition.get("description", "")
                registry.add(Tool(name, "recorded", about, parameters, self._answer, effect))

    def order(self, tools: Iterable[Tool], registry: ToolRegistry, turn: TurnRecording) -> list[Tool]:
        """The tools that a turn offers, with those that only the record knows at their recorded place."""
        names: list[str] = [definition["function"]["name"] for definition in turn.setup.tools]
        # Tools for skills come with their files, and a skill may narrow the tools of one turn.
        left_out = ({*self._offered(), *SKILL_TOOLS}) - set(names)
        offered = {tool.name: tool for tool in tools if tool.name not in left_out}
        for name in self.missing:
            found = registry.get(name)
            if found is not None:
                offered[name] = found
        if not self.missing:
            return list(offered.values())
        known = [offered.pop(name) for name in names if name in offered]
        return [*known, *(tool for name, tool in offered.items() if name not in self.missing)]

    # -- answers ------------------------------------------------------------------------------------------------

    def _run_of(self, tool: Tool) -> Callable[[Args, ToolContext], str]:
        if tool.name != DELEGATE:
            return self._answer

        def delegate(args: Args, context: ToolContext) -> str:
            tool.run(args, context)  # the children are run again; how long they took is as it was
            return self._answer(args, context)

        return delegate

    def _answer(self, args: Args, context: ToolContext) -> str:
        turn = self._turns.get(context.scope.turn_id)
        call: CallRecord | None = turn.steps.get(context.key) if turn is not None else None
        if turn is None or call is None:
            return tool_error("the record has no such call", error_type="not_recorded")
        if call.args != args:
            return tool_error("the record has this call with other arguments", error_type="not_recorded")
        message = call.error_message or ""
        if call.status == "cancelled":
            found = _CANCELLED.fullmatch(message)
            reason = found.group(1) if found else message
            if context.key not in turn.earlier:
                context.scope.interrupt.cancel(reason)
            raise Interrupted(reason)
        start = f"{_FAILED}{call.error_type}: "
        if message.startswith(start):
            raise type(call.error_type or "", (HermesError,), {})(message.removeprefix(start))
        return call.result

    def _was_marked(self, args: Args, context: ToolContext) -> bool:
        """Whether a result was one of strangers then: files, links and processes of another machine are not here."""
        del args
        turn = self._turns.get(context.scope.turn_id)
        step, _, index = context.key.removeprefix("tool:").partition(".")
        if turn is None or not step.isdecimal() or not index.isdecimal():
            return False
        return is_marked(message_text(turn.messages.get((int(step), int(index) + 1), {})))

    # -- the record ---------------------------------------------------------------------------------------------

    def _offered(self) -> dict[str, dict[str, Any]]:
        tools: dict[str, dict[str, Any]] = {}
        for turn in self._turns.values():
            for definition in turn.setup.tools:
                tools.setdefault(definition["function"]["name"], definition["function"])
        return tools

    def _effects(self) -> dict[str, Any]:
        effects: dict[str, Any] = {}
        for turn in self._turns.values():
            for key, call in turn.tool_calls().items():
                effects[call.name] = turn.effects[key]
        return effects


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
