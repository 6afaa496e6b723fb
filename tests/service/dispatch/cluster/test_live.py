"""Live events as notifications: they fit, keep their order, and come back as the same events."""

from __future__ import annotations

import msgspec

from hermes.contract.events import ReasoningDelta, TextDelta, TextWithdrawn, ToolEnded, TurnEvent
from hermes.service.dispatch.cluster.live import MAX_BYTES, decode_event, notifications


def received(events: list[TurnEvent]) -> list[TurnEvent]:
    """What arrives of events that are sent together."""
    found: list[TurnEvent] = []
    for text in notifications("s1:turn", events):
        assert len(text.encode()) <= MAX_BYTES
        message = msgspec.json.decode(text)
        assert message["turn"] == "s1:turn"
        found += [event for encoded in message["events"] if (event := decode_event(encoded)) is not None]
    return found


def ended(result: str) -> ToolEnded:
    return ToolEnded(
        session_id="s1",
        task_id="t",
        turn_id="s1:turn",
        tool_name="terminal",
        tool_call_id="c",
        args={"command": "x"},
        result=result,
        duration_ms=5,
        status="ok",
        error_type=None,
        error_message=None,
        api_request_id="",
        middleware_trace=[],
    )


def test_pieces_of_text_are_put_together_and_kept_apart_from_others() -> None:
    events: list[TurnEvent] = [TextDelta("a"), TextDelta("b"), ReasoningDelta("c"), TextWithdrawn(), TextDelta("d")]
    assert received(events) == [TextDelta("ab"), ReasoningDelta("c"), TextWithdrawn(), TextDelta("d")]


def test_a_long_text_arrives_whole_in_several_notifications() -> None:
    text = "äöü€ " * 10_000
    found = received([TextDelta(text)])
    assert "".join(event.text for event in found if isinstance(event, TextDelta)) == text


def test_a_long_result_of_a_tool_is_cut() -> None:
    (found,) = received([ended("x" * 100_000)])
    assert isinstance(found, ToolEnded)
    assert found.tool_name == "terminal"
    assert found.result.startswith("xxx")
    assert len(found.result) < 1_000


def test_an_event_of_a_newer_version_is_left_out() -> None:
    assert decode_event(["Invented", {}]) is None
    assert decode_event(["TextDelta", {"text": 5}]) is None


def test_the_end_of_a_turn_is_sent_with_the_last_events() -> None:
    (text,) = notifications("t", [TextDelta("a")], "ended")
    assert msgspec.json.decode(text) == {"turn": "t", "events": [["TextDelta", {"text": "a"}]], "state": "ended"}
