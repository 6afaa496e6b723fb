"""Answers of MCP servers as tool results: text as it is, images in files, everything within the limits of a result."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.tools.results import tool_error, tool_result
from hermes.tools.terminal.output import shorten

if TYPE_CHECKING:
    import mcp_types as types

_ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp", "audio/wav": "wav"}
_MAX_FILE_BYTES = 20 * 1024 * 1024


class ResultWriter:
    """Writes answers as tool results. ``folder`` is where images go."""

    def __init__(self, folder: Path, max_chars: int) -> None:
        self._folder = folder
        self._max_chars = max_chars

    def call(self, answer: types.CallToolResult) -> str:
        """The answer to a tool call. An answer that says it is an error is one."""
        text = self._text(answer.content)
        structured = answer.structured_content
        if answer.is_error:
            return tool_error(self._short(text) or "the tool failed and said nothing", error_type="mcp_tool_error")
        # Servers repeat structured content as text for clients that do not know it: the model needs it once.
        if structured is not None and not text.strip():
            text = msgspec.json.encode(structured).decode()
        return tool_result(result=self._short(text))

    def resource(self, answer: types.ReadResourceResult) -> str:
        """The content of a resource."""
        return tool_result(contents=self._short("\n\n".join(map(self._resource, answer.contents))))

    def prompt(self, answer: types.GetPromptResult) -> str:
        """A prompt, message by message."""
        lines = [f"{message.role}: {self._text([message.content])}" for message in answer.messages]
        return tool_result(description=answer.description or "", messages=self._short("\n\n".join(lines)))

    def _short(self, text: str) -> str:
        return shorten(text, self._max_chars)

    def _text(self, content: Iterable[Any]) -> str:
        return "\n".join(map(self._block, content))

    def _block(self, block: Any) -> str:
        match block.type:
            case "text":
                return block.text
            case "image" | "audio":
                return self._file(block.data, block.mime_type, block.type)
            case "resource":
                return self._resource(block.resource)
            case "resource_link":
                return f"[resource {block.uri}: {block.name}]"
            case kind:
                return f"[{kind}, which cannot be shown]"

    def _resource(self, resource: Any) -> str:
        text = getattr(resource, "text", None)
        if text is not None:
            return f"[{resource.uri}]\n{text}"
        return self._file(resource.blob, resource.mime_type or "application/octet-stream", f"resource {resource.uri}")

    def _file(self, data: str, mime_type: str, what: str) -> str:
        """Binary content, kept in a file that the model can name."""
        try:
            raw = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            return f"[{what} of the type {mime_type}, which is not valid base64]"
        if len(raw) > _MAX_FILE_BYTES:
            return f"[{what} of {len(raw):,} bytes; at most {_MAX_FILE_BYTES:,} are kept]"
        path = self._folder / f"mcp-{hashlib.sha256(raw).hexdigest()[:16]}.{_ENDINGS.get(mime_type, 'bin')}"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(raw)
        except OSError as error:
            return f"[{what} of the type {mime_type}, {len(raw):,} bytes, not kept: {error.strerror}]"
        return f"[{what} of the type {mime_type}, {len(raw):,} bytes: {path}]"
