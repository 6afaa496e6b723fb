"""Structured output: an answer that fits a JSON schema, given as a schema or as a Python type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import replace

from hermes.base.errors import HermesError
from hermes.journal.bodies import prepare_struct
from hermes.plugins.llm.structured import encode_schema, parse_answer
from hermes.surfaces.embedding.schemas import USABLE, convert, is_model, schema_hook, type_name

if TYPE_CHECKING:
    from hermes.agent.events import Listener, TurnResult
    from hermes.agent.session import Session
    from hermes.base.scope import Interrupt

#: How often the model may correct an answer that does not fit.
MAX_CORRECTIONS = 2


class OutputError(HermesError):
    """The model did not give an answer that fits the schema."""


class OutputFormat:
    """The format that a final answer must have, and how it becomes a Python value.

    ``wanted`` is a JSON schema as a dictionary, a type that msgspec knows (a dataclass, ``TypedDict``, ``Struct``, or
    for example ``list[int]``), or a class with Pydantic's ``model_json_schema`` and ``model_validate``.
    """

    def __init__(self, wanted: Any) -> None:
        self._convert: Callable[[Any], Any] | None = None
        schema: Any = wanted
        if is_model(wanted):
            schema, self._convert = wanted.model_json_schema(), wanted.model_validate
        elif not isinstance(wanted, Mapping):
            schema, self._convert = _schema_of(wanted), lambda value: convert(value, wanted)
            prepare_struct(wanted)
        try:
            self.schema = encode_schema(cast("Mapping[str, Any]", schema))
        except ValueError as error:
            raise TypeError(f"output: {error}") from None

    def instructions(self) -> str:
        """The instruction for the model about the format."""
        return (
            "Give your final answer as one JSON document that fits the schema below, and nothing else: "
            f"no words around it, no code fence.\n\nJSON schema:\n{self.schema.decode()}"
        )

    def read(self, answer: str) -> Any:
        """The answer as a value. ``ValueError`` says why it does not fit."""
        found, kind = parse_answer(answer, self.schema)
        if kind != "json":
            raise ValueError("the answer is not JSON")
        # msgspec's and Pydantic's validation errors are ValueErrors too
        return found if self._convert is None else self._convert(found)


def run_structured(
    session: Session,
    message: str | list[dict[str, Any]],
    wanted: OutputFormat,
    *,
    listener: Listener,
    interrupt: Interrupt,
    request_key: str | None = None,
) -> TurnResult:
    """Ask, and let the model correct an answer that does not fit, a bounded number of times. Raises ``OutputError``."""
    problem = ""
    for attempt in range(MAX_CORRECTIONS + 1):
        result = session.run(
            message if attempt == 0 else correction(problem),
            listener=listener,
            interrupt=interrupt,
            request_key=request_key and f"{request_key}/{attempt}" if attempt else request_key,
            context=wanted.instructions(),
            is_structured=True,
        )
        if result.status != "completed":
            return result
        try:
            return replace(result, output=wanted.read(result.answer))
        except ValueError as error:
            problem = str(error)
    raise OutputError(f"the answer does not have the wanted format after {MAX_CORRECTIONS} corrections: {problem}")


def correction(problem: str) -> str:
    """What the model is asked after an answer that does not fit."""
    return f"That answer cannot be used: {problem}. Answer again with the corrected JSON document alone."


def _schema_of(wanted: Any) -> dict[str, Any]:
    try:
        return msgspec.json.schema(wanted, schema_hook=schema_hook)
    except (TypeError, RuntimeError) as error:
        first = str(error).partition("\n")[0]
        raise TypeError(
            f"output: {type_name(wanted)} cannot be used: {first}; usable are a JSON schema and {USABLE}"
        ) from None
