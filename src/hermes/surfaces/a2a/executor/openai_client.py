"""A client with the interface of the OpenAI SDK (``client.chat.completions.create``) on the runtime's HTTP client."""

from __future__ import annotations

import os
from typing import Any

from msgspec.structs import replace

from hermes.base.errors import FailureReason, ProviderError
from hermes.base.http.threads import run_in_thread
from hermes.contract.response import Record, chat_response
from hermes.models.driver import Driver
from hermes.models.endpoint import Endpoint, Timeouts
from hermes.models.wires.chat.wire import ChatCompletions

DEFAULT_BASE_URL = "https://openrouter.ai/api/v1"

#: The answer is one document: its first byte may take as long as all of it.
_TIMEOUTS = Timeouts(first_byte=600.0)


class OpenAIClient:
    """Requests chat completions from one server. Close it when done.

    The address is ``base_url``, else ``OPENAI_BASE_URL``, else OpenRouter's; the key is ``api_key``, else
    ``OPENAI_API_KEY``, else none is sent. Raises ``ConfigError`` for an address or a key that cannot be used.
    """

    def __init__(self, *, base_url: str | None = None, api_key: str | None = None) -> None:
        endpoint = Endpoint(
            base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL,
            model="",
            api_key=api_key or os.environ.get("OPENAI_API_KEY", ""),
            timeouts=_TIMEOUTS,
        )
        self.base_url = endpoint.base_url
        self._driver = Driver()
        self.chat = Chat(endpoint, self._driver)

    async def close(self) -> None:
        """Close the connections that are idle."""
        self._driver.close()


class Chat:
    """``client.chat`` of the OpenAI SDK."""

    def __init__(self, endpoint: Endpoint, driver: Driver) -> None:
        self.completions = Completions(endpoint, driver)


class Completions:
    """``client.chat.completions`` of the OpenAI SDK."""

    def __init__(self, endpoint: Endpoint, driver: Driver) -> None:
        self._endpoint = endpoint
        self._driver = driver
        self._wire = ChatCompletions()

    async def create(self, *, model: str, messages: list[dict[str, Any]], **kwargs: Any) -> Record:
        """One request and its answer; ``extra_body`` is merged into the body, a ``timeout`` limits the whole.

        Raises an ``APIError``. There are no retries: those are up to the caller.
        """
        if kwargs.get("stream"):
            raise TypeError("this client does not stream; leave out stream=True")
        request = {"model": model, "messages": messages, **kwargs}
        endpoint = replace(self._endpoint, model=model)
        try:
            answer = await run_in_thread(
                lambda interrupt: self._driver.send(endpoint, self._wire, request, interrupt=interrupt)
            )
        except ProviderError as error:
            raise api_error(error) from error
        return chat_response(answer)


# -- failures, under the names of the OpenAI SDK ----------------------------------------------------------------------


class APIError(ProviderError):
    """A request failed. The class says how; ``reason``, ``status_code`` and ``retry_after`` say more."""


class APIConnectionError(APIError):
    """No connection, or it broke."""


class APITimeoutError(APIConnectionError):
    """The server took too long."""


class APIResponseValidationError(APIError):
    """The response of the server is not a completion."""


class APIStatusError(APIError):
    """The server refused, with a status that has no class of its own."""


class BadRequestError(APIStatusError):
    """Status 400: the server does not accept the request."""


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
    """Status 429: rate limit, or no credit left."""


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


def api_error(error: ProviderError) -> APIError:
    """The failure as the class that the OpenAI SDK raises."""
    status = error.status_code
    if status is None:
        kind = _BY_REASON[error.reason]
    else:
        kind = _BY_STATUS.get(status) or (InternalServerError if status >= 500 else APIStatusError)
    return kind(str(error), reason=error.reason, status_code=status, retry_after=error.retry_after)
