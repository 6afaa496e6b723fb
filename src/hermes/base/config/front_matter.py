"""Markdown files of a project or of the user: front matter (YAML between ``---`` lines) and a text."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from hermes.base.config.trust import is_text_for_agents
from hermes.base.errors import ConfigError

MAX_BYTES = 64 * 1024
_FENCE = re.compile(r"---[ \t]*(?:\n|$)")
_CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)
_PLAIN_LINE = re.compile(r"([A-Za-z][\w-]*):(?:[ \t]+(.*))?")


@dataclass(frozen=True, slots=True)
class MarkdownFile:
    """A file that was read: the fields of its front matter, and the text after it."""

    path: Path
    fields: dict[str, Any]
    body: str

    def text(self, *names: str) -> str:
        """The first of these fields that is there, as one line of text; empty without one."""
        for name in names:
            value = self.fields.get(name)
            if value is not None:
                if isinstance(value, dict | list):
                    raise ConfigError(f"{self.path}: {name} is not a text")
                return " ".join(str(value).split())
        return ""

    def names(self, *fields: str) -> list[str] | None:
        """The first of these fields that is there, as a list: written as one, or with commas. None without one."""
        for field in fields:
            value = self.fields.get(field)
            if value is None:
                continue
            if isinstance(value, str):
                return _split_names(value)
            if isinstance(value, list) and all(isinstance(one, str) for one in cast("list[object]", value)):
                return [one.strip() for one in cast("list[str]", value) if one.strip()]
            raise ConfigError(f"{self.path}: {field} is neither a list of names nor a text with commas")
        return None


def read_markdown(path: Path, *, inside: Path | None = None, limit: int = MAX_BYTES) -> MarkdownFile:
    """Read a file. With ``inside``, a link that leaves that folder is refused.

    Raises ``ConfigError`` that names the file: it is unreadable, too long, no UTF-8, or its front matter is broken.
    """
    try:
        real = Path(os.path.realpath(path))
        if inside is not None and Path(os.path.realpath(inside)) not in real.parents:
            raise ConfigError(f"{path} is a link that leaves {inside}; it is not read")
        if inside is not None and not is_text_for_agents(real):
            raise ConfigError(f"{path} is a link to {real.name}, which is not a Markdown file; it is not read")
        if not real.is_file():
            raise ConfigError(f"{path} is not a file")
        with real.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > limit:
        raise ConfigError(f"{path} has more than {limit:,} bytes; shorten it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: not UTF-8 text; save the file as UTF-8") from None
    fields, body = split_front_matter(text.replace("\r\n", "\n").replace("\0", ""), str(path))
    return MarkdownFile(path, fields, body)


def split_front_matter(text: str, source: str) -> tuple[dict[str, Any], str]:
    """The fields and the rest of a text; a text without front matter has no fields."""
    opening = _FENCE.match(text)
    if opening is None:
        return {}, text
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        raise ConfigError(f"{source}: the front matter has no end; close it with a line '---'")
    return _fields(text[opening.end() : closing.start()], source), text[closing.end() :].lstrip("\n")


def _fields(text: str, source: str) -> dict[str, Any]:
    from hermes.base.config.document import parse_document

    try:
        return parse_document(text, f"{source}: front matter")
    except ConfigError:
        # Other agents take everything after the first colon as the value: "description: Use it when: always".
        found = _plain_fields(text)
        if found is None:
            raise
        return found


def _plain_fields(text: str) -> dict[str, Any] | None:
    fields: dict[str, Any] = {}
    for line in text.split("\n"):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _PLAIN_LINE.fullmatch(line.rstrip())
        if found is None or found[1] in fields:
            return None
        fields[found[1]] = (found[2] or "").strip() or None
    return fields


def _split_names(text: str) -> list[str]:
    """The names in a text, with commas or blanks between them; ``Bash(git log, git diff)`` is one name."""
    return re.findall(r"[^\s,(]+(?:\([^)]*\))?", text)
