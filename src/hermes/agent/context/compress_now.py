"""A conversation made shorter because the user asks for it, between two turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes.agent.context.tokens import estimate
from hermes.errors import HermesError
from hermes.journal.history.compactions import Compaction, record_compaction
from hermes.journal.sessions import Sessions
from hermes.journal.turns import Message
from hermes.scope import Interrupt, Scope, current_scope

if TYPE_CHECKING:
    from hermes.agent.session import Session


@dataclass(frozen=True, slots=True)
class CompressionReport:
    """What compressing a conversation came to."""

    before_tokens: int
    after_tokens: int
    messages_before: int
    messages_after: int


def compress_now(session: Session, focus: str, interrupt: Interrupt) -> tuple[list[Message], CompressionReport]:
    """What the model sees of the conversation from now on, on record, and what that came to.

    Raises ``HermesError`` when it cannot be made shorter, and ``Interrupted`` when that was cancelled.
    """
    runtime, sessions = session.runtime, Sessions(session.runtime.store)
    last = sessions.last_turn(session.id)
    if last is None:
        raise HermesError("there is nothing to compress: the conversation has no message yet")
    if last["state"] == "running":
        raise HermesError("the last message is not answered yet; continue the conversation before compressing it")
    turns, before = sessions.turn_count(session.id), sessions.context(session.id)
    tokens = estimate(before)
    session.window.use(session.models.endpoints[0])
    scope = Scope(session_id=session.id, platform=session.platform, interrupt=interrupt)
    token = current_scope.set(scope)
    try:
        after = session.window.compact(
            before,
            tokens,
            scope=scope,
            endpoints=session.models.endpoints,
            focus=focus,
            halvings=1,
            before_compress=session.before_compress,
        )
    finally:
        current_scope.reset(token)
    if after is None:
        raise HermesError(
            f"there is nothing to compress: a summary would not be shorter than these {len(before)} messages "
            f"(about {tokens} tokens)"
        )
    compaction = Compaction(after, (turns, 0, 0), "asked", tokens, estimate(after))
    record_compaction(runtime.store, runtime.runner, session.id, compaction)
    return after, CompressionReport(tokens, compaction.tokens_after, len(before), len(after))
