"""The context of a tool call: what the tool is given beside its arguments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hermes.agent.runtime import Runtime
from hermes.base.config.principals import principal_home
from hermes.base.scope import Scope
from hermes.contract.events import TerminalOutputTransform
from hermes.hooks.observers import Emitter, first_text
from hermes.tools.registry import CommandExchange, ToolContext

if TYPE_CHECKING:
    from hermes.tools.files.guard import FileGuard


def tool_context(runtime: Runtime, scope: Scope, cwd: Path, user_task: str = "") -> ToolContext:
    """The context for a call in that scope."""
    emit = runtime.hooks.transform_terminal_output
    return ToolContext(
        scope,
        cwd,
        runtime.processes,
        _workspace_guard(runtime, scope, cwd) if scope.principal else runtime.guard,
        runtime.limits,
        user_task,
        runtime.confinements,
        command=CommandExchange(transform=None if emit is None else OutputTransform(emit, scope)),
    )


def _workspace_guard(runtime: Runtime, scope: Scope, cwd: Path) -> FileGuard:
    """The guard of a caller: its workspace, and what the host wrote for it to read."""
    from hermes.tools.files.workspace import WorkspaceGuard

    own = principal_home(runtime.home, scope.principal)
    return WorkspaceGuard(runtime.guard, cwd, readable=(own / "spill", own / "images"))


class OutputTransform:
    """``transform_terminal_output`` for the output of one call."""

    def __init__(self, emit: Emitter[TerminalOutputTransform], scope: Scope) -> None:
        self._emit = emit
        self._scope = scope
        #: The plugin that changed the output; empty when none did.
        self.changed_by = ""

    def __call__(self, command: str, output: str, returncode: int) -> str:
        ids = self._scope.ids("tool_call_id")
        event = TerminalOutputTransform(**ids, command=command, output=output, returncode=returncode, env_type="local")
        changed = first_text(self._emit(event))
        if changed is None or changed.value == output:
            return output
        self.changed_by = changed.plugin
        return changed.value
