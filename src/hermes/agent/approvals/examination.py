"""The examination of a call: what it does, and what the built-in rules find in it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from hermes.agent.approvals.modes import OUTSIDE_SANDBOX, WRITE_OUTSIDE, CallEffect
from hermes.agent.approvals.ownership import session_place
from hermes.tools.declarations.declaration import UNDECLARED, Code, Declaration
from hermes.tools.files.guard import FileGuard, suspect_path
from hermes.tools.files.paths import resolve_path
from hermes.tools.registry import Args, Tool, ToolContext

if TYPE_CHECKING:
    from hermes.policy import Finding
    from hermes.policy.scripts import Script

#: The rule by which a user is asked about a script that runs without a sandbox.
RUN_SCRIPT = "run-script"

#: Larger files are programs or data rather than scripts that a model wrote.
_LARGEST_SCRIPT = 64_000

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
    #: The real paths that were judged: files to write, and files to read that may hold credentials.
    checked: frozenset[str] = frozenset()
    #: The call may change any file of the project.
    may_change_tree: bool = False
    #: Why the call must not run: a file that it names is protected, and the tool would not refuse it by itself.
    refusal: str = ""


def examine_call(
    tool: Tool,
    args: Args,
    context: ToolContext,
    hermes_home: Path,
    since: float,
    *,
    telling_apart: bool = True,
    said: Callable[[], Sequence[str]] = tuple[str],
) -> Examination:
    """Examine a call. ``since``: when the session began. ``telling_apart``: whether commands that only read matter.

    ``said`` gives what the user said in the conversation.
    """
    call = _Call(tool.declares or UNDECLARED, _effect_of(tool), args, context, hermes_home, since, telling_apart, said)
    parts = [call.run(kind, args.get(name)) for name, kind in call.declared.runs.items()]
    if call.declared.is_writer:
        parts.append(call.edit())
    if call.declared.reads or not parts:
        parts.append(call.read())
    if call.declared.fetches:
        parts.append(call.fetch())
    if not call.declared.is_guarded:
        parts.append(call.read_undeclared())
    return parts[0] if len(parts) == 1 else _joined(parts)


def _session_script(cwd: str, since: float, path: str) -> Script | None:
    """A script on disk that a command runs: a small one in the working folder, or any that the session wrote."""
    from hermes.policy.scripts import Script

    try:
        script = Path(path)
        status = script.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_SCRIPT:
            return None
        # Whole seconds on some file systems; a move or a copy may keep the time of the content.
        is_new = max(status.st_mtime, status.st_ctime) >= since - 1
        real, folder = os.path.realpath(path), os.path.realpath(cwd)
        if not is_new and real != folder and not real.startswith(folder.rstrip("/") + "/"):
            return None
        data = script.read_bytes()[: _LARGEST_SCRIPT + 1]
    except (OSError, ValueError):
        return None
    if b"\0" in data[:1_000]:
        return None  # a binary
    return Script(data.decode("utf-8", "replace"), is_new)


def examine_command(
    command: str, cwd: str, hermes_home: Path, since: float, *, folder: str | None = None
) -> Examination:
    """Examine a command line that the terminal tool would run in ``cwd``; ``folder`` is that of the session."""
    from hermes.policy.judge import judge_command

    verdict = judge_command(
        command,
        cwd=cwd,
        hermes_home=hermes_home,
        scripts=partial(_session_script, cwd, since),
        place=session_place(folder or cwd, since),
    )
    return Examination(
        effect="command",
        found=verdict.findings,
        command=command,
        cwd=cwd,
        only_reads=verdict.only_reads,
        may_change_tree=not verdict.only_reads,
    )


#: From harmless to far-reaching: the effect of a call that does several of these is the last.
_EFFECTS: tuple[CallEffect, ...] = (
    "read",
    "own-tool",
    "read-only-command",
    "plugin-tool",
    "edit-inside",
    "edit-outside",
    "input",
    "command",
)


def _joined(parts: Sequence[Examination]) -> Examination:
    """The examination of a call that does all of this."""
    first = parts[0]
    return replace(
        first,
        effect=max((part.effect for part in parts), key=_EFFECTS.index),
        found=tuple(dict.fromkeys(finding for part in parts for finding in part.found)),
        checked=first.checked.union(*(part.checked for part in parts)),
        may_change_tree=any(part.may_change_tree for part in parts),
        refusal=next((part.refusal for part in parts if part.refusal), ""),
    )


def _effect_of(tool: Tool) -> CallEffect:
    if tool.effect == "pure":
        return "read"
    return "plugin-tool" if tool.effect == "unsafe" else "own-tool"


class _Call(msgspec.Struct, frozen=True):
    """A call and what its tool declares; each method examines one thing that it does."""

    declared: Declaration
    #: What it does, as far as it is known by the tool alone.
    effect: CallEffect
    args: Args
    context: ToolContext
    hermes_home: Path
    since: float
    telling_apart: bool
    said: Callable[[], Sequence[str]]

    def run(self, kind: Code, code: object) -> Examination:
        """What the call runs."""
        if kind == "input":
            return self._input(code) if self.declared.is_guarded else Examination("plugin-tool")
        if kind == "script":
            return self._script(code)
        if not isinstance(code, str):
            return Examination("command", may_change_tree=True)
        examined = examine_command(code, self._folder(), self.hermes_home, self.since, folder=str(self.context.cwd))
        if not self.declared.is_guarded:
            return replace(examined, effect="plugin-tool")  # no sandbox holds it
        confinements = self.context.confinements
        leaves_it = bool(self.args.get("outside_sandbox")) and confinements.can_leave(self.context.scope)
        if leaves_it and confinements.is_sandboxed():
            from hermes.policy import Finding

            text = "runs outside of the sandbox; your answer holds for this command in this session"
            leaves = Finding(OUTSIDE_SANDBOX, text, code)
            return replace(examined, found=(*examined.found, leaves))
        return replace(examined, effect="read-only-command") if self.telling_apart and examined.only_reads else examined

    def _folder(self) -> str:
        cwd, workdir = self.context.cwd, self.args.get(self.declared.workdir)
        try:
            return resolve_path(workdir, cwd) if workdir else str(cwd)
        except ValueError:
            return str(cwd)  # the tool refuses such a directory by itself

    def _script(self, code: object) -> Examination:
        """A script only reads in its sandbox, and each of its tool calls is examined. Else it can do anything."""
        if self.declared.is_guarded and self.context.confinements.confines_scripts():
            return Examination("own-tool", may_change_tree=True)
        from hermes.policy import Finding

        found = Finding(RUN_SCRIPT, "runs a Python script without a sandbox", str(code or ""))
        effect: CallEffect = "command" if self.declared.is_guarded else "plugin-tool"
        return Examination(effect, (found,), may_change_tree=True)

    def _input(self, data: object) -> Examination:
        """Input of a background process is a command when a shell reads it, and code when an interpreter does."""
        context, action = self.context, self.args.get("action")
        process = context.processes.get(str(self.args.get("session_id")), context.scope.principal)
        if action not in ("write", "submit"):
            return Examination("command" if action == "kill" else "read")
        if process is None or not isinstance(data, str):
            return Examination("input")
        from hermes.policy import Finding
        from hermes.policy.judge import judge_input, reads_commands

        text = data if data.endswith(("\n", "\r")) else data + "\n"
        # The shell's current directory is not known.
        verdict = judge_input(text, process.command, cwd="", hermes_home=self.hermes_home)
        if not verdict.findings and not (action == "write" and data.strip() and text != data):
            return Examination("input")
        found = verdict.findings
        if not found and reads_commands(process.command):
            # The rest of the line could make anything of it, and would be judged without its beginning.
            found = (Finding("partial-input", "sends an unfinished line to a shell", data),)
        return Examination("input", found, data if found else None)

    def edit(self) -> Examination:
        """Whether a file that is written is sensitive, or outside of the working folder."""
        from hermes.policy import Finding
        from hermes.policy.judge import judge_write

        place = session_place(str(self.context.cwd), self.since)
        found: list[Finding] = []
        is_outside, refusal = False, ""
        checked = frozenset(map(str, self.declared.written_paths(self.args, self.context.cwd)))
        for path in checked:
            refused = self.context.guard.refusal_to_write(path)
            if refused is not None:
                # What the tool itself will refuse is not worth a question.
                refusal = refusal if self.declared.is_guarded else refused
                continue
            sensitive = judge_write(path, hermes_home=self.hermes_home, is_hook=self.context.confinements.is_hook)
            if sensitive is not None:
                found.append(sensitive)
            if place.is_outside(path):
                is_outside = True
                found.append(Finding(WRITE_OUTSIDE, f"changes a file outside of {place.folder}", path))
        effect: CallEffect = "edit-outside" if is_outside else "edit-inside"
        return Examination(effect, tuple(found), checked=checked, refusal=refusal)

    def read(self) -> Examination:
        """Whether a file that is read holds credentials of other programs."""
        effect = "read" if self.declared.runs or self.declared.is_writer else self.effect
        return self._read(self.declared.read_paths(self.args, self.context.cwd), effect, self.context.guard)

    def fetch(self) -> Examination:
        """Whether a URL that is fetched was named by the user. Its host is asked about otherwise."""
        from hermes.agent.approvals.connections import fetch_findings

        found = [one for url in self.declared.fetched_urls(self.args) for one in fetch_findings(url, self.said())]
        return Examination("read", tuple(found))

    def read_undeclared(self) -> Examination:
        """The same for arguments that look like paths. Whether they are is not known: no workspace counts."""
        paths = self.declared.undeclared_paths(self.args, self.context.cwd)
        return self._read(paths, self.effect, self.context.guard.of_host)

    def _read(self, paths: Iterable[str], effect: CallEffect, guard: FileGuard) -> Examination:
        is_guarded = self.declared.is_guarded
        checked: list[str] = []
        found: list[Finding] = []
        for named in paths:
            path = suspect_path(named)
            refused = guard.refusal(path or named) if path is not None or not is_guarded else None
            if refused is not None and not is_guarded:
                return Examination(effect, refusal=refused)
            if path is None:
                continue
            checked.append(path)
            if refused is not None:
                continue  # what the tool itself will refuse is not worth a question
            from hermes.policy.judge import judge_read

            finding = judge_read(path, hermes_home=self.hermes_home)
            if finding is not None and not (finding.hardline and is_guarded):
                found.append(finding)
        return Examination(effect, tuple(found), checked=frozenset(checked)) if checked else Examination(effect)
