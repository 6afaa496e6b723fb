"""Notices about callbacks of the embedding program that fail, which the log has with their traceback."""

from __future__ import annotations

from hermes.base.sanitize import Redactor

_MAX_CHARS = 300


class CallbackFailures:
    """Adds a line to the notices of an agent for each callback and kind of failure: the first one."""

    def __init__(self, notices: list[str], redactor: Redactor) -> None:
        self._notices = notices
        self._redactor = redactor
        self._known: set[tuple[str, type[Exception]]] = set()

    def add(self, callback: str, error: Exception, outcome: str) -> None:
        """``outcome`` is what follows from the failure."""
        kind = (callback, type(error))
        if kind in self._known:
            return
        self._known.add(kind)
        words = " ".join(self._redactor.redact(str(error)).split())[:_MAX_CHARS]
        what = f"{type(error).__name__}: {words}" if words else type(error).__name__
        self._notices.append(f"the {callback} callback failed ({what}): {outcome}; the log has the traceback")

    def listener_failed(self, error: Exception) -> None:
        """``on_event`` raised."""
        self.add("on_event", error, "it hears no more of that turn")
