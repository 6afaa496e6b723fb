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


#: The class of a failure by its status; that of 500 is for every higher one.
_BY_STATUS: dict[int, type[APIError]] = {
    status: type(name, (APIStatusError,), {"__doc__": f"Status {status}.", "__module__": __name__})
    for status, name in (
        (400, "BadRequestError"),
        (401, "AuthenticationError"),
        (403, "PermissionDeniedError"),
        (404, "NotFoundError"),
        (409, "ConflictError"),
        (422, "UnprocessableEntityError"),
        (429, "RateLimitError"),
        (500, "InternalServerError"),
    )
}
#: For failures without a status, of the network or reported inside an answer: the class, or the status it stands for.
_BY_REASON: dict[FailureReason, type[APIError] | int] = {
    "rate_limit": 429,
    "overloaded": 500,
    "server_error": 500,
    "timeout": APITimeoutError,
    "connection": APIConnectionError,
    "truncated": APIConnectionError,
    "context_too_long": 400,
    "content_policy": 400,
    "bad_request": 400,
    "auth": 401,
    "billing": 429,
    "model_missing": 404,
    "malformed": APIResponseValidationError,
}


def api_error(error: ProviderError) -> APIError:
    """The failure as the class that the OpenAI SDK raises."""
    found = _BY_REASON[error.reason] if error.status_code is None else min(error.status_code, 500)
    kind = _BY_STATUS.get(found, APIStatusError) if isinstance(found, int) else found
    return kind(str(error), reason=error.reason, status_code=error.status_code, retry_after=error.retry_after)
