"""What a model call and a tool call cost a host that exports everything: events and trajectories, on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any

from hermes.base.sanitize import Memo, sanitise
from hermes.contract.response import chat_response
from hermes.hooks.table import Hooks
from hermes.testing import PluginHarness

from .measure import BenchFailed
from .table import Row
from .workspace import PROJECT, Workspace

BUDGET_MS = 0.5
BUDGET_MS_PER_KB = 0.005
PAIRS = 100
REPEAT = 5
RESULT_CHARS = 1_000
PAUSE_SECONDS = 0.001

_FOLDER = PROJECT / "src" / "hermes" / "bundled" / "observability" / "nemo_relay"
_SESSION = "20260101_000000_abcdef"
_TURN = f"{_SESSION}:{'0' * 32}:00000000"
_WHO: dict[str, Any] = {"session_id": _SESSION, "task_id": "0" * 32, "turn_id": _TURN}
_TOOLS = [
    {
        "type": "function",
        "function": {"name": f"tool_{number}", "description": "Does it. " * 20, "parameters": {"type": "object"}},
    }
    for number in range(12)
]


def measure(workspace: Workspace) -> list[Row]:
    """The time of a pair in a conversation that grows by a kilobyte with each."""
    runs = [_run(workspace.folder / f"telemetry-{number}") for number in range(workspace.repeat or REPEAT)]
    # Of each pair the best time in several runs: the others tell more about what else the machine did.
    typical = median(min(times) for times in zip(*(times for times, _ in runs), strict=True)) * 1e3
    new_kb = runs[0][1] / PAIRS / 1000
    limit = BUDGET_MS + BUDGET_MS_PER_KB * new_kb
    budget = f"≤ {BUDGET_MS:g} ms plus {BUDGET_MS_PER_KB * 1e3:g} µs per new kB"
    what = "every hook subscribed, ATOF and ATIF written: a model call and a tool call"
    return [Row(what, typical, None, "ms", budget, typical <= limit, f"{new_kb:.1f} kB are new with each pair")]


def _run(folder: Path) -> tuple[list[float], int]:
    """Seconds for each pair, and how many characters were new in all of them."""
    with _exporting(folder), PluginHarness(_FOLDER) as harness:
        hooks = harness.hooks
        if hooks.pre_api_request is None:
            raise BenchFailed("the plugin did not subscribe: is nemo-relay installed?")
        conversation = _Conversation(hooks)
        harness.fire("on_session_start", session_id=_SESSION, model="bench", platform="cli")
        harness.fire("pre_llm_call", **_WHO, user_message="go", model="bench", platform="cli")
        times = [conversation.pair(number) for number in range(PAIRS)]
        ended = {"completed": True, "interrupted": False, "reason": "", "model": "bench", "platform": "cli"}
        harness.fire("on_session_end", **_WHO, **ended)
        harness.fire("on_session_finalize", session_id=_SESSION, reason="shutdown")
        if failures := [one for one in hooks.stats() if one.failures]:
            raise BenchFailed(f"a callback failed: {failures[0].last_error}")
    if len(list((folder / "atif").iterdir())) != 1 or not (folder / "atof" / "events.jsonl").stat().st_size:
        raise BenchFailed("the plugin did not write its files")
    return times, conversation.new_chars


class _Conversation:
    """A turn of many steps. Payloads are those of a host, and made as a host makes them."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._messages: list[dict[str, Any]] = [{"role": "system", "content": "You are an agent. " * 50}]
        self._messages.append({"role": "user", "content": "go"})
        self._memo = Memo()
        self.new_chars = 0

    def pair(self, number: int) -> float:
        identity = {
            **_WHO,
            "api_request_id": f"{_TURN}:api:{number}",
            "platform": "cli",
            "model": "bench",
            "provider": "custom",
            "base_url": "http://localhost/v1",
            "api_mode": "chat_completions",
            "api_call_count": number,
        }
        arguments = f'{{"path": "note-{number}.txt"}}'
        call_id = f"call_{number}"
        call = {"id": call_id, "type": "function", "function": {"name": "read_file", "arguments": arguments}}
        reply = {"role": "assistant", "content": f"Step {number}.", "tool_calls": [call]}
        result = f"{number} {'word ' * (RESULT_CHARS // 5)}"
        message = chat_response({"choices": [{"message": reply}]}).choices[0].message
        seconds = (
            _timed(lambda: self._emit_start(identity))
            + _timed(lambda: self._emit_answer(identity, message))
            + _timed(lambda: self._emit_tool(identity, call_id, result))
        )
        self._messages += [reply, {"role": "tool", "tool_call_id": call_id, "content": result}]
        self.new_chars += len(result) + len(arguments) + len(reply["content"])
        return seconds

    def _emit_start(self, identity: dict[str, Any]) -> None:
        emit, messages = self._hooks.pre_api_request, self._messages
        assert emit is not None
        body = {"model": "bench", "messages": messages, "tools": _TOOLS, "stream": True}
        chain = self._hooks.llm_request
        if chain is not None:
            chain.run(body, identity)
        emit.invoke(
            **identity,
            user_message="go",
            conversation_history=messages,
            request_messages=messages,
            message_count=len(messages),
            tool_count=len(_TOOLS),
            approx_input_tokens=0,
            request_char_count=0,
            max_tokens=None,
            started_at=1.0,
            middleware_trace=[],
            request={"method": "POST", "body": sanitise(body, memo=self._memo)} if emit.wants("request") else None,
        )

    def _emit_answer(self, identity: dict[str, Any], message: Any) -> None:
        emit = self._hooks.post_api_request
        assert emit is not None
        usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        emit.invoke(
            **identity,
            api_duration=0.1,
            started_at=1.0,
            ended_at=1.1,
            finish_reason="tool_calls",
            message_count=len(self._messages),
            response_model="bench",
            response={} if emit.wants("response") else None,
            usage=usage,
            assistant_message=message,
            assistant_content_chars=7,
            assistant_tool_call_count=1,
            middleware_trace=[],
            request={} if emit.wants("request") else None,
        )

    def _emit_tool(self, identity: dict[str, Any], call_id: str, result: str) -> None:
        before, after = self._hooks.pre_tool_call, self._hooks.post_tool_call
        assert before is not None and after is not None
        args = {"path": "note.txt"}
        about = {
            **_WHO,
            "api_request_id": identity["api_request_id"],
            "tool_call_id": call_id,
            "tool_name": "read_file",
        }
        before.invoke(**about, args=args, middleware_trace=[])
        outcome = {"duration_ms": 1, "status": "ok", "error_type": None, "error_message": None}
        after.invoke(**about, args=args, result=result, **outcome, middleware_trace=[])


def _timed(work: Callable[[], None]) -> float:
    """Seconds that some work takes. No model and no tool answers at once, so that the exporter has time to write."""
    sleep(PAUSE_SECONDS)
    started = perf_counter()
    work()
    return perf_counter() - started


@contextmanager
def _exporting(folder: Path) -> Generator[None]:
    """The environment of somebody who has both kinds of files written."""
    settings = {
        "HERMES_NEMO_RELAY_ATOF_ENABLED": "1",
        "HERMES_NEMO_RELAY_ATOF_OUTPUT_DIRECTORY": str(folder / "atof"),
        "HERMES_NEMO_RELAY_ATIF_ENABLED": "1",
        "HERMES_NEMO_RELAY_ATIF_OUTPUT_DIRECTORY": str(folder / "atif"),
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
