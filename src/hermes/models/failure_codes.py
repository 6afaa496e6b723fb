"""From the status and the structured codes of a refusal to its class. Words in free text decide nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec

from hermes.errors import FailureReason

#: Codes, types and reasons that servers put in the error object, in lower case. They say more than most statuses.
CODES: dict[str, FailureReason] = {
    # -- the conversation is too long
    "context_length_exceeded": "context_too_long",
    "context_window_exceeded": "context_too_long",
    "model_context_window_exceeded": "context_too_long",
    "exceed_context_size_error": "context_too_long",
    "string_above_max_length": "context_too_long",
    "string_too_long": "context_too_long",
    "token_limit_exceeded": "context_too_long",
    "request_too_large": "context_too_long",
    "payload_too_large": "context_too_long",
    # -- the content is not wanted
    "content_filter": "content_policy",
    "content_policy_violation": "content_policy",
    "moderation_blocked": "content_policy",
    "responsibleaipolicyviolation": "content_policy",
    "data_inspection_failed": "content_policy",
    "refusal": "content_policy",
    # -- no credit
    "insufficient_quota": "billing",
    "insufficient_credits": "billing",
    "insufficient_balance": "billing",
    "billing_error": "billing",
    "billing_not_active": "billing",
    "billing_hard_limit_reached": "billing",
    "payment_required": "billing",
    "failed_precondition": "billing",
    # -- the key
    "invalid_api_key": "auth",
    "api_key_invalid": "auth",
    "api_key_expired": "auth",
    "account_deactivated": "auth",
    "invalid_organization": "auth",
    "unsupported_country_region_territory": "auth",
    "authentication": "auth",
    "authentication_error": "auth",
    "invalid_authentication_error": "auth",
    "permission_error": "auth",
    "permission_denied": "auth",
    "unauthenticated": "auth",
    # -- the model
    "model_not_found": "model_missing",
    "model_not_available": "model_missing",
    "model_decommissioned": "model_missing",
    "invalid_model": "model_missing",
    "deploymentnotfound": "model_missing",
    "not_found_error": "model_missing",
    "notfounderror": "model_missing",
    "not_found": "model_missing",
    # -- too much at once
    "rate_limit_exceeded": "rate_limit",
    "rate_limit_error": "rate_limit",
    "rate_limited": "rate_limit",
    "usage_limit_reached": "rate_limit",
    "resource_exhausted": "rate_limit",
    "overloaded_error": "overloaded",
    "overloaded": "overloaded",
    "engine_overloaded": "overloaded",
    "server_is_overloaded": "overloaded",
    "provider_overloaded": "overloaded",
    "provider_unavailable": "overloaded",
    "service_tier_capacity_exceeded": "overloaded",
    "capacity_exceeded": "overloaded",
    "slow_down": "overloaded",
    "unavailable": "overloaded",
    "unavailable_error": "overloaded",
    "service_unavailable": "overloaded",
    # -- too slow
    "deadline_exceeded": "timeout",
    "timeout_error": "timeout",
    # -- what the model wrote could not be read: it may write better next time
    "tool_use_failed": "malformed",
    "json_validate_failed": "malformed",
}

#: Codes so general that any status says more; they count where there is no status.
GENERAL: dict[str, FailureReason] = {
    "invalid_request_error": "bad_request",
    "invalid_request": "bad_request",
    "invalid_argument": "bad_request",
    "invalid_prompt": "bad_request",
    "badrequesterror": "bad_request",
    "timeout": "timeout",
    "server": "server_error",
    "server_error": "server_error",
    "internal_server_error": "server_error",
    "internalservererror": "server_error",
    "api_error": "server_error",
    "internal": "server_error",
}

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
