"""A home folder with a workspace, and the terminal tool in the sandbox of a real backend."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.base.config.schema.sections import TerminalConfig
from hermes.base.sanitize import Redactor
from hermes.base.scope import Scope
from hermes.tools.builtin import builtin_tools
from hermes.tools.files.guard import FileGuard
from hermes.tools.registry import ToolContext
from hermes.tools.sandbox import backend as backends
from hermes.tools.sandbox.backend import BackendName, SandboxBackend, SandboxProbe
from hermes.tools.sandbox.confinement import Confinements
from hermes.tools.terminal.background import ProcessTable


def real_backend(name: BackendName) -> SandboxBackend:
    """The backend, or a skip where this machine does not have it."""
    if name == "landlock":
        from hermes.tools.sandbox.landlock import abi_version

        if abi_version() == 0:
            pytest.skip("this kernel has no Landlock")
        return SandboxBackend("landlock")
    found = backends.probe()
    if found.backend is None or found.backend.name != "bubblewrap":
        pytest.skip(f"bubblewrap does not work on this machine: {found.summary}")
    return found.backend


class SandboxRig:
    """The terminal tool of a run that no person attends. ``HOME`` is a folder of the test."""

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        backend: SandboxBackend | None,
        *,
        principal: str = "",
        attended: bool = False,
        workspace: str = "project",
        prepares: bool = True,
        **settings: Any,
    ) -> None:
        self.prepares = prepares
        self.home = folder / "user"
        self.hermes_home = self.home / ".hermes"
        self.workspace = self.home / workspace
        for path in (self.hermes_home, self.workspace, self.home / ".ssh"):
            path.mkdir(parents=True, exist_ok=True)
        (self.home / ".ssh" / "id_ed25519").write_text("PRIVATE KEY")
        (self.hermes_home / ".env").write_text("SOME_API_KEY=hidden-value-1\n")
        (self.home / ".gitconfig").write_text("[user]\n\tname = Me\n\temail = me@example.org\n")
        monkeypatch.setenv("HOME", str(self.home))
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        found = SandboxProbe(backend, "chosen by the test")
        monkeypatch.setattr(backends, "probe", lambda: found)
        self.confinements = Confinements(
            TerminalConfig(**settings), Redactor(), hermes_home=self.hermes_home, is_attended=attended
        )
        self.context = ToolContext(
            Scope(principal=principal),
            self.workspace,
            ProcessTable(),
            FileGuard(self.hermes_home),
            confinements=self.confinements,
        )

    def call(self, tool: str = "terminal", **args: Any) -> dict[str, Any]:
        (found,) = (one for one in builtin_tools() if one.name == tool)
        result = msgspec.json.decode(found.run(args, self.context))
        if self.prepares:
            self.context.processes.shells.prepare()  # as while the model thinks
        return result

    def run(self, command: str, **args: Any) -> dict[str, Any]:
        return self.call(command=command, timeout=120, **args)

    def works(self, command: str, **args: Any) -> str:
        """The output of a command that has to succeed."""
        result = self.run(command, **args)
        assert result["exit_code"] == 0, result
        return result["output"]

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        """Run git outside of the sandbox."""
        return outside(["git", *arguments], cwd or self.workspace)

    def close(self) -> None:
        self.context.processes.close()
        self.confinements.close()

    def __enter__(self) -> SandboxRig:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def outside(command: Sequence[str], cwd: Path) -> str:
    """Run a program outside of the sandbox, and give what it printed."""
    done = subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True, env=dict(os.environ))
    return done.stdout.strip()


def is_made(session: int) -> bool:
    """Whether the shell runs that is started last in a sandbox, when everything is mounted."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (process / "cmdline").read_bytes().split(b"\0")
            if os.getsid(int(process.name)) == session and line[0].endswith(b"bash") and line[1] == b"-c":
                return True
    return False
