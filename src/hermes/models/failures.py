"""Failures of model requests: classified by status and structured codes, with a message and advice.

Free text decides one class only, and only for refusals without a telling code: a conversation that is too long.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from hermes.base.errors import FailureReason, ProviderError
from hermes.models.endpoint import Endpoint


def _by_code(codes: dict[FailureReason, str]) -> dict[str, FailureReason]:
    return {code: reason for reason, names in codes.items() for code in names.split()}


#: Codes, types and reasons that servers put in the error object, in lower case. They say more than most statuses.
CODES = _by_code(
    {
        "context_too_long": (
            "context_length_exceeded context_window_exceeded model_context_window_exceeded exceed_context_size_error "
            "string_above_max_length string_too_long token_limit_exceeded request_too_large payload_too_large "
            "contextwindowexceedederror "
            "3051"  # Mistral
        ),
        "content_policy": (
            "content_filter content_policy_violation moderation_blocked responsibleaipolicyviolation "
            "data_inspection_failed refusal"
        ),
        "billing": (
            "insufficient_quota insufficient_credits insufficient_balance billing_error billing_not_active "
            "billing_hard_limit_reached payment_required failed_precondition"
        ),
        "auth": (
            "invalid_api_key api_key_invalid api_key_expired account_deactivated invalid_organization "
            "unsupported_country_region_territory authentication authentication_error invalid_authentication_error "
            "permission_error permission_denied unauthenticated"
        ),
        "model_missing": (
            "model_not_found model_not_available model_decommissioned invalid_model deploymentnotfound not_found_error "
            "notfounderror not_found"
        ),
        "rate_limit": "rate_limit_exceeded rate_limit_error rate_limited usage_limit_reached resource_exhausted",
        "overloaded": (
            "overloaded_error overloaded engine_overloaded server_is_overloaded provider_overloaded "
            "provider_unavailable service_tier_capacity_exceeded capacity_exceeded slow_down unavailable "
            "unavailable_error service_unavailable"
        ),
        "timeout": "deadline_exceeded timeout_error",
        # What the model wrote could not be read: it may write better next time.
        "malformed": "tool_use_failed json_validate_failed",
    }
)

#: Codes so general that any status says more; they count where there is no status.
GENERAL = _by_code(
    {
        "bad_request": "invalid_request_error invalid_request invalid_argument invalid_prompt badrequesterror",
        "timeout": "timeout",
        "server_error": "server server_error internal_server_error internalservererror api_error internal",
    }
)

STATUSES: dict[int, FailureReason] = {
    401: "auth",
    402: "billing",
    403: "auth",
    404: "model_missing",
    407: "connection",
    408: "timeout",
    410: "model_missing",
    413: "context_too_long",
    429: "rate_limit",
    498: "overloaded",
    503: "overloaded",
    504: "timeout",
    524: "timeout",
    529: "overloaded",
}

#: Statuses of refusals whose text may say that the conversation is too long.
_SAYS_TOO_LONG = frozenset({400, 413, 422})
#: The sentences of servers that have no code for it. Numbers stand where they have them, so that a text about context
#: windows is not taken for one.
_TOO_LONG = (
    r"this (model|endpoint)'s maximum (context|prompt) length is [\d,]+"  # DeepSeek, OpenRouter, vLLM, xAI
    r"|^(the )?input token count (\(?[\d,]+\)? )?exceeds the maximum number of tokens"  # Gemini
    r"|too large for model with [\d,]+ maximum context length"  # Mistral
    r"|`?inputs`? tokens \+ `?max_new_tokens`? must be <= ?[\d,]+"  # Together, TGI
    r"|longer than the model's context length \(?[\d,]+"  # SGLang
    r"|requested token count exceeds the model's maximum context length of [\d,]+"
    r"|longer than the maximum model length of [\d,]+"  # vLLM
    r"|tokens to keep from the initial prompt is greater than the context length"  # LM Studio
    r"|model is loaded with context length of only [\d,]+"
    r"|^(litellm\.)?contextwindowexceedederror\b"
    r"|^prompt is too long\b|^input length and `?max_tokens`? exceed context limit"  # Anthropic
    r"|^input is too long for requested model"  # Bedrock
    r"|request (\([\d,]+ tokens\) )?exceeds the available context size"  # llama.cpp
    r"|input length ([\d,]+ )?exceeds (the |maximum )context length"  # Ollama
)

#: Statuses that are never used for anything else, whatever code comes with them.
_DECISIVE = frozenset({402, 413})
#: The field of the request that a refusal is about, where that alone says what is wrong.
_PARAMETERS = {"input_tokens": "context_length_exceeded"}
#: How deep an error may be wrapped in others.
_MAX_DEPTH = 4


def classify(status: int | None, codes: Iterable[str] = ()) -> FailureReason:
    """The class of a failure. A known code decides; without one the status does."""
    if status in _DECISIVE:
        return STATUSES[status]
    found = [code.lower() for code in codes]
    for code in found:
        if code in CODES:
            return CODES[code]
    if status is not None and status >= 400:
        return STATUSES.get(status) or ("server_error" if status >= 500 else "bad_request")
    for code in found:
        if code in GENERAL:
            return GENERAL[code]
    return "server_error"


def codes_in(error: object, depth: int = 0) -> Iterator[str]:
    """Every code, type, status and reason in an error object, the most specific first."""
    if not isinstance(error, dict) or depth > _MAX_DEPTH:
        return
    fields = cast("dict[str, Any]", error)
    for name in ("innererror", "metadata"):
        yield from codes_in(fields.get(name), depth + 1)
    yield from _codes_behind(fields, depth)
    if "flagged_input" in fields:  # OpenRouter's moderation, which comes with the status of a refused key
        yield "content_policy_violation"
    parameter = fields.get("param")
    if isinstance(parameter, str) and parameter in _PARAMETERS:
        yield _PARAMETERS[parameter]
    for name in ("error_type", "reason", "code", "type", "status"):
        value = fields.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool):
            yield str(value)


def status_in(error: object) -> int | None:
    """The HTTP status that an error object states itself."""
    return next((int(code) for code in codes_in(error) if code.isdecimal() and len(code) == 3), None)


def wait_in(error: object) -> float | None:
    """Seconds to wait, where the error object says so: Google's ``retryDelay``, or ``resets_in_seconds``."""
    if not isinstance(error, dict):
        return None
    fields = cast("dict[str, Any]", error)
    seconds = fields.get("resets_in_seconds")
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds < 1e7:
        return float(seconds)
    for detail in _items(fields.get("details")):
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and delay.endswith("s") and delay[:-1].replace(".", "", 1).isdecimal():
            return float(delay[:-1])
    return None


