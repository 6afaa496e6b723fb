"""The table of permission modes: what each makes of each kind of call. The tests check it, the docs show it."""

from __future__ import annotations

from typing import Literal

Cell = Literal["runs", "asks", "refused", "denied"]

COLUMNS = (
    "read",
    "edit inside",
    "edit outside",
    "command judged read-only",
    "other command",
    "command that writes outside",
    "dangerous command",
    "plugin or MCP tool of unsafe effect",
    "what asks, and no one is there",
)

#: "auto" is with a sandbox, the others without; "auto" has then the row of "ask-risky".
CELLS: dict[str, tuple[Cell, ...]] = {
    "plan": ("runs", "refused", "refused", "runs", "refused", "refused", "refused", "refused", "refused"),
    "ask": ("runs", "asks", "asks", "runs", "asks", "asks", "asks", "asks", "denied"),
    "ask-risky": ("runs", "runs", "asks", "runs", "runs", "asks", "asks", "runs", "denied"),
    "accept-edits": ("runs", "runs", "runs", "runs", "runs", "runs", "asks", "runs", "denied"),
    "auto": ("runs", "runs", "asks", "runs", "runs", "runs", "runs", "runs", "denied"),
    "auto without a sandbox": ("runs", "runs", "asks", "runs", "runs", "asks", "asks", "runs", "denied"),
    "yolo": ("runs", "runs", "runs", "runs", "runs", "runs", "runs", "runs", "runs"),
}
