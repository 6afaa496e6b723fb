"""What ``pre_verify`` is told about a turn that changed files, and what its answer means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, cast

import msgspec

from hermes.contract.events import ToolEnded
from hermes.hooks.observers import Answer

_PROSE = frozenset({"", ".txt", ".md", ".rst", ".csv", ".log", ".pdf", ".html"})


class _WrittenFiles(msgspec.Struct):
    files_modified: list[str] = []
    files_created: list[str] = []
    files_deleted: list[str] = []


def written_files(call: ToolEnded) -> tuple[str, ...]:
    """The files a finished call says it wrote."""
    if call.status != "ok" or '"files_' not in call.result:
        return ()
    try:
        told = msgspec.json.decode(call.result, type=_WrittenFiles)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ()
    return (*told.files_modified, *told.files_created, *told.files_deleted)


def changed_paths(calls: Sequence[ToolEnded]) -> list[str]:
    """The files that calls wrote, each once, in the order of their first change."""
    return list(dict.fromkeys(path for call in calls for path in written_files(call)))


def is_code(path: str) -> bool:
    """Whether a file is more than prose or data."""
    return PurePath(path).suffix.lower() not in _PROSE


def nudge_from(answers: Sequence[Answer]) -> str | None:
    """The first answer that keeps the turn going, as the message for the model."""
    for answer in answers:
        if not isinstance(answer.value, dict):
            continue
        value = cast("dict[str, Any]", answer.value)
        words = value.get("message") if value.get("action") == "continue" else None
        if value.get("decision") == "block":
            words = value.get("reason")
        if isinstance(words, str) and words.strip():
            return words
    return None
