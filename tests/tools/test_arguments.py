from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.tools.arguments import bounded_int, check_args, coerce_args, parse_arguments
from hermes.tools.builtin import builtin_tools
from hermes.tools.registry import Args


def schema(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
BOOLEAN = {"type": "boolean"}
STRING = {"type": "string"}
ARRAY = {"type": "array", "items": STRING}
OBJECT = {"type": "object"}


@pytest.mark.parametrize(
    ("given_value", "wanted", "expected"),
    [
        ("42", INTEGER, 42),
        (" +42 ", INTEGER, 42),
        ("42.0", INTEGER, 42),
        (42.0, INTEGER, 42),
        ("4.5", INTEGER, "4.5"),
        ("forty", INTEGER, "forty"),
        (True, INTEGER, True),
        ("1.5", NUMBER, 1.5),
        ("7", NUMBER, 7),
        ("1e3", NUMBER, 1000.0),
        ("NaN", NUMBER, "NaN"),
        ("1e999", NUMBER, "1e999"),
        ("true", BOOLEAN, True),
        ("False", BOOLEAN, False),
        ("yes", BOOLEAN, "yes"),
        (7, STRING, "7"),
        ("one", ARRAY, ["one"]),
        (7, ARRAY, ["7"]),
        ('["a","b"]', ARRAY, ["a", "b"]),
        ("[broken", ARRAY, ["[broken"]),
        ('{"a":1}', OBJECT, {"a": 1}),
        ("text", OBJECT, "text"),
        ("42", {"type": ["integer", "null"]}, 42),
        ("42", {"type": ["string", "integer"]}, "42"),
        ("42", {"anyOf": [INTEGER, {"type": "null"}]}, 42),
        ("42", {"anyOf": [INTEGER, STRING]}, "42"),
        ("null", {"type": ["integer", "null"]}, None),
        (["1", "2"], {"type": "array", "items": INTEGER}, [1, 2]),
        ('["1"]', {"type": "array", "items": INTEGER}, [1]),
        ({"n": "1"}, {"type": "object", "properties": {"n": INTEGER}}, {"n": 1}),
        ("x", {}, "x"),
        ("x", {"$ref": "#/$defs/Thing"}, "x"),
        ("x", {"type": "unheard-of"}, "x"),
    ],
)
def test_coercion(given_value: Any, wanted: dict[str, Any], expected: Any) -> None:
    result = coerce_args({"value": given_value}, schema(value=wanted))["value"]
    assert result == expected
    assert type(result) is type(expected)


def test_null_for_an_optional_argument_is_dropped() -> None:
    parameters = schema(("must",), must=STRING, may=INTEGER, open={}, nullable={"type": ["integer", "null"]})
    args = {"must": None, "may": None, "open": None, "nullable": None, "extra": None}
    assert coerce_args(args, parameters) == {"must": None, "open": None, "nullable": None, "extra": None}
    assert args["may"] is None, "the dict passed in is left alone"


def test_arguments_that_fit_come_back_as_the_same_object() -> None:
    args = {"path": "x", "limit": 3, "flag": True, "list": ["a"], "free": {"a": 1}}
    parameters = schema(("path",), path=STRING, limit=INTEGER, flag=BOOLEAN, list=ARRAY, free=OBJECT)
    assert coerce_args(args, parameters) is args


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({}, "path is required but missing; arguments: path (required), limit, mode"),
        ({"path": None}, "path is required"),
        ({"path": "x", "limit": "many"}, 'limit must be an integer, found string "many"'),
        ({"path": "x", "limit": True}, "limit must be an integer, found boolean True"),
        ({"path": ["x"]}, "path must be a string, found array of 1 items"),
        ({"path": "x", "mode": "c"}, 'mode must be one of "a", "b"; found "c"'),
        ({"path": "x", "either": []}, "either must be a string, found array of 0 items or either must be an integer"),
        ({"path": "x", "list": [1, "2"]}, "list[1] must be an integer"),
        ({"path": "x", "inner": {}}, "inner.name is required"),
    ],
)
def test_problems_are_named(args: Args, said: str) -> None:
    parameters = schema(
        ("path",),
        path=STRING,
        limit=INTEGER,
        mode={"type": "string", "enum": ["a", "b"]},
        either={"anyOf": [STRING, INTEGER]},
        list={"type": "array", "items": INTEGER},
        inner=schema(("name",), name=STRING),
    )
    problem = check_args(args, parameters)
    assert problem is not None and said in problem
    assert check_args({"path": "x", "unknown": 1}, parameters) is None


