"""One user message answered: model call, tool calls, model call … until there is text.

Everything between the steps is a function of what the journal holds, so a turn that was cut off can be run again and
comes to the same point without repeating a finished step.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypedDict, cast

import msgspec

from hermes.agent.batch import ToolBatch
from hermes.agent.context.view import View
from hermes.agent.events import Listener, TurnResult, TurnStatus
from hermes.agent.guardrails import LoopGuard
from hermes.agent.model_call import Answered, ModelCall, ModelRuntime, ToolDefinition
from hermes.agent.prompt import OUT_OF_TURNS
from hermes.agent.runtime import Runtime
from hermes.agent.verify import changed_paths, is_code, nudge_from
from hermes.contract.events import (
    AnswerTransform,
    AnswerVerification,
    SessionStarted,
    ToolEnded,
    TurnAnswered,
    TurnEnded,
    TurnStarted,
)
from hermes.errors import HermesError, Interrupted, JournalError, ProviderError, TurnSuspended
from hermes.hooks.observers import Answer
from hermes.hooks.table import Hooks
from hermes.journal.turns import Message, TurnJournal, TurnState
from hermes.models.reply import Reply, tool_call_message
from hermes.models.usage import Usage
from hermes.sanitize import Memo
from hermes.scope import Scope, current_scope
from hermes.tools.registry import ToolContext

log = logging.getLogger("hermes.turn")

#: Where steering messages stand in their step: behind the results of as many tool calls as a reply may have.
_AFTER_TOOL_RESULTS = 1_000_000


class Setup(msgspec.Struct):
    """What is fixed before the first model call and only replayed afterwards."""

    system: str
    tools: list[ToolDefinition]
    #: The budget of model steps: a turn that goes on elsewhere must come to its end at the same point.
    max_steps: int
    #: What a memory and ``pre_llm_call`` added to the user's message, for this turn only.
    context: str = ""
    #: What a model that cannot see is told instead of each image, by its digest.
    stand_ins: dict[str, str] = {}


class _TurnFields(TypedDict):
    """The fields that every event of a turn has."""

    session_id: str
    task_id: str
    turn_id: str
    model: str
    platform: str


@dataclass(slots=True)
class Turn:
    """One turn of a session."""

    hooks: Hooks
    models: ModelRuntime
    runtime: Runtime
    make_context: Callable[[Scope], ToolContext]
    journal: TurnJournal
    scope: Scope
    #: The conversation as the model sees it.
    view: View
    make_setup: Callable[[], Setup]
    max_nudges: int
    listener: Listener
    is_first: bool
    memo: Memo
    #: Takes what was said to the agent since it was last asked.
    take_steering: Callable[[], list[str]]
    #: Makes a very long text that a plugin adds to the conversation short.
    shorten: Callable[[str], str]
    _usage: Usage = field(default_factory=lambda: Usage(request_count=0))
    _tool_calls: list[ToolEnded] = field(default_factory=list[ToolEnded])
    _steps: int = 0
    _nudges: int = 0
    _model: str = ""
    _provider: str = ""
    #: Where the assistant message in hand belongs: (step, position).
    _place: tuple[int, int] = (1, 0)
    #: An answer that is there but not yet accepted.
    _draft: str = ""

    def run(self) -> TurnResult:
        """Answer the message. Failures and interruptions are results.

        Only a journal that cannot be written raises, and a person who will answer later: then the turn stays open.
        """
        started = time.perf_counter()
        token = current_scope.set(self.scope)
        log.info("turn %d %s", self.journal.ordinal + 1, "resumed" if self.journal.steps else "started")
        answer, error, error_type, reason = "", None, "", ""
        status: TurnStatus = "failed"
        try:
            self.listener(self._started())
            answer = self._answer()
            status = "completed"
        except Interrupted as interrupt:
            status, reason = "interrupted", interrupt.reason
            answer = self._close_unanswered("interrupted", reason, interrupt)
        except TurnSuspended:
            reason = "waiting for an approval"
            raise
        except JournalError as failure:
            reason = str(failure)
            raise
        except Exception as failure:
            error = reason = self.models.redactor.redact(_in_words(failure))
            error_type = type(failure).__name__
            answer = self._close_unanswered("failed", error, failure)
        else:
            self._emit_answer(answer)  # whatever comes of that, the answer is on record
        finally:
            self._emit_end(status, reason)
            log.info(
                "turn %d %s after %d steps%s", self.journal.ordinal + 1, status, self._steps, reason and f": {reason}"
            )
            current_scope.reset(token)
        return TurnResult(
            session_id=self.scope.session_id,
            turn_id=self.journal.id,
            status=status,
            answer=answer,
            error=error,
            usage=self._usage,
            model=self._model or self.models.model,
            provider=self._provider or self.models.endpoints[0].provider,
            steps=self._steps,
            tool_calls=self._tool_calls,
            duration=time.perf_counter() - started,
            error_type=error_type,
        )

    # -- the turn -----------------------------------------------------------------------------------------------

    def _answer(self) -> str:
        setup = self._set_up()
        text = self._converse(setup)
        if not text.strip():
            raise HermesError("the model ended its turn without an answer; ask again, or raise model.max_tokens")
        text = self._transform(text)
        self.journal.step("final", "done", "pure", {"text": text})
        self.journal.end("completed", answer=text)
        self.journal.commit()
        return text

    def _set_up(self) -> Setup:
        recorded = self.journal.steps.get("setup")
        if recorded is not None:
            return msgspec.convert(recorded.body, Setup)
        setup = self.make_setup()
        if self.is_first and self.hooks.on_session_start is not None:
            self.hooks.on_session_start(
                SessionStarted(session_id=self.scope.session_id, model=self.models.model, platform=self.scope.platform)
            )
        if self.hooks.pre_llm_call is not None:
            answers = self.hooks.pre_llm_call(self._started())
            pieces = [setup.context] if setup.context else []
            setup.context = "\n\n".join([*pieces, *map(self.shorten, _context_pieces(answers))])
        self.journal.step("setup", "done", "pure", setup)
        self.journal.commit()
        return setup

    def _converse(self, setup: Setup) -> str:
        view = self.view
        view.open(setup.system, setup.context, setup.stand_ins)
        offered = frozenset(tool["function"]["name"] for tool in setup.tools)
        loop = LoopGuard(self.runtime.config.tool_loop_guardrails)
        for step in range(1, setup.max_steps + 1):
            self._place, self._draft = (step, 0), ""
            answered = self._ask(step, setup.tools)
            reply = answered.reply
            if not reply.tool_calls:
                self._draft = reply.content
                more = self._steering(step) or self._verify(step, reply.content)
                if not more:
                    return reply.content
                view.add(*more)
                continue
            self._place = (step + 1, 0)
            scope = self.scope.child(api_request_id=answered.api_request_id)
            batch = ToolBatch(
                self.runtime,
                self.journal,
                scope,
                self.make_context,
                step,
                reply.tool_calls,
                offered,
                loop,
                self.listener,
            )
            try:
                view.add(*batch.run())
            finally:
                self._tool_calls.extend(batch.finished())
            view.add(*self._steering(step))
        return self._conclude(setup.max_steps + 1)

    def _steering(self, step: int) -> list[Message]:
        """What was said to the agent while it worked, from here on part of the conversation."""
        key = f"steer:{step}"
        recorded = self.journal.steps.get(key)
        texts: list[str] = self.take_steering() if recorded is None else recorded.body["texts"]
        if texts and recorded is None:
            self.journal.step(key, "done", "pure", {"texts": texts})
        messages: list[Message] = [{"role": "user", "content": text} for text in texts]
        for number, message in enumerate(messages):
            self.journal.message(step, _AFTER_TOOL_RESULTS + number, message)
        return messages

    def _verify(self, step: int, text: str) -> list[Message]:
        """Ask ``pre_verify`` about an answer that follows changed files. A message sends the turn on."""
        key = f"verify:{step}"
        recorded = self.journal.steps.get(key)
        if recorded is None:
            emit = self.hooks.pre_verify
            if emit is None or self._nudges >= self.max_nudges:
                return []
            changed = changed_paths(self._tool_calls)
            if not changed:
                return []
            answers = emit(
                AnswerVerification(
                    **self._fields(),
                    coding=any(is_code(path) for path in changed),
                    attempt=self._nudges,
                    final_response=text,
                    changed_paths=changed,
                )
            )
            words = nudge_from(answers)
            self.journal.step(key, "done", "pure", {"message": words})
        else:
            words = recorded.body["message"]
        if words is None:
            return []
        self._nudges += 1
        message: Message = {"role": "user", "content": words}
        self.journal.message(step, 1, message)
        return [message]

    def _conclude(self, step: int) -> str:
        """The budget is spent: one more request, without tools, for the best answer there is."""
        note: Message = {"role": "user", "content": OUT_OF_TURNS}
        self.journal.message(step, 0, note)
        self.view.add(note)
        self._place, self._draft = (step, 1), ""
        self._draft = self._ask(step, []).reply.content
        return self._draft

    def _ask(self, step: int, tools: list[ToolDefinition]) -> Answered:
        """Model step ``step``: replayed when the journal has it, run and committed otherwise."""
        recorded = self._recorded_answer(f"model:{step}", tools)
        self.view.replay(step)
        answered = recorded or self._ask_now(step, tools)
        message = assistant_message(answered.reply)
        if self.journal.messages.get(self._place) != message:
            # New, or put aside for a note when the turn ended early before.
            self.journal.message(*self._place, message)
        self.view.answer(self.journal.messages[self._place], answered.reply.usage, is_replay=recorded is not None)
        if recorded is None:
            self.journal.commit()
        self._steps = step
        self._model, self._provider = answered.reply.model or self.models.model, answered.provider
        if answered.reply.usage is not None:
            self._usage = self._usage + answered.reply.usage
        return answered

    def _recorded_answer(self, key: str, tools: list[ToolDefinition]) -> Answered | None:
        """The reply on record, unless it says nothing: repeating that would end the turn the same way for ever."""
        recorded = self.journal.steps.get(key)
        if recorded is None:
            return None
        answered = _without_calls_nobody_offered(msgspec.convert(recorded.body, Answered), tools)
        return answered if answered.reply.tool_calls or answered.reply.content.strip() else None

    def _ask_now(self, step: int, tools: list[ToolDefinition]) -> Answered:
        """Ask, after making room where it is short; what the provider finds too long is made shorter still."""
        self.view.make_room(step, self._place, tools)
        while True:
            try:
                return self._call_model(f"model:{step}", tools)
            except ProviderError as error:
                if error.reason != "context_too_long" or not self.view.squeeze(step, self._place, tools):
                    raise

    def _call_model(self, key: str, tools: list[ToolDefinition]) -> Answered:
        answered = ModelCall(
            runtime=self.models,
            journal=self.journal,
            scope=self.scope,
            key=key,
            messages=self.view.request(),
            tools=tools,
            user_message=self.view.task["content"],
            listener=self.listener,
            memo=self.memo,
            show_text=self.hooks.transform_llm_output is None,
        ).run()
        return _without_calls_nobody_offered(answered, tools)

    def _transform(self, text: str) -> str:
        emit = self.hooks.transform_llm_output
        if emit is None:
            return text
        for answer in emit(AnswerTransform(**self._fields(), response_text=text)):
            if isinstance(answer.value, str) and answer.value:
                return answer.value
        return text

    # -- endings ------------------------------------------------------------------------------------------------

    def _close_unanswered(self, state: TurnState, reason: str, cause: BaseException) -> str:
        """Record a turn that has no answer, with what had arrived of one, so that the conversation can go on."""
        partial: Reply | None = getattr(cause, "partial", None)
        text = partial.content if partial is not None else self._draft.strip() and self._draft
        note = f"[{state}]" if not text else f"{text}\n\n[{state}]"
        self.journal.message(*self._place, {"role": "assistant", "content": note})
        # What a plugin would have replaced is not for others to see.
        shown = text if self.hooks.transform_llm_output is None else ""
        self.journal.end(state, answer=shown or None, error=reason)
        self.journal.commit()
        return shown

    def _emit_answer(self, answer: str) -> None:
        emit = self.hooks.post_llm_call
        if emit is not None:
            # The answer is on record: cancelling the wait for an async callback does not undo it.
            with contextlib.suppress(Interrupted):
                emit(
                    TurnAnswered(
                        **self._fields(),
                        user_message=self.view.task["content"],
                        assistant_response=answer,
                        conversation_history=self.view.conversation(),
                    )
                )

    def _emit_end(self, status: TurnStatus, reason: str) -> None:
        emit = self.hooks.on_session_end
        if emit is not None:
            with contextlib.suppress(Interrupted):
                emit(
                    TurnEnded(
                        **self._fields(),
                        api_request_id=self._attempt_in_hand() if status == "interrupted" else "",
                        completed=status == "completed",
                        interrupted=status == "interrupted",
                        reason=reason,
                    )
                )

    def _attempt_in_hand(self) -> str:
        attempts = self.journal.attempts_made
        return f"{self.journal.id}:api:{attempts}" if attempts else ""

    def _started(self) -> TurnStarted:
        return TurnStarted(
            **self._fields(),
            user_message=self.view.task["content"],
            conversation_history=self.view.history,
            is_first_turn=self.is_first,
            resumed=bool(self.journal.steps),
        )

    def _fields(self) -> _TurnFields:
        return {
            "session_id": self.scope.session_id,
            "task_id": self.scope.task_id,
            "turn_id": self.scope.turn_id,
            "model": self.models.model,
            "platform": self.scope.platform,
        }


def assistant_message(reply: Reply) -> Message:
    """A reply as it stands in the conversation. Servers refuse arguments that are not JSON, so those are left out."""
    message: Message = {"role": "assistant", "content": reply.content or None}
    if reply.tool_calls:
        message["tool_calls"] = [tool_call_message(call) for call in reply.tool_calls]
        for call in message["tool_calls"]:
            if not _is_json_object(call["function"]["arguments"]):
                call["function"]["arguments"] = "{}"
    if reply.provider_state:
        message["carry"] = reply.provider_state
    return message


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False


def _without_calls_nobody_offered(answered: Answered, tools: list[ToolDefinition]) -> Answered:
    if not tools:
        answered.reply.tool_calls = []
    return answered


def _context_pieces(answers: list[Answer]) -> list[str]:
    values = [answer.value for answer in answers]
    pieces = [cast("dict[str, Any]", value).get("context") if isinstance(value, dict) else value for value in values]
    return [piece for piece in pieces if isinstance(piece, str) and piece.strip()]


def _in_words(failure: Exception) -> str:
    return str(failure) if isinstance(failure, HermesError) else f"{type(failure).__name__}: {failure}"
