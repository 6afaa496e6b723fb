"""What a call would do, as far as rules speak of it: the command it runs, or the files it writes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from hermes.tools.files.paths import resolve_path
from hermes.tools.registry import Args, Tool, ToolContext

if TYPE_CHECKING:
    from hermes.policy import Finding

# The policy is imported where it is used: it brings a parser and many rules along, which only runs with commands need.

#: What a person or a hook is shown of a call that is no command.
_LONGEST_CALL = 2_000

#: Programs that take what is written to them as commands, here or elsewhere.
_SHELLS = re.compile(
    r"(?:^|[\s/;&|(])(?:(?:ba|z|da|k|c|tc|fi|a)?sh|ssh|su|screen|tmux|chroot|nsenter|docker|podman|kubectl|telnet)"
    r"(?=$|[\s;&|)])"
)


@dataclass(frozen=True, slots=True)
class Judged:
    """A call as the built-in rules see it."""

    decision: Literal["allow", "ask", "hardline"] = "allow"
    findings: tuple[Finding, ...] = ()
    #: What runs as a command, when something does, and where.
    command: str | None = None
    cwd: str = ""

    def commands(self) -> tuple[str, ...]:
        """The command as a whole, and every single one that it comes down to."""
        if self.command is None:
            return ()
        from hermes.policy.listing import commands_in

        return (self.command, *commands_in(self.command, cwd=self.cwd))


_NOTHING = Judged()


def judge_call(tool: Tool, args: Args, context: ToolContext, hermes_home: Path) -> Judged:
    """What the built-in rules say about a call."""
    if tool.name == "terminal":
        return _judge_terminal(args, context, hermes_home)
    if tool.name == "process":
        return _judge_input(args, context, hermes_home)
    if tool.writes is not None:
        return _judge_files(tool.writes(args, context), context, hermes_home)
    return _NOTHING


def judge_line(command: str, cwd: str, hermes_home: Path) -> Judged:
    """What the built-in rules say about a command line that would run in ``cwd``."""
    from hermes.policy import judge_command

    verdict = judge_command(command, cwd=cwd, hermes_home=hermes_home)
    return Judged(verdict.decision, verdict.findings, command, cwd)


def _judge_terminal(args: Args, context: ToolContext, hermes_home: Path) -> Judged:
    command, workdir = args.get("command"), args.get("workdir")
    if not isinstance(command, str):
        return _NOTHING
    try:
        cwd = resolve_path(workdir, context.cwd) if workdir else str(context.cwd)
    except ValueError:
        cwd = str(context.cwd)  # the tool refuses such a directory by itself
    return judge_line(command, cwd, hermes_home)


def _judge_input(args: Args, context: ToolContext, hermes_home: Path) -> Judged:
    """What is typed into a background process is a command when a shell reads it."""
    process, data = context.processes.get(str(args.get("session_id"))), args.get("data")
    if args.get("action") not in ("write", "submit") or process is None or not isinstance(data, str):
        return _NOTHING
    if _SHELLS.search(process.command) is None:
        return _NOTHING
    judged = judge_line(data, "", hermes_home)  # nobody knows where that shell has gone
    is_partial = args["action"] == "write" and bool(data.strip()) and not data.endswith(("\n", "\r"))
    if judged.decision != "allow" or not is_partial:
        return judged
    from hermes.policy import Finding

    # The rest of the line could make anything of it, and would be judged without its beginning.
    partial = Finding("partial-input", "sends an unfinished line to a shell", data)
    return Judged("ask", (partial,), data)


def _judge_files(paths: Iterable[Path], context: ToolContext, hermes_home: Path) -> Judged:
    from hermes.policy.writing import judge_write

    found = [finding for path in paths if (finding := judge_write(str(path), hermes_home=hermes_home)) is not None]
    # What the tool itself will refuse is not worth a question.
    asked = tuple(finding for finding in found if context.guard.refusal_to_write(finding.part) is None)
    return Judged("ask", asked) if asked else _NOTHING


def shown_call(tool: str, args: Args, judged: Judged) -> str:
    """The call as a person is shown it: the command, or the tool with its arguments."""
    if judged.command is not None:
        return judged.command
    text = f"{tool} {_encoded(args).decode('utf-8', 'replace')}"
    return text if len(text) <= _LONGEST_CALL else f"{text[:_LONGEST_CALL]}…"


def call_digest(tool: str, args: Args) -> str:
    """Tells two calls apart that differ in anything."""
    return hashlib.sha256(_encoded([tool, args])).hexdigest()


def _encoded(value: object) -> bytes:
    try:
        return msgspec.json.encode(value, order="deterministic")
    except UnicodeEncodeError:
        return repr(value).encode("utf-8", "surrogatepass")
