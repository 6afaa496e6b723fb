"""Request middleware: chained, traced, and unable to harm what it was given."""

from __future__ import annotations

import asyncio
import copy
import logging
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.errors import Interrupted
from hermes.hooks.request_chain import RequestChain
from hermes.hooks.table import Hooks
from support.hook_callbacks import answer, note

CONTEXT = {"session_id": "s", "task_id": "t", "tool_name": "terminal"}


def chain(hooks: Hooks, kind: str, *callbacks: Any) -> RequestChain:
    for number, callback in enumerate(callbacks):
        hooks.add_middleware(kind, f"p{number}", callback)
    found = getattr(hooks, kind)
    assert isinstance(found, RequestChain)
    return found


def test_each_sees_what_the_one_before_made_and_the_true_original(hooks: Hooks) -> None:
    seen: list[tuple[Any, Any]] = []

    def add(name: str) -> Any:
        def middleware(**fields: Any) -> Any:
            seen.append((fields["args"], fields["original_args"]))
            return {"args": {**fields["args"], name: True}}

        return middleware

    payload = {"command": "ls"}
    outcome = chain(hooks, "tool_request", add("a"), add("b")).run(payload, CONTEXT)
    assert outcome.payload == {"command": "ls", "a": True, "b": True}
    assert outcome.original is payload
    assert outcome.changed
    assert seen == [({"command": "ls"}, payload), ({"command": "ls", "a": True}, payload)]


def test_callbacks_get_context_and_both_schema_versions(hooks: Hooks) -> None:
    seen: list[dict[str, Any]] = []
    chain(hooks, "llm_request", note(seen)).run({"model": "m"}, CONTEXT)
    assert seen == [
        {
            **CONTEXT,
            "telemetry_schema_version": "hermes.observer.v1",
            "middleware_schema_version": "hermes.middleware.v1",
            "request": {"model": "m"},
            "original_request": {"model": "m"},
        }
    ]


def test_a_payload_nobody_replaces_comes_back_by_reference(hooks: Hooks) -> None:
    payload = {"messages": [{"role": "user", "content": "hi"}]}
    outcome = chain(hooks, "llm_request", answer(), answer()).run(payload, CONTEXT)
    assert outcome.payload is payload
    assert outcome.original is payload
    assert (outcome.changed, outcome.trace) == (False, [])


@pytest.mark.parametrize(
    ("fields", "entry"),
    [
        (
            {"source": "policy", "reason": "why", "name": "rule 1"},
            {"source": "policy", "reason": "why", "name": "rule 1"},
        ),
        ({"reason": "only this"}, {"reason": "only this"}),
        ({}, {"source": "p0"}),
        ({"source": "", "reason": None, "name": 7}, {"source": "p0"}),
        ({"source": ["no"], "reason": "yes", "other": "never"}, {"reason": "yes"}),
    ],
)
def test_trace_entries_hold_the_strings_among_source_reason_name(
    hooks: Hooks, fields: dict[str, Any], entry: dict[str, str]
) -> None:
    outcome = chain(hooks, "tool_request", answer({"args": {"x": 1}, **fields})).run({}, CONTEXT)
    assert outcome.trace == [entry]


def test_the_trace_has_every_rewrite_in_order(hooks: Hooks) -> None:
    outcome = chain(
        hooks,
        "tool_request",
        answer({"args": {"n": 1}, "source": "one"}),
        answer(),
        answer({"args": {"n": 3}, "reason": "three"}),
    ).run({}, CONTEXT)
    assert outcome.trace == [{"source": "one"}, {"reason": "three"}]
    assert outcome.payload == {"n": 3}


@pytest.mark.parametrize(
    "value", [None, "text", 3, [], {}, {"args": None}, {"args": "ls"}, {"args": [1]}, {"request": {"wrong": "key"}}]
)
def test_answers_of_another_shape_are_ignored(hooks: Hooks, value: Any) -> None:
    payload = {"command": "ls"}
    outcome = chain(hooks, "tool_request", answer(value)).run(payload, CONTEXT)
    assert outcome.payload is payload
    assert not outcome.changed


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("text", "it returned str; {'args': {...}} or None is expected"),
        ({"args": [1]}, "'args' in its answer is list; a dict is expected"),
        ({"request": {"wrong": "key"}}, "'args' in its answer is NoneType; a dict is expected"),
    ],
)
def test_an_answer_of_another_shape_is_one_warning(
    hooks: Hooks, caplog: pytest.LogCaptureFixture, value: Any, problem: str
) -> None:
    asked = chain(hooks, "tool_request", answer(value))
    for _ in range(3):
        asked.run({"command": "ls"}, CONTEXT)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1 and problem in warnings[0]


