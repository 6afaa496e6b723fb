"""The typed events and the hook contract have the same fields."""

from __future__ import annotations

from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from msgspec.structs import fields

from hermes.contract import events
from hermes.contract.events import HOOK_EVENTS, Event, TurnEvent, event_from
from hermes.contract.hooks import HOOKS, OBSERVER_SCHEMA
from hermes.hooks.table import Hooks
from support.events import some

#: Fields of events that only the listeners of a turn see.
NOT_KEYWORDS = {
    "pre_llm_call": {"resumed"},
    "subagent_start": {"task_index"},
    "subagent_stop": {"task_index", "child_error"},
}


def in_words(declared: Any) -> str:
    """A type as the contract writes it."""
    origin = get_origin(declared)
    if origin in (UnionType, Union):
        return " | ".join(in_words(one) for one in get_args(declared) if one is not msgspec.UnsetType)
    if origin is Literal:
        return "str"
    if origin is list:
        [item] = get_args(declared)
        return "list" if item is Any else f"list[{in_words(item)}]"
    if origin is dict:
        return "dict"
    return "None" if declared is type(None) else declared.__name__


def test_every_hook_has_an_event() -> None:
    assert HOOK_EVENTS.keys() == HOOKS.keys()


@pytest.mark.parametrize("hook", HOOKS)
def test_an_event_has_the_fields_of_its_hook(hook: str) -> None:
    declared = {field.name: in_words(field.type) for field in fields(HOOK_EVENTS[hook])}
    for name in NOT_KEYWORDS.get(hook, ()):
        del declared[name]
    contract = {field.name: field.type for field in HOOKS[hook].fields if field.name != "telemetry_schema_version"}
    assert declared == contract


@pytest.mark.parametrize("hook", HOOKS)
def test_keywords_are_made_from_the_event_without_what_is_unset(hook: str) -> None:
    hooks = Hooks()
    given: list[dict[str, Any]] = []

    def take(**keywords: Any) -> None:
        given.append(keywords)

    hooks.subscribe(hook, "p", take)
    event = some(HOOK_EVENTS[hook])
    getattr(hooks, hook)(event)
    assert hooks.flush(30) == []
    expected = {
        name: value
        for name, value in msgspec.structs.asdict(event).items()
        if value is not msgspec.UNSET and name not in NOT_KEYWORDS.get(hook, ())
    }
    assert given == [{**expected, "telemetry_schema_version": OBSERVER_SCHEMA}]


@pytest.mark.parametrize("hook", HOOKS)
def test_events_are_frozen_and_no_type_is_a_kind_of_another(hook: str) -> None:
    kind: type[Event] = HOOK_EVENTS[hook]
    event = some(kind)
    with pytest.raises(AttributeError):
        setattr(event, kind.__struct_fields__[0], "changed")
    assert not [other for other in HOOK_EVENTS.values() if other is not kind and isinstance(event, other)]


def test_every_event_of_a_turn_is_public() -> None:
    for kind in get_args(TurnEvent):
        assert getattr(events, kind.__name__) is kind


def test_an_event_from_keywords_ignores_what_it_does_not_know() -> None:
    event = event_from(events.ToolEnded, {"tool_name": "t", "mood": "good"})
    assert (event.tool_name, event.status, event.args, event.error_type) == ("t", "ok", {}, None)
    assert event_from(events.ToolEnded, {}).args is not event.args
