"""The outcome of a tool call: what its result means, and how much of it the model sees."""

from __future__ import annotations

import time
from typing import Any, cast

import msgspec

from hermes.contract.events import ToolStatus
from hermes.journal.records import CallRecord
from hermes.tools.registry import Args
from hermes.tools.results import tool_error

#: Longer results reach the model with their middle left out; the journal keeps them whole.
MAX_RESULT_CHARS = 100_000

_STATUS_OF: dict[str, ToolStatus] = {"tool_timeout": "timeout", "interrupted": "cancelled"}


class ToolOutcome(msgspec.Struct, frozen=True):
    """The outcome of a call. ``result`` is the raw JSON text, before any transformation."""

    result: str
    status: ToolStatus
    args: Args
    duration_ms: int = 0
    error_type: str | None = None
    error_message: str | None = None

    @classmethod
    def recorded(cls, record: CallRecord) -> ToolOutcome:
        """The outcome that an earlier run of the turn recorded."""
        return cls(**{name: getattr(record, name) for name in cls.__struct_fields__})

    def after(self, started: float) -> ToolOutcome:
        """The same with the time since then."""
        elapsed = int((time.perf_counter() - started) * 1000)
        return ToolOutcome(self.result, self.status, self.args, elapsed, self.error_type, self.error_message)


class _ErrorFields(msgspec.Struct):
    error: Any = None
    error_type: Any = None


_error_fields = msgspec.json.Decoder(_ErrorFields)


def judge(result: str, args: Args) -> ToolOutcome:
    """The outcome of a finished run: an object with a truthy ``error`` is an error, everything else is ok."""
    if not (result.startswith("{") and '"error"' in result):
        return ToolOutcome(result, "ok", args)
    try:
        found = _error_fields.decode(result)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ToolOutcome(result, "ok", args)
    if not found.error:
        return ToolOutcome(result, "ok", args)
    status = _STATUS_OF.get(str(found.error_type), "error")
    return ToolOutcome(result, status, args, 0, str(found.error_type or "tool_error"), str(found.error))


def as_text(raw: object) -> str:
    """A result as JSON text. Execution middleware may hand back plain data instead."""
    if isinstance(raw, str):
        return raw
    if isinstance(raw, dict | list):
        return msgspec.json.encode(cast("object", raw)).decode()
    found = type(raw).__name__
    return tool_error(f"the tool returned {found}; a JSON string is expected", error_type="tool_result_contract")


def bounded(text: str) -> str:
    """A result as far as the model sees it."""
    if len(text) <= MAX_RESULT_CHARS:
        return text
    head, tail = MAX_RESULT_CHARS * 2 // 5, MAX_RESULT_CHARS * 3 // 5
    return f"{text[:head]}\n[{len(text) - head - tail} characters left out]\n{text[-tail:]}"


def data_problem(args: Args) -> str | None:
    """Why arguments that a plugin made cannot be recorded, or None."""
    try:
        msgspec.json.encode(args)
    except UnicodeEncodeError:
        return None  # odd characters are repaired in the record
    except (TypeError, ValueError, RecursionError) as error:
        return f"a plugin put something into the arguments that JSON cannot hold: {error}"
    return None
