"""The failures of a model request under the names that the OpenAI SDK gives them."""

from __future__ import annotations

from hermes.errors import FailureReason, ProviderError


class APIError(ProviderError):
    """A request failed. The class says how; ``reason``, ``status_code`` and ``retry_after`` say more."""


class APIConnectionError(APIError):
    """There was no connection, or it broke off."""


class APITimeoutError(APIConnectionError):
    """The server took too long."""


class APIResponseValidationError(APIError):
    """What the server sent is no answer."""


class APIStatusError(APIError):
    """The server refused, with a status that has no class of its own."""


class BadRequestError(APIStatusError):
    """Status 400: the request is not one that the server takes."""


class AuthenticationError(APIStatusError):
    """Status 401: the key was refused."""


class PermissionDeniedError(APIStatusError):
    """Status 403: the key may not do this."""


class NotFoundError(APIStatusError):
    """Status 404: no such model or address."""


class ConflictError(APIStatusError):
    """Status 409."""


class UnprocessableEntityError(APIStatusError):
    """Status 422."""


class RateLimitError(APIStatusError):
    """Status 429: too much at once, or nothing left on the account."""


class InternalServerError(APIStatusError):
    """Status 500 and above: the server failed or is overloaded."""


_BY_STATUS: dict[int, type[APIError]] = {
    400: BadRequestError,
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    422: UnprocessableEntityError,
    429: RateLimitError,
}

#: For failures without a status: of the network, or reported inside an answer.
_BY_REASON: dict[FailureReason, type[APIError]] = {
    "rate_limit": RateLimitError,
    "overloaded": InternalServerError,
    "server_error": InternalServerError,
    "timeout": APITimeoutError,
    "connection": APIConnectionError,
    "truncated": APIConnectionError,
    "context_too_long": BadRequestError,
    "content_policy": BadRequestError,
    "bad_request": BadRequestError,
    "auth": AuthenticationError,
    "billing": RateLimitError,
    "model_missing": NotFoundError,
    "malformed": APIResponseValidationError,
}


def named(error: ProviderError) -> APIError:
    """The failure as the SDK would name it."""
    status = error.status_code
    if status is None:
        kind = _BY_REASON[error.reason]
    else:
        kind = _BY_STATUS.get(status) or (InternalServerError if status >= 500 else APIStatusError)
    return kind(str(error), reason=error.reason, status_code=status, retry_after=error.retry_after)
