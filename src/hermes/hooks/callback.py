"""Callback: a registered function with its plugin, the fields it takes, and statistics of its calls."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from threading import Lock
from time import monotonic, perf_counter
from types import FunctionType, MethodType
from typing import Any, Final, NamedTuple, TypeGuard

from hermes.contract.hooks import HOOKS
from hermes.contract.middleware import MIDDLEWARE
from hermes.contract.response import Record
from hermes.hooks.copies import CopyMemo, isolate, renew
from hermes.hooks.threads.runner import OWN_SIGNALS, CallbackRunner, CallLate, CallOutcome, run_here
from hermes.hooks.threads.timed_call import FOREVER, TimedCall

log = logging.getLogger("hermes.hooks")

#: Fields that hold a whole conversation, or what stays the same in it: copies are reused for the next event.
_GROWING = frozenset({"conversation_history", "request_messages", "request", "tools"})

_VAR_KEYWORDS = 0x08
#: The usual types of answers: a quick test that nothing is to be awaited.
PLAIN_ANSWERS = frozenset({type(None), str, dict, list, bool, Record})


#: What a call that raised, and one that was late, give in place of an answer.
FAILED: Final = object()
LATE: Final = object()


class CallbackStats(NamedTuple):
    """Statistics of one registration, for ``plugins list`` and ``doctor``."""

    plugin: str
    #: The hook or middleware kind.
    site: str
    calls: int
    failures: int
    #: Time spent in the callback itself, without what it called through ``next_call``.
    seconds: float
    last_error: str
    #: Whether it is switched off now, after repeated failures.
    is_off: bool = False


class FailureCauses:
    """The causes of failure seen so far: the first one of a cause is worth a warning, repeats are not.

    The type and the line that raised make a cause, whatever the message says.
    """

    __slots__ = ("_seen",)

    _LIMIT = 20

    def __init__(self) -> None:
        self._seen: set[tuple[str, str, int]] = set()

    def is_new(self, error: BaseException) -> bool:
        cause = (type(error).__qualname__, *_origin(error))
        if cause in self._seen or len(self._seen) >= self._LIMIT:
            return False
        self._seen.add(cause)
        return True


class CircuitBreaker:
    """Stops calling a callback that keeps failing or is always late; every late call leaves a thread behind.

    Consecutive failures open it for a while; then one call is tried, which closes it or opens it again for twice as
    long.
    """

    __slots__ = ("_open_seconds", "_open_until", "failures", "late")

    _LATE_TO_OPEN = 3
    _FAILURES_TO_OPEN = 10
    _OPEN_SECONDS = 60.0
    _MOST_OPEN_SECONDS = 3600.0

    def __init__(self) -> None:
        #: Failures in a row, and how many of them were late calls.
        self.failures = 0
        self.late = 0
        self._open_seconds = 0.0
        self._open_until = 0.0

    @property
    def is_open(self) -> bool:
        return self._open_seconds > 0 and monotonic() < self._open_until

    @property
    def is_late(self) -> bool:
        """Whether late calls opened it."""
        return self.late >= self._LATE_TO_OPEN

    def record_failure(self, *, late: bool) -> float:
        """Count a failure; for how many seconds the callback is switched off from now on, 0 when it is not."""
        self.failures += 1
        self.late += late
        if self.failures < self._FAILURES_TO_OPEN and self.late < self._LATE_TO_OPEN:
            return 0.0
        self._open_seconds = min(self._open_seconds * 2 or self._OPEN_SECONDS, self._MOST_OPEN_SECONDS)
        self._open_until = monotonic() + self._open_seconds
        return self._open_seconds

    def record_success(self) -> None:
        self.failures = self.late = 0
        self._open_seconds = 0.0


class Callback:
    """A plugin's function at one hook or middleware kind.

    With a runner it runs on the plugin's thread and within its limit, else in the thread that calls it.
    """

    __slots__ = (
        "_causes",
        "_containers",
        "_lock",
        "_memo",
        "breaker",
        "calls",
        "failures",
        "function",
        "last_error",
        "limit",
        "names",
        "plugin",
        "runner",
        "seconds",
        "site",
    )

    def __init__(
        self,
        plugin: str,
        site: str,
        function: Callable[..., Any],
        runner: CallbackRunner | None = None,
        limit: float | None = None,
    ) -> None:
        self.plugin = plugin
        self.site = site
        self.function = function
        self.runner = runner
        #: Seconds that one call may take.
        self.limit = FOREVER if runner is None else limit or runner.limits.hook_seconds(plugin)
        self.breaker = CircuitBreaker()
        #: The fields a narrow signature names; ``None`` when it takes any keyword.
        self.names = accepted_names(function)
        fields = HOOKS[site].fields if site in HOOKS else MIDDLEWARE[site].fields
        self._containers = tuple(field.name for field in fields if field.container and self.takes(field.name))
        self._memo = None if _GROWING.isdisjoint(self._containers) else CopyMemo()
        # Updated without a lock: they are figures for people, and the path is hot.
        self.calls = 0
        self.failures = 0
        self.seconds = 0.0
        self.last_error = ""
        self._causes = FailureCauses()
        self._lock = Lock()

    def takes(self, field: str) -> bool:
        """Whether the function's signature accepts the field."""
        return self.names is None or field in self.names

    def arguments(self, own: dict[str, Any]) -> dict[str, Any]:
        """The runtime's fields as this callback gets them: those it takes, containers as copies of its own."""
        names = self.names
        given = own.copy() if names is None else {name: own[name] for name in names if name in own}
        memo = self._memo
        if memo is None:
            for name in self._containers:
                value: Any = given.get(name)
                if value:
                    given[name] = isolate(value)
                elif value is not None:
                    given[name] = value.__class__()
            return given
        before, shown = memo.recall(own.get("session_id")), dict[str, Any]()
        for name in self._containers:
            if name in given:
                given[name] = shown[name] = renew(given[name], before.get(name))
        memo.keep(own.get("session_id"), shown)
        return given

    def ask(self, given: dict[str, Any], session: str, consequence: str) -> Any:
        """Call with these fields, which are the callback's own copies; its answer, or ``FAILED`` or ``LATE``.

        Whatever it raises is its failure, except what the runtime itself has raised through it.
        """
        breaker = self.breaker
        if breaker.failures and breaker.is_open:
            self.left_out(consequence)
            return LATE if breaker.is_late else FAILED
        started = perf_counter()
        try:
            value, error = self._call(given, session)
        finally:
            self.calls += 1
            self.seconds += perf_counter() - started
        if error is None:
            if breaker.failures:
                breaker.record_success()
            return value
        self.blame(error, consequence)
        return LATE if isinstance(error, CallLate) else FAILED

    def _call(self, given: dict[str, Any], session: str) -> CallOutcome:
        runner = self.runner
        call = TimedCall(self.plugin, self.limit)
        if runner is None:
            value, error = run_here(self.function, given)
        else:
            value, error = runner.run(self.function, given, call, session)
        if error is None and type(value) not in PLAIN_ANSWERS and is_awaitable(value):
            return (runner or CallbackRunner()).wait_for(value, call, f"plugin {self.plugin!r} in {self.site}")
        return value, error

    def blame(self, error: BaseException, consequence: str) -> None:
        """Count an error as the callback's failure, and switch it off after several in a row.

        What the runtime has raised through it is raised again.
        """
        if isinstance(error, OWN_SIGNALS):
            raise error
        self.failed(error, consequence)
        seconds = self.breaker.record_failure(late=isinstance(error, CallLate))
        if seconds:
            log.warning(
                "plugin %r: its %s callback is switched off for %g s after %d failures in a row",
                self.plugin,
                self.site,
                seconds,
                self.breaker.failures,
            )

    def left_out(self, consequence: str) -> None:
        """Count an event that the callback does not get because it is switched off."""
        error = RuntimeError(f"switched off after {self.breaker.failures} failures in a row")
        self.failed(error, consequence, quiet=True)

    def failed(self, error: BaseException, consequence: str, *, quiet: bool = False) -> None:
        """Count a failure. The first one of each cause is a warning, unless ``quiet``; repeats are debug lines."""
        text = describe(error)
        with self._lock:
            self.failures += 1
            self.last_error = text
            is_new = self._causes.is_new(error)
        level = logging.WARNING if is_new and not quiet else logging.DEBUG
        log.log(level, "plugin %r: %s callback failed: %s (%s)", self.plugin, self.site, text, consequence)

    def stats(self) -> CallbackStats:
        is_off = self.breaker.is_open
        return CallbackStats(self.plugin, self.site, self.calls, self.failures, self.seconds, self.last_error, is_off)


