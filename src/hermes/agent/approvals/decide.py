"""Whether a call may run: one decision function, and everything that is asked on the way to it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from hermes.agent.approvals import messages
from hermes.agent.approvals.assessment import WARY, PluginVerdict, Refusal, assess
from hermes.agent.approvals.inquiry import Answer, Inquiry, Question
from hermes.agent.approvals.responder import ApprovalRequest, Responder, Responders
from hermes.agent.approvals.rules import ApprovalRules
from hermes.agent.approvals.second_opinion import SecondOpinion
from hermes.agent.approvals.stored_question import UNSURE
from hermes.agent.approvals.subject import call_digest, judge_call, shown_call
from hermes.agent.guardrails import LoopGuard
from hermes.errors import HermesError
from hermes.hooks.observers import Answer as HookAnswer
from hermes.hooks.table import Hooks
from hermes.journal.questions import Questions
from hermes.sanitize import Redactor
from hermes.tools.registry import Args, Tool, ToolContext

log = logging.getLogger("hermes.approvals")

BlockReason = Refusal | Literal["guardrail_block", "approval_timeout", "headless_denied"]

#: A yes to these is for the one call only: what they find is different every time, or is this very gate.
_NEVER_KEPT = frozenset({"unreadable", "hidden-text", "partial-input", "own-runtime", "write-hermes-config", WARY})


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether the call may run, and what to tell the model when not."""

    allowed: bool
    message: str = ""
    error_type: BlockReason | None = None
    #: The recorded answer that the call uses up when it starts.
    approval_id: str = ""


ALLOWED = Decision(True)


