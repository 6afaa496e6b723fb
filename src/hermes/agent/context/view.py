"""What the model sees during one turn: made shorter, on record, before it grows too long for the model's window."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hermes.agent.context.tokens import estimate
from hermes.agent.context.window import BeforeCompress, Window
from hermes.agent.events import Listener
from hermes.agent.images.describe import show
from hermes.agent.model_call import ToolDefinition
from hermes.contract.events import ContextCompacted
from hermes.journal.history.compactions import Compaction
from hermes.journal.turns import Message, TurnJournal
from hermes.models.endpoint import Endpoint
from hermes.models.usage import Usage
from hermes.scope import Scope

log = logging.getLogger("hermes.context")

#: How often one step makes room again because the provider finds the conversation too long.
MAX_SQUEEZES = 3


@dataclass(slots=True)
class View:
    """The conversation of a turn as the model sees it. Everything it was made from stays in the journal."""

    journal: TurnJournal
    scope: Scope
    window: Window
    endpoints: Sequence[Endpoint]
    #: What the model saw of the turns before.
    history: list[Message]
    #: The user's message that this turn answers.
    task: Message
    before_compress: BeforeCompress | None
    listener: Listener
    #: What was added to the user's message, for this turn only.
    context: str = ""
    #: What a model that cannot see is told instead of each image, by its digest.
    stand_ins: dict[str, str] = field(default_factory=dict[str, str])
    _system: Message = field(default_factory=dict[str, Any])
    _messages: list[Message] = field(default_factory=list[Message])
    #: The messages of this turn from here on are not part of ``history``.
    _since: tuple[int, int] = (0, 0)
    #: Where the message stands that carries the context, and that message.
    _carrier: tuple[int, Message] | None = None

    def open(self, system: str, context: str, stand_ins: dict[str, str]) -> None:
        """Begin with the history and the user's message."""
        self._system = {"role": "system", "content": system}
        self.context, self.stand_ins = context, stand_ins
        self._show([*self.history, self.task])

    def add(self, *messages: Message) -> None:
        """Show the model what came next."""
        self._messages.extend(messages)

    def answer(self, message: Message, usage: Usage | None, *, is_replay: bool) -> None:
        """Show the model its own answer, and take note of what it took."""
        self._messages.append(message)
        self.window.answered(usage, len(self._messages) + 1, message, is_replay=is_replay)

    def request(self) -> list[Message]:
        """The messages of the next request."""
        request = [self._system, *self._messages]
        if self._carrier is not None:
            at, message = self._carrier
            request[at + 1] = message
        return show(request, self.stand_ins)

    def conversation(self) -> list[Message]:
        """What the model would see of the conversation if the turn ended here."""
        places = sorted(self.journal.messages)
        return [*self.history, *(self.journal.messages[place] for place in places if place >= self._since)]

    # -- room ---------------------------------------------------------------------------------------------------

    def replay(self, step: int) -> None:
        """Make room before a step as it was made when the step ran, or almost ran, for the first time."""
        for key in _keys(step):
            recorded = self.journal.steps.get(key)
            if recorded is not None:
                self._apply(msgspec.convert(recorded.body, Compaction, from_attributes=True))

    def make_room(self, step: int, place: tuple[int, int], tools: list[ToolDefinition]) -> None:
        """Make room before a step whose answer stands at ``place``, when the window is getting full."""
        key = next(_keys(step))
        if key in self.journal.steps:
            return
        request = self.request()
        tokens = self.window.tokens(request, tools)
        if self.window.is_full(request, tokens):
            self._compact(key, place, tokens, squeeze=0)

    def squeeze(self, step: int, place: tuple[int, int], tools: list[ToolDefinition]) -> bool:
        """Make more room after a provider found the request too long. False when that is of no use."""
        for number, key in enumerate(_keys(step)):
            if number and key not in self.journal.steps and self.window.is_automatic:
                tokens = self.window.tokens(self.request(), tools)
                self.window.refused(tokens)
                return self._compact(key, place, tokens, squeeze=number)
        return False

    def _compact(self, key: str, place: tuple[int, int], tokens: int, *, squeeze: int) -> bool:
        before = self._messages
        shorter = self.window.compact(
            before,
            tokens,
            scope=self.scope,
            endpoints=self.endpoints,
            task=self.task,
            squeeze=squeeze,
            was_refused=squeeze > 0,
            before_compress=self.before_compress,
        )
        if shorter is None:
            log.info("%s: the conversation cannot be made shorter", key)
            return False
        compaction = Compaction(
            messages=shorter,
            covers=(self.journal.ordinal, *place),
            reason="refused" if squeeze else "window",
            tokens_before=tokens,
            tokens_after=tokens_left(tokens, before, shorter),
        )
        # On record before it is used: whoever finishes the turn sees what the model saw.
        self.journal.step(key, "done", "model", compaction)
        self.journal.commit()
        numbers = (len(before), len(shorter), compaction.tokens_before, compaction.tokens_after)
        log.info("%s: %d messages became %d, about %d tokens became %d", key, *numbers)
        self._apply(compaction)
        self.listener(ContextCompacted(*numbers))
        return True

    def _apply(self, compaction: Compaction) -> None:
        _, step, position = compaction.covers
        self.history, self._since = compaction.messages, (step, position)
        self._show(list(compaction.messages))

    def _show(self, messages: list[Message]) -> None:
        self._messages = messages
        self._carrier = None
        if not self.context:
            return
        users = [at for at, message in enumerate(messages) if message["role"] == "user"]
        # The user's message itself, or else what stands for it.
        at = next((at for at in reversed(users) if messages[at] == self.task), users[-1])
        self._carrier = (at, _with_context(messages[at], self.context))


def tokens_left(tokens: int, before: list[Message], after: list[Message]) -> int:
    """About how long a request is whose messages were made shorter."""
    return max(tokens - estimate(before) + estimate(after), estimate(after))


def _keys(step: int) -> Iterator[str]:
    """The steps in which room may be made before a model step: when the window fills, then after each refusal."""
    yield f"compact:{step}"
    yield from (f"compact:{step}.{number}" for number in range(1, MAX_SQUEEZES + 1))


def _with_context(message: Message, context: str) -> Message:
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": f"{content}\n\n{context}"}
    return {**message, "content": [*content, {"type": "text", "text": context}]}
