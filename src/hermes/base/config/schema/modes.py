"""Permission modes: one row for each, with its name, its sentence and what it lets run without asking."""

from typing import Literal

from msgspec import Struct

# As in sections.py, annotations are evaluated once, here.

PermissionMode = Literal["plan", "ask", "ask-risky", "accept-edits", "auto", "yolo"]


class ModeTraits(Struct, frozen=True, kw_only=True):
    """What a mode lets run. A mode without traits asks about whatever the rules of approvals find."""

    summary: str
    #: Whatever changes something is refused without a question.
    only_reads: bool = False
    #: Every edit asks, and every call that may change something, dangerous or not.
    asks_changes: bool = False
    #: Edits outside of the working folder run.
    edits_outside: bool = False
    #: Commands in the sandbox run, unless they reach beyond it. Without a sandbox it is the default mode.
    trusts_sandbox: bool = False
    #: Everything runs that is not refused.
    never_asks: bool = False


#: From careful to careless.
MODES: dict[PermissionMode, ModeTraits] = {
    "plan": ModeTraits(summary="reads only: no edits, no other commands", only_reads=True),
    "ask": ModeTraits(summary="every edit asks, and every command that does not only read", asks_changes=True),
    "ask-risky": ModeTraits(summary="work in this folder runs; edits elsewhere and dangerous commands ask"),
    "accept-edits": ModeTraits(
        summary="edits elsewhere run too, except credentials and files that run code", edits_outside=True
    ),
    "auto": ModeTraits(summary="commands in the sandbox run unasked; what leaves it asks", trusts_sandbox=True),
    "yolo": ModeTraits(summary="nothing asks; what is never allowed stays refused", never_asks=True),
}
DEFAULT_MODE: PermissionMode = "ask-risky"
UNASKED_MODE: PermissionMode = "yolo"
READING_MODE: PermissionMode = "plan"
#: The modes that a key at the prompt steps through: the one without questions has to be typed.
STEPPED: tuple[PermissionMode, ...] = ("ask-risky", "accept-edits", "auto", "plan", "ask")
#: What other agents call these modes in files of a project.
NAMES_ELSEWHERE: dict[str, PermissionMode] = {
    "default": DEFAULT_MODE,
    "acceptEdits": "accept-edits",
    "bypassPermissions": "yolo",
}


def more_careful(mode: PermissionMode, other: PermissionMode | Literal[""]) -> PermissionMode:
    """Of two modes the one that lets less run. Empty is no wish."""
    order = list(MODES)
    return other if other and order.index(other) < order.index(mode) else mode
