"""Answers that are stored with the end of their message, and claimed: where nothing for the chat waits before them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from hermes.journal.store.port import Store, open_store
from hermes.surfaces.gateway.store.inbox import Inbox
from hermes.surfaces.gateway.store.outbox import Outbox, OutgoingMessage


@pytest.fixture
def store(tmp_path: Path) -> Generator[Store]:
    with closing(open_store(tmp_path)) as store:
        yield store


def answer(key: str, chat: str = "alice") -> OutgoingMessage:
    return OutgoingMessage(key, "line", chat, f"text of {key}")


def test_answers_are_stored_with_the_end_of_their_message(store: Store) -> None:
    outbox = Outbox(store)
    Inbox(store).finish(1, [answer("a"), answer("b")])
    assert [row.message.key for row in outbox.claim(["line"])] == ["a", "b"]
    assert outbox.claim(["line"]) == []
    assert outbox.counts() == {"sending": 2}
    assert outbox.settle_claims() == 2  # as after the death of the process: unknown, not sent again


def test_answers_wait_behind_earlier_ones_of_their_chat(store: Store) -> None:
    inbox, outbox = Inbox(store), Outbox(store)
    inbox.finish(1, [answer("a")])
    [first] = outbox.claim(["line"])
    inbox.finish(2, [answer("b")])
    inbox.finish(3, [answer("c", "bob")])
    assert [row.message.key for row in outbox.claim(["line"])] == ["c"]
    assert outbox.settle([(first.number, "sent", "", "m1", 0.0)]) is True  # another one waits for that
    assert [row.message.key for row in outbox.claim(["line"])] == ["b"]


def test_an_answer_that_is_there_already_is_not_sent_again(store: Store) -> None:
    inbox, outbox = Inbox(store), Outbox(store)
    inbox.finish(1, [answer("a")])
    [row] = outbox.claim(["line"])
    assert outbox.settle([(row.number, "sent", "", "m1", 0.0)]) is False
    inbox.finish(1, [answer("a")])
    assert outbox.claim(["line"]) == []
    assert outbox.counts() == {"sent": 1}