def error_object(body: bytes) -> object:
    """The error in a JSON body of any of the usual shapes; ``None`` when there is none."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if isinstance(document, list) and document:
        document = cast("list[Any]", document)[0]
    if not isinstance(document, dict):
        return None
    fields = cast("dict[str, Any]", document)
    return fields.get("error") or fields


def _codes_behind(fields: dict[str, Any], depth: int) -> Iterator[str]:
    """The codes of what a gateway passes on: Google's details, and what the server behind OpenRouter said."""
    for detail in _items(fields.get("details")):
        yield from codes_in(detail, depth + 1)
    raw = fields.get("raw")
    if isinstance(raw, str) and raw.lstrip()[:1] in ("{", "["):
        yield from codes_in(error_object(raw.encode("utf-8", "replace")), depth + 1)


def _items(value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        return []
    return [cast("dict[str, Any]", item) for item in cast("list[object]", value) if isinstance(item, dict)]


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
    if reason == "bad_request" and _says_too_long(status, error, detail):
        reason = "context_too_long"
    wait = retry_after(headers)
    if status == 402 and wait is not None:
        reason = "rate_limit"  # what comes back by waiting is a budget for the moment, not an empty account
    wait = wait_in(error) if wait is None else wait
    line = message(endpoint, reason, detail, status, wait)
    return _with_details(ProviderError(line, reason=reason, status_code=status, retry_after=wait), error)


def error_in_body(endpoint: Endpoint, error: object) -> ProviderError:
    """The error for an ``error`` object inside a body or a stream whose status promised success."""
    status = status_in(error)
    reason = classify(status, codes_in(error))
    detail = _detail(error)
    if reason in ("bad_request", "server_error") and _says_too_long(status or 400, error, detail):
        reason = "context_too_long"
    wait = wait_in(error)
    line = message(endpoint, reason, detail, status, wait)
    return _with_details(ProviderError(line, reason=reason, status_code=status, retry_after=wait), error)


def _with_details(failure: ProviderError, error: object) -> ProviderError:
    """The failure with what the server said, for plugins that classify it."""
    failure.code = next(codes_in(error), "")
    if isinstance(error, dict):
        failure.body = cast("dict[str, Any]", error)
    return failure


def _says_too_long(status: int, error: object, detail: str) -> bool:
    """Whether the text of a refusal is one of those that servers have for a conversation that is too long."""
    if status not in _SAYS_TOO_LONG:
        return False
    said = [detail]
    metadata: Any = cast("dict[str, Any]", error).get("metadata") if isinstance(error, dict) else None
    if isinstance(metadata, dict):  # what the server behind a gateway said
        said.append(str(cast("dict[str, Any]", metadata).get("raw") or "")[:2000])
    return any(re.search(_TOO_LONG, text, re.IGNORECASE) for text in said)


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
    parts = urlsplit(endpoint.base_url)
    if reason == "model_missing" and not parts.path.strip("/"):
        line += f", which usually ends in /v1: try {parts.scheme}://{parts.netloc.rpartition('@')[2]}/v1"
    return scrub(endpoint, line)


def _span(seconds: float | None) -> str:
    if not seconds:
        return "a little"
    return f"{max(seconds, 1):.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def describe(reason: FailureReason, model: str) -> str:
    """A short description of a class of failure."""
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
