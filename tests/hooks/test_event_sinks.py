"""Event sinks: plugins that receive typed events in place of keywords."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from hermes.base.errors import PluginError
from hermes.contract.events import (
    AttemptAnswered,
    AttemptStarted,
    Event,
    StreamDelta,
    TerminalOutputTransform,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from hermes.contract.hooks import HOOKS
from hermes.hooks.sinks import DEFAULT_EVENTS, SINK_HOOKS
from hermes.hooks.table import Hooks
from hermes.testing import PluginHarness
from support.events import some

SAMPLE: dict[str, Any] = {"tool_name": "t", "session_id": "s", "args": {"a": [1]}, "result": "r", "duration_ms": 3}


def test_a_sink_gets_the_event_that_was_emitted(hooks: Hooks) -> None:
    seen: list[Event] = []
    assert hooks.subscribe_events("p", seen.append, events=[ToolEnded]) == ["post_tool_call"]
    assert hooks.post_tool_call is not None and hooks.pre_tool_call is None
    event = some(ToolEnded, **SAMPLE)
    assert hooks.post_tool_call(event) == []
    assert seen == [event] and seen[0] is not event


def test_without_types_it_gets_every_event_of_a_run(hooks: Hooks) -> None:
    seen: list[Event] = []
    observed = hooks.subscribe_events("p", seen.append)
    assert observed == [hook for hook in SINK_HOOKS.values() if not hook.startswith(("on_stream", "on_interim"))]
    assert sorted(observed) == sorted(name for name in HOOKS if hooks.has(name))
    for kind in DEFAULT_EVENTS:
        getattr(hooks, SINK_HOOKS[kind])(some(kind))
    assert [type(event) for event in seen] == list(DEFAULT_EVENTS)


def test_the_pieces_of_a_stream_are_for_a_sink_that_names_them(hooks: Hooks) -> None:
    seen: list[Event] = []
    assert hooks.subscribe_events("p", seen.append, events=[StreamDelta]) == ["on_stream_delta"]
    assert hooks.on_stream_delta is not None
    hooks.on_stream_delta(some(StreamDelta, delta="a", kind="text"))
    assert hooks.flush(30) == []
    assert seen == [some(StreamDelta, delta="a", kind="text")]


def test_its_containers_are_its_own(hooks: Hooks) -> None:
    def spoil(event: Event) -> None:
        assert isinstance(event, ToolEnded)
        event.args["a"].append(2)

    hooks.subscribe_events("p", spoil, events=[ToolEnded])
    event = some(ToolEnded, **{**SAMPLE, "args": {"a": [1]}})
    assert hooks.post_tool_call is not None
    hooks.post_tool_call(event)
    assert event.args == {"a": [1]}


def test_what_is_left_out_is_neither_built_nor_given(hooks: Hooks) -> None:
    seen: list[Any] = []
    hooks.subscribe_events("p", seen.append, events=[AttemptStarted], leave_out=["request", "conversation_history"])
    assert hooks.pre_api_request is not None
    assert not hooks.pre_api_request.wants("request") and hooks.pre_api_request.wants("request_messages")
    hooks.pre_api_request(
        some(AttemptStarted, conversation_history=[{"role": "user"}], request={"body": {}}, model="m")
    )
    assert (seen[0].conversation_history, seen[0].request, seen[0].model) == ([], UNSET, "m")


def test_a_hook_emitted_with_a_few_keywords_still_gives_an_event(hooks: Hooks) -> None:
    seen: list[Any] = []
    hooks.subscribe_events("p", seen.append, events=[AttemptAnswered])
    assert hooks.post_api_request is not None
    hooks.post_api_request.invoke(api_request_id="a", mood="good")
    assert (seen[0].api_request_id, seen[0].usage, seen[0].model) == ("a", None, "")


def test_a_sink_decides_nothing(hooks: Hooks) -> None:
    def block(event: Event) -> dict[str, str]:
        del event
        return {"action": "block", "message": "no"}

    hooks.subscribe_events("p", block, events=[ToolStarted])
    assert hooks.pre_tool_call is not None
    assert hooks.pre_tool_call(some(ToolStarted)) == []


@pytest.mark.parametrize("kind", [TextDelta, TerminalOutputTransform])
def test_types_that_no_hook_observes_are_refused(hooks: Hooks, kind: Any) -> None:
    with pytest.raises(PluginError, match=kind.__name__):
        hooks.subscribe_events("p", print, events=[kind])


def test_a_plugin_registers_one_that_runs_in_the_background() -> None:
    seen: list[Any] = []

    def register(ctx: Any) -> None:
        ctx.register_event_sink(seen.append, events=[ToolEnded], background=True)

    with PluginHarness(register) as harness:
        harness.fire("post_tool_call", **SAMPLE)
        assert harness.hooks.flush(10) == []
        assert harness.plugin.hooks == ["post_tool_call"]
    assert [event.tool_name for event in seen] == ["t"]
