"""Chaos: tools and models that fail by rules, the same ones for the same seed."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from hermes import PluginError, ProviderError

#: Seconds that no request can be sent in.
_NO_TIME = 1e-6

Payload = dict[str, Any]
NextCall = Callable[[Any], Any]
Fault = Literal["error", "timeout", "slow", "truncated", "wrong_json", "kill"]


class ChaosRule(msgspec.Struct, forbid_unknown_fields=True):
    """What fails, how, and how often. One of ``tool`` and ``provider`` is a name or a pattern."""

    fault: Fault
    tool: str = ""
    provider: str = ""
    #: The share of the calls that fail, from 0 to 1.
    rate: float = 1.0
    #: How many calls of a session fail, as long as one process runs it; 0 means no limit.
    times: int = 0
    #: How long a slow call takes longer.
    seconds: float = 1.0


class ChaosSettings(msgspec.Struct, forbid_unknown_fields=True):
    """The settings under ``plugins.entries.chaos``."""

    seed: int = 0
    rules: list[ChaosRule] = []


class SessionFaults:
    """What was seen and injected in one session."""

    def __init__(self) -> None:
        #: How often the same call was made, by its digest.
        self.seen: Counter[bytes] = Counter()
        #: How often each rule let a call fail, by its number.
        self.injected: Counter[int] = Counter()
        #: The rules of calls that are yet to run, by turn and id of the call.
        self.waiting: dict[tuple[str, str], ChaosRule | None] = {}


class Chaos:
    """Decides which calls fail. The same seed, rules and calls of a session decide the same, whatever runs beside."""

    def __init__(self, settings: ChaosSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._sessions: defaultdict[str, SessionFaults] = defaultdict(SessionFaults)

    def rule_for(
        self, kind: Literal["tool", "provider"], name: str, payload: object, session_id: str = ""
    ) -> ChaosRule | None:
        """The first rule that lets this call fail."""
        call = json.dumps([kind, name, payload], sort_keys=True, default=str).encode()
        digest = hashlib.sha256(call).digest()
        with self._lock:
            session = self._sessions[session_id]
            occurrence = session.seen[digest]
            session.seen[digest] += 1
            for number, rule in enumerate(self._settings.rules):
                pattern = rule.tool if kind == "tool" else rule.provider
                if not pattern or not fnmatch.fnmatchcase(name, pattern):
                    continue
                if rule.times and session.injected[number] >= rule.times:
                    continue
                if self._chance(number, digest, occurrence) < rule.rate:
                    session.injected[number] += 1
                    return rule
        return None

    def forget(self, session_id: str, **_: Any) -> None:
        """``on_session_finalize``: the session is over."""
        with self._lock:
            self._sessions.pop(session_id, None)

    def _chance(self, number: int, digest: bytes, occurrence: int) -> float:
        place = f"{self._settings.seed}/{number}/{occurrence}/".encode() + digest
        return int.from_bytes(hashlib.sha256(place).digest()[:8]) / 2**64

    # -- middleware ---------------------------------------------------------------------------------------------

    def before_tool(
        self, args: Payload, tool_name: str, session_id: str, turn_id: str, tool_call_id: str, **_: Any
    ) -> None:
        """``tool_request``: the decision. Calls of one reply come here in their order, and run in any."""
        rule = self.rule_for("tool", tool_name, args, session_id)
        self._sessions[session_id].waiting[turn_id, tool_call_id] = rule

    def around_tool(
        self, args: Payload, next_call: NextCall, session_id: str, turn_id: str, tool_call_id: str, **_: Any
    ) -> Any:
        """``tool_execution``: a fault instead of, or before, the call."""
        rule = self._sessions[session_id].waiting.pop((turn_id, tool_call_id), None)
        if rule is None:
            return next_call(args)
        if rule.fault == "slow":
            time.sleep(rule.seconds)
            return next_call(args)
        if rule.fault == "kill":
            _kill()
        if rule.fault in ("wrong_json", "truncated"):
            return '{"result": "'
        kind = "tool_timeout" if rule.fault == "timeout" else "chaos"
        return json.dumps({"error": f"injected by the chaos plugin ({rule.fault})", "error_type": kind})

    def around_model(
        self, request: Payload, next_call: NextCall, provider: str, api_call_count: int, session_id: str, **_: Any
    ) -> Any:
        """``llm_execution``: a fault instead of, or after, the request."""
        messages: list[Any] = request.get("messages") or request.get("input") or []
        rule = self.rule_for("provider", provider, [len(messages), api_call_count], session_id)
        if rule is None:
            return next_call(request)
        if rule.fault == "kill":
            _kill()
        if rule.fault == "slow":
            time.sleep(rule.seconds)
        if rule.fault in ("slow", "wrong_json"):
            response = next_call(request)
            return _with_broken_arguments(response) if rule.fault == "wrong_json" else response
        try:
            # What middleware raises of its own is not the outcome of a call, so the call itself has to fail: it has no
            # time at all, and no provider is asked.
            return next_call({**request, "timeout": _NO_TIME})
        except ProviderError as error:
            _become(error, f"{provider}: injected by the chaos plugin ({rule.fault})", rule.fault)
            raise


def _become(error: ProviderError, text: str, fault: Fault) -> None:
    """Make a failure the one that is wanted."""
    error.args = (text,)
    error.reason = "server_error" if fault == "error" else "truncated" if fault == "truncated" else "timeout"
    error.retryable = True
    if fault == "error":
        error.status_code = 500


def _with_broken_arguments(response: Any) -> Any:
    """The answer with the arguments of its first call cut; one without calls stays as it is."""
    calls = response.choices[0].message.tool_calls
    if calls:
        calls[0].function.arguments = calls[0].function.arguments[:-1]
    return response


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def register(ctx: Any) -> None:
    """Read the rules and wrap tools and models, as far as there are rules for them."""
    entry: Any = dict(ctx.settings)
    try:
        settings = msgspec.convert(entry, ChaosSettings)
    except msgspec.ValidationError as error:
        raise PluginError(f"plugins.entries.chaos: {error}") from None
    for rule in settings.rules:
        if bool(rule.tool) == bool(rule.provider):
            raise PluginError("plugins.entries.chaos.rules: each rule names a tool or a provider")
    chaos = Chaos(settings)
    ctx.register_hook("on_session_finalize", chaos.forget)
    if any(rule.tool for rule in settings.rules):
        ctx.register_middleware("tool_request", chaos.before_tool)
        ctx.register_middleware("tool_execution", chaos.around_tool)
    if any(rule.provider for rule in settings.rules):
        ctx.register_middleware("llm_execution", chaos.around_model)
