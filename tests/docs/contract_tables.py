"""The overview of the hooks and middleware kinds, made from the contract."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import hermes
from hermes.contract.gateway_events import GATEWAY_EVENTS
from hermes.contract.hooks import HOOKS, PAIRS
from hermes.contract.middleware import MIDDLEWARE
from hermes.hooks.sinks import SINK_HOOKS

from .markdown import alternatives, code, table

#: Where the contract is declared and carried out; everything else only uses it.
_MACHINERY = ("contract", "hooks", "testing")


def hooks_overview() -> str:
    """One line per hook."""
    rows = [
        (f"[{code(spec.name)}](hooks/{spec.name}.md)", spec.when, "yes" if spec.answers else "", _fires(spec.name))
        for spec in HOOKS.values()
    ]
    return table(("hook", "when", "its answer counts", "fires"), rows)


def pairs() -> str:
    """Which start is closed by which end."""
    rows = [(code(pair.start), alternatives(pair.ends), ", ".join(map(code, pair.key))) for pair in PAIRS]
    return table(("start", "closed by exactly one", "both carry"), rows)


def gateway_events() -> str:
    """What gateway hooks are told."""
    rows = [(code(name), one.when, ", ".join(map(code, one.context))) for name, one in GATEWAY_EVENTS.items()]
    return table(("event", "when", "context"), rows)


def events() -> str:
    """Which hook each event comes from."""
    rows = [(code(kind.__name__), code(hook)) for kind, hook in SINK_HOOKS.items()]
    return table(("event", "hook"), rows)


def middleware_overview() -> str:
    """One line per kind of middleware."""
    rows = [
        (
            f"[{code(spec.kind)}](middleware/{spec.kind}.md)",
            spec.when,
            code(spec.payload),
            "wraps the call" if spec.wraps else "rewrites it",
        )
        for spec in MIDDLEWARE.values()
    ]
    return table(("kind", "when", "payload", "what it does"), rows)


@cache
def hooks_that_fire() -> frozenset[str]:
    """The hooks that some part of the runtime emits."""
    package = Path(hermes.__file__).parent
    sources = [file for file in package.rglob("*.py") if file.relative_to(package).parts[0] not in _MACHINERY]
    text = "\n".join(file.read_text() for file in sources)
    return frozenset(name for name in HOOKS if re.search(rf"\b_?hooks\.{name}\b", text))


def _fires(name: str) -> str:
    return "now" if name in hooks_that_fire() else "not yet"
