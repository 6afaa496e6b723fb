"""The files that browsers load: our own modules and style, and the vendored Preact. Read once, served from memory."""

from __future__ import annotations

import base64
import hashlib
import posixpath
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent.parent
_VENDORED = {"vendor/preact.js": "_vendor/htm-3.1.1/standalone.module.js"}
_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_IMPORT = re.compile(r"^import\s.*?from\s+\"(\.\.?/[\w/.-]+)\";\n", re.MULTILINE | re.DOTALL)
_DECLARED = re.compile(r"^export (?:async )?(?:function|const|class) (\w+)", re.MULTILINE)
#: The module that a browser begins with, and all that it imports in one file.
ENTRY, FIRST = "main.js", "first.js"
#: The modules of views that ``main.js`` loads when they are opened.
LATER = {
    "sessions": "session/view.js",
    "approvals": "views/approvals.js",
    "costs": "views/costs.js",
    "plugins": "views/plugins.js",
    "compare": "views/compare.js",
}
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
    ours = _FOLDER / "static"
    files = {path.relative_to(ours).as_posix(): path for path in ours.rglob("*") if path.suffix in _TYPES}
    files |= {name: _FOLDER / path for name, path in _VENDORED.items()}
    return {name: _made(path.read_bytes(), path.suffix) for name, path in files.items()}


def _made(content: bytes, suffix: str) -> Asset:
    return Asset(content, _TYPES[suffix], f'"{hashlib.sha256(content).hexdigest()[:16]}"')


@cache
def served() -> dict[str, Asset]:
    """The files as browsers get them: what the first view needs is one module, and its parts only point to it."""
    found = dict(assets())
    for name in imports_of(ENTRY):
        found[name] = _made(f'export * from "{"../" * name.count("/") or "./"}{FIRST}";\n'.encode(), ".js")
    found[FIRST] = _made(f"{one_script(ENTRY)}\nexport {{ {', '.join(_exported(ENTRY))} }};\n".encode(), ".js")
    return found


@cache
def version() -> str:
    """Changes with every file: what is asked for below it can be kept for good."""
    etags = [f"{name} {one.etag}" for name, one in sorted(served().items())]
    return hashlib.sha256("\n".join(etags).encode()).hexdigest()[:12]


@cache
def style() -> str:
    """The style without what only people need, to stand inside a document."""
    text = re.sub(r"/\*.*?\*/", "", text_of("style.css"), flags=re.DOTALL)
    return re.sub(r"\s*\n\s*", "\n", text).strip()


def content_hash(text: str) -> str:
    """A script or style inside a document, as a content security policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def text_of(name: str) -> str:
    """A file as text."""
    return assets()[name].content.decode()


@cache
def imports_of(entry: str) -> tuple[str, ...]:
    """The module and everything it imports: a browser that knows them need not find one in the other."""
    found = [entry]
    for name in found:
        found += [one for one in _imported_by(name) if one not in found]
    return tuple(found)


def _imported_by(name: str) -> list[str]:
    """The modules that one imports itself, by the names they are asked for with."""
    folder = posixpath.dirname(name)
    return [posixpath.normpath(posixpath.join(folder, path)) for path in _IMPORT.findall(text_of(name))]


def _exported(entry: str) -> list[str]:
    """The names that a module and those it imports export."""
    names: list[str] = []
    for name in imports_of(entry):
        source = text_of(name)
        names += _vendored_names(source) if name in _VENDORED else _DECLARED.findall(source)
    return names


def one_script(entry: str) -> str:
    """A module and everything it imports as one script, for a document without a server.

    Our own modules have no name twice and only ``import { … } from "…"`` at their top, so that they can stand one
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
        for imported in _imported_by(name):
            add(imported)
        parts.append(re.sub(r"^export (?=async |function |const |class )", "", _IMPORT.sub("", source), flags=re.M))

    add(entry)
    return "\n".join(parts)


def _enclosed(source: str) -> str:
    """A module whose own names stay inside: what it exports becomes constants."""
    names = _vendored_names(source)
    inner = ",".join(f"{public}:{own}" for public, own in names.items())
    start = _EXPORTS.search(source)
    assert start is not None
    return f"const {{{','.join(names)}}} = (() => {{{source[: start.start()]};return {{{inner}}}}})();"


def _vendored_names(source: str) -> dict[str, str]:
    """The names that the vendored module exports, with its own name for each."""
    found = _EXPORTS.search(source)
    assert found is not None, "the vendored module ends with its exports"
    pairs = [part.strip().partition(" as ") for part in found[1].split(",")]
    return {(public or own): own for own, _, public in pairs}
