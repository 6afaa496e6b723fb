"""What went wrong with a request: one table from status and structured codes to a class, a message and advice."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from hermes.errors import FailureReason, ProviderError
from hermes.providers.endpoint import Endpoint

#: Codes and types that servers put in the error object. They say more than the status, so they win over it.
CODES: dict[str, FailureReason] = {
    "context_length_exceeded": "context_too_long",
    "context_window_exceeded": "context_too_long",
    "exceed_context_size_error": "context_too_long",
    "string_above_max_length": "context_too_long",
    "request_too_large": "context_too_long",
    "content_filter": "content_policy",
    "content_policy_violation": "content_policy",
    "moderation_blocked": "content_policy",
    "responsibleaipolicyviolation": "content_policy",
    "data_inspection_failed": "content_policy",
    "insufficient_quota": "billing",
    "insufficient_credits": "billing",
    "insufficient_balance": "billing",
    "billing_error": "billing",
    "billing_hard_limit_reached": "billing",
    "payment_required": "billing",
    "invalid_api_key": "auth",
    "authentication_error": "auth",
    "permission_error": "auth",
    "permission_denied": "auth",
    "unauthenticated": "auth",
    "model_not_found": "model_missing",
    "model_not_available": "model_missing",
    "model_decommissioned": "model_missing",
    "rate_limit_exceeded": "rate_limit",
    "rate_limit_error": "rate_limit",
    "resource_exhausted": "rate_limit",
    "overloaded_error": "overloaded",
    "overloaded": "overloaded",
    "engine_overloaded": "overloaded",
    "unavailable": "overloaded",
    "deadline_exceeded": "timeout",
    "timeout_error": "timeout",
    "server_error": "server_error",
    "internal_server_error": "server_error",
    "api_error": "server_error",
    "internal": "server_error",
}

STATUSES: dict[int, FailureReason] = {
    401: "auth",
    402: "billing",
    403: "auth",
    404: "model_missing",
    408: "timeout",
    410: "model_missing",
    413: "context_too_long",
    429: "rate_limit",
    503: "overloaded",
    504: "timeout",
    524: "timeout",
    529: "overloaded",
}

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
    "rate_limit": "wait a little, or use another key or model",
    "overloaded": "try again later, or configure fallback_providers",
    "context_too_long": "start a new session or use a model with a larger context",
    "content_policy": "rephrase the request or use another model",
    "auth": "set model.api_key or the provider's key in the .env file",
    "billing": "add credit at the provider, or use another key",
    "model_missing": "check model.default and model.base_url",
}

_EXCERPT = 300
_SECRET_HEADER = re.compile("auth|key|token|secret|cookie|password", re.IGNORECASE)


def classify(status: int | None, codes: Iterator[str] | tuple[str, ...] = ()) -> FailureReason:
    """The class of a failure. A known code decides; without one the status does."""
    for code in codes:
        reason = CODES.get(code.lower())
        if reason is not None:
            return reason
    if status is None:
        return "server_error"
    return STATUSES.get(status) or ("server_error" if status >= 500 else "bad_request")


def error_from_response(endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """The error for an HTTP response that is not a success. Header names are lower case."""
    if 300 <= status < 400:
        return _redirect(endpoint, status, headers.get("location", ""))
    error = _error_object(body)
    reason = classify(status, codes_in(error) if error is not None else ())
    detail = _detail(error) if error is not None else excerpt(body)
    return ProviderError(
        message(endpoint, reason, detail, status),
        reason=reason,
        status_code=status,
        retry_after=retry_after(headers),
    )


def error_in_body(endpoint: Endpoint, error: object) -> ProviderError:
    """The error for an ``error`` object inside a body or a stream whose status promised success."""
    status = next((int(code) for code in codes_in(error) if code.isdigit() and len(code) == 3), None)
    reason = classify(status, codes_in(error))
    return ProviderError(message(endpoint, reason, _detail(error), status), reason=reason, status_code=status)


def malformed(endpoint: Endpoint, found: str, body: bytes = b"") -> ProviderError:
    """The error for an answer that is not what the wire promises."""
    detail = f"{found}: {excerpt(body)}" if body else found
    return ProviderError(message(endpoint, "malformed", detail, None), reason="malformed")


def message(endpoint: Endpoint, reason: FailureReason, detail: str, status: int | None) -> str:
    """One line: who, what happened, what the server said, what to do. The key never appears in it."""
    what = _WHAT[reason].format(model=endpoint.model)
    line = f"{endpoint.provider}: {what}"
    if status is not None:
        line += f" (HTTP {status})"
    if detail:
        line += f": {detail}"
    if reason in _ADVICE:
        line += f"; {_ADVICE[reason]}"
    return scrub(endpoint, line)


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


def codes_in(error: object) -> Iterator[str]:
    """Every code, type and status in an error object, the most specific first."""
    if not isinstance(error, dict):
        return
    fields = cast("dict[str, Any]", error)
    inner = fields.get("innererror")
    if isinstance(inner, dict):
        yield from codes_in(cast("object", inner))
    metadata = fields.get("metadata")
    if isinstance(metadata, dict) and "flagged_input" in metadata:  # OpenRouter's moderation, status 403
        yield "content_policy_violation"
    for name in ("code", "type", "status"):
        value = fields.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool):
            yield str(value)


def _error_object(body: bytes) -> object:
    """The error in a JSON body of any of the usual shapes; ``None`` when there is none."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if isinstance(document, list) and document:
        document = cast("list[Any]", document)[0]
    if not isinstance(document, dict):
        return None
    fields = cast("dict[str, Any]", document)
    return fields.get("error") or fields


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
            f"because the key would go with them, set model.base_url to the right address",
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
