"""Calls into a plugin that cannot hang or break the caller: each on its own thread, with a deadline."""

from __future__ import annotations

import contextlib
import gc
import threading
import warnings
import weakref
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from time import sleep
from typing import Any, Literal

from hermes.base.scope import Interrupt, Scope, current_scope
from hermes.hooks.callback import Callback, describe
from hermes.hooks.threads.event_loop import spawn
from hermes.testing.conformance.clock import Stopwatch
from hermes.testing.conformance.host import ConformanceHost, name_of, raised_at
from hermes.testing.conformance.rules import FindingCollector, Severity, SourceLine

EventOrder = Literal[
    "complete",
    "repeated",
    "minimal",
    "additive fields",
    "cancelled turn",
    "parallel",
    "second host",
    "out of order",
    "unicode",
    "huge",
    "bad arguments",
]

#: The name of threads that belong to the check itself.
_THREAD = "hermes-conformance"

#: Failures in these show a weakness rather than a broken promise.
_STRANGE: frozenset[str] = frozenset({"out of order", "unicode", "huge", "bad arguments"})


class OutOfTime(Exception):
    """The check has used up its time."""


@dataclass(slots=True)
class ConformanceLimits:
    """Time limits of a check, in load-adjusted seconds: a busy machine does not count against the plugin."""

    #: For one call of the plugin's code; after that it counts as hanging.
    deadline: float = 5.0
    #: A callback that takes longer holds up the turn.
    slow: float = 0.25
    #: For everything together.
    budget: float = 60.0


@dataclass(slots=True)
class CallResult:
    """Outcome of one call."""

    finished: bool = False
    value: Any = None
    error: BaseException | None = None
    seconds: float = 0.0


@dataclass(eq=False)
class PluginFunction:
    """One function of the plugin, and what is known about it."""

    #: The hook, middleware kind, tool or command.
    site: str
    function: Callable[..., Any]
    source: SourceLine
    callback: Callback | None = None
    #: Delivered behind the turn, so its time and its answers do not count.
    background: bool = False
    #: It hung or cannot be called at all; every further try would leave a thread behind or say the same again.
    given_up: bool = False
    #: It called ``next_call`` after it had returned.
    called_late: bool = False
    #: Seconds by lifecycle step, the fastest of the ordinary rounds.
    fastest: dict[int, float] = field(default_factory=dict[int, float])
    #: What request middleware answered, by lifecycle step.
    answers: dict[int, Any] = field(default_factory=dict[int, Any])

    @property
    def label(self) -> str:
        return f"{self.site}: {name_of(self.function)}()"


def severity_in(order: str) -> Severity:
    """Severity of a failure in this order."""
    return "warning" if order in _STRANGE else "error"


