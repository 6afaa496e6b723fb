"""Metrics sink: tokens, durations and errors, under the names of the GenAI conventions where they have one."""

from __future__ import annotations

from opentelemetry.metrics import Histogram, Meter

from hermes.contract.events import AttemptAnswered, AttemptFailed, ToolEnded, TurnEnded
from hermes.trace.formats.genai import AGENT_NAME, Attributes, provider_name, server
from hermes.trace.records import UsageRecord
from hermes.trace.tracker import OpenAttempt, OpenTool, OpenTurn, TraceSink

#: The boundaries that the conventions ask for; the SDK's own are made for milliseconds.
_SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
_TURN_SECONDS = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6]
_TOKENS = [4.0**power for power in range(14)]

#: What the user stopped is not counted as an error.
INTERRUPTED = "interrupted"


class MetricsSink(TraceSink):
    """Records every metric. Sessions and calls have no ids here: each would be a time series of its own."""

    def __init__(self, meter: Meter) -> None:
        def histogram(name: str, unit: str, description: str, boundaries: list[float]) -> Histogram:
            return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=boundaries)

        self._tokens = histogram("gen_ai.client.token.usage", "{token}", "Tokens that requests took.", _TOKENS)
        self._requests = histogram("gen_ai.client.operation.duration", "s", "Duration of requests.", _SECONDS)
        self._tools = histogram("gen_ai.execute_tool.duration", "s", "Duration of tool calls.", _SECONDS)
        self._turns = histogram("gen_ai.invoke_agent.duration", "s", "Duration of turns.", _TURN_SECONDS)
        self._errors = meter.create_counter("hermes.errors", "{error}", "Requests, tool calls and turns that failed.")

    def attempt_answered(self, attempt: OpenAttempt | None, event: AttemptAnswered, at: float) -> None:
        about = _request(event)
        if event.response_model:
            about["gen_ai.response.model"] = event.response_model
        self._requests.record(event.api_duration, about)
        usage = UsageRecord.from_counts(event.usage)
        if usage is not None:
            self._tokens.record(usage.prompt_tokens, {**about, "gen_ai.token.type": "input"})
            self._tokens.record(usage.output_tokens, {**about, "gen_ai.token.type": "output"})

    def attempt_failed(self, attempt: OpenAttempt | None, event: AttemptFailed, at: float) -> None:
        self._record(self._requests, event.api_duration, _request(event), event.reason)

    def tool_ended(self, tool: OpenTool, event: ToolEnded | None, at: float, why: str = "") -> None:
        if event is not None:
            about: Attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": event.tool_name}
            is_error = event.status in ("error", "timeout")
            self._record(self._tools, event.duration_ms / 1000, about, tool_error_type(event), is_error=is_error)

    def turn_ended(self, turn: OpenTurn, event: TurnEnded | None, at: float, why: str = "") -> None:
        if event is not None:
            about: Attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": AGENT_NAME}
            if model := turn.model or event.model:
                about["gen_ai.request.model"] = model
            self._record(self._turns, at - turn.started_at, about, turn_error(turn, event))

    def _record(
        self, durations: Histogram, seconds: float, about: Attributes, error_type: str, *, is_error: bool = True
    ) -> None:
        if not error_type:
            durations.record(seconds, about)
            return
        durations.record(seconds, {**about, "error.type": error_type})
        if is_error and error_type != INTERRUPTED:
            self._errors.add(1, {"gen_ai.operation.name": about["gen_ai.operation.name"], "error.type": error_type})


def _request(event: AttemptAnswered | AttemptFailed) -> Attributes:
    about: Attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": event.model,
        **server(event.base_url),
    }
    if event.provider:
        about["gen_ai.provider.name"] = provider_name(event.provider)
    return about


def turn_error(turn: OpenTurn, event: TurnEnded) -> str:
    """The class of a turn's failure, empty when it completed."""
    return "" if event.completed else INTERRUPTED if event.interrupted else turn.failure or "turn_failed"


def tool_error_type(event: ToolEnded) -> str:
    """The class of a tool call's failure, empty when it went well."""
    return "" if event.status == "ok" else event.error_type or event.status
