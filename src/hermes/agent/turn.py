"""A turn: one user message answered by model calls and tool calls, until there is text.

Everything between the steps is a function of what the journal holds, so a turn that crashed can run again and gets
to the same point without repeating a finished step.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from hermes.agent.approvals.guardrail import LoopGuardrail
from hermes.agent.context.hooks import TurnHooks
from hermes.agent.context.parts import TurnParts
from hermes.agent.context.requests import RequestBuilder
from hermes.agent.context.setup import CONTINUE, OUT_OF_BUDGET, OUT_OF_TURNS, make_setup
from hermes.agent.context.transcript import MessagePlace, assistant_message
from hermes.agent.events import TurnResult, TurnStatus, ignore_events
from hermes.agent.pipelines.attempt import MessageTexts
from hermes.agent.pipelines.batch import ToolBatch
from hermes.agent.pipelines.model_call import Answered, ModelCall, ToolDefinition, attempt_id
from hermes.base.errors import BudgetExceeded, HermesError, Interrupted, JournalError, ProviderError, TurnSuspended
from hermes.base.scope import Interrupt, current_scope
from hermes.contract.events import ToolEnded
from hermes.hooks.callback import describe
from hermes.hooks.execution_chain import culprit_of
from hermes.journal import records
from hermes.journal.records import PluginDecision
from hermes.journal.turns.lifecycle import close_children
from hermes.journal.turns.steps import Message, TurnState
from hermes.models.costs.usage import Usage
from hermes.models.reply import Reply

log = logging.getLogger("hermes.turn")

#: The position of steering messages in their step: behind the results of as many tool calls as a reply may have.
_AFTER_TOOL_RESULTS = 1_000_000
#: How often an answer that reaches the output limit is continued.
MAX_CONTINUATIONS = 3

#: What is said about an answer that is not whole, by its finish reason.
_NOT_WHOLE = {
    "length": "the answer was cut off at the output limit",
    "content_filter": "the provider's content filter cut the answer off; rephrase the request or use another model",
    "refusal": "the model refused to answer; rephrase the request or use another model",
    "pause_turn": "the model paused before its answer was complete; ask it to continue",
}


class Turn:
    """One turn of a session."""

    def __init__(self, parts: TurnParts) -> None:
        self._parts = parts
        self._runtime = parts.runtime
        self._models = parts.models
        self._journal = parts.journal
        self._scope = parts.scope
        self._hooks = TurnHooks(parts.runtime.hooks, parts)
        self._usage = Usage(request_count=0)
        self._tool_calls: list[ToolEnded] = []
        self._steps = self._nudges = 0
        self._texts = MessageTexts()
        self._model = self._provider = ""
        #: Where the next message of the model belongs.
        self._place: MessagePlace = (1, 0)
        #: An answer that is there but not yet accepted.
        self._draft = ""
        #: How the model ended its last reply, and how often an answer was continued.
        self._finish_reason = ""
        self._continuations = 0
        #: Which budget ended the turn, and whether its steps were used up.
        self._budget_spent = ""
        self._is_out_of_steps = False

    def run(self) -> TurnResult:
        """Answer the message. Failures and interruptions are results.

        Raises only when the journal cannot be written, or ``TurnSuspended`` when an answer comes later.
        """
        started = time.perf_counter()
        token = current_scope.set(self._scope)
        level, beginning = (logging.INFO, "resumed") if self._journal.steps else (logging.DEBUG, "started")
        log.log(level, "turn %d %s", self._journal.ordinal + 1, beginning)
        answer, error, error_type, reason, word = "", None, "", "", ""
        status: TurnStatus = "failed"
        try:
            if self._parts.listener is not ignore_events:
                self._parts.listener(self._hooks.started())
            answer, error = self._answer()
            status = "completed" if error is None else "incomplete"
        except Interrupted as interrupt:
            status, reason = "interrupted", interrupt.reason
            answer = self._close_unanswered("interrupted", reason, interrupt)
        except TurnSuspended:
            word, reason = "suspended", "waiting for an answer"
            raise
        except JournalError as failure:
            reason = str(failure)
            raise
        except BaseException as failure:
            error = reason = self._words_of(failure)
            error_type, status = type(failure).__name__, _status_after(failure)
            answer = self._close_unanswered(status, error, failure)
        else:
            if (emit := self._runtime.hooks.post_llm_call) is not None:
                self._hooks.answered(emit, answer, self._finish_reason)  # it is stored, whatever the hooks do
        finally:
            ending = word or status
            stopped, ended = self._runtime.hooks.agent_loop_stopped, self._runtime.hooks.on_session_end
            if ending == status:  # one that waits for an answer has not ended
                if stopped is not None:
                    self._hooks.stopped(stopped, self._why_stopped(status), reason or self._budget_spent)
                if ended is not None:
                    self._hooks.ended(ended, status, reason, self._finish_reason)
            log.info(
                "turn %d %s after %d steps%s", self._journal.ordinal + 1, ending, self._steps, reason and f": {reason}"
            )
            current_scope.reset(token)
        return TurnResult(
            session_id=self._scope.session_id,
            turn_id=self._journal.id,
            status=status,
            answer=self._runtime.redactor.mask_known(answer),
            error=error,
            usage=self._usage,
            model=self._model or self._models.model,
            provider=self._provider or self._models.endpoints[0].provider,
            steps=self._steps,
            tool_calls=self._tool_calls,
            duration=time.perf_counter() - started,
            finish_reason=self._finish_reason if status in ("completed", "incomplete") else "",
            error_type=error_type,
        )

    def _words_of(self, failure: BaseException) -> str:
        """What is said of a failure. One that is not the turn's is raised again."""
        culprit = culprit_of(failure)
        if not isinstance(failure, Exception) and not culprit:
            raise failure
        text = str(failure) if isinstance(failure, HermesError) else culprit or describe(failure)
        return self._runtime.redactor.redact(text)

    def _why_stopped(self, status: TurnStatus) -> str:
        """What stopped the loop before the model had ended it; empty when nothing did."""
        if status in ("interrupted", "failed"):
            return "interrupted" if status == "interrupted" else "error"
        return "budget" if self._budget_spent else "max_iterations" if self._is_out_of_steps else ""

    # -- the turn -----------------------------------------------------------------------------------------------

    def _answer(self) -> tuple[str, str | None]:
        """The answer, and what is to be said about it when it is not whole."""
        setup = self._set_up()
        try:
            text = self._converse(setup)
        except BudgetExceeded as stop:  # also for the answer that was to conclude the turn
            self._budget_spent = str(stop)
            text = self._last_words()
        if not text.strip():
            raise HermesError(self._why_empty(setup))
        emit, changed_by = self._runtime.hooks.transform_llm_output, ""
        if emit is not None:
            text, changed_by = self._hooks.transform(emit, text)
        is_whole = self._finish_reason == "stop" and not self._budget_spent
        problem = None if is_whole else self._problem()
        decisions = [PluginDecision(changed_by, "transform_llm_output", "changed")] if changed_by else msgspec.UNSET
        final = records.FinalRecord(text=text, finish_reason=self._finish_reason, decisions=decisions)
        self._journal.step("final", "done", "pure", final)
        self._journal.end("completed", answer=text, error=problem)
        self._journal.commit()
        return text, problem

    def _problem(self) -> str | None:
        """What is wrong with the answer; ``None`` when it is whole."""
        if self._budget_spent:
            self._finish_reason = "budget"
            return self._budget_spent
        problem = _NOT_WHOLE.get(self._finish_reason)
        if self._finish_reason != "length":
            return problem
        if self._models.has_output_limit:
            return f"{problem}; raise model.max_tokens"
        times = f", after {self._continuations} continuations" if self._continuations else ""
        return f"{problem}{times}; ask for the rest"

    def _why_empty(self, setup: records.SetupRecord) -> str:
        if self._steps > setup.max_steps:
            return (
                f"the model gave no answer within its {setup.max_steps} steps, nor after them; "
                "raise agent.max_turns (--max-turns) or ask for less"
            )
        return "the model ended its turn without an answer; ask again, or raise model.max_tokens"

    def _set_up(self) -> records.SetupRecord:
        recorded = self._journal.steps.get("setup")
        if recorded is not None:
            return recorded.body
        if self._journal.was_left:
            self._scope.interrupt.check()  # it may have been taken up to be given up
        setup = self._hooks.begin(make_setup(self._parts))
        self._journal.step("setup", "done", "pure", *setup.parts(self._runtime.environment()))
        return setup

    def _converse(self, setup: records.SetupRecord) -> str:
        requests = RequestBuilder(self._parts, setup)
        offered = setup.callable_tools()
        loop = LoopGuardrail(self._runtime.config.tool_loop_guardrails)
        written = ""  # of an answer that came in several pieces
        for step in range(1, setup.max_steps + 1):
            self._place, self._draft = (step, 0), written
            if f"budget:{step}" in self._journal.steps:
                return self._stop_at_budget(requests, step, "")
            try:
                answered = self._ask(requests, step, setup.tools)
            except BudgetExceeded as stop:
                return self._stop_at_budget(requests, step, str(stop))
            reply = answered.reply
            if not reply.tool_calls:
                self._draft = written + reply.content
                if self._continue(setup, step, reply):
                    written = self._draft
                    continue
                if not self._steer(step) and not self._verify(step, self._draft):
                    return self._draft
                written = ""
                continue
            written = ""
            reply.tool_calls[-1].is_last_of_cut_off = reply.finish_reason == "length"
            self._place = (step + 1, 0)
            scope = self._scope.child(api_request_id=answered.api_request_id)
            batch = ToolBatch(replace(self._parts, scope=scope), loop, step)
            try:
                batch.run(reply.tool_calls, offered)
            finally:
                self._tool_calls.extend(batch.finished())
            self._steer(step, batch.finished())
        return self._conclude(requests, setup.max_steps + 1)

    def _continue(self, setup: records.SetupRecord, step: int, reply: Reply) -> bool:
        """Ask for the rest of an answer that was cut off. False when it is whole, or to be left as it is."""
        key = f"continue:{step}"
        if key not in self._journal.steps:
            is_short = setup.continues and self._continuations < MAX_CONTINUATIONS and reply.content.strip()
            wanted = reply.finish_reason == "pause_turn" or (reply.finish_reason == "length" and is_short)
            if not wanted or step == setup.max_steps:
                return False
            self._journal.step(key, "done", "pure", records.ContinuationRecord(reply.finish_reason))
        self._continuations += reply.finish_reason == "length"
        self._journal.message(step, 1, {"role": "user", "content": CONTINUE})
        return True

    def _steer(self, step: int, calls: Sequence[ToolEnded] = ()) -> bool:
        """Add what was said to the agent while it worked, and the instructions of folders that its calls entered.

        False when that is nothing.
        """
        key = f"steer:{step}"
        recorded = self._journal.steps.get(key)
        texts: list[str] = [] if recorded is None else recorded.body.texts
        if recorded is None and not self._scope.interrupt.cancelled:
            texts = self._parts.added_texts(self._journal.id, step, calls)
        if texts and recorded is None:
            self._journal.step(key, "done", "pure", records.SteeringRecord(texts))
        for number, text in enumerate(texts):
            self._journal.message(step, _AFTER_TOOL_RESULTS + number, {"role": "user", "content": text})
        return bool(texts)

    def _verify(self, step: int, text: str) -> bool:
        """Ask ``pre_verify`` about an answer that follows changed files. True when its message continues the turn."""
        key = f"verify:{step}"
        recorded = self._journal.steps.get(key)
        if recorded is None:
            emit = self._runtime.hooks.pre_verify
            if emit is None or self._nudges >= self._runtime.config.agent.max_verify_nudges:
                return False
            asked = self._hooks.verify(emit, text, self._tool_calls, self._nudges)
            if asked is None:
                return False
            nudge, plugin = asked
            decisions = [] if nudge is None else [PluginDecision(plugin, "pre_verify", "added")]
            self._journal.step(key, "done", "pure", records.CheckRecord(nudge, decisions))
        else:
            nudge = recorded.body.message
        if nudge is None:
            return False
        self._nudges += 1
        self._journal.message(step, 1, {"role": "user", "content": nudge})
        return True

    def _conclude(self, requests: RequestBuilder, step: int) -> str:
        """The budget is spent: one more request, without tools, for the best answer there is."""
        self._is_out_of_steps = True
        self._journal.message(step, 0, {"role": "user", "content": OUT_OF_TURNS})
        self._place, self._draft = (step, 1), ""
        self._draft = self._ask(requests, step, []).reply.content
        return self._draft

    def _stop_at_budget(self, requests: RequestBuilder, step: int, why: str) -> str:
        """A budget is spent: the best answer there is. One more request, without tools, when a short one still fits."""
        key = f"budget:{step}"
        recorded = self._journal.steps.get(key)
        if recorded is None:
            self._journal.step(key, "done", "pure", records.BudgetStop(why))
        self._budget_spent = why or (recorded.body.why if recorded is not None else "")
        log.warning("%s", self._budget_spent)
        if not self._draft.strip():
            self._journal.message(step, 0, {"role": "user", "content": OUT_OF_BUDGET})
            self._place = (step, 1)
            try:
                self._draft = self._ask(requests, step, [], is_last=True).reply.content
            except BudgetExceeded:
                self._draft = ""
        return self._draft if self._draft.strip() else self._last_words()

    def _last_words(self) -> str:
        """The last thing that the model said in this turn, as its answer, or that there is none."""
        said = [message for _, message in sorted(self._journal.messages.items()) if message["role"] == "assistant"]
        texts = [text for message in said if isinstance(text := message.get("content"), str) and text.strip()]
        text = texts[-1] if texts else f"[no answer: {self._budget_spent}]"
        self._journal.message(*self._place, {"role": "assistant", "content": text})
        return text

    def _ask(
        self, requests: RequestBuilder, step: int, tools: list[ToolDefinition], *, is_last: bool = False
    ) -> Answered:
        """Model step ``step``: replayed when the journal has it, run and recorded otherwise.

        A reply is written with what follows it: the claims of its calls, their results when they only take a moment,
        or the end of the turn.
        """
        recorded = self._recorded_answer(step, tools) if self._journal.was_left else None
        if recorded is None:
            # Only here: everything that an earlier run recorded is replayed first, and cannot be interrupted.
            self._scope.interrupt.check()
        if self._journal.was_left:
            requests.replay(step)
        answered = recorded or self._ask_now(requests, step, tools, is_last=is_last)
        message = assistant_message(answered.reply)
        if self._journal.messages.get(self._place) != message:
            # New, or replaced by a note when the turn ended early before.
            self._journal.message(*self._place, message)
        requests.answered(self._place, answered.reply.usage, is_replay=recorded is not None)
        hooks = self._runtime.hooks
        is_judged = hooks.pre_verify is not None or hooks.transform_llm_output is not None
        if recorded is None and not answered.reply.tool_calls and is_judged:
            self._journal.commit_soon()
        self._steps = step
        self._finish_reason = answered.reply.finish_reason
        self._model, self._provider = answered.reply.model or self._models.model, answered.provider
        if answered.reply.usage is not None:
            self._usage = self._usage + answered.reply.usage
        return answered

    def _recorded_answer(self, step: int, tools: list[ToolDefinition]) -> Answered | None:
        """The recorded reply, unless it is empty: replaying that would end the turn the same way for ever."""
        recorded = self._journal.steps.get(f"model:{step}")
        if recorded is None:
            return None
        answered = msgspec.convert(recorded.body, Answered, from_attributes=True)
        answered.api_request_id = answered.api_request_id or attempt_id(self._journal.id, answered.attempt)
        if not tools:
            answered.reply.tool_calls = []
        return answered if answered.reply.tool_calls or answered.reply.content.strip() else None

    def _ask_now(
        self, requests: RequestBuilder, step: int, tools: list[ToolDefinition], *, is_last: bool = False
    ) -> Answered:
        """Ask, after making room where it is short; a request that the provider finds too long is shortened again.

        What was recorded so far is written and goes to the disk while the model answers: a model call may be repeated.
        """
        hooks = self._runtime.hooks
        is_seen = hooks.pre_api_request is not None or hooks.llm_request is not None or hooks.llm_execution is not None
        if is_seen or self._models.source.budgets is not None:
            self._journal.commit_soon()  # plugins may take their time, and so may a question about a budget
        messages = requests.fitting(step, self._place, tools)
        while True:
            try:
                return self._call_model(step, messages, tools, is_last=is_last)
            except ProviderError as error:
                if not error.asks_for_room or not requests.make_more_room(step, self._place, tools):
                    raise
            messages = requests.build(self._place)

    def _call_model(
        self, step: int, messages: list[Message], tools: list[ToolDefinition], *, is_last: bool
    ) -> Answered:
        return ModelCall(
            runtime=self._models,
            journal=self._journal,
            scope=self._scope,
            key=f"model:{step}",
            messages=messages,
            tools=tools,
            user_message=self._journal.messages[0, 0]["content"],
            listener=self._parts.listener,
            memo=self._parts.memo,
            texts=self._texts,
            while_waiting=self._runtime.processes.prepare,
            show_text=self._runtime.hooks.transform_llm_output is None,
            may_withdraw_text=self._parts.can_withdraw_text,
            # Once there is something to report, one call is kept for it.
            spare_calls=int(step > 1 and bool(tools)),
            is_last=is_last,
        ).run()

    # -- endings ------------------------------------------------------------------------------------------------

    def _close_unanswered(self, state: TurnState, reason: str, cause: BaseException) -> str:
        """Record a turn that has no answer, with what had arrived of one, so that the conversation can continue."""
        self._complete_record(reason)
        partial: Reply | None = getattr(cause, "partial", None)
        text = partial.content if partial is not None else self._draft.strip() and self._draft
        note = f"[{state}]" if not text else f"{text}\n\n[{state}]"
        self._journal.message(*self._place, {"role": "assistant", "content": note})
        # What a plugin would have replaced is not for others to see.
        shown = text if self._runtime.hooks.transform_llm_output is None else ""
        error_type = type(cause).__name__ if state == "failed" else ""
        self._journal.end(state, answer=shown or None, error=reason, error_type=error_type)
        self._journal.commit()
        return shown

    def _complete_record(self, reason: str) -> None:
        """Replay what this run did not get to, and cancel the rest, so that no recorded call is missing."""
        stopped = Interrupt()
        stopped.cancel(reason)
        # The listener may be what failed.
        parts = replace(self._parts, scope=replace(self._scope, interrupt=stopped), listener=ignore_events)
        self._journal.commit()  # with it, what was to be made later is among the steps
        step = 1
        while (recorded := self._journal.steps.get(f"model:{step}")) is not None:
            answered = msgspec.convert(recorded.body, Answered, from_attributes=True)
            calls, is_conclusion = answered.reply.tool_calls, self._is_conclusion(step)
            if calls and not is_conclusion:
                if any((step, index) not in self._journal.messages for index in range(1, len(calls) + 1)):
                    self._journal.message(step, 0, assistant_message(answered.reply))
                    loop = LoopGuardrail(self._runtime.config.tool_loop_guardrails)
                    ToolBatch(parts, loop, step).run(calls, frozenset())
                self._place = max(self._place, (step + 1, 0))
            elif step > self._steps:
                self._place, self._draft = (step, int(is_conclusion)), answered.reply.content
            step += 1
        if self._journal.was_left:
            close_children(self._runtime.store, self._runtime.runner, self._scope.session_id)

    def _is_conclusion(self, step: int) -> bool:
        """Whether a model step is the one that follows a spent budget, and was offered no tools."""
        return self._journal.messages.get((step, 0), {}).get("role") == "user"


def _status_after(failure: BaseException) -> Literal["interrupted", "failed"]:
    """How a turn ended that something else than the runtime stopped; middleware may pass a user's Ctrl-C on."""
    return "interrupted" if isinstance(failure, KeyboardInterrupt) else "failed"
