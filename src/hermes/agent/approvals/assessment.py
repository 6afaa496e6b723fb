"""The assessment of a call by the rules, before any question: it runs, it is refused, or it needs approval."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hermes.agent.approvals import messages
from hermes.agent.approvals.rules import ApprovalRules
from hermes.tools.files.guard import suspect_path
from hermes.tools.files.paths import resolve_path
from hermes.tools.registry import Args, Tool, ToolContext

if TYPE_CHECKING:
    from hermes.policy import Finding

# The policy is imported where it is used: it brings a parser and many rules along, which only runs with commands need.

BlockReason = Literal[
    "hardline_block", "plugin_block", "approval_denied", "guardrail_block", "approval_timeout", "headless_denied"
]

#: The tools that read the file or folder in ``path``.
_READERS = ("read_file", "search_files")

#: The rule by which a user is asked about every command of the embedded model, whatever the settings say.
EMBEDDED_MODEL = "embedded-model"

#: Programs that take what is written to them as commands, here or elsewhere.
_SHELLS = re.compile(
    r"(?:^|[\s/;&|(])(?:(?:ba|z|da|k|c|tc|fi|a)?sh|ssh|su|screen|tmux|chroot|nsenter|docker|podman|kubectl|telnet)"
    r"(?=$|[\s;&|)])"
)


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a call may run, and the text for the model when not."""

    allowed: bool
    message: str = ""
    error_type: BlockReason | None = None
    #: The stored approval that the call uses up when it starts.
    approval_id: str = ""


ALLOWED = Decision(True)


@dataclass(frozen=True, slots=True)
class Assessment:
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
    tool: Tool,
    args: Args,
    context: ToolContext,
    hermes_home: Path,
    plugin: Decision | Finding | None = None,
    *,
    trusted: bool = False,
    always_ask: bool = False,
) -> Assessment:
    """Assess a call. ``plugin`` is what a plugin decided: to refuse it, or a reason to ask for approval."""
    return _apply_settings(
        rules, tool.name, _examine(tool, args, context, hermes_home), plugin, trusted=trusted, always_ask=always_ask
    )


def assess_command(rules: ApprovalRules, command: str, cwd: str, hermes_home: Path) -> Assessment:
    """Assess a command line that the terminal tool would run in ``cwd``."""
    return _apply_settings(rules, "terminal", _examine_line(command, cwd, hermes_home), None)


# -- the built-in rules ---------------------------------------------------------------------------------------------


_NOTHING = Assessment()


def _examine(tool: Tool, args: Args, context: ToolContext, hermes_home: Path) -> Assessment:
    if tool.name == "terminal":
        return _examine_terminal(args, context, hermes_home)
    if tool.name == "process":
        return _examine_input(args, context, hermes_home)
    if tool.writes is not None:
        return _examine_files(tool.writes(args, context), context, hermes_home)
    if tool.name in _READERS and not tool.plugin:
        return _examine_read(args, context, hermes_home)
    return _NOTHING


def _examine_line(command: str, cwd: str, hermes_home: Path) -> Assessment:
    from hermes.policy import judge_command

    return Assessment(judge_command(command, cwd=cwd, hermes_home=hermes_home).findings, command, cwd)


def _examine_terminal(args: Args, context: ToolContext, hermes_home: Path) -> Assessment:
    command, workdir = args.get("command"), args.get("workdir")
    if not isinstance(command, str):
        return _NOTHING
    try:
        cwd = resolve_path(workdir, context.cwd) if workdir else str(context.cwd)
    except ValueError:
        cwd = str(context.cwd)  # the tool refuses such a directory by itself
    return _examine_line(command, cwd, hermes_home)


