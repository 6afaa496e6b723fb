"""Rules for the return values of callbacks, hook by hook and kind by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from hermes.base.errors import ProviderError
from hermes.contract.failures import FAILURE_NAMES
from hermes.contract.middleware import MIDDLEWARE
from hermes.models.reply import normalise

_ACTIONS = ("block", "approve", "modify")
_TRACE_FIELDS = ("source", "reason", "name")


def answer_problem(hook: str, value: Any) -> str:
    """Why a hook's answer would be ignored; empty when it counts. Only for hooks that take answers."""
    check = _CHECKS.get(hook)
    return "" if value is None or check is None else check(value)


def replacement_problem(kind: str, value: Any) -> str:
    """Why request middleware's answer would be ignored; empty when it counts."""
    key = MIDDLEWARE[kind].payload
    expected = f'return None or {{"{key}": {{...}}}}'
    if value is None:
        return ""
    if not isinstance(value, dict):
        return f"a {type(value).__name__}; {expected}"
    found = cast("dict[str, Any]", value)
    if key not in found:
        return f"a dict without {key!r} (its keys: {_keys(found)}); {expected}"
    if not isinstance(found[key], dict):
        return f"a {type(found[key]).__name__} under {key!r}; {expected}"
    return ""


def trace_problem(value: dict[str, Any]) -> str:
    """The trace field of a replacement that cannot be used, and why; empty when all can."""
    odd = [name for name in _TRACE_FIELDS if value.get(name) is not None and not isinstance(value[name], str)]
    return f"{odd[0]} is a {type(value[odd[0]]).__name__}; text is expected" if odd else ""


def missing_from(kind: str, payload: Mapping[str, Any], given: Mapping[str, Any], required: list[str]) -> list[str]:
    """Required fields that were given and that the replacement no longer has."""
    needed = required if MIDDLEWARE[kind].payload == "args" else ["model", "messages"]
    return [name for name in needed if name in given and name not in payload]


def result_problem(kind: str, value: Any) -> str:
    """Why the runtime cannot read this as a result; empty when it can."""
    if kind == "tool_execution":
        if isinstance(value, str | dict | list):
            return ""
        return f"a {type(value).__name__}; a tool's result is a JSON string"
    try:
        normalise(value)
    except ProviderError as error:
        return f"no provider response: {error}"
    except Exception as error:
        return f"no provider response: {type(error).__name__}"
    return ""


def _context_answer(value: Any) -> str:
    if isinstance(value, str):
        return ""
    context: object = cast("dict[str, Any]", value).get("context") if isinstance(value, dict) else None
    return "" if isinstance(context, str) else f'{_found(value)}; return text or {{"context": text}}'


def _directive(value: Any) -> str:
    expected = (
        'return None or {"action": "block", "message": text}, {"action": "approve"}, {"action": "modify", "args"}'
    )
    if not isinstance(value, dict):
        return f"{_found(value)}; {expected}"
    fields = cast("dict[str, Any]", value)
    if fields.get("action") not in _ACTIONS:
        return f"action {fields.get('action')!r}; {expected}"
    message = fields.get("message")
    if fields["action"] == "block" and not (isinstance(message, str) and message):
        return "a block without a message, so the call would run; say why it is blocked"
    if fields["action"] == "modify" and not isinstance(fields.get("args"), dict):
        return f"a modify with {_found(fields.get('args'))} under 'args'; a dict of the arguments to change is expected"
    return ""


def _problem_with_text(value: Any) -> str:
    return "" if isinstance(value, str) else f"{_found(value)}; return None or text"


def _nudge(value: Any) -> str:
    expected = 'return None, {"action": "continue", "message": text} or {"decision": "block", "reason": text}'
    if not isinstance(value, dict):
        return f"{_found(value)}; {expected}"
    fields = cast("dict[str, Any]", value)
    words = fields.get("message") if fields.get("action") == "continue" else None
    if fields.get("decision") == "block":
        words = fields.get("reason")
    return "" if isinstance(words, str) and words.strip() else f"keys {_keys(fields)}; {expected}"


def _failure_class(value: Any) -> str:
    reason: object = cast("dict[str, Any]", value).get("reason") if isinstance(value, dict) else None
    if isinstance(reason, str) and reason in FAILURE_NAMES:
        return ""
    return f'{_found(value)}; return None or {{"reason": ...}} with one of {", ".join(FAILURE_NAMES)}'


def _dispatch(value: Any) -> str:
    action: object = cast("dict[str, Any]", value).get("action") if isinstance(value, dict) else None
    if action in ("skip", "rewrite", "allow"):
        return ""
    return f'{_found(value)}; return None or {{"action": "skip" | "rewrite" | "allow"}}'


def _found(value: Any) -> str:
    if isinstance(value, dict):
        return f"a dict with the keys {_keys(cast('dict[str, Any]', value))}"
    return f"a {type(value).__name__}"


def _keys(fields: dict[str, Any]) -> str:
    return ", ".join(sorted(map(str, fields))[:6]) or "none"


_CHECKS: dict[str, Callable[[Any], str]] = {
    "pre_llm_call": _context_answer,
    "pre_tool_call": _directive,
    "transform_tool_result": _problem_with_text,
    "transform_llm_output": _problem_with_text,
    "transform_terminal_output": _problem_with_text,
    "pre_verify": _nudge,
    "pre_gateway_dispatch": _dispatch,
    "transform_api_error_classification": _failure_class,
}
