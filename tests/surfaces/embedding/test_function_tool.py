"""Functions as tools: schema from type hints, descriptions from docstrings, arguments converted."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypedDict

import msgspec
import pytest
from pydantic import BaseModel, Field

from hermes import Interrupt, tool
from hermes.base.scope import Scope
from hermes.surfaces.embedding.function_tool import function_tool, read_docstring
from hermes.tools.files.guard import FileGuard
from hermes.tools.registry import ToolContext
from hermes.tools.terminal.background import ProcessTable


def context(scope: Scope | None = None) -> ToolContext:
    return ToolContext(scope or Scope(), Path.cwd(), ProcessTable(), FileGuard())


@dataclass
class Point:
    x: float
    y: float = 0.0


class Named(TypedDict):
    name: str


class Part(BaseModel):
    name: str
    count: int = Field(default=1, gt=0, description="How many of them.")


class Order(BaseModel):
    parts: list[Part]
    main: Part | None = None


class Chain(BaseModel):
    following: Chain | None = None


class Tree(msgspec.Struct):
    children: list[Tree]


def test_a_schema_from_type_hints() -> None:
    def search(
        query: str,
        limit: int = 10,
        kind: Literal["file", "text"] = "text",
        where: Point | None = None,
        tags: list[str] = [],  # noqa: B006
        note: Annotated[str, msgspec.Meta(description="Anything else.")] = "",
    ) -> str:
        """Search the archive.

        Goes through everything.

        Args:
            query: What to look for,
                in plain words.
            limit (int): How many.
        """
        return ""

    made = function_tool(search)
    assert (made.name, made.toolset, made.effect) == ("search", "program", "unsafe")
    assert made.description == "Search the archive.\n\nGoes through everything."
    assert made.parameters["required"] == ["query"]
    properties = made.parameters["properties"]
    assert properties["query"] == {"type": "string", "description": "What to look for, in plain words."}
    assert properties["limit"] == {"type": "integer", "default": 10, "description": "How many."}
    assert properties["kind"] == {"enum": ["file", "text"], "default": "text"}
    assert properties["note"]["description"] == "Anything else."
    [point] = [choice for choice in properties["where"]["anyOf"] if choice["type"] == "object"]
    assert point["properties"]["x"] == {"type": "number"}
    assert "$ref" not in str(made.parameters)


def test_arguments_are_converted() -> None:
    seen: list[Any] = []

    def move(to: Point, who: Named, fast: bool = False) -> None:
        seen.append((to, who, fast))

    made = function_tool(move)
    assert made.run({"to": {"x": "1.5"}, "who": {"name": "me"}, "fast": "true"}, context()) == "null"
    assert seen == [(Point(1.5), {"name": "me"}, True)]


def test_arguments_that_do_not_fit_are_an_error_for_the_model() -> None:
    def double(number: int) -> int:
        return number * 2

    made = function_tool(double)
    assert made.run({"number": 4}, context()) == "8"
    answer = msgspec.json.decode(made.run({"number": "four"}, context()))
    assert answer["error_type"] == "invalid_arguments" and "$.number" in answer["error"]


@pytest.mark.parametrize(
    ("value", "text"),
    [("as it is", "as it is"), (None, "null"), ([1, "b"], '[1,"b"]'), (Point(1, 2), '{"x":1,"y":2}'), (True, "true")],
)
def test_results(value: Any, text: str) -> None:
    def give() -> Any:
        return value

    assert function_tool(give).run({}, context()) == text


def test_a_result_that_is_not_json_is_an_error() -> None:
    def give() -> object:
        return object()

    assert msgspec.json.decode(function_tool(give).run({}, context()))["error_type"] == "tool_result_contract"


def test_the_decorator_sets_options_and_leaves_the_function_alone() -> None:
    @tool(name="sum-up", description="Adds.", effect="pure", parallel=True, toolset="maths")
    def add(a: int, b: int) -> int:
        return a + b

    @tool
    def plain() -> str:
        """Nothing to set."""
        return ""

    made = function_tool(add)
    assert (made.name, made.description, made.effect, made.parallel) == ("sum-up", "Adds.", "pure", True)
    assert made.toolset == "maths"
    assert add(1, 2) == 3
    assert function_tool(plain).description == "Nothing to set."


def test_the_interrupt_of_the_turn_is_handed_in() -> None:
    seen: list[Interrupt] = []

    def wait(seconds: float, interrupt: Interrupt) -> None:
        seen.append(interrupt)

    made = function_tool(wait)
    assert list(made.parameters["properties"]) == ["seconds"]
    scope = Scope()
    made.run({"seconds": 1}, context(scope))
    assert seen == [scope.interrupt]


def test_an_optional_interrupt_is_handed_in_too() -> None:
    seen: list[Any] = []

    def wait(interrupt: Interrupt | None = None, other: Annotated[Optional[Interrupt], "of the turn"] = None) -> None:  # noqa: UP045
        seen.extend((interrupt, other))

    made, scope = function_tool(wait), Scope()
    assert made.parameters["properties"] == {}
    made.run({}, context(scope))
    assert seen == [scope.interrupt, scope.interrupt]


def test_pydantic_models_as_parameters_and_results() -> None:
    def order(what: Order, more: list[Part] = [], fallback: Part = Part(name="screw")) -> Part:  # noqa: B006, B008
        return more[0] if more else what.main or fallback

    made = function_tool(order)
    assert made.parameters["required"] == ["what"]
    part = made.parameters["properties"]["what"]["properties"]["parts"]["items"]["properties"]
    assert part["count"]["exclusiveMinimum"] == 0 and part["count"]["description"] == "How many of them."
    assert "$ref" not in str(made.parameters) and "$defs" not in str(made.parameters)
    nail = {"name": "nail", "count": 3}
    assert made.run({"what": {"parts": [], "main": nail}}, context()) == '{"name":"nail","count":3}'
    assert made.run({"what": {"parts": []}, "more": [nail]}, context()) == '{"name":"nail","count":3}'
    assert made.run({"what": {"parts": []}}, context()) == '{"name":"screw","count":1}'
    answer = msgspec.json.decode(made.run({"what": {"parts": [{"name": "nail", "count": 0}]}}, context()))
    assert answer["error_type"] == "invalid_arguments" and "greater than 0" in answer["error"]


def test_descriptions_in_annotations() -> None:
    def book(
        nights: Annotated[int, "How many nights."],
        city: Annotated[str, "Its name in English."] = "Oslo",
        room: Annotated[str, msgspec.Meta(description="Single or double."), "not this"] = "",
        guest: str = "",
    ) -> None:
        """Book.

        Args:
            city: not this
            guest: The name of the guest.
        """

    properties = function_tool(book).parameters["properties"]
    assert {name: fields["description"] for name, fields in properties.items()} == {
        "nights": "How many nights.",
        "city": "Its name in English.",
        "room": "Single or double.",
        "guest": "The name of the guest.",
    }


def test_a_default_that_is_no_json_makes_the_parameter_optional() -> None:
    missing_value = object()
    seen: list[Any] = []

    def look(key: Any = missing_value) -> None:
        seen.append(key)

    made = function_tool(look)
    assert made.parameters["properties"]["key"] == {} and made.parameters["required"] == []
    made.run({}, context())
    assert seen == [missing_value]


def test_methods_and_callable_objects() -> None:
    class Counter:
        """Counts."""

        def __init__(self) -> None:
            self.count = 0

        def up(self, by: int = 1) -> int:
            """Count up."""
            self.count += by
            return self.count

        def __call__(self, by: int) -> int:
            return self.up(by)

    counter = Counter()
    assert function_tool(counter.up).run({}, context()) == "1"
    assert function_tool(counter).run({"by": 2}, context()) == "3"
    assert function_tool(counter).name == "Counter"


#: Python 3.13 calls the module of ``Path`` by another name.
PATH = re.escape(f"{Path.__module__}.Path")


def star(*values: int) -> None: ...
def stars(**values: int) -> None: ...
def positional(value: int, /) -> None: ...
def odd(value: object) -> None: ...
def opens(where: Path) -> None: ...
def opens_many(count: int, where: list[Path]) -> None: ...
def turns(value: complex) -> None: ...
def calls(back: Callable[[int], int]) -> None: ...
def mixed(value: int | complex) -> None: ...
def endless(value: Chain) -> None: ...
def nested(tree: Tree) -> None: ...
def missing(value: Any) -> None: ...


missing.__annotations__["value"] = "NoSuchType"  # as a hint for a name that is only imported for type checkers


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (star, r"\*values"),
        (stars, r"\*\*values"),
        (positional, "value"),
        (odd, "parameter 'value' has the type object: there is no JSON schema for object; usable are str, int"),
        (
            opens,
            rf"'opens': parameter 'where' has the type {PATH}: there is no JSON schema for {PATH}",
        ),
        (
            opens_many,
            rf"parameter 'where' has the type list\[{PATH}\]: there is no JSON schema for {PATH}",
        ),
        (turns, "parameter 'value' has the type complex: there is no JSON schema for complex; usable are str, int"),
        (calls, r"parameter 'back' has the type .*Callable\[\[int\], int\]: there is no JSON schema for"),
        (mixed, r"parameter 'value' has the type int \| complex: .*; usable are str, int"),
        (endless, "parameter 'value' has the type .*Chain: type Chain contains itself"),
        (nested, "contains itself"),
        (missing, "NoSuchType"),
        (3, "got int"),
        (tool(name="no spaces")(lambda: None), "not a valid tool name"),
    ],
)
def test_what_cannot_be_a_tool(function: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        function_tool(function)


def test_docstrings_in_rest_style() -> None:
    summary, described = read_docstring(
        "Look up.\n\n:param key: The key,\n    in full.\n:param int count: How many.\n:returns: it"
    )
    assert summary == "Look up."
    assert described == {"key": "The key, in full.", "count": "How many."}


def test_docstrings_in_numpy_style_stay_whole() -> None:
    whole = "Look up.\n\nParameters\n----------\nkey : str\n    The key."
    assert read_docstring(whole) == (whole, {})