def _examine_input(args: Args, context: ToolContext, hermes_home: Path) -> Assessment:
    """What is typed into a background process is a command when a shell reads it."""
    process = context.processes.get(str(args.get("session_id")), context.scope.principal)
    data = args.get("data")
    if args.get("action") not in ("write", "submit") or process is None or not isinstance(data, str):
        return _NOTHING
    if _SHELLS.search(process.command) is None:
        return _NOTHING
    examined = _examine_line(data, "", hermes_home)  # the shell's current directory is not known
    is_partial = args["action"] == "write" and bool(data.strip()) and not data.endswith(("\n", "\r"))
    if examined.found or not is_partial:
        return examined
    from hermes.policy import Finding

    # The rest of the line could make anything of it, and would be judged without its beginning.
    return Assessment((Finding("partial-input", "sends an unfinished line to a shell", data),), data)


def _examine_files(paths: Iterable[Path], context: ToolContext, hermes_home: Path) -> Assessment:
    from hermes.policy.judge import judge_write

    found = [finding for path in paths if (finding := judge_write(str(path), hermes_home=hermes_home)) is not None]
    # What the tool itself will refuse is not worth a question.
    return Assessment(tuple(finding for finding in found if context.guard.refusal_to_write(finding.part) is None))


def _examine_read(args: Args, context: ToolContext, hermes_home: Path) -> Assessment:
    """Whether a file that is read holds credentials of other programs."""
    try:
        path = suspect_path(resolve_path(args.get("path") or ".", context.cwd), context.guard.real_folders)
    except ValueError:
        return _NOTHING  # the tool refuses such a path by itself
    # What the tool itself will refuse is not worth a question.
    if path is None or context.guard.refusal(path) is not None:
        return _NOTHING
    from hermes.policy.judge import judge_read

    found = judge_read(path, hermes_home=hermes_home)
    return _NOTHING if found is None else Assessment((found,))


# -- the settings ---------------------------------------------------------------------------------------------------


def _apply_settings(
    rules: ApprovalRules,
    tool: str,
    examined: Assessment,
    plugin: Decision | Finding | None,
    *,
    trusted: bool = False,
    always_ask: bool = False,
) -> Assessment:
    """Apply the rules in their order: what is never allowed, the user's refusals, a plugin's, then approval."""
    refusal, because = _refusal(rules, tool, examined, plugin)
    if refusal is not None:
        return replace(examined, decision=refusal, because=because)
    if always_ask:
        from hermes.policy import Finding

        text = f"was chosen by the embedded model, whose {tool} calls are always asked about"
        return replace(examined, decision=None, findings=(Finding(EMBEDDED_MODEL, text, ""), *examined.found))
    findings = _reasons_to_ask(rules, tool, examined, plugin)
    if not findings:
        is_lenient = examined.found and rules.for_tool(tool) == "allow"
        return replace(examined, because=(f"approvals.tools allows {tool}",)) if is_lenient else examined
    if trusted:
        return replace(examined, because=("everything is approved in this run (--yolo)",))
    if rules.mode == "off":
        return replace(examined, because=("approvals.mode is off",))
    entries = {finding: rules.approved_by(finding) for finding in findings}
    because = tuple(f"command_allowlist has {entry}" for entry in dict.fromkeys(entries.values()) if entry)
    rest = tuple(finding for finding in findings if entries[finding] is None)
    return replace(examined, decision=None if rest else ALLOWED, findings=rest, because=because)


def _refusal(
    rules: ApprovalRules, tool: str, examined: Assessment, plugin: Decision | Finding | None
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
    rules: ApprovalRules, tool: str, examined: Assessment, plugin: Decision | Finding | None
) -> tuple[Finding, ...]:
    rule = rules.for_tool(tool)
    found = () if rule == "allow" else examined.found
    asked: list[Finding] = []
    if rule == "ask":
        from hermes.policy import Finding

        asked.append(Finding(f"tool:{tool}", f"uses {tool}, which the settings say to ask about", ""))
    if plugin is not None and not isinstance(plugin, Decision):
        asked.append(plugin)
    return (*asked, *found)
