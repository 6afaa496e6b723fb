"""Guardrail: stops a model that repeats a call with the same result, or a tool that keeps failing."""

from __future__ import annotations

import threading

import msgspec

from hermes.base.config.schema.sections import ToolLoopGuardrailsConfig
from hermes.contract.events import ToolStatus
from hermes.tools.registry import Args


class LoopGuardrail(msgspec.Struct):
    """Counts the calls of one turn. Thread-safe: the calls of a batch share it."""

    _settings: ToolLoopGuardrailsConfig
    #: The last result of each call, and how often in a row it came.
    _repeats: dict[bytes, tuple[bytes, int]] = {}
    #: Failures of each tool since it last worked.
    _failures: dict[str, int] = {}
    _lock: threading.Lock = msgspec.field(default_factory=threading.Lock)

    def refusal(self, name: str, args: Args) -> str | None:
        """Why the call must not run once more; None when it may."""
        limit = self._settings.stop_after
        if not self._settings.enabled or not limit:
            return None
        with self._lock:
            _result, repeats = self._repeats.get(_digest_call(name, args), (b"", 0))
            failures = self._failures.get(name, 0)
        if repeats >= limit:
            return (
                f"{name} was called {repeats} times with these arguments and gave the same result each time. "
                f"It was not run again: use what you have, or try something else."
            )
        if failures >= limit:
            return (
                f"{name} has failed {failures} times in a row in this turn. It was not run again: "
                f"find another way, or tell the user what is wrong."
            )
        return None

    def note(self, name: str, args: Args, status: ToolStatus, result: str) -> str | None:
        """Count how a call ended; returns a warning for the model when it is time for one."""
        settings = self._settings
        if not settings.enabled or status in ("blocked", "cancelled"):
            return None
        failed = status in ("error", "timeout")
        call, digest = _digest_call(name, args), _digest(_bytes(result))
        with self._lock:
            before, count = self._repeats.get(call, (b"", 0))
            repeats = count + 1 if before == digest else 1
            self._repeats[call] = (digest, repeats)
            failures = self._failures[name] = self._failures.get(name, 0) + 1 if failed else 0
        if repeats >= settings.warn_identical:
            return (
                f"[Loop warning: this is the same result as the last {repeats - 1} times you made this call. "
                f"Repeating it will not change it; use it, or try something else.]"
            )
        if failures >= settings.warn_failures:
            return (
                f"[Loop warning: {name} has failed {failures} times in a row. "
                f"Look at the errors and change what you do before you call it again.]"
            )
        return None


def _digest_call(name: str, args: Args) -> bytes:
    try:
        text = msgspec.json.encode([name, args], order="deterministic")
    except UnicodeEncodeError:
        text = _bytes(repr((name, args)))
    return _digest(text)


def _digest(data: bytes) -> bytes:
    from hashlib import blake2b  # loads OpenSSL, which only a turn needs

    return blake2b(data, digest_size=16).digest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