def test_one_that_raises_is_skipped_with_a_warning(hooks: Hooks, caplog: pytest.LogCaptureFixture) -> None:
    def fail(**_fields: Any) -> None:
        raise ValueError("bad day")

    def add(args: dict[str, Any]) -> Any:
        return {"args": {**args, "b": 1}}

    outcome = chain(hooks, "tool_request", fail, add).run({"a": 1}, CONTEXT)
    assert outcome.payload == {"a": 1, "b": 1}
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    for part in ("'p0'", "tool_request", "ValueError: bad day"):
        assert part in record.getMessage()


def test_base_exceptions_propagate(hooks: Hooks) -> None:
    def unwind(**_fields: Any) -> None:
        raise Interrupted

    with pytest.raises(Interrupted):
        chain(hooks, "tool_request", unwind).run({}, CONTEXT)


def test_narrow_and_async_callbacks_work(hooks: Hooks) -> None:
    def narrow(args: dict[str, Any], tool_name: str) -> dict[str, Any]:
        return {"args": {**args, "tool": tool_name}}

    async def slow(args: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"args": {**args, "awaited": True}}

    outcome = chain(hooks, "tool_request", narrow, slow).run({}, CONTEXT)
    assert outcome.payload == {"tool": "terminal", "awaited": True}


def test_changes_in_place_do_not_leak_anywhere(hooks: Hooks) -> None:
    seen: list[tuple[Any, Any]] = []

    def spoil(request: dict[str, Any], original_request: dict[str, Any]) -> None:
        for given_payload in (request, original_request):
            given_payload["messages"][0]["content"] = "spoilt"
            given_payload["messages"].append("spoilt")

    def look(request: dict[str, Any], original_request: dict[str, Any]) -> None:
        seen.append((request, original_request))

    payload: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
    untouched = {"messages": [{"role": "user", "content": "hi"}]}
    run = chain(hooks, "llm_request", spoil, look, spoil).run
    for _ in range(3):
        outcome = run(payload, CONTEXT)
        assert outcome.payload is payload
    assert payload == untouched
    assert seen == [(untouched, untouched)] * 3


def test_a_replacement_is_not_tied_to_the_plugins_objects(hooks: Hooks) -> None:
    template: dict[str, Any] = {"messages": [{"role": "user", "content": "from the template"}]}

    def spoil(request: dict[str, Any]) -> None:
        request["messages"][0]["content"] = "spoilt"

    def back_to_the_original(original_request: dict[str, Any]) -> dict[str, Any]:
        return {"request": original_request}

    payload: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
    run = chain(hooks, "llm_request", answer({"request": template}), spoil).run
    outcome = run(payload, CONTEXT)
    template["messages"][0]["content"] = "changed later"
    assert outcome.payload["messages"][0]["content"] == "from the template"
    hooks.remove("p0")
    hooks.remove("p1")
    outcome = chain(hooks, "llm_request", back_to_the_original, spoil).run(payload, CONTEXT)
    assert outcome.payload == payload
    assert outcome.changed


def test_messages_a_rewrite_leaves_alone_are_passed_by_reference(hooks: Hooks) -> None:
    payload: dict[str, Any] = {"model": "a", "messages": [{"role": "user", "content": "hi"}]}

    def choose(request: dict[str, Any]) -> Any:
        return {"request": {**request, "model": "b"}}

    outcome = chain(hooks, "llm_request", choose).run(payload, CONTEXT)
    assert outcome.payload == {**payload, "model": "b"}
    assert outcome.payload["messages"][0] is payload["messages"][0]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)
payloads = st.dictionaries(st.text(max_size=3), json_values, max_size=4)
actions = st.lists(
    st.tuples(st.sampled_from(["nothing", "replace", "spoil", "raise", "junk"]), payloads), min_size=1, max_size=5
)


@given(payload=payloads, plan=actions)
def test_any_chain_gives_the_last_valid_replacement(payload: dict[str, Any], plan: list[tuple[str, Any]]) -> None:
    hooks = Hooks()

    def middleware(action: str, replacement: dict[str, Any]) -> Any:
        def run(args: dict[str, Any]) -> Any:
            if action == "replace":
                return {"args": replacement, "source": "x"}
            if action == "spoil":
                for value in [*args.values(), args]:
                    if isinstance(value, dict | list):
                        cast("list[Any]", value).clear()
            if action == "raise":
                raise ValueError
            return 7 if action == "junk" else None

        return run

    untouched = copy.deepcopy(payload)
    outcome = chain(hooks, "tool_request", *(middleware(*step) for step in plan)).run(payload, CONTEXT)
    replacements = [replacement for action, replacement in plan if action == "replace"]
    assert payload == untouched
    assert outcome.original is payload
    assert len(outcome.trace) == len(replacements)
    if replacements:
        assert outcome.payload == replacements[-1]
    else:
        assert outcome.payload is payload
