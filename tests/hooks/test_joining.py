"""A hook that fires piece by piece: a slow callback gets the pieces joined, none is lost, and nothing waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from hermes.contract.events import StreamDelta, StreamEnded
from hermes.hooks.table import Hooks
from support.events import some


def say(hooks: Hooks, delta: str, *, stream: str = "1", kind: str = "text") -> None:
    assert hooks.on_stream_delta is not None
    assert hooks.on_stream_delta(some(StreamDelta, delta=delta, kind=kind, api_request_id=stream)) == []


def into(got: list[str]) -> Callable[[str], None]:
    def take(delta: str) -> None:
        got.append(delta)

    return take


def test_pieces_that_wait_are_joined_and_stay_in_order(hooks: Hooks) -> None:
    seen: list[tuple[str, str, str]] = []
    entered, go_on = threading.Event(), threading.Event()

    def slow(delta: str, kind: str, api_request_id: str, **_: Any) -> None:
        entered.set()
        assert go_on.wait(30)
        seen.append((api_request_id, kind, delta))

    def ended(**_: Any) -> None:
        seen.append(("", "end", ""))

    hooks.subscribe("on_stream_delta", "slow", slow)
    hooks.subscribe("on_stream_end", "slow", ended)
    say(hooks, "a")
    assert entered.wait(30)
    for piece in "bcd":
        say(hooks, piece)  # nothing waits, although the callback has not returned
    say(hooks, "x", stream="2")
    say(hooks, "e")
    say(hooks, "why", kind="reasoning")
    say(hooks, "f")
    assert hooks.on_stream_end is not None
    hooks.on_stream_end(some(StreamEnded, api_request_id="1"))
    go_on.set()
    assert hooks.flush(30) == []
    assert seen == [
        *[("1", "text", "a"), ("1", "text", "bcde"), ("2", "text", "x"), ("1", "reasoning", "why"), ("1", "text", "f")],
        ("", "end", ""),
    ]


def test_a_thousand_pieces_need_one_place_in_the_queue(hooks: Hooks) -> None:
    go_on, got = threading.Event(), list[str]()

    def slow(delta: str) -> None:  # a narrow signature: the stream is known all the same
        assert go_on.wait(30)
        got.append(delta)

    hooks.subscribe("on_stream_delta", "slow", slow)
    for _ in range(5000):
        say(hooks, "x")
    assert hooks.queue("slow").pending <= 2
    go_on.set()
    assert hooks.flush(30) == []
    assert "".join(got) == "x" * 5000
    assert hooks.queue("slow").dropped == 0


def test_a_callback_that_raises_harms_no_other(hooks: Hooks) -> None:
    got: list[str] = []

    def broken(**_: Any) -> None:
        raise ValueError("no")

    hooks.subscribe("on_stream_delta", "broken", broken)
    hooks.subscribe("on_stream_delta", "good", into(got))
    say(hooks, "a")
    assert hooks.flush(30) == []
    assert got == ["a"]


def test_a_full_queue_drops_a_piece_and_later_ones_arrive(hooks: Hooks) -> None:
    go_on, entered, got = threading.Event(), threading.Event(), list[str]()

    def block() -> None:
        entered.set()
        assert go_on.wait(30)

    hooks.subscribe("on_stream_delta", "slow", into(got))
    queue = hooks.queue("slow", capacity=1)
    queue.put(block)
    assert entered.wait(30)
    queue.put(lambda: None)
    say(hooks, "lost")
    go_on.set()
    assert hooks.flush(30) == []
    say(hooks, "kept")
    assert hooks.flush(30) == []
    assert got == ["kept"]
