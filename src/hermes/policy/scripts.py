"""Scripts that a command runs: the protocol by which the analysis reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Script:
    """The text of a script, and how far it is trusted."""

    text: str
    #: Written in this session: all rules count. In other scripts only the hardline ones do.
    is_new: bool

    @property
    def trust(self) -> dict[str, object]:
        """The state of a shell that runs it."""
        return {} if self.is_new else {"only_hardline": True}


#: Reads the script with that absolute path; None when it cannot or should not be read.
ScriptReader = Callable[[str], Script | None]
