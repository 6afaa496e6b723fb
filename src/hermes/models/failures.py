"""What went wrong with a request, as an error with a class, a message and advice."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, cast

from hermes.errors import FailureReason, ProviderError
from hermes.models.endpoint import Endpoint
from hermes.models.failure_codes import classify, codes_in, error_object, status_in, wait_in

_WHAT: dict[FailureReason, str] = {
    "rate_limit": "the rate limit is reached",
    "overloaded": "the server is overloaded",
    "server_error": "the server failed",
    "timeout": "the server took too long",
    "connection": "the connection failed",
    "context_too_long": "the conversation is longer than the model takes",
    "content_policy": "the request was refused by the content policy",
    "auth": "the key was refused",
    "billing": "the account has no credit or quota left",
    "bad_request": "the request was refused",
    "model_missing": "model {model!r} was not found",
    "malformed": "the answer cannot be read",
    "truncated": "the answer broke off",
}

_ADVICE: dict[FailureReason, str] = {
    "rate_limit": "wait {wait}, or use another key or model",
    "overloaded": "try again later, or configure fallback_providers",
    "context_too_long": "start a new session or use a model with a larger context",
    "content_policy": "rephrase the request or use another model",
    "auth": "set model.api_key or the provider's key in the .env file",
    "billing": "add credit at the provider, or use another key",
    "model_missing": "check the name of the model and {address}",
}

_EXCERPT = 300
_SECRET_HEADER = re.compile("auth|key|token|secret|cookie|password", re.IGNORECASE)


class ConnectTimeout(ProviderError):
    """The connect was not answered: for everything behind the same server that equals a refusal."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="timeout")


def error_from_response(endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """The error for an HTTP response that is not a success. Header names are lower case."""
    if 300 <= status < 400:
        return _redirect(endpoint, status, headers.get("location", ""))
    error = error_object(body)
    reason = classify(status, codes_in(error))
    detail = _detail(error) if error is not None else excerpt(body)
    wait = retry_after(headers)
    if status == 402 and wait is not None:
        reason = "rate_limit"  # what comes back by waiting is a budget for the moment, not an empty account
    wait = wait_in(error) if wait is None else wait
    line = message(endpoint, reason, detail, status, wait)
    return ProviderError(line, reason=reason, status_code=status, retry_after=wait)


def error_in_body(endpoint: Endpoint, error: object) -> ProviderError:
    """The error for an ``error`` object inside a body or a stream whose status promised success."""
    status = status_in(error)
    reason = classify(status, codes_in(error))
    wait = wait_in(error)
    line = message(endpoint, reason, _detail(error), status, wait)
    return ProviderError(line, reason=reason, status_code=status, retry_after=wait)


def malformed(endpoint: Endpoint, found: str, body: bytes = b"") -> ProviderError:
    """The error for an answer that is not what the wire promises."""
    detail = f"{found}: {excerpt(body)}" if body else found
    return ProviderError(message(endpoint, "malformed", detail, None), reason="malformed")


def message(
    endpoint: Endpoint, reason: FailureReason, detail: str, status: int | None, wait: float | None = None
) -> str:
    """One line: who, what happened, what the server said, what to do. The key never appears in it."""
    line = f"{endpoint.provider}: {describe(reason, endpoint.model)}"
    if status is not None:
        line += f" (HTTP {status})"
    if detail:
        line += f": {detail}"
    if reason in _ADVICE:
        line += f"; {_ADVICE[reason].format(address=endpoint.address_setting, wait=_span(wait))}"
    return scrub(endpoint, line)


def _span(seconds: float | None) -> str:
    if not seconds:
        return "a little"
    return f"{max(seconds, 1):.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def describe(reason: FailureReason, model: str) -> str:
    """What a class of failure means, in a few words."""
    return _WHAT[reason].format(model=model)


def scrub(endpoint: Endpoint, text: str) -> str:
    """The text without the endpoint's secrets, which a server may echo."""
    for secret in _secrets(endpoint):
        text = text.replace(secret, "<redacted>")
        # Servers like to echo a key with its middle masked; its ends alone are of no use to the reader.
        text = re.sub(re.escape(secret[:4]) + r"\S*[*…]{3,}\S*", "<redacted>", text)
    return text


def _secrets(endpoint: Endpoint) -> Iterator[str]:
    values = [endpoint.api_key]
    values += [
        value.rpartition(" ")[2] for name, value in endpoint.extra_headers.items() if _SECRET_HEADER.search(name)
    ]
    # A value of a few letters is a placeholder such as "none"; blotting it out would only spoil the message.
    return (value for value in values if len(value) >= 6)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds the server asks to wait, from ``Retry-After`` as seconds or as a date."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    seconds = _number(value)
    if seconds is not None:
        return seconds
    from email.utils import parsedate_to_datetime

    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (ValueError, OverflowError, OSError):
        return None


def excerpt(body: bytes) -> str:
    """A short, one-line look at a body; of an HTML page its title."""
    head = body[:20_000].decode("utf-8", "replace")
    if head.lstrip("\ufeff \t\r\n")[:1] == "<":
        title = re.search(r"<title[^>]*>(.*?)</title>", head, re.IGNORECASE | re.DOTALL)
        named = f" titled {_one_line(title[1])!r}" if title and title[1].strip() else ""
        return f"an HTML page{named} instead of JSON"
    return _one_line(head)


def _detail(error: object) -> str:
    if isinstance(error, str):
        return _one_line(error)
    if isinstance(error, dict):
        fields = cast("dict[str, Any]", error)
        for name in ("message", "detail", "msg", "error"):
            if fields.get(name):
                said = fields[name]
                return _one_line(said if isinstance(said, str) else repr(said))
    return ""


def _redirect(endpoint: Endpoint, status: int, location: str) -> ProviderError:
    target = _one_line(location) or "nowhere"
    return ProviderError(
        scrub(
            endpoint,
            f"{endpoint.provider}: the server redirects to {target} (HTTP {status}); redirects are not followed "
            f"because the key would go with them, set {endpoint.address_setting} to the right address",
        ),
        reason="bad_request",
        status_code=status,
    )


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _EXCERPT else line[:_EXCERPT] + "…"


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < 1e7 else None
