"""Session updates: what an editor shows of a turn, from its events and from recorded messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from hermes.agent.tools.todo import items_in
from hermes.base.sanitize import Redactor
from hermes.tools.declarations.declaration import Declaration, Kind
from hermes.tools.files.patch_v4a import FilePatch, PatchError, parse_patch
from hermes.tools.files.paths import resolve_path

_MAX_TITLE_CHARS = 120
_MAX_TEXT_CHARS = 20_000
_MAX_DIFF_BYTES = 1_000_000

Update = dict[str, Any]


def text_chunk(kind: str, text: str) -> Update:
    """A piece of a message: ``agent_message_chunk``, ``agent_thought_chunk`` or ``user_message_chunk``."""
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


class ToolUpdates:
    """Makes the updates of tool calls in one working folder. What it shows has no secrets."""

    def __init__(self, cwd: Path, redactor: Redactor, declaration: Callable[[str], Declaration]) -> None:
        self._cwd = cwd
        self._redactor = redactor
        self._declaration = declaration

    def call(self, call_id: str, name: str, args: dict[str, Any]) -> Update:
        """A call as an editor shows it: title, kind, files, and the change it makes."""
        shown, declared = self._redactor.mask_data(args), self._declaration(name)
        fields: Update = {
            "toolCallId": call_id,
            "title": _title(name, shown, declared),
            "kind": declared.kind,
            "rawInput": shown,
        }
        path = self._path(args.get("path"))
        patches = [text for name in declared.patches if isinstance(text := shown.get(name), str) and text]
        files = [path] if path is not None else list(map(self._path, declared.named_paths(args)))
        if any(files):
            fields["locations"] = [{"path": file} for file in files if file]
        content = (
            [diff for patch in patches for diff in self._patch_diffs(patch)]
            if patches and args.get("mode") != "replace"
            else self._diff(declared, shown, path)
        )
        if content:
            fields["content"] = content
        return fields

    def started(self, call_id: str, name: str, args: dict[str, Any]) -> Update:
        """``tool_call``: the call runs now."""
        return {"sessionUpdate": "tool_call", "status": "in_progress", **self.call(call_id, name, args)}

    def ended(self, call_id: str, name: str, result: str, *, ok: bool) -> Update:
        """``tool_call_update``: the call has ended."""
        text = self._redactor.mask_known(result)
        update: Update = {
            "sessionUpdate": "tool_call_update",
            "toolCallId": call_id,
            "status": "completed" if ok else "failed",
        }
        # The diff of an edit stays as it was shown.
        kind = self._declaration(name).kind
        if not ok or kind != "edit":
            update["content"] = [{"type": "content", "content": {"type": "text", "text": _result_text(kind, text)}}]
        return update

    def plan(self, name: str, result: str) -> Update | None:
        """``plan``: the items of a tool that lists tasks; None for any other."""
        if self._declaration(name).shown.detail != "tasks":
            return None
        items = items_in(result)
        if items is None:
            return None
        entries = [
            {"content": item.get("content", ""), "priority": "medium", "status": item["status"]}
            for item in items
            if item.get("status") in ("pending", "in_progress", "completed")
        ]
        return {"sessionUpdate": "plan", "entries": entries}

    def _path(self, path: object) -> str | None:
        if not isinstance(path, str) or not path:
            return None
        try:
            return str(resolve_path(path, self._cwd))
        except ValueError:
            return None

    def _diff(self, declared: Declaration, args: dict[str, Any], path: str | None) -> list[dict[str, Any]]:
        if path is None:
            return []
        if declared.shown.detail == "content":
            return [{"type": "diff", "path": path, "oldText": self._text_of(path), "newText": str(args.get("content"))}]
        if declared.shown.detail == "diff" and args.get("mode") == "replace" and "old_string" in args:
            old, new = str(args["old_string"]), str(args.get("new_string") or "")
            return [{"type": "diff", "path": path, "oldText": old, "newText": new}]
        return []

    def _patch_diffs(self, patch: str) -> list[dict[str, Any]]:
        """What a patch of several files changes, a piece at a time; nothing for one that cannot be read."""
        try:
            files = parse_patch(patch)
        except PatchError:
            return []
        return [diff for file in files if (path := self._path(file.path)) for diff in self._file_diffs(file, path)]

    def _file_diffs(self, file: FilePatch, path: str) -> Iterator[dict[str, Any]]:
        if file.action == "add":
            yield {"type": "diff", "path": path, "oldText": None, "newText": file.content}
        elif file.action == "delete":
            yield {"type": "diff", "path": path, "oldText": self._text_of(path), "newText": ""}
        for hunk in file.hunks:
            yield {"type": "diff", "path": path, "oldText": _lines(hunk.old()), "newText": _lines(hunk.new())}

    def _text_of(self, path: str) -> str | None:
        """The text of a file before it is changed; None for a new one."""
        try:
            with Path(path).open("rb") as file:
                data = file.read(_MAX_DIFF_BYTES)
        except OSError:
            return None
        return self._redactor.mask_known(data.decode("utf-8", "replace"))


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _title(name: str, args: dict[str, Any], declared: Declaration) -> str:
    subject = next(
        (str(args[key]) for key in ("command", "path", "url", "query", "pattern", "name", "goal") if args.get(key)), ""
    )
    title = " ".join((subject if declared.runs_commands else f"{name} {subject}").split()) or name
    return title if len(title) <= _MAX_TITLE_CHARS else f"{title[: _MAX_TITLE_CHARS - 1]}…"


def _result_text(kind: Kind, result: str) -> str:
    """What is worth showing of a result: the output of a command, the content of a file, else all of it."""
    text = result
    try:
        fields = msgspec.json.decode(result, type=dict[str, Any])
    except msgspec.DecodeError:
        fields = {}
    for key in ("error", "output", "content"):
        if isinstance(fields.get(key), str) and fields[key]:
            text = fields[key]
            break
    text = text if len(text) <= _MAX_TEXT_CHARS else f"{text[:_MAX_TEXT_CHARS]}\n… ({len(text):,} characters)"
    fence = "```" if "```" not in text else "~~~~"
    return f"{fence}\n{text}\n{fence}" if kind == "execute" else text
