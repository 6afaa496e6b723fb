"""What the hooks of sessions, turns and model calls tell, put into drafts."""

from __future__ import annotations

from typing import Any

from hermes.contract.response import to_plain
from hermes.trace.conversation import Conversation, context_of
from hermes.trace.draft import SessionDraft, TurnDraft
from hermes.trace.history import tool_request, turns_from
from hermes.trace.records import Usage
from hermes.trace.watched import Watched


class TurnEvents:
    """A method for each hook, which names the fields it needs."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    # -- sessions and turns -------------------------------------------------------------------------------------

    def on_session_start(self, *, session_id: str, model: str = "", platform: str = "") -> None:
        with self._watched.lock:
            session = self._watched.session(session_id)
            session.model, session.platform = model, platform

    def pre_llm_call(
        self,
        *,
        session_id: str,
        turn_id: str,
        task_id: str = "",
        user_message: Any = "",
        conversation_history: list[Any] | None = None,
        model: str = "",
        platform: str = "",
    ) -> None:
        message = self._watched.clean.value(user_message)
        with self._watched.lock:
            is_known = session_id in self._watched.sessions
            session = self._watched.session(session_id)
            if not is_known:
                earlier = turns_from(conversation_history or [], session.started_at, self._watched.clean)
                session.turns += [turn.freeze() for turn in earlier]
            session.model, session.platform = session.model or model, session.platform or platform
            self._watched.begin_turn(session, turn_id, task_id, message)

    def post_llm_call(self, *, session_id: str, turn_id: str, assistant_response: str = "") -> None:
        answer = self._watched.clean.text(assistant_response)
        with self._watched.lock:
            turn = self._watched.session(session_id).turn
            if turn is not None and turn.id == turn_id:
                turn.answer = answer

    def on_session_end(
        self,
        *,
        session_id: str,
        turn_id: str,
        completed: bool = False,
        interrupted: bool = False,
        reason: str = "",
    ) -> None:
        error = self._watched.clean.text(reason)
        with self._watched.lock:
            session = self._watched.session(session_id)
            turn = session.turn
            if turn is None or turn.id != turn_id:
                return
            turn.error = error
            turn.close("completed" if completed else "interrupted" if interrupted else "failed", self._watched.clock())
            session.end_turn()

    def on_session_finalize(self, *, session_id: str) -> None:
        with self._watched.lock:
            if (session := self._watched.sessions.get(session_id)) is not None:
                session.ended_at = self._watched.clock()

    # -- model calls --------------------------------------------------------------------------------------------

    def pre_api_request(
        self,
        *,
        session_id: str,
        turn_id: str,
        api_request_id: str,
        task_id: str = "",
        platform: str = "",
        model: str = "",
        provider: str = "",
        started_at: float = 0.0,
        user_message: Any = "",
        conversation_history: list[Any] | None = None,
        tools: list[Any] | None = None,
    ) -> None:
        messages = conversation_history or []
        with self._watched.lock:
            session = self._watched.session(session_id)
            session.platform, session.provider = session.platform or platform, session.provider or provider
            session.model = session.model or model
            turn = session.turn
            if turn is None or turn.id != turn_id:
                turn = self._watched.begin_turn(session, turn_id, task_id, self._watched.clean.value(user_message))
                self._take_over(session, turn, messages)
            if not session.system_prompt and messages and messages[0].get("role") == "system":
                session.system_prompt = self._watched.clean.text(str(messages[0].get("content") or ""))
            if not session.tools:
                session.tools = tuple(map(self._watched.clean.value, tools or ()))
            self._take_in(session, turn, messages, user_message)
            turn.step().add_attempt(api_request_id, provider, model, started_at or self._watched.clock())

    def _take_over(self, session: SessionDraft, turn: TurnDraft, messages: list[Any]) -> None:
        """A turn that another process left unfinished goes on here: what came before is in its first request."""
        turns = turns_from(
            [one for one in messages if one.get("role") != "system"], turn.started_at, self._watched.clean
        )
        if not turns:
            return
        if not session.turns:
            session.turns += [earlier.freeze() for earlier in turns[:-1]]
        last = turns[-1]
        turn.steps, turn.shelves = last.steps, last.shelves
        self._watched.conversations.setdefault(session.id, Conversation()).advance(messages, is_new_turn=True)

    def _take_in(self, session: SessionDraft, turn: TurnDraft, messages: list[Any], user_message: Any) -> None:
        """Keep what this request has that the one before it had not."""
        known = self._watched.conversations.setdefault(session.id, Conversation())
        new, compaction = known.advance(messages, is_new_turn=not turn.steps)
        step = turn.step()
        step.messages += [self._watched.clean.value(message) for message in new]
        if compaction is not None:
            turn.marks.append(compaction.mark(self._watched.clock(), self._watched.clean))
        if len(turn.steps) == 1 and not turn.context:
            turn.context = self._watched.clean.text(context_of(messages, user_message))

    def post_api_request(
        self,
        *,
        session_id: str,
        api_request_id: str,
        provider: str = "",
        model: str = "",
        started_at: float = 0.0,
        ended_at: float = 0.0,
        finish_reason: str = "",
        response_model: str = "",
        usage: dict[str, Any] | None = None,
        cost_usd: float | None = None,
        assistant_message: Any = None,
    ) -> None:
        message: dict[str, Any] = to_plain(assistant_message) or {}
        text, reasoning = (self._watched.clean.text(message.get(name) or "") for name in ("content", "reasoning"))
        calls = tuple(tool_request(call, self._watched.clean) for call in message.get("tool_calls") or ())
        with self._watched.lock:
            turn = self._watched.session(session_id).turn
            if turn is None:
                return
            step = turn.step()
            answered_by = response_model or model
            step.add_attempt(api_request_id, provider, answered_by, started_at, ended_at or self._watched.clock(), "ok")
            step.text, step.reasoning, step.finish_reason = text, reasoning, finish_reason
            step.model = answered_by
            step.usage = Usage.told(usage, cost_usd) or step.usage
            turn.ask_for(step, calls)

    def api_request_error(
        self,
        *,
        session_id: str,
        api_request_id: str,
        provider: str = "",
        model: str = "",
        started_at: float = 0.0,
        ended_at: float = 0.0,
        reason: str = "",
        error: dict[str, Any] | None = None,
    ) -> None:
        told = error or {}
        text = self._watched.clean.text(f"{told.get('type', 'error')}: {told.get('message', '')}")
        with self._watched.lock:
            turn = self._watched.session(session_id).turn
            if turn is not None:
                status = "interrupted" if reason == "interrupted" else "error"
                ended_at = ended_at or self._watched.clock()
                turn.step().add_attempt(api_request_id, provider, model, started_at, ended_at, status, text)