class CallGuard:
    """Runs the plugin's code and notes what no code of a plugin should do."""

    def __init__(
        self,
        findings: FindingCollector,
        limits: ConformanceLimits,
        on_call: Callable[[PluginFunction, str], None] | None,
    ) -> None:
        self.findings = findings
        self.limits = limits
        self.calls = 0
        #: Calls of execution middleware that have returned; each is here while something holds its ``next_call``.
        self.finished_runs: weakref.WeakKeyDictionary[object, PluginFunction] = weakref.WeakKeyDictionary()
        self._on_call = on_call
        self._running = Stopwatch()
        self._unawaited: list[str] = []
        self._lock = threading.Lock()

    @property
    def time_is_up(self) -> bool:
        return self._running.reached(self.limits.budget)

    def announce(self, subject: PluginFunction, order: str) -> None:
        """Count a call and report it to ``on_call``, which may have to say where the process ended."""
        if self.time_is_up:
            raise OutOfTime
        with self._lock:
            self.calls += 1
        if self._on_call is not None:
            self._on_call(subject, order)

    def call(
        self, subject: PluginFunction, order: str, work: Callable[[], Any], host: ConformanceHost | None = None
    ) -> CallResult:
        """Do the work on a thread of its own. One that hangs is abandoned and the subject given up."""
        self.announce(subject, order)
        before = [] if host is None else host.registered()
        result = CallResult()
        done = threading.Event()

        def run() -> None:
            # Threads inherit this, and those a plugin starts should be what they would be in a host, which calls
            # from its main thread. This thread itself started as a daemon, so it still does not delay an exit.
            setattr(threading.current_thread(), "_daemonic", False)  # noqa: B010
            watch = Stopwatch()
            try:
                result.value = work()
            except BaseException as error:
                result.error = error
            result.seconds = watch.seconds
            result.finished = True
            done.set()

        spawn(run, _THREAD)
        if not Stopwatch().wait(done, self.limits.deadline):
            self.hung(subject, order)
            return CallResult()
        if host is not None:
            self._check_growth(subject, order, before, host.registered())
        self.check_unawaited(subject, order)
        return result

    def note(
        self,
        rule: str,
        subject: PluginFunction,
        order: str,
        text: str,
        *,
        cause: object = None,
        severity: Severity | None = None,
    ) -> None:
        """Note a violation by one function."""
        self.findings.add(rule, text, subject.source, site=subject.site, schedule=order, cause=cause, severity=severity)

    def hung(self, subject: PluginFunction, order: str) -> None:
        subject.given_up = True
        text = f"{subject.label} did not come back within {self.limits.deadline:g} s"
        self.note("hangs", subject, order, text, cause="hangs")

    def failed(self, subject: PluginFunction, order: str, error: BaseException, what: str = "") -> None:
        """Note an exception that left the plugin's code."""
        origin = raised_at(error)
        where = f" at {origin}" if origin.file and origin != subject.source else ""
        consequence = f"; {what}" if what else ""
        text = f"{subject.label} raised {describe(error)}{where} ({order}){consequence}"
        cause = (type(error).__qualname__, origin)
        if not isinstance(error, Exception):
            self.note("exits", subject, order, text, cause=cause)
        elif order == "additive fields":
            self.note("additive-field", subject, order, text, cause=cause)
        else:
            self.note("raises", subject, order, text, cause=cause, severity=severity_in(order))

    def check_unawaited(self, subject: PluginFunction, order: str) -> None:
        while self._unawaited:
            text = f"{subject.label}: {self._unawaited.pop()}"
            self.note("unawaited-coroutine", subject, order, text)

    def wait_for_late_calls(self, known: set[threading.Thread]) -> None:
        """Wait until no thread that the plugin started can call a ``next_call`` it still holds, or has done so."""
        watch = Stopwatch()
        while self._may_call_late(known) and not watch.reached(self.limits.deadline):
            sleep(0.01)

    def _may_call_late(self, known: set[threading.Thread]) -> bool:
        others = [thread for thread in threading.enumerate() if thread not in known and thread.name != _THREAD]
        if not others or not self.finished_runs:
            return False
        gc.collect()
        return any(not subject.called_late for subject in self.finished_runs.values())

    @contextlib.contextmanager
    def watching_coroutines(self) -> Generator[None]:
        """While the block runs, coroutines that are thrown away are noted instead of warned about."""

        with warnings.catch_warnings():
            warnings.filterwarnings("always", message="coroutine .* was never awaited", category=RuntimeWarning)
            shown = warnings.showwarning

            def show(message: Warning | str, *details: Any, **more: Any) -> None:
                if "was never awaited" in str(message):
                    self._unawaited.append(str(message).splitlines()[0])
                else:
                    shown(message, *details, **more)

            warnings.showwarning = show
            yield

    def _check_growth(self, subject: PluginFunction, order: str, before: list[str], after: list[str]) -> None:
        if len(after) > len(before):
            added = next(name for name in after if after.count(name) > before.count(name))
            text = f"{subject.label} registered a {added} while it ran; register everything in register(ctx)"
            self.note("registers-late", subject, order, text)


@contextlib.contextmanager
def turn(fields: dict[str, Any], *, cancelled: bool = False) -> Generator[Scope]:
    """Work under the ids of an event, in a turn that may have been cancelled already."""
    names = ("session_id", "task_id", "turn_id", "api_request_id", "tool_call_id")
    interrupt = Interrupt()
    if cancelled:
        interrupt.cancel("interrupted")
    scope = Scope(interrupt=interrupt).child(**{name: str(fields.get(name) or "") for name in names})
    token = current_scope.set(scope)
    try:
        yield scope
    finally:
        current_scope.reset(token)
