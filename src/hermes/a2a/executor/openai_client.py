"""A client with the shape of the OpenAI SDK's (``client.chat.completions.create``) over the runtime's own wire."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from hermes.a2a.executor.openai_errors import named
from hermes.contract.response import Record
from hermes.errors import ProviderError
from hermes.http.threads import run_in_thread
from hermes.models.driver import Driver
from hermes.models.endpoint import Endpoint, Timeouts
from hermes.models.wires.chat.wire import ChatCompletions

DEFAULT_BASE_URL = "https://openrouter.ai/api/v1"

#: The answer comes as one document, so its first byte may take as long as the whole of it.
_TIMEOUTS = Timeouts(first_byte=600.0)


class OpenAIClient:
    """Asks one server for chat completions. Close it when done.

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
    """What the SDK keeps under ``client.chat``."""

    def __init__(self, endpoint: Endpoint, driver: Driver) -> None:
        self.completions = Completions(endpoint, driver)


class Completions:
    """What the SDK keeps under ``client.chat.completions``."""

    def __init__(self, endpoint: Endpoint, driver: Driver) -> None:
        self._endpoint = endpoint
        self._driver = driver
        self._wire = ChatCompletions()

    async def create(self, *, model: str, messages: list[dict[str, Any]], **kwargs: Any) -> Record:
        """One request and its answer; ``extra_body`` is merged into the body, a ``timeout`` limits the whole.

        Raises an ``APIError``. Nothing is tried twice: whoever asks decides about that.
        """
        if kwargs.get("stream"):
            raise TypeError("this client does not stream; leave out stream=True")
        request = {"model": model, "messages": messages, **kwargs}
        endpoint = replace(self._endpoint, model=model)
        try:
            return await run_in_thread(
                lambda interrupt: self._driver.send(endpoint, self._wire, request, interrupt=interrupt)
            )
        except ProviderError as error:
            raise named(error) from error
