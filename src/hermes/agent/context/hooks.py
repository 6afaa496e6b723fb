"""The hooks of a turn: what plugins are told of it, and what they say to it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import replace

from hermes.agent.context.setup import spill
from hermes.agent.events import TurnStatus, changed_paths, is_code
from hermes.agent.pipelines.model_call import attempt_id
from hermes.base.errors import Interrupted
from hermes.contract.events import (
    AnswerTransform,
    AnswerVerification,
    LoopStopped,
    SessionStarted,
    ToolEnded,
    TurnAnswered,
    TurnEnded,
    TurnStarted,
)
from hermes.hooks.observers import Answer, Emitter
from hermes.journal.records import PluginDecision, SetupRecord

if TYPE_CHECKING:
    from hermes.agent.context.parts import TurnParts
    from hermes.hooks.table import Hooks


#: What is said of a loop that was stopped without words.
_STOPPED_BY = {"max_iterations": "the steps of the turn are used up (agent.max_turns)"}


class TurnHooks(msgspec.Struct):
    """Fires the hooks of one turn, and reads what plugins answer."""

    _hooks: Hooks
    _parts: TurnParts

    def started(self) -> TurnStarted:
        """The event of its start."""
        parts, journal = self._parts, self._parts.journal
        return TurnStarted(
            **self._fields(),
            user_message=journal.messages[0, 0]["content"],
            conversation_history=parts.transcript.earlier,
            is_first_turn=journal.ordinal == 0,
            sender_id=parts.sender_id,
            resumed=bool(journal.steps),
        )

    def begin(self, setup: SetupRecord) -> SetupRecord:
        """Tell of a new session and of the turn; returns the setup with what plugins add to the message."""
        hooks, scope, runtime = self._hooks, self._parts.scope, self._parts.runtime
        if self._parts.journal.ordinal == 0 and hooks.on_session_start is not None:
            model = self._parts.models.model
            hooks.on_session_start(SessionStarted(session_id=scope.session_id, model=model, platform=scope.platform))
        if hooks.pre_llm_call is None:
            return setup
        pieces, decisions = [setup.context] if setup.context else [], list[PluginDecision]()
        for plugin, piece in _context_pieces(hooks.pre_llm_call(self.started())):
            pieces.append(spill(runtime, scope.principal, piece))
            decisions.append(PluginDecision(plugin, "pre_llm_call", "added"))
        return replace(setup, context="\n\n".join(pieces), decisions=decisions)

    def verify(
        self, emit: Emitter[AnswerVerification], text: str, calls: Sequence[ToolEnded], attempt: int
    ) -> tuple[str | None, str] | None:
        """What ``pre_verify`` says to an answer that follows changed files, and the plugin that says it.

        None when it is not asked; without a message the answer is accepted.
        """
        changed = changed_paths(calls)
        if not changed:
            return None
        verification = AnswerVerification(
            **self._fields(),
            coding=any(is_code(path) for path in changed),
            attempt=attempt,
            final_response=text,
            changed_paths=changed,
        )
        return _nudge_from(emit(verification))

    def transform(self, emit: Emitter[AnswerTransform], text: str) -> tuple[str, str]:
        """The answer as plugins want it, and the plugin that changed it, if any."""
        for answer in emit(AnswerTransform(**self._fields(), response_text=text)):
            if isinstance(answer.value, str) and answer.value:
                return answer.value, answer.plugin
        return text, ""

    def answered(self, emit: Emitter[TurnAnswered], answer: str, finish_reason: str) -> None:
        """Tell of the answer, which is stored."""
        event = TurnAnswered(
            **self._fields(),
            user_message=self._parts.journal.messages[0, 0]["content"],
            assistant_response=answer,
            conversation_history=self._parts.transcript.messages(),
            finish_reason=finish_reason,
        )
        # Cancelling the wait for an async callback does not undo the answer.
        with contextlib.suppress(Interrupted):
            emit(event)

    def stopped(self, emit: Emitter[LoopStopped], reason: str, words: str) -> None:
        """Tell that the loop was stopped, if it was."""
        if not reason:
            return
        scope = self._parts.scope
        event = LoopStopped(
            **scope.ids("platform"),
            session_key=scope.session_id,
            reason=reason,
            invalidation_reason=self._parts.runtime.redactor.redact(words or _STOPPED_BY.get(reason, "")),
        )
        with contextlib.suppress(Interrupted):
            emit(event)

    def ended(self, emit: Emitter[TurnEnded], status: TurnStatus, reason: str, finish_reason: str) -> None:
        """Tell of the end, whatever it is."""
        attempts = self._parts.journal.attempts_made
        last_attempt = attempt_id(self._parts.journal.id, attempts) if attempts else ""
        has_answer = status in ("completed", "incomplete")
        event = TurnEnded(
            **self._fields(),
            api_request_id=last_attempt if status == "interrupted" else "",
            completed=has_answer,
            interrupted=status == "interrupted",
            reason=reason,
            finish_reason=finish_reason if has_answer else "",
        )
        with contextlib.suppress(Interrupted):
            emit(event)

    def _fields(self) -> dict[str, Any]:
        """The fields that every event of a turn has."""
        return {**self._parts.scope.ids("platform"), "model": self._parts.models.model}


def _context_pieces(answers: list[Answer]) -> list[tuple[str, str]]:
    """The plugins that add something, and what."""
    pieces: list[tuple[str, str]] = []
    for plugin, value in answers:
        piece = cast("dict[str, Any]", value).get("context") if isinstance(value, dict) else value
        if isinstance(piece, str) and piece.strip():
            pieces.append((plugin, piece))
    return pieces


def _nudge_from(answers: Sequence[Answer]) -> tuple[str | None, str]:
    """The first answer that keeps the turn going, as the message for the model, and its plugin."""
    for answer in answers:
        if not isinstance(answer.value, dict):
            continue
        value = cast("dict[str, Any]", answer.value)
        nudge = value.get("message") if value.get("action") == "continue" else None
        if value.get("decision") == "block":
            nudge = value.get("reason")
        if isinstance(nudge, str) and nudge.strip():
            return nudge, answer.plugin
    return None, ""
