"""Writes of one step of the loop leave with one call of the transport."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from hermes.base.http_server.joined_writes import JoinedWrites


class _Transport:
    def __init__(self) -> None:
        self.done: list[Any] = []

    def write(self, data: bytes) -> None:
        self.done.append(data)

    def close(self) -> None:
        self.done.append("closed")

    def abort(self) -> None:
        self.done.append("aborted")

    def is_closing(self) -> bool:
        return "closed" in self.done


def _run(*steps: Any) -> list[Any]:
    """Each step gets the joined transport, and the loop runs once after it."""
    inner = _Transport()

    async def main() -> None:
        joined = JoinedWrites(cast("Any", inner), asyncio.get_running_loop())
        for step in steps:
            step(joined)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert joined.is_closing() == inner.is_closing()

    asyncio.run(main())
    return inner.done


def test_head_and_body_are_one_write() -> None:
    def respond(transport: JoinedWrites) -> None:
        transport.write(b"head ")
        transport.write(b"body")

    assert _run(respond, respond) == [b"head body", b"head body"]


def test_much_is_written_at_once_and_in_order() -> None:
    def respond(transport: JoinedWrites) -> None:
        transport.write(b"head ")
        transport.write(b"x" * 100_000)
        transport.write(b" end")

    assert _run(respond) == [b"head " + b"x" * 100_000, b" end"]


def test_nothing_is_lost_by_a_close_and_nothing_is_sent_after_an_abort() -> None:
    def close(transport: JoinedWrites) -> None:
        transport.write(b"last words")
        transport.close()

    def abort(transport: JoinedWrites) -> None:
        transport.write(b"never")
        transport.abort()

    assert _run(close) == [b"last words", "closed"]
    assert _run(abort) == ["aborted"]


def test_a_whole_response_need_not_wait_for_the_end_of_the_step() -> None:
    def respond(transport: JoinedWrites) -> None:
        transport.write(b"head ")
        transport.write(b"body")
        transport.flush()
        transport.write(b"next")

    assert _run(respond) == [b"head body", b"next"]
