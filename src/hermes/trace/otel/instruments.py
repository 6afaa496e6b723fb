"""The metrics: tokens, durations and errors, under the names of the GenAI conventions where they have one."""

from __future__ import annotations

from opentelemetry.metrics import Histogram, Meter

from hermes.trace.formats.genai import AGENT_NAME, Attributes, provider_name, server
from hermes.trace.records import Usage

#: The boundaries that the conventions ask for; the SDK's own are made for milliseconds.
_SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
_TURN_SECONDS = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6]
_TOKENS = [4.0**power for power in range(14)]

#: What the user stopped has no place among the errors.
INTERRUPTED = "interrupted"


class Instruments:
    """Everything that is counted. Sessions and calls have no ids here: each would be a time series of its own."""

    def __init__(self, meter: Meter) -> None:
        def histogram(name: str, unit: str, description: str, boundaries: list[float]) -> Histogram:
            return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=boundaries)

        self._tokens = histogram("gen_ai.client.token.usage", "{token}", "Tokens that requests took.", _TOKENS)
        self._requests = histogram("gen_ai.client.operation.duration", "s", "Duration of requests.", _SECONDS)
        self._tools = histogram("gen_ai.execute_tool.duration", "s", "Duration of tool calls.", _SECONDS)
        self._turns = histogram("gen_ai.invoke_agent.duration", "s", "Duration of turns.", _TURN_SECONDS)
        self._errors = meter.create_counter("hermes.errors", "{error}", "Requests, tool calls and turns that failed.")

    def answered(
        self, *, provider: str, model: str, base_url: str, response_model: str, seconds: float, usage: Usage | None
    ) -> None:
        """A request was answered."""
        about = _request(provider, model, base_url)
        if response_model:
            about["gen_ai.response.model"] = response_model
        self._requests.record(seconds, about)
        if usage is not None:
            self._tokens.record(usage.prompt_tokens, {**about, "gen_ai.token.type": "input"})
            self._tokens.record(usage.output_tokens, {**about, "gen_ai.token.type": "output"})

    def failed(self, *, provider: str, model: str, base_url: str, seconds: float, error_type: str) -> None:
        """A request failed, or was broken off."""
        self._record(self._requests, seconds, _request(provider, model, base_url), error_type)

    def tool(self, name: str, seconds: float, error_type: str, *, is_error: bool) -> None:
        """A tool call is over; ``error_type`` is empty when it went well."""
        about: Attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
        self._record(self._tools, seconds, about, error_type, is_error=is_error)

    def turn(self, model: str, seconds: float, error_type: str) -> None:
        """A turn is over."""
        about: Attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": AGENT_NAME}
        if model:
            about["gen_ai.request.model"] = model
        self._record(self._turns, seconds, about, error_type)

    def _record(
        self, durations: Histogram, seconds: float, about: Attributes, error_type: str, *, is_error: bool = True
    ) -> None:
        if not error_type:
            durations.record(seconds, about)
            return
        durations.record(seconds, {**about, "error.type": error_type})
        if is_error and error_type != INTERRUPTED:
            self._errors.add(1, {"gen_ai.operation.name": about["gen_ai.operation.name"], "error.type": error_type})


def _request(provider: str, model: str, base_url: str) -> Attributes:
    about: Attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model, **server(base_url)}
    if provider:
        about["gen_ai.provider.name"] = provider_name(provider)
    return about
