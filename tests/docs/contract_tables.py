"""The hooks and middleware kinds as tables, made from the contract."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import hermes
from hermes.contract.fields import Fields
from hermes.contract.hooks import HOOKS, PAIRS
from hermes.contract.middleware import MIDDLEWARE

from .markdown import code, table

#: Where the contract is declared and carried out; everything else only uses it.
_MACHINERY = ("contract", "hooks", "testing")


def hooks_overview() -> str:
    """One line per hook."""
    rows = [
        (f"[{code(spec.name)}](#{spec.name})", spec.when, "yes" if spec.answers else "", _fires(spec.name))
        for spec in HOOKS.values()
    ]
    return table(("hook", "when", "its answer counts", "fires"), rows)


def hooks_in_detail() -> str:
    """A heading for every hook, with what it carries and what an answer does."""
    texts: list[str] = []
    for spec in HOOKS.values():
        live = f" What a callback changes in {code(spec.live)} in place counts as a rewrite." if spec.live else ""
        absent = "" if spec.name in hooks_that_fire() else "\n\n*Declared; nothing in this version fires it.*"
        text = f"### `{spec.name}`\n\n{spec.when}{absent}\n\nAnswer: {_answer(spec.returns)}{live}\n\n"
        texts.append(text + _fields_table(spec.fields))
    return "\n".join(texts)


def pairs() -> str:
    """Which start is closed by which end."""
    rows = [(code(pair.start), _or(pair.ends), ", ".join(map(code, pair.key))) for pair in PAIRS]
    return table(("start", "closed by exactly one", "both carry"), rows)


def middleware_overview() -> str:
    """One line per kind of middleware."""
    rows = [
        (f"[{code(spec.kind)}](#{spec.kind})", spec.when, code(spec.payload), "wraps the call" if spec.wraps else "")
        for spec in MIDDLEWARE.values()
    ]
    return table(("kind", "when", "payload", ""), rows)


def middleware_in_detail() -> str:
    """A heading for every kind, with what it is given and what it may return."""
    texts = [
        f"### `{spec.kind}`\n\n{spec.when}\n\nReturn: {_answer(spec.returns)}\n\n{_fields_table(spec.fields)}"
        for spec in MIDDLEWARE.values()
    ]
    return "\n".join(texts)


@cache
def hooks_that_fire() -> frozenset[str]:
    """The hooks that some part of the runtime emits."""
    package = Path(hermes.__file__).parent
    sources = [file for file in package.rglob("*.py") if file.relative_to(package).parts[0] not in _MACHINERY]
    text = "\n".join(file.read_text() for file in sources)
    return frozenset(name for name in HOOKS if re.search(rf"\bhooks\.{name}\b", text))


def _fires(name: str) -> str:
    return "now" if name in hooks_that_fire() else "not yet"


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
    return table(("field", "type", "safety", "meaning"), rows)


def _answer(text: str) -> str:
    """Shapes such as ``{"context": str}`` as code."""
    return re.sub(r"(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})", r"`\1`", text)


def _or(names: tuple[str, ...]) -> str:
    return " or ".join(map(code, names))