def test_unknown_arguments_are_a_problem_only_where_the_schema_says_so() -> None:
    closed = {**schema(("a",), a=STRING), "additionalProperties": False}
    problem = check_args({"a": "x", "b": 1}, closed)
    assert problem == "b is unknown; arguments: a (required)"


def test_a_required_argument_may_be_null_where_the_schema_allows_it() -> None:
    assert check_args({"a": None}, schema(("a",), a={"type": ["string", "null"]})) is None
    assert check_args({}, schema(("a",), a={"type": ["string", "null"]})) is not None


# ---- properties

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
names = st.sampled_from(["a", "b", "c"])
type_names = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])


def schemas_from(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": type_names | st.lists(type_names, max_size=3),
            "items": inner,
            "properties": st.dictionaries(names, inner, max_size=3),
            "required": st.lists(names, max_size=2),
            "enum": st.lists(json_values, max_size=3),
            "anyOf": st.lists(inner, max_size=3),
        },
    )


some_schemas = st.recursive(schemas_from(st.just({})), schemas_from, max_leaves=8)
some_objects = st.dictionaries(names, json_values | st.sampled_from(["1", "true", "[1]", '{"a":"1"}', 1.0]))


@given(some_objects, some_schemas)
def test_coercion_is_idempotent_and_leaves_what_validates(args: Args, parameters: dict[str, Any]) -> None:
    before = repr(args)
    once = coerce_args(args, parameters)
    assert repr(args) == before
    assert repr(coerce_args(once, parameters)) == repr(once)
    if check_args(args, parameters) is None:
        assert once is args


@given(some_objects, some_schemas)
def test_coercion_never_makes_a_good_call_bad(args: Args, parameters: dict[str, Any]) -> None:
    if check_args(args, parameters) is None:
        assert check_args(coerce_args(args, parameters), parameters) is None


@settings(max_examples=40)
@given(st.dictionaries(st.text(), json_values, max_size=3), st.dictionaries(st.text(), json_values, max_size=3))
def test_nonsense_schemas_raise_nothing(args: Args, parameters: dict[str, Any]) -> None:
    coerce_args(args, parameters)
    check_args(args, parameters)


@given(
    st.dictionaries(names, json_values),
    st.fixed_dictionaries(
        {}, optional={"properties": json_values | st.dictionaries(names, json_values), "required": json_values}
    ),
)
def test_half_broken_schemas_raise_nothing(args: Args, parameters: dict[str, Any]) -> None:
    coerce_args(args, parameters)
    check_args(args, parameters)


@given(st.dictionaries(st.sampled_from(["path", "offset", "limit", "pattern", "command", "mode"]), json_values))
def test_the_schemas_of_the_built_in_tools_take_anything(args: Args) -> None:
    for tool in builtin_tools():
        coerced = coerce_args(args, tool.parameters)
        problem = check_args(coerced, tool.parameters)
        assert problem is None or problem.split()[0].partition("[")[0] in tool.parameters["properties"]


# ---- parse_arguments


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("", {}),
        ("  \n", {}),
        (None, {}),
        ("null", {}),
        ("{}", {}),
        ('{"a": 1}', {"a": 1}),
        ({"a": 1}, {"a": 1}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('{"a": "line\nbreak\tand tab"}', {"a": "line\nbreak\tand tab"}),
        ('{"a": "\\ud800"}', {"a": "\ufffd"}),
        ('{"a": 1}{"a": 1}', {"a": 1}),
    ],
)
def test_arguments_are_read(raw: Any, expected: Args) -> None:
    assert parse_arguments(raw) == expected


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ('{"a": 1', "not valid JSON"),
        ("{'a': 1}", "not valid JSON"),
        ('{"a": 1e999}', "not valid JSON"),
        ('{"a": NaN}', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[1]", "must be a JSON object, found array"),
        ("3", "must be a JSON object, found integer"),
        ('"text"', "not valid JSON"),
    ],
)
def test_bad_arguments_are_explained(raw: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        parse_arguments(raw)
    assert len(str(caught.value)) < 400


@given(st.text() | st.text(st.characters(codec=None)))
def test_any_text_is_read_or_refused(raw: str) -> None:
    try:
        result: object = parse_arguments(raw)
    except ValueError as error:
        assert str(error)
    else:
        assert isinstance(result, dict)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, 5), (3, 3), (0, 1), (99, 10), (2.7, 2), (float("inf"), 10), (float("nan"), 5), ("3", 5), (10**30, 10)],
)
def test_bounded_int(value: Any, expected: int) -> None:
    assert bounded_int({"n": value}, "n", 5, 1, 10) == expected
