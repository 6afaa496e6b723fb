"""A form sent to an authorization server, and the JSON it answers with, over the connections that models use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast
from urllib.parse import urlencode

from hermes.contract.response import Record
from hermes.errors import ConfigError, CredentialError, ProviderError
from hermes.models.driver import Driver
from hermes.models.endpoint import Endpoint, Timeouts
from hermes.models.failures import error_from_response, malformed
from hermes.models.wires.chat.wire import ChatCompletions
from hermes.models.wires.document import DocumentParser, decoded
from hermes.models.wires.wire import HttpRequest
from hermes.scope import Interrupt
from hermes.version import __version__

_TIMEOUTS = Timeouts(connect=10.0, first_byte=20.0, between_chunks=10.0, total=30.0)
_LONGEST_ANSWER = 1024 * 1024
#: What the fields of a form are called that an answer must not repeat in a message.
_PUBLIC = frozenset({"grant_type", "client_id", "scope", "redirect_uri"})
_LONGEST_DETAIL = 200


class Refused(CredentialError):
    """The authorization server said no. ``code`` is the one the standard gives the reason."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def post_form(driver: Driver, provider: str, url: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """The answer to a form. Raises ``Refused`` when the server says no, ``CredentialError`` when it is not reached."""
    secrets = [value for name, value in fields.items() if name not in _PUBLIC]
    try:
        endpoint = Endpoint(url, "token", provider, timeouts=_TIMEOUTS)
    except ConfigError as error:
        raise CredentialError(f"{provider}: {error}") from None
    try:
        answer = driver.send(endpoint, _FormPost(), {"form": dict(fields)}, interrupt=Interrupt()).answer
    except ProviderError as error:
        answer = getattr(error, "answer", None)
        if not isinstance(answer, dict):
            # The advice of the driver is about models, and the address in question is another one.
            told = str(error).replace(endpoint.address_setting, f"providers.{provider}.oauth in config.yaml")
            raise CredentialError(_without(secrets, told)) from None
    found = cast("dict[str, Any]", answer)
    if "error" in found:
        raise _refusal(provider, found, secrets)
    return found


def _refusal(provider: str, answer: dict[str, Any], secrets: Sequence[str]) -> Refused:
    code = str(answer["error"])[:60]
    detail = answer.get("error_description")
    told = f": {' '.join(detail.split())[:_LONGEST_DETAIL]}" if isinstance(detail, str) and detail else ""
    return Refused(_without(secrets, f"{provider}: the authorization server refused ({code}{told})"), code)


def _without(secrets: Sequence[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, "<redacted>")
    return text


class _ErrorAnswer(ProviderError):
    """A refusal in the form that the standard gives it."""

    def __init__(self, answer: dict[str, Any], status: int) -> None:
        super().__init__("refused", reason="auth", status_code=status)
        self.answer = answer


class _FormPost(ChatCompletions):
    """The wire for one form."""

    def http_request(self, endpoint: Endpoint, kwargs: Mapping[str, Any]) -> HttpRequest:
        """The request as it goes out."""
        headers = [
            ("accept", "application/json"),
            ("content-type", "application/x-www-form-urlencoded"),
            ("user-agent", f"hermes/{__version__}"),
        ]
        return HttpRequest("POST", endpoint.base_url, headers, urlencode(kwargs["form"]).encode())

    def parser(self, endpoint: Endpoint, *, streaming: bool, tools: bool = False) -> DocumentParser:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A parser for one answer."""
        return DocumentParser(endpoint, partial(_answer, endpoint), name="the answer", longest=_LONGEST_ANSWER)

    def error_from(self, endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """The refusal, or what else the status means."""
        answer = _object(body)
        if 400 <= status < 500 and answer is not None and isinstance(answer.get("error"), str):
            return _ErrorAnswer(answer, status)
        return error_from_response(endpoint, status, headers, b"")


def _answer(endpoint: Endpoint, body: bytes) -> Record:
    """A record with the document as ``answer``."""
    answer = _object(body)
    if answer is None:
        # What arrived stays out of the message: it may be tokens in another format.
        raise malformed(endpoint, "something other than a JSON object")
    return Record(answer=answer)


def _object(body: bytes) -> dict[str, Any] | None:
    document = decoded(body)
    return cast("dict[str, Any]", document) if isinstance(document, dict) else None
