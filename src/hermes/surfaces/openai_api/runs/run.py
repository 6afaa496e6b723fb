"""Runs: the live turns of requests, and what clients of the API see of their events."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

from hermes.base.http_server.outgoing import call_summary
from hermes.base.sanitize import Redactor
from hermes.contract.events import TextWithdrawn, ToolEnded, ToolStarted
from hermes.service.live.turn import LiveEntry, LiveTurn, QuestionAnswered, QuestionAsked, TextAdded, TurnOver
from hermes.surfaces.openai_api.errors import ServerStopped
from hermes.surfaces.openai_api.runs.questions import shown_question
from hermes.surfaces.openai_api.runs.store import ApiRequestRow

#: Silence after which a client gets a keep-alive, so that proxies keep the connection.
SECONDS_OF_SILENCE = 15.0


#: The events of a run that are not part of its answer.
_PROGRESS = ("tool.started", "tool.completed", "approval.request", "approval.answered")


class RunEvent(NamedTuple):
    """One event for clients, by the name that it has among the events of a run; the end has none."""

    name: str
    data: dict[str, Any]
    #: When it happened.
    at: float


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

    async def answer(self) -> AsyncGenerator[str | RunEvent | None]:
        """The answer as it is said, with the progress of the turn in between; None breaks a silence.

        What was not said while the turn ran comes last: the events of a turn are provisional.
        """
        said = ""
        async for _, batch in self.events():
            if not batch:
                yield None
            for is_text, some in itertools.groupby(batch, lambda event: event.name == "message.delta"):
                if is_text:
                    text = "".join(event.data["delta"] for event in some)
                    said += text
                    yield text
                else:
                    for event in some:
                        if event.name in _PROGRESS:
                            yield event
        answer = self.result.answer if self.status in ("completed", "incomplete") and self.result is not None else ""
        if answer and not said.endswith(answer):
            yield f"\n\n{answer}" if said else answer

    def _shown(self, batch: list[LiveEntry]) -> list[RunEvent]:
        found = ((entry.at, self._event(entry)) for entry in batch)
        return [RunEvent(*event, at) for at, event in found if event is not None]

    def _event(self, entry: LiveEntry) -> tuple[str, dict[str, Any]] | None:
        match entry.event:
            case TextAdded() as added:
                return "message.delta", {"delta": f"\n\n{added.text}" if added.opens_reply else added.text}
            case TextWithdrawn():
                return "message.withdrawn", {}
            case ToolStarted() as call if self._show_tools:
                return "tool.started", self._call(call)
            case ToolEnded() as call if self._show_tools:
                return "tool.completed", {**self._call(call), "status": call.status, "duration_ms": call.duration_ms}
            case QuestionAsked() as asked:
                return "approval.request", shown_question(asked.question, self.redactor)
            case QuestionAnswered():
                return "approval.answered", {}
            case TurnOver():
                return "", {}
            case _:
                return None

    def _call(self, event: ToolStarted | ToolEnded) -> dict[str, Any]:
        summary = call_summary(event.args, self.redactor)
        return {"tool": event.tool_name, "call_id": event.tool_call_id, "summary": summary}
