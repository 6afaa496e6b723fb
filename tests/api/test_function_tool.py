"""Functions as tools: schema from type hints, descriptions from docstrings, arguments converted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest

from hermes import Interrupt, tool
from hermes.api.function_tool import function_tool, read_docstring
from hermes.scope import Scope
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


def star(*values: int) -> None: ...
def stars(**values: int) -> None: ...
def positional(value: int, /) -> None: ...
def odd(value: object) -> None: ...
def nested(tree: Tree) -> None: ...
def missing(value: Any) -> None: ...


missing.__annotations__["value"] = "NoSuchType"  # as a hint for a name that is only imported for type checkers


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (star, r"\*values"),
        (stars, r"\*\*values"),
        (positional, "value"),
        (odd, "no JSON schema"),
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