class Approvals:
    """Decides about calls, for all conversations of a host."""

    def __init__(
        self,
        rules: ApprovalRules,
        *,
        home: Path,
        responders: Responders,
        hooks: Hooks,
        rows: Questions,
        redactor: Redactor,
        opinion: SecondOpinion | None = None,
        allow_everything: bool = False,
        always_asks: Callable[[str], bool] = lambda _session_id: False,
    ) -> None:
        self.rules = rules
        self._home = home
        self._responders = responders
        self._hooks = hooks
        self._rows = rows
        self._redactor = redactor
        self._opinion = opinion
        self._allow_everything = allow_everything
        #: Whether a user has to be asked about every command of a session, whatever the settings say.
        self._always_asks = always_asks
        #: What was said for single conversations, whatever the host as a whole allows.
        self._trusted: dict[str, bool] = {}
        self._asking: dict[str, threading.Lock] = {}

    # -- trust --------------------------------------------------------------------------------------------------

    def trust(self, session_id: str, trusted: bool) -> None:
        """Whether a conversation may do without asking what would need an approval."""
        self._trusted[session_id] = trusted

    def trusts(self, session_id: str) -> bool:
        """Whether nothing is asked in that conversation. Hardline commands and the user's refusals stay."""
        return self._trusted.get(session_id, self._allow_everything)

    # -- the decision -------------------------------------------------------------------------------------------

    def decide(
        self,
        tool: Tool,
        args: Args,
        context: ToolContext,
        *,
        verdict: PluginVerdict | None = None,
        loop: LoopGuard | None = None,
    ) -> Decision:
        """Whether the call may run now, with exactly these arguments. What must be asked, is asked here."""
        scope = context.scope
        judged = judge_call(tool, args, context, self._home)
        wary = tool.name == "terminal" and self._always_asks(scope.session_id)
        found = assess(self.rules, tool.name, judged, verdict, trusted=self.trusts(scope.session_id), wary=wary)
        if found.outcome == "refuse":
            return Decision(False, found.message, found.error_type)
        circling = loop.refusal(tool.name, args) if loop is not None else None
        if circling is not None:
            return Decision(False, circling, "guardrail_block")
        if found.outcome == "run":
            return ALLOWED
        subject = shown_call(tool.name, args, judged)
        digest = call_digest(tool.name, args)
        question = Question(tool.name, args, scope, context.key, digest, subject, found.findings)
        with self._turn_to_ask(scope.session_id):
            scope.interrupt.check()
            return self._resolve(question)

    def consume(self, approval_id: str) -> Decision:
        """Use up the answer that a call relies on, as the call starts."""
        if self._rows.consume(approval_id):
            return ALLOWED
        return Decision(False, messages.revoked(), "approval_denied")

    # -- asking -------------------------------------------------------------------------------------------------

    def _turn_to_ask(self, session_id: str) -> threading.Lock:
        """One question of a conversation at a time: the answer to the first may settle the second."""
        return self._asking.setdefault(session_id, threading.Lock())

    def _resolve(self, asked: Question) -> Decision:
        scope = asked.scope
        question = asked.without(self._rows.session_rules(scope.session_id))
        if not question.findings:
            return ALLOWED
        earlier = None
        if question.key:
            earlier = self._rows.find(
                session_id=scope.session_id, turn_id=scope.turn_id, key=question.key, digest=question.digest
            )
        if earlier is not None and earlier.state != "pending":
            # The process that asked has died since; what was said then still counts, once.
            return self._apply(question, Answer(earlier.answer or "deny", earlier.reason), earlier.id)
        inquiry = Inquiry(question, self._hooks, self._rows, earlier)
        by_model = self.rules.mode == "smart" and WARY not in question.rules
        answer = self._ask_model(question, inquiry) if by_model else None
        if answer is None:
            person = self._responders.get(scope.session_id)
            if person is None:
                inquiry.withdraw("nobody could be asked")
                return self._decide_alone(question)
            answer = inquiry.put(
                person.surface, lambda: self._ask_person(person, question, inquiry.id), command=question.subject
            )
        return self._apply(question, answer, inquiry.approval_id)

    def _ask_model(self, question: Question, inquiry: Inquiry) -> Answer | None:
        opinion = self._opinion
        if opinion is None:
            return None

        def ask() -> Answer:
            return Answer(opinion.ask(question.tool, question.subject, question.description, question.scope))

        command = self._redactor.redact(question.subject)
        answer = inquiry.put("smart", ask, command=command, decided_by="aux_llm")
        return None if answer.choice == UNSURE else answer

    def _ask_person(self, person: Responder, question: Question, approval_id: str) -> Answer:
        can_be_kept = _NEVER_KEPT.isdisjoint(question.rules)
        request = ApprovalRequest(
            id=approval_id,
            session_id=question.scope.session_id,
            tool_call_id=question.scope.tool_call_id,
            tool=question.tool,
            args=question.args,
            subject=question.subject,
            description=question.description,
            rules=question.rules,
            timeout=self.rules.timeout,
            can_be_kept=can_be_kept,
        )
        try:
            answer = person.approve(request, question.scope.interrupt)
        except Exception as error:
            # Not to be able to ask must not mean yes.
            log.warning("an approval could not be asked for: %s: %s", type(error).__name__, error)
            return Answer("deny", "the question could not be asked")
        kept = answer.choice in ("session", "always")
        return Answer("once" if kept and not can_be_kept else answer.choice, answer.reason)

    def _decide_alone(self, question: Question) -> Decision:
        """There is nobody to ask. A child of an agent with a person must not do what the person was not asked."""
        if WARY in question.rules:
            return Decision(False, messages.nobody_to_ask_about_the_embedded_model(), "headless_denied")
        ancestors = self._rows.ancestors(question.scope.session_id)
        attended = any(self._responders.get(session_id) is not None for session_id in ancestors)
        if self.rules.headless == "allow" and not attended:
            return ALLOWED
        message = messages.nobody_to_ask(question.findings, is_child=bool(ancestors))
        return Decision(False, message, "headless_denied")

    def _apply(self, question: Question, answer: Answer, approval_id: str) -> Decision:
        """What an answer means. This is the one way out for everything that was asked."""
        match answer.choice:
            case "once" | "smart_approve":
                return Decision(True, approval_id=approval_id)
            case "session":
                return ALLOWED  # the row itself is the grant
            case "always":
                self._keep(question.rules)
                return Decision(True, approval_id=approval_id)
            case "timeout":
                return Decision(False, messages.timed_out(self.rules.timeout), "approval_timeout")
            case "smart_deny":
                return Decision(False, messages.denied_by_model(question.findings), "approval_denied")
            case _:
                return Decision(False, messages.denied(answer.reason), "approval_denied")

    def _keep(self, rules: Sequence[str]) -> None:
        """Approve rules for good. A file that cannot be changed leaves them approved in this process."""
        from hermes.config.edit import edit_list  # brings a YAML library along that keeps comments

        self.rules.approve(rules)
        try:
            edit_list(self._home, "command_allowlist", add=rules)
        except (HermesError, OSError) as error:
            log.warning("%s approved for good could not be written down: %s", ", ".join(rules), error)


def verdict_of(answers: Sequence[HookAnswer]) -> PluginVerdict | None:
    """The first answer that is a verdict. A block needs a message; anything else is ignored."""
    for answer in answers:
        if not isinstance(answer.value, dict):
            continue
        value = cast("dict[str, Any]", answer.value)
        message, rule_key = (
            text if isinstance(text := value.get(name), str) else "" for name in ("message", "rule_key")
        )
        if value.get("action") == "block" and message:
            return PluginVerdict("block", answer.plugin, message)
        if value.get("action") == "approve":
            return PluginVerdict("approve", answer.plugin, message, rule_key)
    return None
