"""The four kinds of middleware: what each receives, what it may return and when it runs."""

from __future__ import annotations

from typing import Literal, NamedTuple

from hermes.contract.fields import ATTEMPT, SCHEMA_VERSION, TOOL_CALL, TRACE, Field, Fields

MIDDLEWARE_SCHEMA = "hermes.middleware.v1"

Kind = Literal["llm_request", "tool_request", "llm_execution", "tool_execution"]


class MiddlewareSpec(NamedTuple):
    """One kind of middleware as data."""

    kind: Kind
    #: ``request`` kinds rewrite a payload; ``execution`` kinds wrap the call that uses it.
    wraps: bool
    #: The field that holds the payload; ``original_<payload>`` holds it as it was before any middleware.
    payload: Literal["request", "args"]
    when: str
    returns: str
    fields: Fields

    @property
    def original(self) -> str:
        """The field that holds the payload as it was before any middleware."""
        return f"original_{self.payload}"


_SCHEMAS = (SCHEMA_VERSION, Field("middleware_schema_version", "str", "Version of the middleware contract."))
_REQUEST = (
    Field("request", "dict", "The provider's keyword arguments as they are now.", "raw"),
    Field("original_request", "dict", "The same before any middleware.", "raw"),
)
_ORIGINAL_ARGS = Field("original_args", "dict", "The arguments before any middleware.", "raw")
_NEXT_CALL = Field(
    "next_call",
    "Callable",
    "Runs the rest of the chain with the payload it is given, or the current one; at most once.",
)

MIDDLEWARE: dict[str, MiddlewareSpec] = {
    spec.kind: spec
    for spec in (
        MiddlewareSpec(
            "llm_request",
            False,
            "request",
            "For every provider attempt, before `pre_api_request`.",
            'None, or {"request": {...}} as a complete replacement, with optional strings source, reason, name.',
            (*_SCHEMAS, *_REQUEST, *ATTEMPT),
        ),
        MiddlewareSpec(
            "tool_request",
            False,
            "args",
            "For every tool call, before `pre_tool_call`, guardrails and approvals.",
            'None, or {"args": {...}} as a complete replacement, with optional strings source, reason, name.',
            (*_SCHEMAS, *TOOL_CALL, _ORIGINAL_ARGS),
        ),
        MiddlewareSpec(
            "llm_execution",
            True,
            "request",
            "Around every provider call.",
            "The provider's response, or a replacement of the same shape.",
            (*_SCHEMAS, *_REQUEST, *ATTEMPT, _NEXT_CALL, TRACE),
        ),
        MiddlewareSpec(
            "tool_execution",
            True,
            "args",
            "Around every tool's own run, exactly once per call.",
            "The tool's result, or a replacement.",
            (*_SCHEMAS, *TOOL_CALL, _ORIGINAL_ARGS, _NEXT_CALL, TRACE),
        ),
    )
}
