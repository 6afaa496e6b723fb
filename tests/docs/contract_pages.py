"""A page for every hook and middleware kind: what it carries, what an answer does, and on which paths it fires.

The example on each page is written by hand and run like every other; this makes the part above it.
"""

from __future__ import annotations

import re
import runpy
from functools import cache
from pathlib import Path
from typing import Any

from hermes.contract.fields import Fields
from hermes.contract.hooks import HOOKS, OBSERVER_SCHEMA, PAIRS
from hermes.contract.middleware import MIDDLEWARE, MIDDLEWARE_SCHEMA

from .contract_tables import hooks_that_fire
from .markdown import alternatives, code, table
from .pages import DOCS, ROOT

#: Paths whose name in the delivery table is short for the sake of the tests.
_PATHS = {
    "ok": "answer without tools",
    "tool ok": "tool call",
    "headless denial": "approval without a responder",
    "max turns": "step budget spent",
    "pre_verify": "turn that changed files",
    "resumed after that": "resumed after being killed in a model call",
    "resumed after that tool": "resumed after being killed in a tool",
}
_TIMES = {1: "once", 2: "twice"}


def page_of(name: str) -> Path:
    """Where the page of a hook or middleware kind is."""
    return DOCS / ("hooks" if name in HOOKS else "middleware") / f"{name}.md"


def write_missing_pages() -> list[Path]:
    """Start the pages that are not there yet; their examples are still to be written."""
    missing = [name for name in (*HOOKS, *MIDDLEWARE) if not page_of(name).exists()]
    for name in missing:
        noun = "hook" if name in HOOKS else "middleware"
        page = page_of(name)
        page.parent.mkdir(exist_ok=True)
        page.write_text(f"# `{name}`\n\n<!-- generated: {noun} {name} -->\n\n<!-- /generated -->\n\n## Example\n")
    return [page_of(name) for name in missing]


def hook_text(name: str) -> str:
    """Everything the contract says about a hook."""
    spec = HOOKS[name]
    live = f" What a callback changes in {code(spec.live)} in place counts as a `modify`." if spec.live else ""
    answer = f"**Answer:** {_shapes(spec.returns)}{live}"
    facts = [spec.when, answer, *_pair_sentences(name), _paths(name)]
    return _page_text(name, "hooks", OBSERVER_SCHEMA, facts, spec.fields)


def middleware_text(kind: str) -> str:
    """Everything the contract says about a kind of middleware."""
    spec = MIDDLEWARE[kind]
    facts = [spec.when, f"**Return:** {_shapes(spec.returns)}", _paths(kind)]
    return _page_text(kind, "middleware", MIDDLEWARE_SCHEMA, facts, spec.fields)


def paths() -> str:
    """Every path that the delivery tests drive, and those that wait for a part of the runtime."""
    driven = [_PATHS.get(path, path) for path in _deliveries()]
    pending = [f"{path} ({feature})" for path, feature in _pending().items()]
    return f"{'; '.join(driven)}.\n\nWaiting for the part of Hermes they need: {'; '.join(pending)}.\n"


def _page_text(name: str, overview: str, schema: str, facts: list[str], fields: Fields) -> str:
    source = (
        f"Part of `{schema}`; [{overview}](../{overview}.md) has what all of them share. "
        f"`hermes hooks spec {name} --json` prints the contract of this page as data."
    )
    return "\n\n".join([*facts, source, "## Fields", _fields_table(fields)])


def _pair_sentences(name: str) -> list[str]:
    found: list[str] = []
    for pair in PAIRS:
        key = ", ".join(map(code, pair.key))
        if name == pair.start:
            again = " A callback may get it again before that, as said below." if pair.may_repeat else ""
            found.append(f"**Pair:** closed by exactly one {alternatives(pair.ends)} with the same {key}.{again}")
        elif name in pair.ends:
            found.append(f"**Pair:** closes the {code(pair.start)} with the same {key}.")
    return found


def _paths(name: str) -> str:
    """How often it fires on each path that the delivery tests drive."""
    if name in HOOKS and name not in hooks_that_fire():
        return (
            "*Declared: it may be subscribed to, and nothing in this version fires it. "
            "The example below is fired by the test kit.*"
        )
    by_count: dict[int, list[str]] = {}
    for path, counts in _deliveries().items():
        by_count.setdefault(counts.get(name, 0), []).append(_PATHS.get(path, path))
    # The overview lists every path; here the many on which nothing happens would only be in the way.
    rows = [(_times(count), ", ".join(by_count[count])) for count in sorted(by_count) if count]
    rows.append(("never", "every other path"))
    return "**How often**, by [path](../hooks.md#on-which-paths):\n\n" + table(("times", "path"), rows).rstrip()


def _deliveries() -> dict[str, dict[str, int]]:
    """What each path fires."""
    return _delivery_table()["EXPECTED"]


def _pending() -> dict[str, str]:
    """The paths that cannot be driven yet."""
    return _delivery_table()["PENDING"]


@cache
def _delivery_table() -> dict[str, Any]:
    """Read as a file, because these modules run inside the tests and on their own, under different names."""
    return runpy.run_path(str(ROOT / "tests/support/delivery.py"))


def _times(count: int) -> str:
    return _TIMES.get(count, f"{count} times")


def _fields_table(fields: Fields) -> str:
    rows = [
        (
            code(field.name),
            code(field.type),
            field.safety,
            field.meaning + ("" if field.always else " Not always there."),
        )
        for field in fields
    ]
    return table(("field", "type", "[safety](../hooks.md#fields)", "meaning"), rows)


def _shapes(text: str) -> str:
    """Shapes such as ``{"context": str}`` as code."""
    return re.sub(r"(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})", r"`\1`", text)
