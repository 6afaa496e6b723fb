"""Runs: the live turns of requests, and what clients of the API see of their events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Container
from typing import Any, Literal, NamedTuple

from hermes.base.http_server.outgoing import call_summary
from hermes.base.sanitize import Redactor
from hermes.contract.events import TextWithdrawn, ToolEnded, ToolStarted
from hermes.service.live.turn import LiveEntry, LiveTurn, QuestionAnswered, QuestionAsked, TextAdded, TurnOver
from hermes.surfaces.openai_api.errors import ServerStopped
from hermes.surfaces.openai_api.runs.questions import shown_question
from hermes.surfaces.openai_api.runs.store import ApiRequestRow

#: Silence after which a client gets a keep-alive, so that proxies keep the connection.
SECONDS_OF_SILENCE = 15.0


class RunEvent(NamedTuple):
    """One event for clients. ``text`` belongs to the kind ``text``, ``data`` to all others."""

    kind: Literal["text", "withdrawn", "tool_started", "tool_ended", "question", "answered", "ended"]
    text: str = ""
    data: dict[str, Any] | None = None
    #: When it happened.
    at: float = 0.0


class ApiRun(LiveTurn):
    """A request whose turn runs or ran in this process."""

    def __init__(
        self, row: ApiRequestRow, redactor: Redactor, loop: asyncio.AbstractEventLoop, *, show_tools: bool
    ) -> None:
        super().__init__(row.session_id, redactor, loop=loop)
        self.row = row
        self._show_tools = show_tools

    @property
    def id(self) -> str:
        """The id that clients know."""
        return self.row.id

    def stop_waiting(self) -> None:
        """Let no client wait any longer, because the server stops before the turn has ended."""
        self.cut_off(ServerStopped(self.id, can_be_read=not self.row.deleted))

    async def events(self, start: int = 0) -> AsyncGenerator[tuple[int, list[RunEvent]]]:
        """The events from the number ``start`` on, in batches with the number of the first; empty ones break a silence.

        Clients count what they are shown: the numbers are not those of the log.
        """
        number = 0
        async for batch in self.follow(silence=SECONDS_OF_SILENCE):
            shown = self._shown(batch)
            left_out = min(max(start - number, 0), len(shown))
            if not batch or len(shown) > left_out:
                yield number + left_out, shown[left_out:]
            number += len(shown)

    @property
    def event_count(self) -> int:
        """How many events there are by now."""
        return len(self._shown(self.log))

    def _shown(self, batch: list[LiveEntry]) -> list[RunEvent]:
        found = ((entry.at, self._event(entry)) for entry in batch)
        return [event._replace(at=at) for at, event in found if event is not None]

    def _event(self, entry: LiveEntry) -> RunEvent | None:
        match entry.event:
            case TextAdded() as added:
                return RunEvent("text", f"\n\n{added.text}" if added.opens_reply else added.text)
            case TextWithdrawn():
                return RunEvent("withdrawn")
            case ToolStarted() as call if self._show_tools:
                return RunEvent("tool_started", data=self._call(call))
            case ToolEnded() as call if self._show_tools:
                data = {**self._call(call), "status": call.status, "duration_ms": call.duration_ms}
                return RunEvent("tool_ended", data=data)
            case QuestionAsked() as asked:
                return RunEvent("question", data=shown_question(asked.question, self.redactor))
            case QuestionAnswered():
                return RunEvent("answered", data={})
            case TurnOver():
                return RunEvent("ended")
            case _:
                return None

    def _call(self, event: ToolStarted | ToolEnded) -> dict[str, Any]:
        summary = call_summary(event.args, self.redactor)
        return {"tool": event.tool_name, "call_id": event.tool_call_id, "summary": summary}


def joined(batch: list[RunEvent], shown: Container[str]) -> list[tuple[str, RunEvent | None]]:
    """The events of a batch: pieces of text in a row as one, and of the other kinds those that are ``shown``."""
    found: list[tuple[str, RunEvent | None]] = []
    for event in batch:
        if event.kind == "text":
            if found and found[-1][1] is None:
                found[-1] = (found[-1][0] + event.text, None)
            else:
                found.append((event.text, None))
        elif event.kind in shown:
            found.append(("", event))
    return found
