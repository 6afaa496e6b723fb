"""``hermes_cli.middleware``: constants, and functions that run the host's middleware around a plugin's own call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.contract.hooks import OBSERVER_SCHEMA
from hermes.contract.middleware import MIDDLEWARE, MIDDLEWARE_SCHEMA

if TYPE_CHECKING:
    from hermes.hooks.execution_chain import ExecutionChain
    from hermes.hooks.request_chain import RequestChain
    from hermes.plugins.compat.names import Names
    from hermes.plugins.services import PluginHost

Payload = dict[str, Any]


@dataclass
class RequestMiddlewareResult:
    """What request middleware made of a payload."""

    payload: Any
    original_payload: Any
    changed: bool = False
    trace: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


def names(host: PluginHost) -> Names:
    """Constants, and the four ways to run middleware."""
    hooks = host.hooks

    def apply_llm_request_middleware(request: Payload, **context: Any) -> RequestMiddlewareResult:
        return _rewrite(hooks.llm_request, request, context)

    def apply_tool_request_middleware(tool_name: str, args: Payload, **context: Any) -> RequestMiddlewareResult:
        return _rewrite(hooks.tool_request, args, {**context, "tool_name": tool_name})

    def run_llm_execution_middleware(request: Payload, next_call: Callable[[Any], Any], **context: Any) -> Any:
        return _wrap(hooks.llm_execution, request, next_call, context)

    def run_tool_execution_middleware(
        tool_name: str, args: Payload, next_call: Callable[[Any], Any], **context: Any
    ) -> Any:
        return _wrap(hooks.tool_execution, args, next_call, {**context, "tool_name": tool_name})

    return {
        "API_EXECUTION_MIDDLEWARE": "llm_execution",
        "API_REQUEST_MIDDLEWARE": "llm_request",
        "LLM_EXECUTION_MIDDLEWARE": "llm_execution",
        "LLM_REQUEST_MIDDLEWARE": "llm_request",
        "MIDDLEWARE_SCHEMA_VERSION": MIDDLEWARE_SCHEMA,
        "OBSERVER_SCHEMA_VERSION": OBSERVER_SCHEMA,
        "TOOL_EXECUTION_MIDDLEWARE": "tool_execution",
        "TOOL_REQUEST_MIDDLEWARE": "tool_request",
        "VALID_MIDDLEWARE": set(MIDDLEWARE),
        "RequestMiddlewareResult": RequestMiddlewareResult,
        "apply_api_request_middleware": apply_llm_request_middleware,
        "apply_llm_request_middleware": apply_llm_request_middleware,
        "apply_tool_request_middleware": apply_tool_request_middleware,
        "middleware_payload": middleware_payload,
        "observer_payload": observer_payload,
        "run_api_execution_middleware": run_llm_execution_middleware,
        "run_llm_execution_middleware": run_llm_execution_middleware,
        "run_tool_execution_middleware": run_tool_execution_middleware,
    }


def observer_payload(**fields: Any) -> Payload:
    """The fields with the version that every hook carries."""
    return {"telemetry_schema_version": OBSERVER_SCHEMA, **fields}


def middleware_payload(**fields: Any) -> Payload:
    """The fields with the versions that every middleware callback is given."""
    return observer_payload(**{"middleware_schema_version": MIDDLEWARE_SCHEMA, **fields})


def _rewrite(chain: RequestChain | None, payload: Payload, context: Payload) -> RequestMiddlewareResult:
    if chain is None:
        return RequestMiddlewareResult(payload, payload)
    outcome = chain.run(payload, context)
    return RequestMiddlewareResult(outcome.payload, outcome.original, outcome.changed, list(outcome.trace))


def _wrap(chain: ExecutionChain | None, payload: Payload, base: Callable[[Any], Any], context: Payload) -> Any:
    return base(payload) if chain is None else chain.run(payload, base, context)
