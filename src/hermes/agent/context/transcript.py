"""The messages of a session as its model sees them: the one place that owns them."""

from __future__ import annotations

from bisect import bisect_left, insort

import msgspec

from hermes.journal.records import Compaction
from hermes.journal.turns.steps import Message, TurnJournal
from hermes.models.reply import Reply, tool_call_message
from hermes.models.wires.provider_state import STATE_FIELD, with_reasoning

#: Where a message of a turn belongs: (step, position).
MessagePlace = tuple[int, int]


class SessionTranscript:
    """The messages of finished turns, and those of the running turn, which its journal holds by place.

    What goes to the model is derived from it in ``RequestBuilder.build``.
    """

    def __init__(self, earlier: list[Message]) -> None:
        #: The messages before the running turn, or those that a compaction left.
        self.earlier = earlier
        self._turn: TurnJournal | None = None
        #: From here on the messages of the turn are not covered by ``earlier``.
        self._since: MessagePlace = (0, 0)
        self._sorted_places: list[MessagePlace] = []
        #: Whether the journal has them in that order, too, as it mostly does.
        self._is_in_order = True

    def begin(self, turn: TurnJournal) -> None:
        """A turn runs; its messages count from now on."""
        self._turn, self._since, self._sorted_places, self._is_in_order = turn, (0, 0), [], True

    def end(self) -> None:
        """The turn is over: its messages are those of finished turns now."""
        self.earlier, self._turn = self.messages(), None

    def compact(self, compaction: Compaction) -> None:
        """Use the shorter messages of a compaction instead of those it covers."""
        _, step, position = compaction.covers
        self.earlier, self._since = compaction.messages, (step, position)

    def messages(self, *, before: MessagePlace | None = None) -> list[Message]:
        """All messages, in order; ``before`` leaves out those of the running turn from that place on."""
        if self._turn is None:
            return list(self.earlier)
        turn = self._turn.messages
        start, end = self._span(turn, before)
        if self._is_in_order:
            return [*self.earlier, *list(turn.values())[start:end]]
        return [*self.earlier, *map(turn.__getitem__, self._sorted_places[start:end])]

    def count(self, *, before: MessagePlace) -> int:
        """How many messages those are."""
        start, end = (0, 0) if self._turn is None else self._span(self._turn.messages, before)
        return len(self.earlier) + max(end - start, 0)

    def _span(self, turn: dict[MessagePlace, Message], before: MessagePlace | None) -> tuple[int, int]:
        """Which of the messages of the turn are meant, in their order: from the first to before the second position."""
        places = self._sorted_places
        if len(places) != len(turn):
            # Keys are only added. Copies, because other threads may add messages meanwhile.
            keys, places = list(turn), places.copy()
            for place in keys[len(places) :]:
                insort(places, place)
            self._sorted_places, self._is_in_order = places, places == keys
        end = len(places) if before is None else bisect_left(places, before)
        return bisect_left(places, self._since), end

    def user_message_index(self, task: Message) -> int:
        """The position of the user's message of the running turn, or of what a compaction left instead of it."""
        if self._since <= (0, 0):
            return len(self.earlier)
        users = [at for at, message in enumerate(self.earlier) if message["role"] == "user"]
        return next((at for at in reversed(users) if self.earlier[at] == task), users[-1])


def assistant_message(reply: Reply) -> Message:
    """A reply as a message. Servers refuse arguments that are not JSON, so those are left out."""
    message: Message = {"role": "assistant", "content": reply.content or None}
    if reply.tool_calls:
        message["tool_calls"] = [tool_call_message(call) for call in reply.tool_calls]
        for call in message["tool_calls"]:
            if not _is_json_object(call["function"]["arguments"]):
                call["function"]["arguments"] = "{}"
    state = with_reasoning(reply.provider_state, reply.reasoning)
    if state:
        message[STATE_FIELD] = state
    return message


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
