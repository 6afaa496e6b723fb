"""Questions of MCP servers to the user: one for each field of a form, on the surface that the call is for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from hermes.base.errors import TurnSuspended
from hermes.tools.arguments import problem_with

if TYPE_CHECKING:
    from hermes.agent.approvals.responder import Responder
    from hermes.base.scope import Interrupt

#: Forms with more fields are declined.
_MAX_FIELDS = 12
_MAX_CHARS = 1_000
_YES, _NO, _DECLINE = "yes", "no", "decline"

#: The values of the form; None when the user declined.
FormAnswer = dict[str, Any] | None


def ask_form(
    server: str, message: str, schema: Mapping[str, Any], responder: Responder, interrupt: Interrupt
) -> FormAnswer:
    """Ask for the fields of a form, one after another. None when the user does not want to, or cannot be asked now."""
    properties = cast("dict[str, dict[str, Any]]", schema.get("properties") or {})
    required = cast("list[str]", schema.get("required") or [])
    intro = f"The MCP server {server} asks: {message[:_MAX_CHARS]}"
    if len(properties) > _MAX_FIELDS:
        return None

    def ask(question: str, choices: Sequence[str]) -> str:
        return (responder.answer(question, choices, interrupt) or "").strip()

    try:
        if not properties:
            return {} if ask(intro, (_YES, _DECLINE)).lower() in (_YES, "y") else None
        values: dict[str, Any] = {}
        for name, field in properties.items():
            value = _ask_field(ask, intro, name, field, is_required=name in required)
            if value is _DECLINED:
                return None
            if value is not None:
                values[name] = value
        return values
    except TurnSuspended:
        return None  # the server waits for the answer now


_DECLINED = object()


def _ask_field(
    ask: Callable[[str, Sequence[str]], str], intro: str, name: str, field: Mapping[str, Any], *, is_required: bool
) -> Any:
    label = str(field.get("title") or name)
    described = f": {field['description']}" if field.get("description") else ""
    question = f"{intro}\n{label}{described}"[: 2 * _MAX_CHARS]
    choices = _choices(field)
    for _ in range(2):
        answer = ask(question, choices)
        if answer.lower() == _DECLINE or (not answer and is_required):
            return _DECLINED
        if not answer:
            return field.get("default")
        value = _typed(answer, field)
        if problem_with(value, field, label, 0) is None:
            return value
        question = f"{intro}\n{label}: {problem_with(value, field, label, 0)}"
    return _DECLINED


def _choices(field: Mapping[str, Any]) -> list[str]:
    if field.get("type") == "boolean":
        return [_YES, _NO, _DECLINE]
    named = field.get("enum")
    if isinstance(named, list):
        return [*map(str, cast("list[Any]", named)), _DECLINE]
    return []


def _typed(answer: str, field: Mapping[str, Any]) -> Any:
    match field.get("type"):
        case "boolean":
            return {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}.get(
                answer.lower(), answer
            )
        case "integer" | "number":
            try:
                number = float(answer)
            except ValueError:
                return answer
            return int(number) if field.get("type") == "integer" and number.is_integer() else number
        case _:
            return answer
