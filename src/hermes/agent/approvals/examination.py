"""The examination of a call: what it does, and what the built-in rules find in it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from hermes.agent.approvals.modes import OUTSIDE_SANDBOX, WRITE_OUTSIDE, CallEffect
from hermes.agent.approvals.scripts import SessionScripts
from hermes.tools.files.guard import suspect_path
from hermes.tools.files.paths import resolve_path
from hermes.tools.registry import Args, Tool, ToolContext

if TYPE_CHECKING:
    from hermes.policy import Finding

#: The rule by which a user is asked about a script that runs without a sandbox.
RUN_SCRIPT = "run-script"

# The policy is imported where it is used: it brings a parser and many rules along, which only runs with commands need.


class Examination(msgspec.Struct, frozen=True):
    """What a call does, and what the built-in rules found in it."""

    effect: CallEffect = "own-tool"
    found: tuple[Finding, ...] = ()
    #: The command line that the call runs, if it is one, and where.
    command: str | None = None
    cwd: str = ""
    #: The command line changes nothing, as far as is known of its programs.
    only_reads: bool = False


def examine_call(
    tool: Tool, args: Args, context: ToolContext, hermes_home: Path, since: float, *, telling_apart: bool = True
) -> Examination:
    """Examine a call. ``since``: when the session began. ``telling_apart``: whether commands that only read matter."""
    context.may_change_tree = tool.changes_tree
    if tool.name == "terminal" and not tool.plugin:
        return _terminal(args, context, hermes_home, since, telling_apart=telling_apart)
    if tool.name == "process" and not tool.plugin:
        return _input(args, context, hermes_home)
    if tool.name == "execute_code" and not tool.plugin:
        return _script(args, context)
    if tool.writes is not None:
        return _edit(tool.writes(args, context), context, hermes_home)
    if tool.name in ("read_file", "search_files") and not tool.plugin:
        return _read(args, context, hermes_home)
    return Examination(_effect_of(tool))


def examine_command(command: str, cwd: str, hermes_home: Path, since: float) -> Examination:
    """Examine a command line that the terminal tool would run in ``cwd``."""
    from hermes.policy.judge import judge_command

    verdict = judge_command(command, cwd=cwd, hermes_home=hermes_home, scripts=SessionScripts(cwd, since))
    return Examination("command", verdict.findings, command, cwd, verdict.only_reads)


#: Tools of the agent that change nothing but the agent's own notes, or whose calls are examined themselves.
_HARMLESS_TOOLS = frozenset({"delegate_task", "todo", "clarify"})


def _effect_of(tool: Tool) -> CallEffect:
    if tool.effect == "pure":
        return "read"
    return "plugin-tool" if tool.effect == "unsafe" and tool.name not in _HARMLESS_TOOLS else "own-tool"


def _terminal(args: Args, context: ToolContext, hermes_home: Path, since: float, *, telling_apart: bool) -> Examination:
    command, workdir = args.get("command"), args.get("workdir")
    if not isinstance(command, str):
        return Examination("command")
    try:
        cwd = resolve_path(workdir, context.cwd) if workdir else str(context.cwd)
    except ValueError:
        cwd = str(context.cwd)  # the tool refuses such a directory by itself
    examined = examine_command(command, cwd, hermes_home, since)
    context.may_change_tree = not examined.only_reads
    if args.get("outside_sandbox") and context.confinements.can_leave(context.scope):
        from hermes.policy import Finding

        leaves = Finding(OUTSIDE_SANDBOX, "runs outside of the sandbox", command)
        return replace(examined, found=(*examined.found, leaves))
    return replace(examined, effect="read-only-command") if telling_apart and examined.only_reads else examined


def _script(args: Args, context: ToolContext) -> Examination:
    """A script only reads in its sandbox, and each of its tool calls is examined. Without one it can do anything."""
    if context.confinements.confines_scripts():
        return Examination("own-tool")
    from hermes.policy import Finding

    code = str(args.get("code") or "")
    return Examination("command", (Finding(RUN_SCRIPT, "runs a Python script without a sandbox", code),))


def _input(args: Args, context: ToolContext, hermes_home: Path) -> Examination:
    """What is typed into a background process is a command when a shell reads it, and code when an interpreter does."""
    process = context.processes.get(str(args.get("session_id")), context.scope.principal)
    data, action = args.get("data"), args.get("action")
    if action not in ("write", "submit"):
        return Examination("command" if action == "kill" else "read")
    if process is None or not isinstance(data, str):
        return Examination("input")
    from hermes.policy import Finding
    from hermes.policy.judge import judge_input, reads_commands

    text = data if data.endswith(("\n", "\r")) else data + "\n"
    # The shell's current directory is not known.
    verdict = judge_input(text, process.command, cwd="", hermes_home=hermes_home)
    if not verdict.findings and not (action == "write" and data.strip() and text != data):
        return Examination("input")
    found = verdict.findings
    if not found and reads_commands(process.command):
        # The rest of the line could make anything of it, and would be judged without its beginning.
        found = (Finding("partial-input", "sends an unfinished line to a shell", data),)
    return Examination("input", found, data if found else None)


def _edit(paths: Iterable[Path], context: ToolContext, hermes_home: Path) -> Examination:
    from hermes.policy import Finding
    from hermes.policy.judge import judge_write

    folder = os.path.realpath(context.cwd)
    found: list[Finding] = []
    is_outside = False
    context.checked = frozenset(map(str, paths))
    for path in context.checked:
        # What the tool itself will refuse is not worth a question.
        if context.guard.refusal_to_write(path) is not None:
            continue
        sensitive = judge_write(path, hermes_home=hermes_home)
        if sensitive is not None:
            found.append(sensitive)
        if not path.startswith(folder.rstrip("/") + "/") and path != os.devnull:
            is_outside = True
            found.append(Finding(WRITE_OUTSIDE, f"changes a file outside of {folder}", path))
    return Examination("edit-outside" if is_outside else "edit-inside", tuple(found))


def _read(args: Args, context: ToolContext, hermes_home: Path) -> Examination:
    """Whether a file that is read holds credentials of other programs."""
    try:
        path = suspect_path(resolve_path(args.get("path") or ".", context.cwd), context.guard.real_folders)
    except ValueError:
        return Examination("read")  # the tool refuses such a path by itself
    context.checked = () if path is None else (path,)
    # What the tool itself will refuse is not worth a question.
    if path is None or context.guard.refusal(path) is not None:
        return Examination("read")
    from hermes.policy.judge import judge_read

    found = judge_read(path, hermes_home=hermes_home)
    return Examination("read", () if found is None or found.hardline else (found,))
