"""The messages of a turn's requests: derived from the transcript, which is compacted when the window fills."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from hermes.agent.context.tokens import estimate
from hermes.agent.context.transcript import MessagePlace
from hermes.agent.context.window import ASK_FROM_TOKENS
from hermes.agent.images.describe import replace_images
from hermes.agent.pipelines.model_call import ToolDefinition
from hermes.base.errors import HermesError
from hermes.base.scope import Scope, current_scope
from hermes.contract.events import ContextCompacted
from hermes.journal.history.compactions import record_compaction
from hermes.journal.records import Compaction, WindowRecord
from hermes.journal.sessions import Sessions
from hermes.journal.turns.steps import Message
from hermes.models.costs.usage import Usage

if TYPE_CHECKING:
    from hermes.agent.context.parts import TurnParts
    from hermes.agent.context.window import ContextWindow
    from hermes.agent.memory.memory import Memory
    from hermes.agent.runtime import Runtime
    from hermes.journal.records import SetupRecord
    from hermes.models.endpoint import Endpoint

log = logging.getLogger("hermes.context")

#: How often one step compacts again because the provider finds the request too long.
MAX_RETRIES = 3


class CompressionReport(msgspec.Struct, frozen=True):
    """The effect of compressing a conversation on request."""

    before_tokens: int
    after_tokens: int
    messages_before: int
    messages_after: int


class RequestBuilder(msgspec.Struct):
    """Builds the requests of one turn. Everything they are made from stays in the journal."""

    _parts: TurnParts
    _setup: SetupRecord

    def build(self, place: MessagePlace) -> list[Message]:
        """The messages of the request whose answer belongs at ``place``. Context and stand-ins are not stored."""
        setup = self._setup
        messages = self._parts.transcript.messages(before=place)
        if setup.context:
            at = self._parts.transcript.user_message_index(self._parts.journal.messages[0, 0])
            messages[at] = _with_context(messages[at], setup.context)
        request = [{"role": "system", "content": setup.system}, *messages]
        return replace_images(request, setup.stand_ins) if setup.stand_ins else request

    def answered(self, place: MessagePlace, usage: Usage | None, *, is_replay: bool) -> None:
        """Count what a request and its answer took."""
        step, position = place
        length = self._parts.transcript.count(before=(step, position + 1)) + 1  # and the system prompt
        self._parts.window.answered(usage, length, self._parts.journal.messages[place], is_replay=is_replay)

    # -- compaction ---------------------------------------------------------------------------------------------

    def replay(self, step: int) -> None:
        """Compact before a step as it was done when the step ran, or almost ran, for the first time."""
        told = self._parts.journal.steps.get(f"window:{step}")
        if told is not None:
            self._parts.window.learn(told.body.tokens)
        for key in _keys(step):
            recorded = self._parts.journal.steps.get(key)
            if recorded is not None:
                self._parts.transcript.compact(recorded.body)

    def fitting(self, step: int, place: MessagePlace, tools: list[ToolDefinition]) -> list[Message]:
        """The messages of that request, compacted before it when the window is getting full."""
        request = self.build(place)
        key = f"compact:{step}"
        if key in self._parts.journal.steps:
            return request
        tokens = self._parts.window.tokens(request, tools)
        if tokens >= ASK_FROM_TOKENS:
            self._learn_window(step)  # the request is long enough for it to matter
        if not self._parts.window.is_full(request, tokens):
            return request
        self._compact(key, place, tokens, retry=0)
        return self.build(place)

    def _learn_window(self, step: int) -> None:
        """The window that the server reports is recorded: a run that is run again compacts at the same point."""
        key = f"window:{step}"
        if key in self._parts.journal.steps:
            return
        told = self._parts.window.ask(self._parts.scope.interrupt, self._parts.journal.commit_soon)
        if told is not None:
            self._parts.window.learn(told)
            self._parts.journal.step(key, "done", "pure", WindowRecord(told))

    def make_more_room(self, step: int, place: MessagePlace, tools: list[ToolDefinition]) -> bool:
        """Compact again after a provider found the request too long. False when that is of no use."""
        for retry, key in enumerate(_keys(step)):
            if retry and key not in self._parts.journal.steps and self._parts.window.is_automatic:
                tokens = self._parts.window.tokens(self.build(place), tools)
                self._parts.window.refused(tokens)
                return self._compact(key, place, tokens, retry=retry)
        return False

    def _compact(self, key: str, place: MessagePlace, tokens: int, *, retry: int) -> bool:
        self._parts.journal.commit_soon()  # a summary takes its time
        before = self._parts.transcript.messages(before=place)
        shorter = self._parts.window.compact(
            before,
            tokens,
            scope=self._parts.scope,
            endpoints=self._parts.models.endpoints,
            task=self._parts.journal.messages[0, 0],
            halvings=retry,
            was_refused=retry > 0,
            memory=self._parts.memory,
        )
        if shorter is None:
            log.info("%s: the conversation cannot be made shorter", key)
            return False
        length = estimate(shorter)
        compaction = Compaction(
            messages=shorter,
            covers=(self._parts.journal.ordinal, *place),
            reason="refused" if retry else "window",
            tokens_before=tokens,
            tokens_after=max(tokens - estimate(before) + length, length),
        )
        # Stored before it is used: a resumed turn sees what the model saw.
        self._parts.journal.step(key, "done", "model", compaction)
        self._parts.journal.commit()
        numbers = (len(before), len(shorter), compaction.tokens_before, compaction.tokens_after)
        log.info("%s: %d messages became %d, about %d tokens became %d", key, *numbers)
        self._parts.transcript.compact(compaction)
        self._parts.listener(ContextCompacted(*numbers))
        return True


def compress_now(
    runtime: Runtime,
    scope: Scope,
    window: ContextWindow,
    endpoints: Sequence[Endpoint],
    memory: Memory | None,
    focus: str,
) -> tuple[list[Message], CompressionReport]:
    """Compact between two turns: the stored messages that the model sees from now on, and a report.

    Raises ``HermesError`` when it cannot be made shorter, and ``Interrupted`` when that was cancelled.
    """
    session_id, sessions = scope.session_id, Sessions(runtime.store)
    last = sessions.last_turn(session_id)
    if last is None:
        raise HermesError("there is nothing to compress: the conversation has no message yet")
    if last.state == "running":
        raise HermesError("the last message is not answered yet; continue the conversation before compressing it")
    turns, before = sessions.turn_count(session_id), sessions.context(session_id)
    tokens = estimate(before)
    window.use(endpoints[0])
    token = current_scope.set(scope)
    try:
        after = window.compact(
            before,
            tokens,
            scope=scope,
            endpoints=endpoints,
            focus=focus,
            halvings=1,
            memory=memory,
        )
    finally:
        current_scope.reset(token)
    if after is None:
        raise HermesError(
            f"there is nothing to compress: a summary would not be shorter than these {len(before)} messages "
            f"(about {tokens} tokens)"
        )
    compaction = Compaction(after, (turns, 0, 0), "asked", tokens, estimate(after))
    record_compaction(runtime.store, runtime.runner, session_id, compaction)
    return after, CompressionReport(tokens, compaction.tokens_after, len(before), len(after))


def _keys(step: int) -> list[str]:
    """The steps of the compactions before a model step: when the window fills, then after each refusal."""
    return [f"compact:{step}", *(f"compact:{step}.{number}" for number in range(1, MAX_RETRIES + 1))]


def _with_context(message: Message, context: str) -> Message:
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": f"{content}\n\n{context}"}
    return {**message, "content": [*content, {"type": "text", "text": context}]}
