"""Answers that are stored and claimed in one transaction: only where nothing for the chat waits before them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from hermes.journal.store.port import Store, open_store
from hermes.surfaces.gateway.store.inbox import Completion, Inbox
from hermes.surfaces.gateway.store.outbox import Outbox, OutgoingMessage


@pytest.fixture
def store(tmp_path: Path) -> Generator[Store]:
    with closing(open_store(tmp_path)) as store:
        yield store


def answer(key: str, chat: str = "alice") -> OutgoingMessage:
    return OutgoingMessage(key, "line", chat, f"text of {key}")


def test_answers_are_claimed_with_the_end_of_their_message(store: Store) -> None:
    outbox = Outbox(store)
    rows = Inbox(store).finish(Completion(1, [answer("a"), answer("b")], claims=True))
    assert [(row.message.key, row.state) for row in rows] == [("a", "sending"), ("b", "sending")]
    assert outbox.claim(["line"]) == []
    assert outbox.counts() == {"sending": 2}
    assert outbox.settle_claims() == 2  # as after the death of the process: unknown, not sent again


def test_answers_wait_behind_earlier_ones_of_their_chat(store: Store) -> None:
    inbox, outbox = Inbox(store), Outbox(store)
    [first] = inbox.finish(Completion(1, [answer("a")], claims=True))
    assert inbox.finish(Completion(2, [answer("b")], claims=True)) == []
    assert [row.message.key for row in inbox.finish(Completion(3, [answer("c", "bob")], claims=True))] == ["c"]
    assert outbox.claim(["line"]) == []
    assert outbox.settle([(first.number, "sent", "", "m1", 0.0)]) is True  # another one waits for that
    assert [row.message.key for row in outbox.claim(["line"])] == ["b"]


def test_an_answer_that_is_there_already_is_not_claimed_again(store: Store) -> None:
    inbox, outbox = Inbox(store), Outbox(store)
    [row] = inbox.finish(Completion(1, [answer("a")], claims=True))
    assert outbox.settle([(row.number, "sent", "", "m1", 0.0)]) is False
    assert inbox.finish(Completion(1, [answer("a")], claims=True)) == []
    assert outbox.counts() == {"sent": 1}
