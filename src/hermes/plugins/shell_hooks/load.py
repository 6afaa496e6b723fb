"""Shell hooks: subscribes the commands of the configuration to their hooks, if they were accepted."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hermes.base.config.files import config_path
from hermes.base.config.schema.sections import ShellHookConfig
from hermes.base.scope import Scope, current_scope
from hermes.hooks.table import Hooks
from hermes.hooks.threads.event_loop import CANCELLED_GRACE
from hermes.plugins.loading.discovery import is_set
from hermes.plugins.shell_hooks.command import HookCommand, is_file, read_hook_commands
from hermes.plugins.shell_hooks.consent import AllowList, AskConsent, how_to_accept, sha256_of
from hermes.plugins.shell_hooks.process import Finished, run_command
from hermes.plugins.shell_hooks.protocol import (
    EVENT_VARIABLE,
    HookCommandFailed,
    hook_input,
    hook_variables,
    read_verdict,
)
from hermes.tools.sandbox.confinement import Confinement, Confinements
from hermes.tools.terminal.supervisor import ProcessSupervisor

log = logging.getLogger("hermes.plugins")

#: The path of a script, and what changes with every write to it.
_FileStamp = tuple[Path, int, int, int]


class Agreement(NamedTuple):
    """Whether a command may run, and with which content of its script."""

    given: bool
    #: Digest of the script when it was accepted; None when it may hold anything.
    sha256: str | None = None


@dataclass
class ShellHook:
    """One command at its hook."""

    command: HookCommand
    agreement: Agreement
    home: Path
    cwd_of: Callable[[str], Path]
    confinements: Confinements
    supervisor: ProcessSupervisor | None = None
    #: The script when it was last checked.
    _seen: _FileStamp | None = field(default=None, init=False)

    def answer(self, **payload: Any) -> Any:
        """The callback: run the command for this event and return what it answers."""
        if not self.command.applies_to(payload.get("tool_name")):
            return None
        return read_verdict(self.command.event, self.run(payload))

    def run(self, payload: Mapping[str, Any]) -> Finished:
        """Run the command once. It is stopped when its time is up or the turn is cancelled."""
        cwd = self.cwd_of(str(payload.get("session_id", "")))
        self._check_agreement(cwd)
        scope = current_scope.get()
        interrupt, timeout = scope.interrupt if scope else None, self.command.timeout
        if interrupt is not None and interrupt.cancelled:
            # One of the events that close a cancelled turn: it is delivered, but must not keep the turn from ending.
            interrupt, timeout = None, min(timeout, CANCELLED_GRACE)
        event = self.command.event
        try:
            return run_command(
                self.command.argv,
                stdin=hook_input(event, payload, cwd, self.confinements.redactor),
                cwd=str(cwd),
                confinement=self._confinement(scope or Scope(session_id=str(payload.get("session_id", ""))), cwd),
                variables=hook_variables(event, payload, self.home),
                timeout=timeout,
                interrupt=interrupt,
                supervisor=self.supervisor,
            )
        except (OSError, ValueError) as error:
            raise HookCommandFailed(f"it cannot be started: {_why(error, self.command.argv[0])}") from None

    def _confinement(self, scope: Scope, cwd: Path) -> Confinement:
        """In the sandbox the home of Hermes is hidden, but for the script and what lies beside it."""
        if not self.command.sandbox:
            return self.confinements.of_hook_command(scope, cwd)
        home = self.home.resolve()
        files = [(cwd / word).resolve() for word in self.command.argv if is_file(cwd / word)]
        shown = [path if path.parent == home else path.parent for path in files if path.is_relative_to(home)]
        return self.confinements.of_hook_command(scope, cwd, [str(path) for path in shown])

    def _check_agreement(self, cwd: Path) -> None:
        """Refuse a script that changed after it was accepted."""
        agreement, command = self.agreement, self.command.command
        if not agreement.given:
            raise HookCommandFailed(f"it was not accepted; review it, then run: {how_to_accept(command)}")
        if agreement.sha256 is None:
            return
        script = self.command.script(cwd)
        stamp = _stamp_of(script)
        if stamp is not None and stamp == self._seen:
            return
        if sha256_of(script) != agreement.sha256:
            name = script or self.command.argv[0]
            raise HookCommandFailed(f"{name} is not what was accepted; review it, then run: {how_to_accept(command)}")
        self._seen = stamp


def load_shell_hooks(
    events: Mapping[str, Sequence[ShellHookConfig]],
    *,
    home: Path,
    hooks: Hooks,
    cwd: Path,
    cwd_of: Callable[[str], Path],
    confinements: Confinements,
    supervisor: ProcessSupervisor | None = None,
    accept: bool = False,
    ask: AskConsent | None = None,
) -> list[str]:
    """Subscribe every configured command that was accepted. Returns notices for the user, one line each.

    ``accept`` accepts all of them for this run. A command that was not accepted does not run; with
    ``on_error: deny``, neither do the calls that it would have judged.
    """
    if is_set("HERMES_SAFE_MODE"):
        return []
    if os.environ.get(EVENT_VARIABLE):
        return _logged(["a hook command started this process, so no hook commands run in it (they could not end)"])
    commands, warnings = read_hook_commands(events, config_path(home))
    allow_list = None if accept else AllowList(home)
    refused: list[HookCommand] = []
    for command in commands:
        agreement = agreement_to(command, allow_list, cwd, ask)
        if not agreement.given:
            refused.append(command)
        if agreement.given or command.on_error == "deny":
            hook = ShellHook(command, agreement, home, cwd_of, confinements, supervisor)
            hooks.subscribe(command.event, command.name, hook.answer, on_error=command.on_error, own_thread=False)
    if refused:
        warnings.append(_not_accepted_notice(refused))
    return _logged([confinements.redactor.redact(warning) for warning in warnings])


def agreement_to(
    command: HookCommand, allow_list: AllowList | None, cwd: Path, ask: AskConsent | None = None
) -> Agreement:
    """The stored agreement to a command, or the answer given now. Without a list, all may run."""
    if allow_list is None:
        return Agreement(True)
    question = allow_list.question(command, cwd)
    if question.consent == "accepted":
        return Agreement(True, question.sha256)
    answer = None if ask is None else ask(question)
    if answer == "always":
        allow_list.accept(question)
    return Agreement(answer in ("always", "once"), question.sha256)


def _logged(warnings: list[str]) -> list[str]:
    for warning in warnings:
        log.warning("%s", warning)
    return warnings


def _not_accepted_notice(refused: Sequence[HookCommand]) -> str:
    named = "; ".join(f"{command.event}: {command.command}" for command in refused)
    closed = any(command.on_error == "deny" for command in refused)
    consequence = ", and the calls they would judge are blocked" if closed else ""
    return (
        f"hook commands that were not accepted do not run{consequence} ({named}). "
        "Look at them with 'hermes hooks list', accept them with 'hermes hooks accept --all', "
        "or for one run with --accept-hooks"
    )


def _stamp_of(script: Path | None) -> _FileStamp | None:
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
