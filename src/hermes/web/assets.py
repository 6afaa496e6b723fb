"""The files that browsers load: our own modules and style, and the vendored Preact. Read once, served from memory."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent
_VENDORED = {"vendor/preact.js": "_vendor/htm-3.1.1/standalone.module.js"}
_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_IMPORT = re.compile(r"^import\s.*?from\s+\"\./([\w/.-]+)\";\n", re.MULTILINE | re.DOTALL)
_EXPORTS = re.compile(r"export\s*\{([^}]*)\};?\s*$")


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is sent."""

    content: bytes
    media_type: str
    etag: str


@cache
def assets() -> dict[str, Asset]:
    """Every file by the name it is asked for with. A name that is not here does not exist: no path is ever joined."""
    files = {path.name: path for path in (_FOLDER / "static").iterdir() if path.suffix in _TYPES}
    files |= {name: _FOLDER / path for name, path in _VENDORED.items()}
    return {name: _asset(path) for name, path in files.items()}


def _asset(path: Path) -> Asset:
    content = path.read_bytes()
    return Asset(content, _TYPES[path.suffix], f'"{hashlib.sha256(content).hexdigest()[:16]}"')


def text_of(name: str) -> str:
    """A file as text."""
    return assets()[name].content.decode()


@cache
def imports_of(entry: str) -> tuple[str, ...]:
    """The module and everything it imports: a browser that knows them need not find one in the other."""
    found = [entry]
    for name in found:
        found += [one for one in _IMPORT.findall(text_of(name)) if one not in found]
    return tuple(found)


def one_script(entry: str) -> str:
    """A module and everything it imports as one script, for a document without a server.

    Our own modules have no name twice and only ``import { … } from "./…"`` at their top, so that they can stand one
    after the other. The vendored one keeps its names to itself.
    """
    parts: list[str] = []
    seen: set[str] = set()

    def add(name: str) -> None:
        if name in seen:
            return
        seen.add(name)
        source = text_of(name)
        if name in _VENDORED:
            parts.append(_enclosed(source))
            return
        for imported in _IMPORT.findall(source):
            add(imported)
        parts.append(re.sub(r"^export (?=async |function |const |class )", "", _IMPORT.sub("", source), flags=re.M))

    add(entry)
    return "\n".join(parts)


def _enclosed(source: str) -> str:
    """A module whose own names stay inside: what it exports becomes constants."""
    found = _EXPORTS.search(source)
    assert found is not None, "the vendored module ends with its exports"
    pairs = [part.strip().partition(" as ") for part in found[1].split(",")]
    names = {(public or own): own for own, _, public in pairs}
    inner = ",".join(f"{public}:{own}" for public, own in names.items())
    return f"const {{{','.join(names)}}} = (() => {{{source[: found.start()]};return {{{inner}}}}})();"
