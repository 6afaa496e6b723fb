"""Whether a call that somebody objects to may run: one decision function with one exit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from hermes.hooks.observers import Answer
from hermes.scope import Scope

BlockReason = Literal["plugin_block", "approval_denied", "headless_denied"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a plugin said about a call in ``pre_tool_call``."""

    action: Literal["block", "approve"]
    plugin: str
    message: str


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether the call may run, and what to tell the model when not."""

    allowed: bool
    message: str = ""
    error_type: BlockReason | None = None


ALLOWED = Decision(True)


class Approvals:
    """Decides about calls. No surface asks a person yet: what needs one is denied, unless everything is allowed."""

    def __init__(self, *, allow_everything: bool = False) -> None:
        self._allow_everything = allow_everything

    def decide(self, verdict: Verdict, scope: Scope) -> Decision:
        if verdict.action == "block":
            return Decision(False, verdict.message, "plugin_block")
        if self._allow_everything:
            return ALLOWED
        why = f": {verdict.message}" if verdict.message else ""
        return Decision(
            False,
            f"The plugin {verdict.plugin} wants a person to approve this call{why}, and nobody can be asked here "
            f"({scope.platform}, not interactive). Find another way, or tell the user to run it again with --yolo.",
            "headless_denied",
        )


def verdict_of(answers: Sequence[Answer]) -> Verdict | None:
    """The first answer that is a verdict. A block needs a message; anything else is ignored."""
    for answer in answers:
        if not isinstance(answer.value, dict):
            continue
        value = cast("dict[str, Any]", answer.value)
        message = value.get("message")
        text = message if isinstance(message, str) else ""
        if value.get("action") == "block" and text:
            return Verdict("block", answer.plugin, text)
        if value.get("action") == "approve":
            return Verdict("approve", answer.plugin, text)
    return None
