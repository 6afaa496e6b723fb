"""Checks of execution middleware: its use of ``next_call``, its handling of failures, its results."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable
from typing import Any, Literal, cast

from hermes.base.errors import Interrupted, ProviderError
from hermes.contract.middleware import MIDDLEWARE
from hermes.hooks.callback import Callback, is_awaitable
from hermes.hooks.copies import isolate
from hermes.hooks.execution_chain import ExecutionChain
from hermes.testing.conformance.guarded_calls import CallGuard, CallResult, PluginFunction, turn
from hermes.testing.conformance.host import ConformanceHost
from hermes.testing.conformance.payloads import LifecycleStep, Payload, SampleSession, model_response, tool_output
from hermes.testing.conformance.return_values import missing_from, result_problem

#: Outcome of the call below: never made, or it gave a result, failed or was interrupted.
Downstream = Literal["untouched", "succeeded", "failed", "interrupted"]


class MiddlewareRun:
    """One call of one middleware, seen from inside the chain."""

    def __init__(self, subject: PluginFunction, guard: CallGuard, order: str, required: list[str]) -> None:
        self.subject = subject
        self._guard = guard
        self._order = order
        self._required = required
        self._next_call: Any = None
        self._payload: Payload = {}
        self._closed = False
        self.count = 0
        self.downstream: Downstream = "untouched"
        self.raised: BaseException | None = None
        self.passed_on = False
        self.returned: Any = None
        self.given: Payload = {}
        self.before: Payload = {}

    def __call__(self, **given: Any) -> Any:
        """Replaces the middleware's function."""
        self._payload = isolate(given.get(MIDDLEWARE[self.subject.site].payload) or {})
        if "next_call" in given:
            self._next_call = given["next_call"]
            given["next_call"] = self.next_call
        self.given, self.before = given, isolate(given)
        try:
            value = self.subject.function(**given)
        except BaseException as error:
            self._close(raised=error)
            raise
        if is_awaitable(value):
            return self._await(value)
        self._close(returned=value)
        return value

    def next_call(self, payload: Any = None) -> Any:
        """Replaces the chain's own, which it calls in the end."""
        self.count += 1
        if self._closed:
            self.subject.called_late = True
            self._note("next-call-late", "called next_call after it had returned; the call is refused")
        elif self.count > 1:
            self._note("next-call-twice", "called next_call a second time; a call runs at most once")
        self._check_payload(payload)
        try:
            result = self._next_call(payload)
        except BaseException as error:
            if self.count == 1:
                self.downstream = "failed" if isinstance(error, Exception) else "interrupted"
            self._failure = error
            raise
        self.downstream = "succeeded"
        return result

    _failure: BaseException | None = None

    async def _await(self, value: Awaitable[Any]) -> Any:
        try:
            answer = await value
        except BaseException as error:
            self._close(raised=error)
            raise
        self._close(returned=answer)
        return answer

    def _close(self, *, returned: Any = None, raised: BaseException | None = None) -> None:
        self.returned, self.raised = returned, raised
        self.passed_on = raised is not None and raised is self._failure
        self._closed = True
        self._guard.finished_runs.add(self)

    def release(self) -> None:
        """Drop what the errors of this run hold, so that the run lives on only where the plugin keeps ``next_call``."""
        for error in (self.raised, self._failure):
            if error is not None:
                traceback.clear_frames(error.__traceback__)

    def _check_payload(self, payload: Any) -> None:
        if payload is None:
            return
        if not isinstance(payload, dict):
            self._note("partial-payload", f"passed a {type(payload).__name__} to next_call; pass a dict or nothing")
            return
        fields = cast("Payload", payload)
        missing = missing_from(self.subject.site, fields, self._payload, self._required)
        if missing:
            self._note("partial-payload", f"passed a payload without {missing[0]!r} to next_call")

    def _note(self, rule: str, text: str) -> None:
        subject = self.subject
        self._guard.note(rule, subject, self._order, f"{subject.label} {text}")

    def judge(self) -> None:
        """Note what is wrong with how the middleware ended."""
        if self.raised is not None:
            self._judge_error(self.raised)
            return
        if self.downstream == "interrupted":
            self._note("swallows-interrupt", "returned although the turn was being cancelled; let it pass")
            return
        if self.returned is None:
            rules = {"untouched": "drops-call", "succeeded": "loses-result", "failed": "swallows-failure"}
            texts = {
                "untouched": "returned None without calling next_call, so nothing runs; return its result",
                "succeeded": "returned None although next_call gave a result; return it",
                "failed": "returned None although the call had failed; let the error pass or return a result",
            }
            self._note(rules[self.downstream], texts[self.downstream])
            return
        problem = result_problem(self.subject.site, self.returned)
        if problem:
            self._note("result-shape", f"returned {problem}")

    def _judge_error(self, error: BaseException) -> None:
        if self.passed_on or self.count > 1 or (self.downstream == "failed" and isinstance(error, Exception)):
            return  # the failure from below, a refused second call, or a failure translated on purpose
        if isinstance(error, Interrupted):
            return
        outcome = (
            "the result it had received is kept" if self.downstream == "succeeded" else "the call continues without it"
        )
        self._guard.failed(self.subject, self._order, error, outcome)


def run_execution(
    host: ConformanceHost,
    subject: PluginFunction,
    guard: CallGuard,
    step: LifecycleStep,
    session: SampleSession,
    order: str,
    fields: Payload,
) -> tuple[MiddlewareRun, CallResult]:
    """Run one middleware around a base that does what this step of the lifecycle says."""
    assert subject.callback is not None
    spec = MIDDLEWARE[subject.site]
    tool = host.tools.get(str(fields.get("tool_name", "")))
    required: list[str] = [] if tool is None else list(tool.parameters.get("required", ()))
    run = MiddlewareRun(subject, guard, order, required)
    watched = Callback(subject.callback.plugin, subject.site, subject.function)
    watched.function = run
    chain = ExecutionChain(subject.site, (watched,))
    context = {name: value for name, value in fields.items() if name != spec.payload}
    cancelled = order == "cancelled turn"

    def base(_payload: Any) -> Any:
        if cancelled or step.number == 4:
            raise Interrupted("interrupted")
        if step.number == 2:
            raise ProviderError("too many requests", reason="rate_limit") if "llm" in step.site else OSError("no file")
        return model_response(session) if "llm" in step.site else tool_output(session)

    def work() -> Any:
        with turn(fields, cancelled=cancelled):
            return chain.run(fields[spec.payload], base, context)

    result = guard.call(subject, order, work, None if order == "parallel" else host)
    if result.finished:
        run.judge()
        run.release()
    return run, result
