"""One call of the API: its caller, its headers and its body, after access control."""

from __future__ import annotations

from typing import Any, NamedTuple

from hermes.agent.events import TurnResult
from hermes.base.config.schema.sections import PrincipalScope
from hermes.base.http_server.principals import Principal
from hermes.surfaces.openai_api.conversations import SessionHeaders
from hermes.surfaces.openai_api.errors import NO_RETRY, ApiError, invalid

_MAX_KEY_CHARS = 255


class ApiCall(NamedTuple):
    """A request that was let through."""

    principal: Principal
    #: Names in lower case.
    headers: dict[str, str]
    body: bytes
    #: The models that clients may name, the usual one first.
    models: tuple[str, ...]

    def need(self, scope: PrincipalScope) -> None:
        """Refuse a caller without that scope."""
        if scope not in self.principal.scopes:
            raise ApiError(
                403,
                f"{self.principal.name} may not do this; it needs the scope {scope}",
                kind="permission_error",
                code="insufficient_permissions",
            )

    def failure(self, result: TurnResult | None) -> ApiError | None:
        """The error of a turn without an answer; None when there is one.

        Callers see only the class of a failure: its words may hold anything. The owner sees them too.
        """
        if result is None or result.status in ("completed", "incomplete"):
            return None
        if result.status == "interrupted":
            return ApiError(
                503,
                "the turn was stopped before there was an answer",
                kind="server_error",
                code="cancelled",
                headers=(NO_RETRY,),
            )
        words = f": {result.error}" if self.principal.is_owner and result.error else ""
        name = result.error_type or "TurnFailed"
        status, code = (429, "insufficient_quota") if name == "BudgetExceeded" else (500, "agent_error")
        return ApiError(status, f"Agent error: {name}{words}", kind="server_error", code=code, headers=(NO_RETRY,))

    def order_fields(self) -> dict[str, Any]:
        """What every order takes from the call."""
        key = self.headers.get("idempotency-key", "").strip()
        if len(key) > _MAX_KEY_CHARS:
            raise invalid(f"Idempotency-Key: has {len(key)} characters; at most {_MAX_KEY_CHARS} are allowed")
        return {
            "principal": self.principal,
            "body": self.body,
            "idempotency_key": key,
            "headers": SessionHeaders(
                self.headers.get("x-hermes-session-id", "").strip(),
                self.headers.get("x-hermes-session-key", "").strip(),
            ),
            "trace": (self.headers.get("traceparent", ""), self.headers.get("tracestate", "")),
        }
