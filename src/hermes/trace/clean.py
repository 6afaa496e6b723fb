"""Redaction of content for records and exports: plain data without secrets and without the bytes of images."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from hermes.base.sanitize import REDACTED, Redactor, is_secret_key

_PLAIN = Redactor()
#: Longer values that carry their data in their address are shortened; a trace is no place for pictures.
_LONGEST_DATA_ADDRESS = 1_000
#: Shorter secrets cannot be distinguished from ordinary words; most texts of a run are empty.
_SHORTEST_SECRET = 6


class Cleaner:
    """Cleans texts and plain data. A plugin's ``ctx.redactor`` knows the secrets that no shape gives away."""

    def __init__(self, redactor: Redactor = _PLAIN) -> None:
        self._redact = redactor.redact

    def text(self, text: str) -> str:
        """A text without secrets; the data of a ``data:`` address is left out."""
        if len(text) < _SHORTEST_SECRET:
            return text
        if text.startswith("data:") and len(text) > _LONGEST_DATA_ADDRESS:
            kind, _, data = text.partition(",")
            return f"{kind[:100]},[{len(data)} characters left out]"
        return self._redact(text)

    def value(self, value: Any) -> Any:
        """A copy of plain data, cleaned. What is no data becomes its text."""
        kind: type[object] = value.__class__
        if kind is str:
            return self.text(value)
        if kind is int or kind is float or kind is bool or value is None:
            return value
        if isinstance(value, dict):
            return {str(name): self._field(str(name), item) for name, item in cast("dict[Any, Any]", value).items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in cast("list[Any]", value)]
        return self.text(str(value))

    def _field(self, name: str, value: Any) -> Any:
        return REDACTED if value.__class__ is str and is_secret_key(name) else self.value(value)

    def arguments(self, text: str) -> dict[str, Any]:
        """The arguments of a tool call from the text the model wrote."""
        try:
            found: Any = msgspec.json.decode(text or "{}")
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return {"_raw": self.text(text)}
        return self.value(found) if isinstance(found, dict) else {"_raw": self.text(text)}
