"""The parts that a turn works with: those of its session and of the host, each by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hermes.agent.events import Listener

if TYPE_CHECKING:
    from hermes.agent.context.project import ProjectInstructions
    from hermes.agent.context.transcript import SessionTranscript
    from hermes.agent.context.window import ContextWindow
    from hermes.agent.llm.model_runtime import ModelRuntime
    from hermes.agent.memory.memory import Memory
    from hermes.agent.runtime import Runtime
    from hermes.base.sanitize import Memo
    from hermes.base.scope import Scope
    from hermes.contract.events import ToolEnded
    from hermes.journal.turns.steps import TurnJournal
    from hermes.tools.registry import Tool


class TurnParts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a turn is given. Its session makes one for each turn."""

    runtime: Runtime
    journal: TurnJournal
    scope: Scope
    listener: Listener
    models: ModelRuntime
    transcript: SessionTranscript
    window: ContextWindow
    #: What sanitising the conversation has cost already, so that only new messages cost again.
    memo: Memo
    cwd: Path
    #: The tools of the session, and those of a turn that begins, which may be fewer.
    offered: Sequence[Tool]
    take_offered: Callable[[], list[Tool]]
    max_steps: int
    #: None for a child, which knows only its task and reports to its parent.
    memory: Memory | None
    #: The instruction files of the project; None when they are switched off.
    instructions: ProjectInstructions | None
    #: What the system prompt of a child says about its role.
    rules: str
    #: What joins the turn after a step: the instructions of folders that its calls entered, and what was said.
    added_texts: Callable[[str, int, Sequence[ToolEnded]], list[str]]
    #: Who sent the message, where the surface knows.
    sender_id: str = ""
    #: Whether the surface can show that text which it has shown does not count.
    can_withdraw_text: bool = False
    #: What the caller adds to the message, for this turn only.
    context: str = ""
    #: Whether the answer is data, of which half is of no use.
    is_structured: bool = False
