"""Errors of the API in the shape of OpenAI's: status, message, type, parameter and code."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse

from hermes.base.errors import HermesError
from hermes.base.sanitize import Redactor

INVALID = "invalid_request_error"
#: OpenAI's clients send a failed request again by themselves. A turn that failed must not be run once more by that.
NO_RETRY = ("x-should-retry", "false")


class ApiError(HermesError):
    """A request that cannot be answered. The text is for the client."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = INVALID,
        param: str | None = None,
        code: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.param = param
        self.code = code
        self.headers = headers

    def document(self, redactor: Redactor | None = None) -> dict[str, Any]:
        """The body of the response. ``redactor`` masks what the message repeats of the request."""
        message = str(self) if redactor is None else redactor.mask_known(str(self))
        return {"error": {"message": message, "type": self.kind, "param": self.param, "code": self.code}}

    def response(self, redactor: Redactor | None = None) -> JSONResponse:
        """The whole response."""
        return JSONResponse(self.document(redactor), self.status, dict(self.headers))


class ServerStopped(ApiError):
    """The server stops before a turn has ended. The turn is on disk and continues at the next start."""

    def __init__(self, run_id: str, *, can_be_read: bool) -> None:
        """``can_be_read``: the client did not ask that the answer be forgotten."""
        then = f", but read the answer then at GET /v1/runs/{run_id}" if can_be_read else ""
        super().__init__(
            503,
            f"the server was stopped before there was an answer. The turn is stored and continues at the next start: "
            f"do not send the request again{then}",
            kind="server_error",
            code="server_stopped",
            headers=(NO_RETRY, ("X-Hermes-Run-Id", run_id)),
        )


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """A request with a mistake in it."""
    return ApiError(400, message, param=param, code=code)


def not_found(message: str, code: str = "not_found") -> ApiError:
    """Something that does not exist, or not for this caller."""
    return ApiError(404, message, code=code)
