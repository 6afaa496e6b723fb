"""A home with hook commands, and the hooks they subscribe to."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from hermes.base.config.schema.sections import ShellHookConfig as Configured
from hermes.base.sanitize import Redactor
from hermes.hooks.table import Hooks
from hermes.plugins.shell_hooks.consent import ConsentAnswer, ConsentQuestion
from hermes.plugins.shell_hooks.load import load_shell_hooks
from hermes.tools.sandbox.confinement import Confinements

#: A script that keeps what it was told.
SAVING = "cat > told.json"

CALL: dict[str, Any] = {"tool_name": "terminal", "args": {"command": "ls"}, "session_id": "s1", "tool_call_id": "c1"}


class ShellRig:
    """Writes scripts, loads them as hook commands and fires their hooks."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.cwd = folder / "work"
        self.cwd.mkdir()
        self.hooks = Hooks()
        self.asked: list[ConsentQuestion] = []

    def script(self, text: str, name: str = "hook.sh") -> str:
        """Write a script and return the command that runs it."""
        path = self.cwd / name
        path.write_text(text)
        return f"{sys.executable if name.endswith('.py') else 'sh'} {path}"

    def load(self, event: str, *commands: str | Configured, accept: bool = True, answer: str = "") -> list[str]:
        entries = [Configured(command=one) if isinstance(one, str) else one for one in commands]

        def ask(question: ConsentQuestion) -> ConsentAnswer | None:
            self.asked.append(question)
            return answer or None  # pyright: ignore[reportReturnType]

        return load_shell_hooks(
            {event: entries},
            home=self.home,
            hooks=self.hooks,
            cwd=self.cwd,
            cwd_of=lambda _session: self.cwd,
            confinements=Confinements(redactor=Redactor(("planted-secret-value",))),
            accept=accept,
            ask=ask,
        )

    def fire(self, event: str, **payload: Any) -> list[Any]:
        emit = getattr(self.hooks, event)
        return [] if emit is None else [answer.value for answer in emit.invoke(**payload)]

    def told(self) -> Any:
        """What the command of ``SAVING`` was told."""
        return json.loads((self.cwd / "told.json").read_text())

    def __enter__(self) -> ShellRig:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.hooks.close()
