"""Hostile orders of events: whole lifecycles, fired at a plugin in every way a runtime may fire them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any, cast

from hermes.base.errors import Interrupted
from hermes.contract.hooks import HOOKS
from hermes.contract.middleware import MIDDLEWARE
from hermes.hooks.callback import is_awaitable
from hermes.hooks.copies import isolate, same
from hermes.hooks.threads.event_loop import spawn
from hermes.testing.conformance.execution import run_execution
from hermes.testing.conformance.guarded_calls import CallGuard, CallResult, EventOrder, OutOfTime, PluginFunction, turn
from hermes.testing.conformance.host import ConformanceHost
from hermes.testing.conformance.payloads import LIFECYCLE, LifecycleStep, Payload, SampleSession, payload
from hermes.testing.conformance.return_values import (
    answer_problem,
    missing_from,
    replacement_problem,
    takes_answers,
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
                if not subject.given_up:
                    self._deliver_safely(index, step, subject, session, order)

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

    def _deliver_safely(
        self, index: int, step: LifecycleStep, subject: PluginFunction, session: SampleSession, order: EventOrder
    ) -> None:
        """Deliver one event. An object that a plugin returns may raise when it is inspected, here as in the runtime."""
        try:
            self._deliver(index, step, subject, session, order)
        except OutOfTime:
            raise
        except Exception as error:
            self._guard.failed(subject, order, error, "when what it returned was looked at")

    def _deliver(
        self, index: int, step: LifecycleStep, subject: PluginFunction, session: SampleSession, order: EventOrder
    ) -> None:
        fields = payload(step, session)
        if order == "additive fields":
            fields["field_of_a_later_version"] = {"known": False}
        spec = MIDDLEWARE.get(step.site)
        if spec is not None and spec.wraps:
            run, result = run_execution(self._host, subject, self._guard, step, session, order, fields)
            if result.finished:
                self._check_changes(subject, order, run.before, run.given, {spec.payload})
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

    # -- what callbacks did ---------------------------------------------------------------------------------------

    def _check_answer(self, subject: PluginFunction, order: str, value: Any, before: Payload, given: Payload) -> None:
        hook = subject.site
        live = HOOKS[hook].live
        self._check_changes(subject, order, before, given, {live})
        if live in given and isinstance(given[live], dict):
            self._check_complete("tool_request", subject, order, given[live], before)
        if value is None:
            return
        if takes_answers(hook):
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
        tool = self._host.tools.get(str(before.get("tool_name", "")))
        required: list[str] = [] if tool is None else list(tool.parameters.get("required", ()))
        given: Any = before.get(MIDDLEWARE[kind].payload) or {}
        missing = missing_from(kind, replacement, given, required)
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
