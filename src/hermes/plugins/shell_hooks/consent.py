"""Consent to hook commands: asked once, stored in a file, and asked again when a script changes (TOCTOU guard)."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from hermes.base.config.files import locked, read_document, write_private_document
from hermes.plugins.shell_hooks.command import HookCommand

FILE_NAME = "shell-hooks-allowlist.json"

#: ``changed``: the script of the command is not the one that was accepted.
Consent = Literal["accepted", "changed", "not accepted"]
ConsentAnswer = Literal["always", "once", "no"]


class Approval(msgspec.Struct, kw_only=True):
    """The user's agreement that a command may run for a hook."""

    event: str
    command: str
    #: When the command was accepted for the first time, and when as it is now.
    first_approved_at: str
    approved_at: str
    #: The script of the command and its digest; empty when the command is a program on PATH.
    script: str = ""
    sha256: str = ""


class _ConsentFile(msgspec.Struct):
    approvals: list[Approval] = []


class ConsentQuestion(msgspec.Struct, frozen=True):
    """What the user is asked to accept: a command as it is now."""

    command: HookCommand
    script: Path | None
    sha256: str
    #: The agreement to this command, perhaps with another content of the script.
    before: Approval | None

    @property
    def consent(self) -> Consent:
        """The stored consent."""
        if self.before is None:
            return "not accepted"
        return "accepted" if self.before.sha256 == self.sha256 else "changed"


#: Asks the user; None when there is no one to ask.
AskConsent = Callable[[ConsentQuestion], ConsentAnswer | None]


class AllowList:
    """The agreements of one home, to exactly one command for exactly one hook each."""

    def __init__(self, home: Path) -> None:
        self.path = home / FILE_NAME
        self._home = home
        self._approvals = self._read()

    def question(self, command: HookCommand, cwd: Path) -> ConsentQuestion:
        """The command as it is now, and the stored consent to it."""
        script = command.script(cwd)
        before = self._approvals.get((command.event, command.command))
        return ConsentQuestion(command, script, sha256_of(script), before)

    def accept(self, *questions: ConsentQuestion) -> None:
        """Store the agreement to these commands as they were when the question was asked."""
        import time

        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with locked(self._home):
            self._approvals = self._read()
            for question in questions:
                key = (question.command.event, question.command.command)
                before = self._approvals.get(key)
                self._approvals[key] = Approval(
                    event=key[0],
                    command=key[1],
                    first_approved_at=before.first_approved_at if before else now,
                    approved_at=now,
                    script=str(question.script or ""),
                    sha256=question.sha256,
                )
            self._write()

    def revoke(self, command: str | None = None) -> list[Approval]:
        """Revoke the agreements to a command, for all hooks, or all there are; returns the revoked ones."""
        with locked(self._home):
            self._approvals = self._read()
            gone = [one for one in self._approvals.values() if command is None or one.command == command]
            for approval in gone:
                del self._approvals[approval.event, approval.command]
            if gone:
                self._write()
        return gone

    def commands(self) -> list[str]:
        """The commands that were accepted, each once."""
        return list(dict.fromkeys(approval.command for approval in self._approvals.values()))

    def _read(self) -> dict[tuple[str, str], Approval]:
        advice = "remove the file and accept them again with 'hermes hooks accept --all'"
        document = read_document(self.path, _ConsentFile, "a list of accepted hook commands", advice)
        return {} if document is None else {(one.event, one.command): one for one in document.approvals}

    def _write(self) -> None:
        write_private_document(self.path, _ConsentFile(list(self._approvals.values())))


def sha256_of(script: Path | None) -> str:
    """What a script holds, as a digest; empty when there is no script to read."""
    if script is None:
        return ""
    import hashlib

    try:
        with script.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def how_to_accept(command: str) -> str:
    """The command line that accepts a hook command."""
    return f"hermes hooks accept {shlex.quote(command)}"
