"""Listeners of a turn: they come and go, and none of them hears a secret, not even a part of one."""

from __future__ import annotations

from hermes.agent.events import Listeners, MaskedListener
from hermes.base.sanitize import Redactor
from hermes.contract.events import TextDelta, TurnEvent

SECRET = "tok_4f9a8b7c6d5e4f3a2b1c"


def test_one_who_joins_in_the_middle_of_a_secret_hears_none_of_it() -> None:
    listeners = Listeners("t1")
    masked = MaskedListener(listeners, Redactor([SECRET]))
    heard: list[TurnEvent] = []
    masked(TextDelta(f"The key is {SECRET[:10]}"))
    listeners.all.append(heard.append)
    masked(TextDelta(f"{SECRET[10:]}, and more."))
    text = "".join(event.text for event in heard if isinstance(event, TextDelta))
    assert SECRET[10:] not in text
    assert text.endswith(", and more.")


def test_what_is_said_before_anyone_listens_is_not_repeated() -> None:
    listeners = Listeners("t1")
    masked = MaskedListener(listeners, Redactor([SECRET]))
    heard: list[TurnEvent] = []
    masked(TextDelta("Before. "))
    listeners.all.append(heard.append)
    masked(TextDelta("After."))
    assert "".join(event.text for event in heard if isinstance(event, TextDelta)) == "After."


def test_one_that_fails_hears_no_more() -> None:
    listeners = Listeners("t1")
    calls: list[TurnEvent] = []

    def failing(event: TurnEvent) -> None:
        calls.append(event)
        raise ValueError("no")

    heard: list[TurnEvent] = []
    listeners.all += [failing, heard.append]
    for _ in range(2):
        listeners(TextDelta("hello"))
    assert (len(calls), len(heard)) == (1, 2)
