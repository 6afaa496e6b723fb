"""Conformance rules, and the findings and the report of a check."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

from msgspec import Struct

Severity = Literal["error", "warning"]


class ConformanceRule(NamedTuple):
    """One thing a plugin should not do."""

    severity: Severity
    meaning: str


_error = partial(ConformanceRule, "error")
_warning = partial(ConformanceRule, "warning")

#: An ``error`` breaks the contract or loses what the plugin meant to do; a ``warning`` works today and is fragile.
RULES: dict[str, ConformanceRule] = {
    # -- loading
    "load": _error("The plugin cannot be loaded."),
    "manifest": _warning("The manifest holds something odd, or promises what is not registered."),
    "environment": _warning("An environment variable it requires is not set, so parts of it were not exercised."),
    "refused": _warning("A registration was turned down."),
    "unknown-name": _error("It registers for a hook or middleware kind that does not exist."),
    "register-differs": _error("A second host gets other registrations than the first."),
    "register-residue": _warning("A register() that failed half-way left something running."),
    "global-state": _warning("Loading it changed something that belongs to the whole process."),
    "non-daemon-thread": _warning("It leaves a thread that keeps the process from ending."),
    # -- every callback
    "impossible-signature": _error("A callback requires an argument that it is never given."),
    "narrow-signature": _warning("A callback does not accept **kwargs, so fields added later never reach it."),
    "raises": _error("A callback, command or check raised an exception."),
    "exits": _error("A callback raised SystemExit, KeyboardInterrupt or the like, which ends the turn."),
    "additive-field": _error("A callback fails when a payload carries a field it does not know."),
    "hangs": _error("A call did not come back in time."),
    "slow": _warning("A callback holds up the turn."),
    "mutates-payload": _warning("A callback changes what it was given; the change is thrown away."),
    "unawaited-coroutine": _error("A coroutine was made and never awaited."),
    "registers-late": _warning("A callback registers something, so that registrations grow with every event."),
    # -- what callbacks return
    "answer-shape": _error("A hook's answer has a shape that is ignored."),
    "answer-ignored": _warning("A callback answers where answers are not used."),
    "replacement-shape": _error("Request middleware returns something that is not a replacement, so it is ignored."),
    "partial-payload": _error("A replacement lacks what the call needs; replacements must be complete."),
    "trace-shape": _warning("source, reason or name of a replacement is not text, so it is left out of the trace."),
    "not-deterministic": _warning("The same request was rewritten in two ways."),
    # -- execution middleware
    "next-call-twice": _error("next_call was called more than once."),
    "next-call-late": _error("next_call was called after the middleware had returned."),
    "drops-call": _error("Middleware returned None without calling next_call: nothing ran and nothing came back."),
    "loses-result": _error("Middleware returned None although next_call gave a result."),
    "swallows-failure": _error("Middleware returned None although the call had failed."),
    "swallows-interrupt": _error("Middleware returned a value although the turn was being cancelled."),
    "result-shape": _error("Middleware returned something the runtime cannot read as a result."),
    # -- tools and commands
    "tool-schema": _error("A tool's schema is not one a provider accepts."),
    "tool-description": _warning("A tool has no description, so a model cannot know when to use it."),
    "tool-result": _error("A tool returned something other than text."),
    "tool-result-text": _warning("A tool returned text that is not JSON."),
    "tool-raises": _error("A tool raised an exception; it should return its errors as JSON."),
    "command-answer": _error("A slash command answered with something other than text or None."),
    # -- the run itself
    "crash": _error("The plugin ended the process it ran in."),
    "unfinished": _warning("Time ran out before everything was tried."),
}


class SourceLine(NamedTuple):
    """A line of source; an empty file when it is not known."""

    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else "(unknown place)"


class ConformanceFinding(Struct, frozen=True):
    """One violation."""

    severity: Severity
    rule: str
    text: str
    #: The hook, middleware kind, tool or command it is about; empty for the plugin as a whole.
    site: str = ""
    file: str = ""
    line: int = 0
    #: The order of events in which it first came to light.
    schedule: str = ""

    @property
    def source(self) -> SourceLine:
        return SourceLine(self.file, self.line)

    def __str__(self) -> str:
        return f"{self.source}: {self.severity} [{self.rule}] {self.text}"


class ConformanceReport(Struct, frozen=True):
    """Result of the check of one plugin."""

    plugin: str
    findings: list[ConformanceFinding]
    #: How often the plugin's code was called.
    calls: int = 0
    seconds: float = 0.0

    @property
    def errors(self) -> list[ConformanceFinding]:
        return [finding for finding in self.findings if finding.severity == "error"]

    @property
    def warnings(self) -> list[ConformanceFinding]:
        return [finding for finding in self.findings if finding.severity == "warning"]

    @property
    def ok(self) -> bool:
        """Whether it keeps the contract. Warnings do not count."""
        return not self.errors

    @property
    def rules(self) -> set[str]:
        """The rules that were broken."""
        return {finding.rule for finding in self.findings}


class FindingCollector:
    """Collects findings from many threads, each cause once."""

    def __init__(self, on_finding: Callable[[ConformanceFinding], None] | None = None) -> None:
        self._found: dict[tuple[object, ...], ConformanceFinding] = {}
        self._lock = threading.Lock()
        self._on_finding = on_finding

    def add(
        self,
        rule: str,
        text: str,
        source: SourceLine | None = None,
        *,
        site: str = "",
        schedule: str = "",
        cause: object = None,
        severity: Severity | None = None,
    ) -> None:
        """Note a violation. Findings with the same rule, site, place and ``cause`` (else ``text``) are one.

        The first one stays, unless a later one is graver: a failure that strange input brought to light may
        turn out to happen with ordinary input too.
        """
        place = source or SourceLine()
        self.take(ConformanceFinding(severity or RULES[rule].severity, rule, text, site, *place, schedule), cause)

    def take(self, finding: ConformanceFinding, cause: object = None) -> None:
        """Take a finding that was made elsewhere."""
        key = (finding.rule, finding.site, finding.source, finding.text if cause is None else cause)
        with self._lock:
            known = self._found.get(key)
            if known is not None and (known.severity == "error" or finding.severity == "warning"):
                return
            self._found[key] = finding
        if self._on_finding is not None:
            self._on_finding(finding)

    def list(self) -> list[ConformanceFinding]:
        """Errors first, then in the order they came up."""
        with self._lock:
            found = list(self._found.values())
        return sorted(found, key=lambda finding: finding.severity)
