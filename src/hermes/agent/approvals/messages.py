"""The texts for the model about calls that may not run: the reason, and what it can do now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes.base.config.schema.modes import DEFAULT_MODE

if TYPE_CHECKING:
    from hermes.policy import Finding

_NO_WAY_ROUND = "Do not try to reach the same in another way"

#: The recorded reason of a denial that no user gave.
NOT_ASKED = "the question could not be asked"
COULD_NOT_BE_ASKED = (
    "This call needs an approval, and asking for it failed because of a fault in the program, so it was not run. "
    "The user has not seen the question and did not deny it. Do not repeat the call and do not work around it; "
    "continue with what does not need it, or end your turn and say what waits for approval."
)
REVOKED = "The approval for this call was revoked before it started, so it was not run. Ask the user about it."
HEADLESS_EMBEDDED_MODEL = (
    "Commands of the embedded model always need a user's approval, and this run has no one to ask. "
    "No setting changes that; another model has no such rule."
)


def why(findings: Sequence[Finding]) -> str:
    """Why approval is needed, in one line."""
    return "; ".join(dict.fromkeys(finding.description for finding in findings))


def _named(findings: Sequence[Finding]) -> str:
    return "; ".join(dict.fromkeys(f"{finding.rule}: {finding.description}" for finding in findings))


def hardline(findings: Sequence[Finding]) -> str:
    """A hardline command."""
    parts = ", ".join(dict.fromkeys(finding.part for finding in findings))
    return (
        f"This command never runs ({_named(findings)}; in: {parts}). No setting and no approval "
        f"changes that. {_NO_WAY_ROUND}; tell the user what you wanted it for."
    )


def plan_mode(tool: str) -> str:
    """The call changes something, and the session only plans."""
    return (
        f"{tool} was not run: this session is in plan mode, in which only reading is allowed. Finish the plan and "
        f"present it to the user, who can leave plan mode with /mode {DEFAULT_MODE}."
    )


def denied_by_pattern(pattern: str) -> str:
    """The user's settings refuse the command."""
    return (
        f"The user's settings refuse this command (approvals.deny: {pattern!r}). {_NO_WAY_ROUND}; "
        f"continue without it, or tell the user why it is needed."
    )


def denied_tool(tool: str) -> str:
    """The user's settings refuse the tool."""
    return f"The user's settings refuse the tool {tool} (approvals.tools). Continue without it."


def denied(reason: str) -> str:
    """The user denied it. A reason that only names the user, ``(by ada on irc)``, has no words of theirs."""
    said = f" {reason}" if reason.startswith("(by ") else f", saying: {reason}" if reason else ""
    return f"The user denied this call{said}. Do not repeat it, and do not work around it; ask what they want instead."


def denied_by_model(findings: Sequence[Finding]) -> str:
    """The auxiliary model denied it."""
    return (
        f"A review of this call denied it ({_named(findings)}). {_NO_WAY_ROUND}; "
        f"find a safer step, or tell the user what you need and why."
    )


def timed_out(seconds: float) -> str:
    """There was no answer in time."""
    return (
        f"There was no answer within {seconds:g} s, so this call was not run. Nothing is wrong with the system or the "
        f"call: the user is away. Do not repeat it now and do not work around it; continue with what does not need "
        f"it, or end your turn and say what waits for approval."
    )


def scheduled(findings: Sequence[Finding], *, is_callers: bool) -> str:
    """The call needs approval in a scheduled run."""
    needs = f"This call needs approval ({_named(findings)}). A scheduled run has no one to ask, so it was not run."
    if is_callers:
        return f"{needs} Continue without it, and say in your answer what you needed and why."
    rules = ", ".join(dict.fromkeys(finding.rule for finding in findings))
    return (
        f"{needs} Find a way that needs no approval, or say in your answer that the user may allow it: in all "
        f"scheduled runs with 'hermes config set approvals.cron_mode approve', or everywhere with 'hermes config set "
        f"command_allowlist [{rules}]'."
    )


def headless(findings: Sequence[Finding], *, is_child: bool) -> str:
    """The call needs approval in a headless run."""
    needs = f"This call needs approval ({_named(findings)})."
    if is_child:
        return (
            f"{needs} A delegated task has no one to ask, so it was not run. Continue without it, "
            f"and report to the agent that gave you the task what you need and why."
        )
    rules = ", ".join(dict.fromkeys(finding.rule for finding in findings))
    by_mode = all(finding.rule.partition(":")[0] in ("edit", "command") for finding in findings)
    mode = f"with --mode {DEFAULT_MODE} (the mode ask asks about every change), " if by_mode else ""
    return (
        f"{needs} This run has no one to ask, so it was not run. Find a way that needs no approval, or tell the "
        f"user: they may allow it {mode}with --yolo, with 'hermes config set approvals.headless allow', or for good "
        f"with 'hermes config set command_allowlist [{rules}]'."
    )
