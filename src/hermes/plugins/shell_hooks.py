"""Makes the commands in the ``hooks`` section of the configuration subscribers of their hooks."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hermes.config.home import config_path
from hermes.hooks.background import CANCELLED_GRACE
from hermes.hooks.table import Hooks
from hermes.plugins.discovery import is_set
from hermes.plugins.shell_command import ConfiguredHook, HookCommand, read_hook_commands
from hermes.plugins.shell_consent import AllowList, AskConsent, ConsentQuestion, how_to_accept, sha256_of
from hermes.plugins.shell_payload import EVENT_VARIABLE, hook_environment, hook_input
from hermes.plugins.shell_process import Finished, run_command
from hermes.plugins.shell_verdict import HookCommandFailed, read_verdict
from hermes.sanitize import Redactor
from hermes.scope import current_scope

log = logging.getLogger("hermes.plugins")

#: A script as it was when it was last looked at: its path, and what changes whenever somebody writes to it.
_Look = tuple[Path, int, int, int]


class ShellHook:
    """One command at its hook."""

    def __init__(
        self, command: HookCommand, *, home: Path, cwd_of: Callable[[str], Path], redactor: Redactor, sha256: str | None
    ) -> None:
        self.command = command
        self._home = home
        self._cwd_of = cwd_of
        self._redactor = redactor
        #: What the script held when somebody agreed to it; None when everything is agreed to.
        self._sha256 = sha256
        self._seen: _Look | None = None

    def answer(self, **payload: Any) -> Any:
        """The callback: run the command for this event and return what it answers."""
        if not self.command.applies_to(payload.get("tool_name")):
            return None
        return read_verdict(self.command.event, self.run(payload))

    def run(self, payload: Mapping[str, Any]) -> Finished:
        """Run the command once. It is stopped when its time is up or the turn is cancelled."""
        cwd = self._cwd_of(str(payload.get("session_id", "")))
        self._check_script(cwd)
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

    def _check_script(self, cwd: Path) -> None:
        """Somebody agreed to what the script held then; what was written into it since is another command."""
        if self._sha256 is None:
            return
        script = self.command.script(cwd)
        look = _look_at(script)
        if look is not None and look == self._seen:
            return
        if sha256_of(script) != self._sha256:
            raise HookCommandFailed(
                f"{script or self.command.words[0]} is not what was accepted; look at it, then run: "
                f"{how_to_accept(self.command.command)}"
            )
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
    consent = ConsentDesk(home, cwd, accept, ask)
    refused: list[HookCommand] = []
    for command in commands:
        agreed = consent.given(command)
        if not agreed:
            refused.append(command)
        if agreed or command.on_error == "deny":
            sha256 = consent.sha256(command) if agreed else "not accepted"
            hook = ShellHook(command, home=home, cwd_of=cwd_of, redactor=redactor, sha256=sha256)
            hooks.subscribe(command.event, command.name, hook.answer, on_error=command.on_error)
    if refused:
        warnings.append(_how_to_go_on(refused))
    return _told([redactor.redact(warning) for warning in warnings])


class ConsentDesk:
    """Finds out whether a command may run: from what is on record, or by asking, once for each command."""

    def __init__(self, home: Path, cwd: Path, accept: bool, ask: AskConsent | None) -> None:
        self._accept = accept
        self._ask = ask
        self._cwd = cwd
        self._list = None if accept else AllowList(home)

    def given(self, command: HookCommand) -> bool:
        if self._list is None or self._list.consent(command, self._cwd) == "accepted":
            return True
        if self._ask is None:
            return False
        answer = self._ask(ConsentQuestion(command, command.script(self._cwd), self._list.find(command)))
        if answer == "always":
            self._list.accept([command], self._cwd)
        return answer in ("always", "once")

    def sha256(self, command: HookCommand) -> str | None:
        """What the script holds that was agreed to; None when everything is."""
        return None if self._accept else sha256_of(command.script(self._cwd))


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
