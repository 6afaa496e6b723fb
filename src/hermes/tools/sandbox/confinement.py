"""Confinement: the environment and the sandbox of a child process, by the one it works for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from hermes.config.sections import TerminalConfig
from hermes.sanitize import Redactor
from hermes.scope import Scope
from hermes.tools.terminal.environment import child_environment

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Confinement:
    """How one child process is started."""

    environment: Mapping[str, str]
    #: Variables of this process that hold a secret, which the child does not get.
    withheld: frozenset[str] = frozenset()

    def start(
        self, arguments: Sequence[str], cwd: str, start: Callable[[Sequence[str], str, Mapping[str, str]], T]
    ) -> T:
        """Start a process: ``start`` takes the command line, the working directory and the environment to use."""
        return start(arguments, cwd, self.environment)


class Confinements:
    """Decides how the child processes of a host are confined. Thread-safe."""

    def __init__(self, settings: TerminalConfig | None = None, redactor: Redactor | None = None) -> None:
        self._settings = settings or TerminalConfig()
        self.redactor = redactor or Redactor()

    def of_command(self, scope: Scope) -> Confinement:
        """The confinement of a command that a tool runs."""
        is_caller = scope.principal != ""
        built = child_environment(os.environ, self.redactor, self._settings.env_passthrough, minimal=is_caller)
        # The names of the owner's variables are no business of a caller.
        return Confinement(built.variables, frozenset() if is_caller else built.withheld)

    def of_hook_command(self) -> Confinement:
        """The confinement of a hook command. It is the owner's program, also when the work of a caller runs it."""
        built = child_environment(os.environ, self.redactor, self._settings.env_passthrough)
        return Confinement(built.variables, built.withheld)
