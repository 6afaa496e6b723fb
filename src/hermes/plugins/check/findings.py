"""What is found out about a plugin, one finding at a time."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Severity = Literal["error", "warning"]


class Finding(Struct, frozen=True):
    """One thing that is wrong with a plugin, or odd."""

    severity: Severity
    #: A short name for the kind of finding, for programs.
    rule: str
    text: str
    file: str = ""
    line: int = 0

    @property
    def place(self) -> str:
        """``file:line``, as far as known."""
        return f"{self.file}:{self.line}" if self.line else self.file
