"""The default context engine: summarises the older part of a conversation, keeps its start and its end."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hermes.agent.context.tokens import estimate
from hermes.base.config.schema.sections import CompressionConfig
from hermes.base.errors import ProviderError
from hermes.journal.turns.steps import Message

if TYPE_CHECKING:
    from hermes.agent.context.plan import CompactionPlan
    from hermes.agent.context.summary import Ask, SummaryRequest

log = logging.getLogger("hermes.context")

#: What one request for a summary has beside the transcript.
_REQUEST_TOKENS = 800


class Compressor:
    """Summarises when the window fills."""

    name = "compressor"

    def __init__(self, settings: CompressionConfig, context_length: int) -> None:
        self._settings = settings
        self.context_length = context_length
        self._has_warned = False

    @property
    def threshold_tokens(self) -> int:
        """How long a prompt may be before it is time."""
        return int(self.context_length * self._settings.threshold)

    def compress(
        self,
        messages: list[Message],
        current_tokens: int | None = None,
        *,
        focus_topic: str = "",
        halvings: int = 0,
        task: Message | None = None,
        notes: str = "",
        ask: Ask | None = None,
        reader_tokens: int = 0,
    ) -> list[Message]:
        """A shorter conversation that says the same; the very list when it cannot be made shorter.

        ``task`` is the message that is being answered: where it is not kept, it is quoted. ``ask`` reaches the model
        that writes the summary, which can read ``reader_tokens`` at once. ``halvings``: see ``limits_for``.
        """
        from hermes.agent.context.plan import limits_for, plan_compaction, trim
        from hermes.agent.context.summary import SummaryRequest, summary_message

        tokens = estimate(messages)
        # What the request holds beside the messages: the system prompt and the tools.
        others = max(0, (current_tokens or 0) - tokens)
        limits = limits_for(self._settings, self.context_length, tokens, halvings)
        plan = plan_compaction(messages, limits)
        kept = plan.head
        if plan.middle:
            chunk = (reader_tokens or self.context_length) * 6 // 10 - _REQUEST_TOKENS - 3 * limits.summary_tokens
            wanted = SummaryRequest(limits.summary_tokens, chunk, focus_topic, notes)
            quote = _quote(task, plan)
            kept = [*plan.head, summary_message(self._write(plan.middle, ask, wanted), len(plan.middle), quote)]
        room = max(limits.most_tokens - others - estimate(kept), limits.tail_tokens)
        shorter = [*kept, *trim(plan.tail, room, everything=limits.cut_everything)]
        return shorter if estimate(shorter) < tokens else messages

    def _write(self, middle: list[Message], ask: Ask | None, wanted: SummaryRequest) -> str:
        from hermes.agent.context.summary import plain_summary, write_summary

        reason = "no model is available for it"
        if ask is not None:
            try:
                text = write_summary(middle, ask, wanted)
                if text.strip():
                    return text
                reason = "the model's summary is empty"
            except ProviderError as error:
                reason = str(error)
        level = logging.DEBUG if self._has_warned else logging.WARNING
        self._has_warned = True
        log.log(level, "the conversation is condensed without a model, to a plain list of what happened: %s", reason)
        return plain_summary(middle, wanted)


def _quote(task: Message | None, plan: CompactionPlan) -> str:
    """The current request, when its own message is not kept."""
    from hermes.journal.bodies import message_text

    return "" if task is None or task in plan.tail or task in plan.head else message_text(task)
