"""Hostile orders of events: whole lifecycles, fired at a plugin in every way a runtime may fire them."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Awaitable, Sequence
from typing import Any, Literal, cast

from hermes.base.errors import Interrupted, ProviderError
from hermes.contract.hooks import HOOKS
from hermes.contract.middleware import MIDDLEWARE
from hermes.hooks.callback import Callback, is_awaitable
from hermes.hooks.copies import isolate, same
from hermes.hooks.execution_chain import ExecutionChain
from hermes.hooks.threads.event_loop import spawn
from hermes.testing.conformance.guarded_calls import CallGuard, CallResult, EventOrder, OutOfTime, PluginFunction, turn
from hermes.testing.conformance.host import ConformanceHost
from hermes.testing.conformance.payloads import (
    LIFECYCLE,
    LifecycleStep,
    Payload,
    SampleSession,
    model_response,
    payload,
    tool_output,
)
from hermes.testing.conformance.return_values import (
    answer_problem,
    missing_from,
    replacement_problem,
    result_problem,
    trace_problem,
)

#: Lifecycles that run at the same time in the parallel round.
_THREADS = 6
#: How much longer a callback may take over megabytes than over an ordinary payload.
_HUGE_FACTOR = 8


class EventOrderRunner:
    """Fires lifecycles at the callbacks of one host."""

    def __init__(self, host: ConformanceHost, subjects: Sequence[PluginFunction], guard: CallGuard) -> None:
        self._host = host
        self._guard = guard
        self._subjects: dict[str, list[PluginFunction]] = {}
        for subject in subjects:
            self._subjects.setdefault(subject.site, []).append(subject)

    def run_all(self) -> None:
        """Every order, those that say most about a plugin first."""
        self.run("complete", SampleSession("a"))
        self.run("repeated", SampleSession("a"))
        self.run("minimal", SampleSession("b", "minimal"))
        self.run("additive fields", SampleSession("c"))
        self.run("cancelled turn", SampleSession("d"))
        self._run_parallel()
        self.run("out of order", SampleSession("e"), tuple(reversed(LIFECYCLE)))
        self.run("unicode", SampleSession("f", "unicode"))
        self.run("huge", SampleSession("g", "huge"))
        self._report_slow()

    def run(self, order: EventOrder, session: SampleSession, steps: Sequence[LifecycleStep] = LIFECYCLE) -> None:
        """One lifecycle."""
        for index, step in enumerate(steps):
            for subject in self._subjects.get(step.site, ()):
                if subject.given_up:
                    continue
                try:
                    self._deliver(index, step, subject, session, order)
                except OutOfTime:
                    raise
                except Exception as error:
                    # An object that a plugin returns may raise when it is inspected, here as in the runtime.
                    self._guard.failed(subject, order, error, "when what it returned was looked at")

    def _run_parallel(self) -> None:
        def live(number: int) -> None:
            gate.wait()
            try:
                self.run("parallel", SampleSession(f"p{number}"))
            except OutOfTime:
                ended.append(number)

        gate = threading.Barrier(_THREADS)
        ended: list[int] = []
        interval = sys.getswitchinterval()
        # Threads that take turns this often meet where they would otherwise miss each other.
        sys.setswitchinterval(1e-5)
        try:
            threads = [spawn(lambda number=number: live(number), "hermes-conformance") for number in range(_THREADS)]
            for thread in threads:
                thread.join()  # each of their calls has a deadline
        finally:
            sys.setswitchinterval(interval)
        if ended:
            raise OutOfTime

    def _deliver(
        self, index: int, step: LifecycleStep, subject: PluginFunction, session: SampleSession, order: EventOrder
    ) -> None:
        fields = payload(step, session)
        if order == "additive fields":
            fields["field_of_a_later_version"] = {"known": False}
        spec = MIDDLEWARE.get(step.site)
        if spec is not None and spec.wraps:
            result = self._wrap(step, subject, session, order, fields)
        else:
            result = self._call(index, subject, order, fields)
        self._note_time(index, subject, order, result)

    def _call(self, index: int, subject: PluginFunction, order: EventOrder, fields: Payload) -> CallResult:
        """Call an observer or request middleware as the runtime would, and look at what it did."""
        assert subject.callback is not None
        given = subject.callback.arguments(fields)
        before = isolate(given)

        def work() -> Any:
            with turn(fields, cancelled=order == "cancelled turn"):
                value = subject.function(**given)
                return self._host.hooks.loop.run(value, subject.label) if is_awaitable(value) else value

        result = self._guard.call(subject, order, work, None if order == "parallel" else self._host)
        if not result.finished:
            return result
        if result.error is not None:
            # Unwinding a turn that was cancelled is what an interrupt is for.
            if not isinstance(result.error, Interrupted):
                self._guard.failed(subject, order, result.error)
        elif subject.site in HOOKS:
            self._check_answer(subject, order, result.value, before, given)
        else:
            self._check_replacement(index, subject, order, result.value, before, given)
        return result

    def _wrap(
        self, step: LifecycleStep, subject: PluginFunction, session: SampleSession, order: EventOrder, fields: Payload
    ) -> CallResult:
        """Run execution middleware around a base that does what this step of the lifecycle says."""
        assert subject.callback is not None
        spec = MIDDLEWARE[subject.site]
        run = MiddlewareRun(subject, self._guard, order, self._required(fields))
        watched = Callback(subject.callback.plugin, subject.site, subject.function)
        watched.function = run
        chain = ExecutionChain(subject.site, (watched,))
        context = {name: value for name, value in fields.items() if name != spec.payload}
        cancelled, asks_model = order == "cancelled turn", "llm" in step.site

        def base(_payload: Any) -> Any:
            if cancelled or step.number == 4:
                raise Interrupted("interrupted")
            if step.number == 2:
                raise ProviderError("too many requests", reason="rate_limit") if asks_model else OSError("no file")
            return model_response(session) if asks_model else tool_output(session)

        def work() -> Any:
            with turn(fields, cancelled=cancelled):
                return chain.run(fields[spec.payload], base, context)

        result = self._guard.call(subject, order, work, None if order == "parallel" else self._host)
        if result.finished:
            run.judge()
            run.release()
            self._check_changes(subject, order, run.before, run.given, {spec.payload})
        return result

    def _required(self, fields: Payload) -> list[str]:
        """The arguments without which the tool of an event cannot be called."""
        tool = self._host.tools.get(str(fields.get("tool_name", "")))
        return [] if tool is None else list(tool.parameters.get("required", ()))

    # -- what callbacks did ---------------------------------------------------------------------------------------

    def _check_answer(self, subject: PluginFunction, order: str, value: Any, before: Payload, given: Payload) -> None:
        hook = subject.site
        live = HOOKS[hook].live
        self._check_changes(subject, order, before, given, {live})
        if live in given and isinstance(given[live], dict):
            self._check_complete("tool_request", subject, order, given[live], before)
        if value is None:
            return
        if HOOKS[hook].answers:
            problem = answer_problem(hook, value)
            if problem:
                self._note("answer-shape", subject, order, f"answered with {problem}")
            elif subject.background:
                self._note("answer-ignored", subject, order, "answers, but runs behind the turn")
        elif isinstance(value, str | dict):
            self._note("answer-ignored", subject, order, f"answers, but {hook} takes no answers")

    def _check_replacement(
        self, index: int, subject: PluginFunction, order: str, value: Any, before: Payload, given: Payload
    ) -> None:
        kind, key = subject.site, MIDDLEWARE[subject.site].payload
        problem = replacement_problem(kind, value)
        if problem:
            self._note("replacement-shape", subject, order, f"returned {problem}")
        self._check_changes(subject, order, before, given, set() if value is None else {key})
        if problem or value is None:
            return
        answer = cast("Payload", value)
        self._check_complete(kind, subject, order, answer[key], before)
        if trace_problem(answer):
            self._note("trace-shape", subject, order, f"returned a replacement whose {trace_problem(answer)}")
        if order == "complete":
            subject.answers[index] = isolate(answer[key])
        elif order == "repeated" and index in subject.answers and not same(subject.answers[index], answer[key]):
            self._note("not-deterministic", subject, order, "rewrote the same payload in two ways")

    def _check_complete(
        self, kind: str, subject: PluginFunction, order: str, replacement: Payload, before: Payload
    ) -> None:
        given: Any = before.get(MIDDLEWARE[kind].payload) or {}
        missing = missing_from(kind, replacement, given, self._required(before))
        if missing:
            text = f"made a payload without {missing[0]!r}; replacements are complete, not patches"
            self._note("partial-payload", subject, order, text)

    def _check_changes(
        self, subject: PluginFunction, order: str, before: Payload, after: Payload, allowed: set[str]
    ) -> None:
        for name, value in before.items():
            if name not in allowed and name != "next_call" and name in after and not same(value, after[name]):
                text = f"changed {name} in place; no other code sees that"
                self._note("mutates-payload", subject, order, text)

    def _note(self, rule: str, subject: PluginFunction, order: str, text: str) -> None:
        self._guard.note(rule, subject, order, f"{subject.label} {text}")

    # -- time -------------------------------------------------------------------------------------------------------

    def _note_time(self, index: int, subject: PluginFunction, order: str, result: CallResult) -> None:
        if not result.finished or subject.background:
            return
        if order in ("complete", "repeated"):
            # The fastest of two: the first may have imported something, either may have met a busy machine.
            subject.fastest[index] = min(result.seconds, subject.fastest.get(index, result.seconds))
        elif order == "huge" and result.seconds > self._guard.limits.slow * _HUGE_FACTOR:
            text = f"took {result.seconds:.2f} s over a payload of some megabytes"
            self._guard.note("slow", subject, order, f"{subject.label} {text}", cause="huge")

    def _report_slow(self) -> None:
        for subjects in self._subjects.values():
            for subject in subjects:
                slowest = max(subject.fastest.values(), default=0.0)
                if slowest > self._guard.limits.slow:
                    text = f"takes {slowest:.2f} s and holds up the turn; register it with background=True"
                    self._note("slow", subject, "complete", text)


# -- execution middleware --------------------------------------------------------------------------------------------

#: Outcome of the call below: never made, or it gave a result, failed or was interrupted.
Downstream = Literal["untouched", "succeeded", "failed", "interrupted"]


#: Downstream -> the rule that a result of None breaks, and how.
_RETURNED_NONE = {
    "untouched": ("drops-call", "returned None without calling next_call, so nothing runs; return its result"),
    "succeeded": ("loses-result", "returned None although next_call gave a result; return it"),
    "failed": ("swallows-failure", "returned None although the call had failed; let the error pass or return a result"),
}


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
        self.returned: Any = None
        #: What the call below raised.
        self._failure: BaseException | None = None
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
        self._closed = True
        self._guard.finished_runs[self] = self.subject

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
        self._guard.note(rule, self.subject, self._order, f"{self.subject.label} {text}")

    def judge(self) -> None:
        """Note what is wrong with how the middleware ended."""
        if self.raised is not None:
            self._judge_error(self.raised)
            return
        if self.downstream == "interrupted":
            self._note("swallows-interrupt", "returned although the turn was being cancelled; let it pass")
            return
        if self.returned is None:
            self._note(*_RETURNED_NONE[self.downstream])
            return
        problem = result_problem(self.subject.site, self.returned)
        if problem:
            self._note("result-shape", f"returned {problem}")

    def _judge_error(self, error: BaseException) -> None:
        if error is self._failure or self.count > 1 or (self.downstream == "failed" and isinstance(error, Exception)):
            return  # the failure from below, a refused second call, or a failure translated on purpose
        if isinstance(error, Interrupted):
            return
        outcome = (
            "the result it had received is kept" if self.downstream == "succeeded" else "the call continues without it"
        )
        self._guard.failed(self.subject, self._order, error, outcome)
