"""The gate of tool calls: whether a call may run, with every question that is asked to find out."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec.structs import replace

from hermes.agent.approvals import messages
from hermes.agent.approvals.assessment import ALLOWED, EMBEDDED_MODEL, Decision, assess_call
from hermes.agent.approvals.model_approval import ModelApproval
from hermes.agent.approvals.modes import KEEP_CHANGE, OUTSIDE_SANDBOX, SessionModes
from hermes.agent.approvals.responder import ApprovalRequest, Responder, Responders
from hermes.agent.approvals.rules import ApprovalRules
from hermes.base.config.schema.modes import MODES, UNASKED_MODE, PermissionMode, more_careful
from hermes.base.errors import HermesError, Interrupted, TurnSuspended
from hermes.base.sanitize import Redactor
from hermes.base.scope import SCHEDULED, Interrupt, Scope, current_scope
from hermes.hooks.answers import plain
from hermes.hooks.observers import Answer
from hermes.hooks.table import Hooks
from hermes.journal.questions import QuestionRow, Questions
from hermes.tools.declarations.declaration import UNDECLARED
from hermes.tools.registry import Args, Tool, ToolContext

if TYPE_CHECKING:
    from hermes.agent.approvals.examination import Examination
    from hermes.agent.approvals.guardrail import LoopGuardrail
    from hermes.agent.approvals.owed import OwedAnswer
    from hermes.agent.approvals.question import ApprovalQuestion, GivenAnswer
    from hermes.policy import Finding
    from hermes.tools.sandbox.workspace.undone import UndoneChange

log = logging.getLogger("hermes.approvals")

#: An approval of these is for the one call only: what they find is different every time, or is this very gate.
_NEVER_KEPT = frozenset(
    {
        "unreadable",
        "hidden-text",
        "partial-input",
        "own-runtime",
        "write-hermes-config",
        EMBEDDED_MODEL,
        OUTSIDE_SANDBOX,
        KEEP_CHANGE,
    }
)

#: An approval of these holds for the session, and for this very call.
_ONCE_PER_CALL = frozenset({OUTSIDE_SANDBOX})

#: No second model answers these.
_FOR_PERSONS = frozenset({EMBEDDED_MODEL, OUTSIDE_SANDBOX, KEEP_CHANGE})

#: More of a plugin's message than that is no reason; it would be recorded, redacted and sent for nothing.
_LONGEST_ANSWER = 10_000

#: An approval of these holds for the session: a project's own file is asked about once.
_ONCE_PER_SESSION = frozenset({"read-env-file"})


class Approvals:
    """Decides about calls, for all sessions of a host. Thread-safe."""

    def __init__(
        self,
        rules: ApprovalRules,
        *,
        home: Path,
        responders: Responders,
        hooks: Hooks,
        questions: Questions,
        redactor: Redactor,
        model: ModelApproval | None = None,
        modes: SessionModes | None = None,
        is_sandboxed: Callable[[], bool] = lambda: False,
        started_at: Callable[[str], float] = lambda _session_id: 0.0,
        always_asks: Callable[[str], bool] = lambda _session_id: False,
        said: Callable[[str], Sequence[str]] = lambda _session_id: (),
    ) -> None:
        self.rules = rules
        self._caller_rules = rules.for_callers()
        self._home = home
        self._responders = responders
        self._hooks = hooks
        self._questions = questions
        self._redactor = redactor
        self._model = model
        self.modes = modes or SessionModes(rules.permission_mode)
        #: Whether commands run in a sandbox.
        self.is_sandboxed = is_sandboxed
        #: When a session began.
        self._started_at = started_at
        self._began: dict[str, float] = {}
        #: Whether a user has to be asked about every command of a session, whatever the settings say.
        self._always_asks = always_asks
        #: What the user said in a session.
        self._said = said
        self._asking: dict[str, threading.Lock] = {}
        #: Whether an approval for good is written into the configuration; that of a recorded user is not.
        self.keeps_rules = True

    # -- the mode -----------------------------------------------------------------------------------------------

    def mode_of(self, scope: Scope) -> PermissionMode:
        """The permission mode of a call. A caller never has more than the mode for callers."""
        return self._caller_rules.permission_mode if scope.principal else self.modes.of(scope.session_id)

    def lets_child_run(
        self, child_id: str, parent_id: str, *, unasked: bool, narrowed: PermissionMode | Literal[""] = ""
    ) -> None:
        """Give a child agent the mode of its parent, or let it run ``unasked``; ``narrowed`` makes it more careful."""
        mode = self.modes.of(parent_id)
        own = UNASKED_MODE if unasked and not MODES[mode].only_reads else mode
        self.modes.inherit(child_id, more_careful(own, narrowed))

    def _session_began(self, session_id: str) -> float:
        began = self._began.get(session_id)
        if began is None:
            began = self._began[session_id] = self._started_at(session_id)
        return began

    # -- the decision -------------------------------------------------------------------------------------------

    def examine(self, tool: Tool, args: Args, context: ToolContext) -> Examination:
        """What a call does, and what the built-in rules find in it. Nothing is decided, and nothing changed."""
        from hermes.agent.approvals.examination import examine_call

        scope = context.scope
        began = self._session_began(scope.session_id)
        mode = MODES[self.mode_of(scope)]
        telling_apart = mode.only_reads or mode.asks_changes
        said = partial(self._said, scope.session_id)
        return examine_call(tool, args, context, self._home, began, telling_apart=telling_apart, said=said)

    def decide(
        self,
        tool: Tool,
        args: Args,
        context: ToolContext,
        examined: Examination,
        *,
        plugin: Decision | Sequence[Finding] = (),
        changed_by: Sequence[str] = (),
        loop: LoopGuardrail | None = None,
        before_asking: Callable[[], None] | None = None,
        owed: OwedAnswer | None = None,
    ) -> Decision:
        """Whether the call may run now, with exactly these arguments. Questions are asked here.

        ``examined`` is what ``examine`` found. ``plugin`` is what plugins decided: a refusal, or findings that need
        approval. ``changed_by`` are the plugins that changed the arguments, for whoever is asked. ``before_asking`` is
        called before a question is asked. ``owed`` is the answer that plugins wait for: of an earlier run of the call,
        and after ``TurnSuspended`` of this one.
        """
        if owed is None:
            from hermes.agent.approvals.owed import OwedAnswer  # a call of a turn has its own

            owed = OwedAnswer()
        answered = self._late_answer(owed, context) if owed.question else None
        about = {"owed": owed, "answered": answered, "before_asking": before_asking, "changed_by": changed_by}
        asked = partial(self._asked, tool, args, context, **about)
        decision = self._judge(tool, args, context, examined, plugin, loop, asked)
        if owed.question:
            self.settle(owed, context.scope, "the call needed no answer any more")
        return decision

    def _judge(
        self,
        tool: Tool,
        args: Args,
        context: ToolContext,
        examined: Examination,
        plugin: Decision | Sequence[Finding],
        loop: LoopGuardrail | None,
        ask: Callable[[str | None, tuple[Finding, ...]], Decision],
    ) -> Decision:
        """The decision by the rules; where they want an approval, by the answer to ``ask``."""
        scope = context.scope
        always_ask = tool.may_run_commands and self._always_asks(scope.session_id)
        mode = self.mode_of(scope)
        assessment = assess_call(
            self._caller_rules if scope.principal else self.rules,
            tool.name,
            examined,
            plugin,
            mode=mode,
            is_sandboxed=bool(examined.found) and self.is_sandboxed(),
            always_ask=always_ask,
        )
        if assessment.decision is not None and not assessment.decision.allowed:
            return assessment.decision
        repeated = loop.refusal(tool.name, args) if loop is not None else None
        if repeated is not None:
            return Decision(False, repeated, "guardrail_block")
        if assessment.decision is not None:
            return assessment.decision
        return ask(assessment.command, assessment.findings)

    def _asked(
        self,
        tool: Tool,
        args: Args,
        context: ToolContext,
        command: str | None,
        findings: tuple[Finding, ...],
        *,
        owed: OwedAnswer,
        answered: QuestionRow | None,
        before_asking: Callable[[], None] | None = None,
        changed_by: Sequence[str] = (),
    ) -> Decision:
        """The decision that follows from the answer to a question, which is asked unless it is there."""
        from hermes.agent.approvals.question import ApprovalQuestion  # most calls need none

        question = ApprovalQuestion(tool, args, context, command, findings, owed, changed_by)
        if before_asking is not None:
            before_asking()
        with self._lock_for(context.scope.session_id):
            context.scope.interrupt.check()
            return self._resolve(question, answered)

    def may_keep(
        self, tool: Tool, args: Args, context: ToolContext, changes: Sequence[UndoneChange], owed: OwedAnswer
    ) -> bool:
        """Whether a user approves what a command did that was undone. Without a user it stays undone."""
        from hermes.policy import Finding

        scope = context.scope
        if MODES[self.mode_of(scope)].never_asks:
            return context.confinements.can_leave(scope)
        if self._responder(scope) is None:
            return False
        findings = tuple(Finding(KEEP_CHANGE, f"{change.did} (undone until you approve)", "") for change in changes)
        # Other arguments than those of the call itself: its approval is no answer to this question.
        shown = [change.shown() for change in changes]
        of_changes = {**args, "undone": shown}
        answered = self._late_answer(owed, context) if owed.question else None
        decision = self._asked(tool, of_changes, context, "\n".join(shown), findings, owed=owed, answered=answered)
        return decision.allowed and self.consume(decision.approval_id).allowed

    def may_connect(
        self, tool: Tool, args: Args, context: ToolContext, host: str, port: int, ended: Interrupt | None
    ) -> bool | None:
        """Whether a command that runs may connect to a host that its sandbox does not reach. None: no one was asked.

        ``ended`` is cancelled when the command ends; without it no one is asked.
        """
        from hermes.agent.approvals.connections import connection
        from hermes.agent.approvals.owed import OwedAnswer

        scope = context.scope
        found = connection(host, port)
        if scope.principal:
            return None
        if self.rules.approved_by(found) is not None or found.rule in self._questions.session_rules(scope.session_id):
            return True
        if ended is None or MODES[self.mode_of(scope)].never_asks or self._responder(scope) is None:
            return None
        # Other arguments than those of the call itself: its approval is no answer to this question.
        named = {**args, "connect": found.part}
        asked = replace(context, scope=replace(scope, interrupt=ended))
        command = next((str(args[name]) for name in (tool.declares or UNDECLARED).runs if args.get(name)), None)
        owed, token = OwedAnswer(), current_scope.set(scope)
        try:
            with scope.interrupt.on_cancel(ended.cancel):
                decision = self._asked(tool, named, asked, command, (found,), owed=owed, answered=None)
        except (Interrupted, TurnSuspended):  # no answer can come later than the command ends
            self.settle(owed, scope, "the command did not wait for the answer")
            return None
        finally:
            current_scope.reset(token)
        return decision.allowed and (not decision.approval_id or self.consume(decision.approval_id).allowed)

    def consume(self, approval_id: str) -> Decision:
        """Use up the approval that a call relies on, as the call starts."""
        if self._questions.consume(approval_id):
            return ALLOWED
        return Decision(False, messages.REVOKED, "approval_denied")

    # -- answers that come later --------------------------------------------------------------------------------

    def settle(self, owed: OwedAnswer, scope: Scope, reason: str) -> None:
        """A call does not wait for its question any more: plugins hear how that ended, if they do not know."""
        owed.settle(self._hooks, self._questions, scope, reason)

    def owed(self, scope: Scope) -> dict[str, OwedAnswer]:
        """The answers that plugins wait for in a turn that was left, by the keys of its calls."""
        from hermes.agent.approvals.owed import OwedAnswer, is_observed

        if not is_observed(self._hooks):
            return {}

        rows = self._questions.owed(scope.session_id, scope.turn_id)
        return {row.key: OwedAnswer(row.id, row.announced, bool(row.told)) for row in rows}

    def _late_answer(self, owed: OwedAnswer, context: ToolContext) -> QuestionRow | None:
        """The stored answer to the question that an earlier run of a call left, if there is one and it still counts.

        Plugins are told of it.
        """
        row = self._questions.get(owed.question)
        if row is None or row.state == "pending":
            return None
        owed.tell_stored(self._hooks, self._questions, row, context.scope)
        # A run that was killed did not let go of its question: then it depends on the answer whether it is asked again.
        return row if context.is_continued and row.state in ("granted", "denied") else None

    # -- asking -------------------------------------------------------------------------------------------------

    def _lock_for(self, session_id: str) -> threading.Lock:
        """One question of a session at a time: the answer to the first may settle the second."""
        return self._asking.setdefault(session_id, threading.Lock())

    def _resolve(self, question: ApprovalQuestion, late: QuestionRow | None) -> Decision:
        session_id = question.scope.session_id
        question.drop_approved(self._questions.session_rules(session_id) - _NEVER_KEPT)
        if not question.findings or self._is_remembered(question):
            return ALLOWED
        is_late = late is not None and late.digest == question.digest
        answered = late if is_late else question.open(self._questions)
        if answered is not None:
            # The process that asked may have died since; its answer still counts, once.
            until, since = answered.deadline, answered.created_at
            seconds = self.rules.timeout if until is None else round(until - since, 1)
            return self._apply(question, answered.answer or "deny", answered.reason, answered.id, seconds)
        is_with_person = question.owed.question and question.owed.surface != "smart"
        answer = None if is_with_person else self._ask_model(question)
        if answer is None:
            responder = self._responder(question.scope)
            if responder is None:
                question.withdraw("no one could be asked")
                return self._decide_headless(question)
            answer = question.ask(
                self._hooks,
                responder.surface,
                lambda approval_id: self._ask_user(responder, question, approval_id),
                command=question.subject,
                shown_at=getattr(responder, "approval_surface", ""),
            )
        return self._apply(question, answer.answer, answer.reason, question.approval_id, self.rules.timeout)

    def _is_remembered(self, question: ApprovalQuestion) -> bool:
        """Whether this very call was approved before in its session, where that is enough."""
        return _ONCE_PER_CALL.issuperset(question.rules) and self._questions.is_kept(
            question.scope.session_id, question.digest
        )

    def _responder(self, scope: Scope) -> Responder | None:
        """Who is asked about a call. The children of a caller's session ask where the session itself asks."""
        found = self._responders.get(scope.session_id)
        if found is not None or not scope.principal:
            return found
        above = map(self._responders.get, self._questions.ancestors(scope.session_id))
        return next((responder for responder in above if responder is not None), None)

    def _ask_model(self, question: ApprovalQuestion) -> GivenAnswer | None:
        """What the auxiliary model says, where it may be asked and is sure."""
        from hermes.agent.approvals.question import UNSURE, GivenAnswer

        model = self._model if self.rules.asks_model_first else None
        if model is None or not _FOR_PERSONS.isdisjoint(question.rules):
            return None

        def ask(_approval_id: str) -> GivenAnswer:
            said = model.ask(question.tool, question.subject, question.description, question.scope)
            return GivenAnswer(said, by="aux_llm")

        answer = question.ask(self._hooks, "smart", ask, command=self._redactor.redact(question.subject))
        return None if answer.answer == UNSURE else answer

    def _ask_user(self, responder: Responder, question: ApprovalQuestion, approval_id: str) -> GivenAnswer:
        from hermes.agent.approvals.question import GivenAnswer

        can_be_kept = _NEVER_KEPT.isdisjoint(question.rules)
        request = ApprovalRequest(
            id=approval_id,
            session_id=question.scope.session_id,
            tool_call_id=question.scope.tool_call_id,
            tool=question.tool,
            args=plain(question.args),
            subject=question.subject,
            description=question.description,
            rules=question.rules,
            timeout=self.rules.timeout,
            can_be_kept=can_be_kept,
        )
        try:
            answer = responder.approve(request, question.scope.interrupt)
        except Exception as error:
            # Not to be able to ask must not mean yes.
            log.warning("an approval could not be asked for: %s: %s", type(error).__name__, error, exc_info=True)
            return GivenAnswer("deny", messages.NOT_ASKED)
        given = GivenAnswer(answer.choice, answer.reason, answer.by)
        if answer.choice == "once" and (_ONCE_PER_SESSION | _ONCE_PER_CALL).issuperset(question.rules):
            return given._replace(answer="session")
        is_kept = answer.choice in ("session", "always")
        return given._replace(answer="once") if is_kept and not can_be_kept else given

    def _decide_headless(self, question: ApprovalQuestion) -> Decision:
        """No one can be asked. A child of a session with a user must not do what the user was not asked about."""
        if EMBEDDED_MODEL in question.rules:
            return Decision(False, messages.HEADLESS_EMBEDDED_MODEL, "headless_denied")
        ancestors = self._questions.ancestors(question.scope.session_id)
        if question.scope.platform == SCHEDULED:
            is_callers = bool(question.scope.principal)
            if self.rules.cron_mode != "deny" and not is_callers:
                return ALLOWED
            return Decision(False, messages.scheduled(question.findings, is_callers=is_callers), "headless_denied")
        has_user = any(self._responders.get(session_id) is not None for session_id in ancestors)
        if self.rules.headless == "allow" and not has_user:
            return ALLOWED
        return Decision(False, messages.headless(question.findings, is_child=bool(ancestors)), "headless_denied")

    def _apply(
        self, question: ApprovalQuestion, choice: str, reason: str, approval_id: str, seconds: float
    ) -> Decision:
        """The decision that follows from an answer: the one exit for everything that was asked.

        ``seconds`` is the time that there was for it.
        """
        rules = question.rules
        match choice:
            case "once" | "smart_approve":
                return Decision(True, approval_id=approval_id)
            case "session" if not (_ONCE_PER_CALL.issuperset(rules) or _NEVER_KEPT.isdisjoint(rules)):
                # An answer from elsewhere may ask for more than there is to give.
                return Decision(True, approval_id=approval_id)
            case "session":
                return ALLOWED  # the row itself is the grant
            case "always":
                self._keep(rules)
                return Decision(True, approval_id=approval_id)
            case "timeout":
                return Decision(False, messages.timed_out(seconds), "approval_timeout")
            case "smart_deny":
                return Decision(False, messages.denied_by_model(question.findings), "approval_denied")
            case "deny" if reason == messages.NOT_ASKED:
                return Decision(False, messages.COULD_NOT_BE_ASKED, "approval_denied")
            case _:
                return Decision(False, messages.denied(reason), "approval_denied")

    def _keep(self, rules: Sequence[str]) -> None:
        """Approve rules permanently. If the file cannot be written, they stay approved in this process."""
        self.rules.approve(rules)
        if not self.keeps_rules:
            return
        from hermes.base.config.edit import edit_list  # brings a YAML library along that keeps comments

        try:
            edit_list(self._home, "command_allowlist", add=rules)
        except (HermesError, OSError) as error:
            log.warning("%s approved for good could not be written down: %s", ", ".join(rules), error)


def plugin_decision(tool: str, answers: Sequence[Answer]) -> tuple[Decision | tuple[Finding, ...], list[str]]:
    """What the answers to ``pre_tool_call`` come to, whatever their order, and the plugins behind it.

    Any ``block`` with a message refuses; without one, each ``approve`` is a reason to ask.
    """
    asked: dict[tuple[str, str], Finding] = {}
    for answer in answers:
        if not isinstance(answer.value, dict):
            continue
        value = cast("dict[str, Any]", answer.value)
        message, rule_key = (
            text[:_LONGEST_ANSWER] if isinstance(text := value.get(name), str) else ""
            for name in ("message", "rule_key")
        )
        if value.get("action") == "block" and message:
            return Decision(False, message, "plugin_block"), [answer.plugin]
        if value.get("action") == "approve":
            from hermes.policy import Finding

            why = message or f"the plugin {answer.plugin} wants it approved"
            rule = f"plugin_rule:{rule_key or tool}"
            asked[answer.plugin, rule] = Finding(rule, why, "")
    return tuple(asked.values()), list(dict.fromkeys(plugin for plugin, _ in asked))
