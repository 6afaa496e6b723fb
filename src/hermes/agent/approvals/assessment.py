"""What the rules make of a call before anybody is asked: it runs, it is refused, or somebody must decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hermes.agent.approvals import messages
from hermes.agent.approvals.rules import ApprovalRules
from hermes.agent.approvals.subject import Judged

if TYPE_CHECKING:
    from hermes.policy import Finding

Outcome = Literal["run", "ask", "refuse"]
Refusal = Literal["hardline_block", "plugin_block", "approval_denied"]


@dataclass(frozen=True, slots=True)
class PluginVerdict:
    """What a plugin said about a call in ``pre_tool_call``."""

    action: Literal["block", "approve"]
    plugin: str
    message: str
    rule_key: str = ""


@dataclass(frozen=True, slots=True)
class Assessment:
    """What happens to a call, and which settings had a say in it."""

    outcome: Outcome
    #: What somebody must decide about.
    findings: tuple[Finding, ...] = ()
    #: Why it is refused, for the model, and as hooks report it.
    message: str = ""
    error_type: Refusal | None = None
    #: The settings that changed the outcome, for a person.
    because: tuple[str, ...] = ()


RUNS = Assessment("run")

#: The rule by which a person decides and nobody else, whatever the settings say.
WARY = "embedded-model"


def assess(
    rules: ApprovalRules,
    tool: str,
    judged: Judged,
    verdict: PluginVerdict | None = None,
    *,
    trusted: bool = False,
    wary: bool = False,
) -> Assessment:
    """Apply the rules in the order in which they count: what is never allowed, then the user's word, then the rest."""
    refused = _refusal(rules, tool, judged, verdict)
    if refused is not None:
        return refused
    if wary:
        from hermes.policy import Finding

        unsure = Finding(WARY, f"was chosen by the embedded model, whose {tool} calls are always asked about", "")
        return Assessment("ask", (unsure, *judged.findings))
    findings = _reasons_to_ask(rules, tool, judged, verdict)
    if not findings:
        lenient = judged.findings and rules.for_tool(tool) == "allow"
        return Assessment("run", because=(f"approvals.tools allows {tool}",)) if lenient else RUNS
    if trusted:
        return Assessment("run", because=("everything is approved in this run (--yolo)",))
    if rules.mode == "off":
        return Assessment("run", because=("approvals.mode is off",))
    entries = {finding: rules.approved_by(finding) for finding in findings}
    because = tuple(f"command_allowlist has {entry}" for entry in dict.fromkeys(entries.values()) if entry)
    left = tuple(finding for finding in findings if entries[finding] is None)
    return Assessment("ask" if left else "run", left, because=because)


def _refusal(rules: ApprovalRules, tool: str, judged: Judged, verdict: PluginVerdict | None) -> Assessment | None:
    if judged.decision == "hardline":
        found = [finding for finding in judged.findings if finding.hardline]
        return Assessment("refuse", message=messages.hardline(found), error_type="hardline_block")
    pattern = rules.refusing_pattern(judged.commands()) if rules.refuses_commands else None
    if pattern is not None:
        because = (f"approvals.deny has {pattern!r}",)
        message = messages.denied_by_pattern(pattern)
        return Assessment("refuse", message=message, error_type="approval_denied", because=because)
    if rules.for_tool(tool) == "deny":
        because = (f"approvals.tools denies {tool}",)
        return Assessment("refuse", message=messages.denied_tool(tool), error_type="approval_denied", because=because)
    if verdict is not None and verdict.action == "block":
        return Assessment("refuse", message=verdict.message, error_type="plugin_block")
    return None


def _reasons_to_ask(
    rules: ApprovalRules, tool: str, judged: Judged, verdict: PluginVerdict | None
) -> Sequence[Finding]:
    rule = rules.for_tool(tool)
    found = () if rule == "allow" else judged.findings
    if rule != "ask" and verdict is None:
        return found
    from hermes.policy import Finding  # brings all its rules along, which few calls need

    asked: list[Finding] = []
    if rule == "ask":
        asked.append(Finding(f"tool:{tool}", f"uses {tool}, which the settings say to ask about", ""))
    if verdict is not None:
        said = verdict.message or f"the plugin {verdict.plugin} wants it approved"
        asked.append(Finding(f"plugin_rule:{verdict.rule_key or tool}", said, ""))
    return (*asked, *found)
