"""Makes the commands in the ``hooks`` section of the configuration subscribers of their hooks."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hermes.config.home import config_path
from hermes.hooks.table import Hooks
from hermes.hooks.threads import CANCELLED_GRACE
from hermes.plugins.discovery import is_set
from hermes.plugins.shell_hooks.command import ConfiguredHook, HookCommand, read_hook_commands
from hermes.plugins.shell_hooks.consent import AllowList, AskConsent, how_to_accept, sha256_of
from hermes.plugins.shell_hooks.payload import EVENT_VARIABLE, hook_environment, hook_input
from hermes.plugins.shell_hooks.process import Finished, run_command
from hermes.plugins.shell_hooks.verdict import HookCommandFailed, read_verdict
from hermes.sanitize import Redactor
from hermes.scope import current_scope

log = logging.getLogger("hermes.plugins")

#: A script as it was when it was last looked at: its path, and what changes whenever somebody writes to it.
_Look = tuple[Path, int, int, int]


class Agreement(NamedTuple):
    """Whether a command may run, and with which content of its script."""

    given: bool
    #: What the script held when somebody agreed to it; None when it may hold anything.
    sha256: str | None = None


class ShellHook:
    """One command at its hook."""

    def __init__(
        self,
        command: HookCommand,
        agreement: Agreement,
        *,
        home: Path,
        cwd_of: Callable[[str], Path],
        redactor: Redactor,
    ) -> None:
        self.command = command
        self._agreement = agreement
        self._home = home
        self._cwd_of = cwd_of
        self._redactor = redactor
        self._seen: _Look | None = None

    def answer(self, **payload: Any) -> Any:
        """The callback: run the command for this event and return what it answers."""
        if not self.command.applies_to(payload.get("tool_name")):
            return None
        return read_verdict(self.command.event, self.run(payload))

    def run(self, payload: Mapping[str, Any]) -> Finished:
        """Run the command once. It is stopped when its time is up or the turn is cancelled."""
        cwd = self._cwd_of(str(payload.get("session_id", "")))
        self._check_agreement(cwd)
        scope = current_scope.get()
        interrupt, timeout = scope.interrupt if scope else None, self.command.timeout
        if interrupt is not None and interrupt.cancelled:
            # One of the events that close a cancelled turn: it is still told, but must not keep the turn from ending.
            interrupt, timeout = None, min(timeout, CANCELLED_GRACE)
        event = self.command.event
        try:
            return run_command(
                self.command.words,
                stdin=hook_input(event, payload, cwd, self._redactor),
                cwd=str(cwd),
                env=hook_environment(event, payload, self._home),
                timeout=timeout,
                interrupt=interrupt,
            )
        except (OSError, ValueError) as error:
            raise HookCommandFailed(f"it cannot be started: {_why(error, self.command.words[0])}") from None

    def _check_agreement(self, cwd: Path) -> None:
        """Somebody agreed to what the script held then; what was written into it since is another command."""
        agreement, command = self._agreement, self.command.command
        if not agreement.given:
            raise HookCommandFailed(f"nobody has accepted it; look at it, then run: {how_to_accept(command)}")
        if agreement.sha256 is None:
            return
        script = self.command.script(cwd)
        look = _look_at(script)
        if look is not None and look == self._seen:
            return
        if sha256_of(script) != agreement.sha256:
            name = script or self.command.words[0]
            raise HookCommandFailed(f"{name} is not what was accepted; look at it, then run: {how_to_accept(command)}")
        self._seen = look


def load_shell_hooks(
    events: Mapping[str, Sequence[ConfiguredHook]],
    *,
    home: Path,
    hooks: Hooks,
    cwd: Path,
    cwd_of: Callable[[str], Path],
    redactor: Redactor,
    accept: bool = False,
    ask: AskConsent | None = None,
) -> list[str]:
    """Subscribe every configured command that somebody agreed to; what the person should know, one line each.

    ``accept`` agrees to all of them for this run. A command nobody agreed to does not run; if its failures are to
    deny, neither do the calls that it would have judged.
    """
    if is_set("HERMES_SAFE_MODE"):
        return []
    if os.environ.get(EVENT_VARIABLE):
        return _told(["a hook command started this process, so no hook commands run in it (they could not end)"])
    commands, warnings = read_hook_commands(events, config_path(home))
    allow_list = None if accept else AllowList(home)
    refused: list[HookCommand] = []
    for command in commands:
        agreement = agreement_to(command, allow_list, cwd, ask)
        if not agreement.given:
            refused.append(command)
        if agreement.given or command.on_error == "deny":
            hook = ShellHook(command, agreement, home=home, cwd_of=cwd_of, redactor=redactor)
            hooks.subscribe(command.event, command.name, hook.answer, on_error=command.on_error)
    if refused:
        warnings.append(_how_to_go_on(refused))
    return _told([redactor.redact(warning) for warning in warnings])


def agreement_to(
    command: HookCommand, allow_list: AllowList | None, cwd: Path, ask: AskConsent | None = None
) -> Agreement:
    """What is on record about a command or, failing that, what somebody says now. Without a list, all may run."""
    if allow_list is None:
        return Agreement(True)
    question = allow_list.question(command, cwd)
    if question.consent == "accepted":
        return Agreement(True, question.sha256)
    answer = None if ask is None else ask(question)
    if answer == "always":
        allow_list.accept(question)
    return Agreement(answer in ("always", "once"), question.sha256)


def _told(warnings: list[str]) -> list[str]:
    for warning in warnings:
        log.warning("%s", warning)
    return warnings


def _how_to_go_on(refused: Sequence[HookCommand]) -> str:
    named = "; ".join(f"{command.event}: {command.command}" for command in refused)
    closed = any(command.on_error == "deny" for command in refused)
    consequence = ", and the calls they would judge are blocked" if closed else ""
    return (
        f"hook commands that nobody has accepted do not run{consequence} ({named}). "
        "Look at them with 'hermes hooks list', accept them with 'hermes hooks accept --all', "
        "or for one run with --accept-hooks"
    )


def _look_at(script: Path | None) -> _Look | None:
    if script is None:
        return None
    try:
        status = script.stat()
    except OSError:
        return None
    return script, status.st_ino, status.st_mtime_ns, status.st_size


def _why(error: OSError | ValueError, program: str) -> str:
    if not isinstance(error, OSError):
        return str(error)
    return f"{error.filename or program}: {error.strerror or error}"
