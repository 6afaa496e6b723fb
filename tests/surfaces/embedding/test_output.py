"""Structured output: an answer as a value, corrected by the model when it does not fit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import hermes
from hermes import Agent
from hermes.surfaces.embedding.output import MAX_CORRECTIONS
from hermes.testing import ScriptedProvider, failure, text


@dataclass
class City:
    name: str
    people: int


#: Python 3.13 calls the module of ``Path`` by another name.
PATH = re.escape(f"{Path.__module__}.Path")
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class LikePydantic:
    """The two methods that Pydantic's models have."""

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        return SCHEMA

    @classmethod
    def model_validate(cls, value: dict[str, Any]) -> LikePydantic:
        if value["name"] == "nobody":
            raise ValueError("nobody is not a name")
        return cls(value["name"])


def ask(workdir: Path, script: list[Any], output: Any) -> tuple[hermes.TurnResult, ScriptedProvider]:
    with (
        ScriptedProvider(script) as provider,
        Agent(model="scripted", base_url=provider.base_url, cwd=workdir) as agent,
    ):
        return agent.run("The largest city?", output=output), provider


def test_a_dataclass(workdir: Path) -> None:
    result, provider = ask(workdir, [text('{"name": "Tokyo", "people": 37000000}')], City)
    assert result.output == City("Tokyo", 37_000_000)
    [request] = provider.requests
    assert '"people"' in request.messages[-1]["content"]  # the schema


@pytest.mark.parametrize(
    ("output", "answer", "value"),
    [
        (SCHEMA, '{"name": "Tokyo"}', {"name": "Tokyo"}),
        (list[int], "[1, 2]", [1, 2]),
        (int, "```json\n42\n```", 42),
        (dict[str, float], '{"a": 1}', {"a": 1.0}),
    ],
)
def test_schemas_and_types(workdir: Path, output: Any, answer: str, value: Any) -> None:
    assert ask(workdir, [text(answer)], output)[0].output == value


def test_a_pydantic_model(workdir: Path) -> None:
    result, provider = ask(workdir, [text('{"name": "nobody"}'), text('{"name": "Tokyo"}')], LikePydantic)
    assert result.output.name == "Tokyo"
    assert "nobody is not a name" in provider.requests[1].messages[-1]["content"]


def test_the_model_corrects_its_answer(workdir: Path) -> None:
    script = [text("It is Tokyo."), text('{"name": "Tokyo"}'), text('{"name": "Tokyo", "people": 37}')]
    result, provider = ask(workdir, script, City)
    assert result.output == City("Tokyo", 37)
    assert "not JSON" in provider.requests[1].messages[-1]["content"]
    assert "people" in provider.requests[2].messages[-1]["content"]


def test_corrections_are_bounded(workdir: Path) -> None:
    with (
        ScriptedProvider([text("No.")] * 9) as provider,
        Agent(model="scripted", base_url=provider.base_url, cwd=workdir) as agent,
        pytest.raises(hermes.OutputError, match="not JSON"),
    ):
        agent.run("The largest city?", output=City)
    assert len(provider.requests) == 1 + MAX_CORRECTIONS


def test_a_failed_turn_has_no_output(workdir: Path) -> None:
    result, _ = ask(workdir, [failure(401, "no")], City)
    assert (result.status, result.output) == ("failed", None)


class Town(BaseModel):
    name: str


def test_a_list_of_pydantic_models(workdir: Path) -> None:
    result, provider = ask(workdir, [text('[{"name": 3}]'), text('[{"name": "Tokyo"}]')], list[Town])
    assert result.output == [Town(name="Tokyo")]
    assert "$[0].name" in provider.requests[1].messages[-1]["content"]


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        (object, "output: object cannot be used: there is no JSON schema for object; usable are a JSON schema and str"),
        (list[Path], rf"output: list\[{PATH}\] cannot be used: there is no JSON schema for {PATH}"),
        ({"type": "no-such-type"}, "output: .*no-such-type"),
    ],
)
def test_what_has_no_schema(workdir: Path, output: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        ask(workdir, [], output)