def is_awaitable(value: object) -> TypeGuard[Awaitable[Any]]:
    """Whether a callback's answer has to be awaited."""
    kind = type(value)
    return kind not in PLAIN_ANSWERS and hasattr(kind, "__await__")


def describe(error: BaseException) -> str:
    """An error of a plugin in one bounded line, without secrets, even when its message cannot be read."""
    from hermes.base.sanitize import redact_text  # only a failure needs it

    try:
        message = str.__str__(str(error))
    except BaseException:
        message = "(its message cannot be read)"
    line = " ".join(f"{type(error).__name__}: {message[:2000]}".split())
    return redact_text(line)[:500]


def _origin(error: BaseException) -> tuple[str, int]:
    """The line that raised."""
    traceback = error.__traceback__
    if traceback is None:
        return ("", 0)
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return (traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)


def accepted_names(function: Callable[..., Any]) -> frozenset[str] | None:
    """The keyword arguments a callable names, or ``None`` when it takes any (or has no readable signature)."""
    plain = function.__func__ if isinstance(function, MethodType) else function
    if isinstance(plain, FunctionType) and plain.__code__.co_flags & _VAR_KEYWORDS:
        return None
    import inspect  # only a narrow or unusual callback needs it

    try:
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    except Exception:  # an unusual callable may raise anything when it is inspected
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return frozenset(parameter.name for parameter in parameters if parameter.kind in named)
