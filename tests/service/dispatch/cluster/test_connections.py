"""Listening to a channel: no notification waits for the next one."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import closing

import pytest

from hermes.base.config.schema.sections import JournalConfig
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.postgres.store import PostgresStore
from hermes.service.dispatch.cluster.connections import ChannelListener
from support.waiting import wait_for, wait_until


@pytest.fixture
def store(postgres_url: str) -> Generator[PostgresStore]:
    with closing(PostgresStore(JournalConfig(url=postgres_url))) as store:
        yield store


def test_a_notification_that_comes_with_an_answer_of_the_server_is_received_at_once(store: PostgresStore) -> None:
    heard = threading.Event()

    def receive(payload: str) -> None:
        assert payload == "hello"
        heard.set()

    def tell() -> None:
        store.write(lambda connection: connection.execute("SELECT pg_notify('news', 'hello')"))

    def tick(connection: JournalConnection) -> None:
        tell()
        connection.execute("SELECT 1")  # the notification is read with this answer

    listener = ChannelListener(store, "news", receive, tick=tick, seconds=3_600)
    listener.start()
    try:
        wait_for(heard, "the notification")
    finally:
        end = threading.Thread(target=listener.close)
        end.start()

        def has_ended() -> bool:
            tell()  # it looks whether it is to end when it hears something
            return not end.is_alive()

        wait_until(has_ended, "the end of the listener")
