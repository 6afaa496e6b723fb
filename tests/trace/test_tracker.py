"""The tracker: every start that a sink hears of has one end, whatever the order of events."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hermes.contract.events import HOOK_EVENTS
from hermes.trace.tracker import OpenAttempt, OpenChild, OpenTool, OpenTurn, TraceSink, Tracker
from support.events import of_hook


class Balance(TraceSink):
    """Counts what is open, and remembers how it ended."""

    def __init__(self) -> None:
        self.open: Counter[int] = Counter()
        self.kept: list[Any] = []
        self.ends: list[tuple[str, str]] = []

    def _start(self, item: Any) -> None:
        self.kept.append(item)  # so that no other gets its id
        self.open[id(item)] += 1
        assert self.open[id(item)] == 1

    def _end(self, item: Any, why: str) -> None:
        self.open[id(item)] -= 1
        assert self.open[id(item)] == 0
        self.ends.append((type(item).__name__, why))

    def turn_started(self, turn: OpenTurn, event: Any, at: float) -> None:
        self._start(turn)

    def turn_ended(self, turn: OpenTurn, event: Any, at: float, why: str = "") -> None:
        self._end(turn, why)

    def attempt_started(self, attempt: OpenAttempt, at: float) -> None:
        assert self.open[id(attempt.turn)] == 1
        self._start(attempt)

    def attempt_answered(self, attempt: OpenAttempt | None, event: Any, at: float) -> None:
        if attempt is not None:
            self._end(attempt, "")

    attempt_failed = attempt_answered

    def attempt_abandoned(self, attempt: OpenAttempt, at: float, why: str) -> None:
        self._end(attempt, why)

    def tool_started(self, tool: OpenTool, at: float) -> None:
        self._start(tool)

    def tool_ended(self, tool: OpenTool, event: Any, at: float, why: str = "") -> None:
        self._end(tool, why)

    def child_started(self, child: OpenChild, at: float) -> None:
        assert child.event.child_session_id == child.session_id


def test_calls_with_the_same_id_end_in_the_order_of_their_starts() -> None:
    sink = Balance()
    tracker = Tracker(sink)
    call = {"session_id": "s", "turn_id": "t", "tool_call_id": "same"}
    for name in ("first", "second"):
        tracker.take(of_hook("pre_tool_call", {**call, "tool_name": name}))
    first = tracker.tool("s", "t", "same")
    assert first is not None and first.event.tool_name == "first"
    tracker.take(of_hook("post_tool_call", call))
    second = tracker.tool("s", "t", "same")
    assert second is not None and second.event.tool_name == "second"


def test_what_a_turn_leaves_open_ends_before_it() -> None:
    sink = Balance()
    tracker = Tracker(sink)
    ids = {"session_id": "s", "turn_id": "t"}
    tracker.take(of_hook("pre_llm_call", ids))
    tracker.take(of_hook("pre_api_request", {**ids, "api_request_id": "a"}))
    tracker.take(of_hook("pre_tool_call", {**ids, "tool_call_id": "c"}))
    tracker.take(of_hook("pre_tool_call", {**ids, "tool_call_id": "c/inner"}))
    inner = tracker.tool("s", "t", "c/inner")
    assert inner is not None and inner.parent is tracker.tool("s", "t", "c")
    tracker.take(of_hook("on_session_finalize", {"session_id": "s"}))
    why = "the turn ended first"
    assert sink.ends == [
        ("OpenAttempt", why),
        ("OpenTool", why),
        ("OpenTool", why),
        ("OpenTurn", "the session ended first"),
    ]


IDS = st.fixed_dictionaries(
    {
        "session_id": st.sampled_from("sc"),
        "child_session_id": st.sampled_from("cd"),
        "turn_id": st.sampled_from(["t", "u", ""]),
        "api_request_id": st.sampled_from("ab"),
        "tool_call_id": st.sampled_from(["x", "x/1", "y"]),
    }
)


@given(st.lists(st.tuples(st.sampled_from(sorted(HOOK_EVENTS)), IDS), max_size=40))
def test_no_order_of_events_upsets_it(events: list[tuple[str, dict[str, str]]]) -> None:
    sink = Balance()
    tracker = Tracker(sink)
    for hook, payload in events:
        tracker.take(of_hook(hook, payload))
    tracker.abandon("over")
    assert not [count for count in sink.open.values() if count]
