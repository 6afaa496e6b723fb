"""The assessment of a call by the rules, before any question: it runs, it is refused, or it needs approval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from hermes.agent.approvals import messages
from hermes.agent.approvals.modes import OUTSIDE_SANDBOX, asked, refuses
from hermes.agent.approvals.rules import ApprovalRules
from hermes.base.config.schema.modes import DEFAULT_MODE, MODES, PermissionMode

if TYPE_CHECKING:
    from hermes.agent.approvals.examination import Examination
    from hermes.policy import Finding

# The policy is imported where it is used: it brings a parser and many rules along, which only runs with commands need.

BlockReason = Literal[
    "hardline_block",
    "plan_mode",
    "plugin_block",
    "approval_denied",
    "guardrail_block",
    "approval_timeout",
    "headless_denied",
    "protected_file",
]

#: The rule by which a user is asked about every command of the embedded model, whatever the settings say.
EMBEDDED_MODEL = "embedded-model"


class Decision(msgspec.Struct, frozen=True):
    """Whether a call may run, and the text for the model when not."""

    allowed: bool
    message: str = ""
    error_type: BlockReason | None = None
    #: The stored approval that the call uses up when it starts.
    approval_id: str = ""


ALLOWED = Decision(True)


class Assessment(msgspec.Struct, frozen=True):
    """What the built-in rules found in a call, and what the settings make of it."""

    #: Everything that the built-in rules found.
    found: tuple[Finding, ...] = ()
    #: The command line that the call runs, if it is one, and where.
    command: str | None = None
    cwd: str = ""
    #: None when approval is needed.
    decision: Decision | None = ALLOWED
    #: What needs approval.
    findings: tuple[Finding, ...] = ()
    #: The settings that changed the outcome, for the user.
    because: tuple[str, ...] = ()

    @property
    def verdict(self) -> Literal["allow", "ask", "hardline"]:
        """What the built-in rules alone say."""
        if any(finding.hardline for finding in self.found):
            return "hardline"
        return "ask" if self.found else "allow"

    @property
    def outcome(self) -> Literal["run", "ask", "refuse"]:
        """What happens with these settings."""
        if self.decision is None:
            return "ask"
        return "run" if self.decision.allowed else "refuse"

    def commands(self) -> tuple[str, ...]:
        """The command line as a whole, and every single command in it."""
        if self.command is None:
            return ()
        from hermes.policy.judge import commands_in

        return (self.command, *commands_in(self.command, cwd=self.cwd))


def assess_call(
    rules: ApprovalRules,
    tool: str,
    examined: Examination,
    plugin: Decision | Sequence[Finding] = (),
    *,
    mode: PermissionMode = DEFAULT_MODE,
    is_sandboxed: bool = False,
    always_ask: bool = False,
) -> Assessment:
    """Assess a call. ``plugin`` is what plugins decided: to refuse it, or reasons to ask for approval."""
    base = Assessment(examined.found, examined.command, examined.cwd)
    refusal, because = _refusal(rules, tool, base, plugin)
    if examined.refusal and refusal is None:
        refusal = Decision(False, examined.refusal, "protected_file")
    if refusal is None and refuses(mode, examined.effect):
        refusal, because = Decision(False, messages.plan_mode(tool), "plan_mode"), ("the mode is plan",)
    if refusal is not None:
        return replace(base, decision=refusal, because=because)
    if always_ask:
        from hermes.policy import Finding

        text = f"was chosen by the embedded model, whose {tool} calls are always asked about"
        return replace(base, decision=None, findings=(Finding(EMBEDDED_MODEL, text, ""), *base.found))
    findings = _reasons_to_ask(rules, tool, examined, plugin, asks_changes=MODES[mode].asks_changes)
    if not findings:
        is_lenient = base.found and rules.for_tool(tool) == "allow"
        return replace(base, because=(f"approvals.tools allows {tool}",)) if is_lenient else base
    asks = asked(mode, examined.effect, findings, is_sandboxed=is_sandboxed)
    if not asks:
        return replace(base, because=(_because(rules, mode),))
    entries = {finding: rules.approved_by(finding) for finding in asks}
    because = tuple(f"command_allowlist has {entry}" for entry in dict.fromkeys(entries.values()) if entry)
    rest = tuple(finding for finding in asks if entries[finding] is None)
    return replace(base, decision=None if rest else ALLOWED, findings=rest, because=because)


def _because(rules: ApprovalRules, mode: PermissionMode) -> str:
    if not MODES[mode].never_asks:
        return f"the mode is {mode}"
    is_set = rules.permission_mode == mode
    return f"approvals.permission_mode is {mode}" if is_set else "everything is approved in this run (--yolo)"


def _refusal(
    rules: ApprovalRules, tool: str, examined: Assessment, plugin: Decision | Sequence[Finding]
) -> tuple[Decision | None, tuple[str, ...]]:
    """The refusal, if there is one, and the setting behind it."""
    if examined.verdict == "hardline":
        hardline = [finding for finding in examined.found if finding.hardline]
        return Decision(False, messages.hardline(hardline), "hardline_block"), ()
    pattern = rules.refusing_pattern(examined.commands()) if rules.refuses_commands else None
    if pattern is not None:
        because = (f"approvals.deny has {pattern!r}",)
        return Decision(False, messages.denied_by_pattern(pattern), "approval_denied"), because
    if rules.for_tool(tool) == "deny":
        because = (f"approvals.tools denies {tool}",)
        return Decision(False, messages.denied_tool(tool), "approval_denied"), because
    return plugin if isinstance(plugin, Decision) else None, ()


def _reasons_to_ask(
    rules: ApprovalRules,
    tool: str,
    examined: Examination,
    plugin: Decision | Sequence[Finding],
    *,
    asks_changes: bool,
) -> tuple[Finding, ...]:
    rule = rules.for_tool(tool)
    # A tool that is allowed is allowed in its sandbox.
    leaving = tuple(finding for finding in examined.found if finding.rule == OUTSIDE_SANDBOX)
    found = leaving if rule == "allow" else examined.found
    if asks_changes and rule is None:
        found = (*found, *_changes(tool, examined))
    asked: list[Finding] = []
    if rule == "ask":
        from hermes.policy import Finding

        asked.append(Finding(f"tool:{tool}", f"uses {tool}, which the settings say to ask about", ""))
    if not isinstance(plugin, Decision):
        asked += plugin
    return (*asked, *found)


def _changes(tool: str, examined: Examination) -> tuple[Finding, ...]:
    """What a call may change, for a mode that asks about every change: one rule for each kind of it.

    An edit outside of the working folder has its own rule.
    """
    from hermes.policy import Finding

    match examined.effect:
        case "edit-inside":
            return (Finding("edit", "changes a file", ""),)
        case "command" if examined.command is not None:
            if examined.only_reads:
                return ()
            from hermes.policy.judge import changes_in

            found = changes_in(examined.command, cwd=examined.cwd)
            if found or examined.found:
                return found
            return (Finding("command", "may change something", examined.command),)
        case "command" | "plugin-tool" | "input":
            return (Finding(f"tool:{tool}", f"uses {tool}, which may change something", ""),)
        case _:
            return ()
