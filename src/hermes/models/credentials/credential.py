"""One stored credential: its record in the file, read and updated."""

from __future__ import annotations

import math
import time
from typing import Any, Literal, cast

import msgspec

from hermes.base.errors import FailureReason, ProviderError

AuthType = Literal["api_key", "oauth"]
Status = Literal["ok", "exhausted", "dead"]

#: A record as the file has it. Fields that are not known here stay as they are.
StoredFields = dict[str, Any]

#: Failures that concern the key and not the request, with the seconds of its cooldown.
COOLDOWNS: dict[FailureReason, float] = {"auth": 300.0, "billing": 3600.0, "rate_limit": 3600.0}
#: No provider keeps a key out for longer; a reset time beyond it is a mistake.
_MAX_COOLDOWN = 31 * 86_400.0
#: A token is refreshed this long before it expires, so that it does not expire on the way.
REFRESH_MARGIN = 60.0
#: How far a clock may be wrong before the times it wrote are ignored.
_CLOCK_ERROR = 300.0
#: The last characters of a shorter key would reveal too much.
_MIN_LENGTH_SHOWN = 16
#: Moments beyond this are milliseconds: as seconds they are thousands of years away.
_MIN_MILLISECONDS = 1e11


class Credential(msgspec.Struct, frozen=True):
    """A key or a sign-in. Its secrets stay out of the ``repr``."""

    provider: str
    id: str
    label: str
    secret: str
    auth_type: AuthType = "api_key"
    refresh_token: str = ""
    base_url: str = ""
    source: str = ""
    priority: float = 0.0
    #: When the token expires; ``None`` when it does not, or when that is unknown.
    expires_at: float | None = None
    status: Status = "ok"
    #: The end of the cooldown after a failure.
    cooldown_until: float = 0.0
    error_code: int | None = None
    error_reason: str = ""
    error_message: str = ""
    request_count: int = 0
    last_used_at: float = 0.0

    def __repr__(self) -> str:
        return f"Credential({self.provider!r}, {self.id!r}, {self.label!r}, {self.auth_type}, {self.status})"

    def is_cooling_down(self, now: float) -> bool:
        """Whether it failed so recently that another one should be used."""
        return self.status == "exhausted" and now < self.cooldown_until

    def needs_refresh(self, now: float) -> bool:
        """Whether its token expires soon and can be refreshed."""
        return bool(self.refresh_token) and self.expires_at is not None and now > self.expires_at - REFRESH_MARGIN

    def has_expired(self, now: float) -> bool:
        """Whether its token has certainly expired."""
        return self.expires_at is not None and now >= self.expires_at

    @property
    def masked(self) -> str:
        """The end of a key, to distinguish it from others; nothing of a token."""
        if self.auth_type == "oauth":
            return ""
        return f"…{self.secret[-4:]}" if len(self.secret) >= _MIN_LENGTH_SHOWN else "…"


def read_credential(provider: str, record: object) -> Credential | None:
    """The credential that a record describes, or ``None`` when it is not one that could be used."""
    if not isinstance(record, dict):
        return None
    fields = cast("StoredFields", record)
    identity, secret = fields.get("id"), fields.get("access_token")
    if not (isinstance(identity, str) and identity and isinstance(secret, str) and secret):
        return None
    status = fields.get("last_status")
    code = _number(fields.get("last_error_code"))
    return Credential(
        provider=provider,
        id=identity,
        label=_text_or_empty(fields.get("label")) or identity,
        secret=secret,
        auth_type="oauth" if _text_or_empty(fields.get("auth_type")).startswith("oauth") else "api_key",
        refresh_token=_text_or_empty(fields.get("refresh_token")),
        base_url=_text_or_empty(fields.get("base_url")),
        source=_text_or_empty(fields.get("source")),
        priority=_number(fields.get("priority")) or 0.0,
        expires_at=_moment(fields.get("expires_at_ms")) or _moment(fields.get("expires_at")),
        status=status if status in ("exhausted", "dead") else "ok",
        cooldown_until=_cooldown_until(fields, code),
        error_code=None if code is None else int(code),
        error_reason=_text_or_empty(fields.get("last_error_reason")),
        error_message=_text_or_empty(fields.get("last_error_message")),
        request_count=int(_number(fields.get("request_count")) or 0),
        last_used_at=_moment(fields.get("last_used_at")) or 0.0,
    )


def failed_fields(error: ProviderError, now: float, message: str) -> StoredFields:
    """The fields of a record after a failure that concerns its key."""
    wait = error.retry_after
    wait = wait if wait is not None and math.isfinite(wait) and wait >= 0 else None
    return {
        "last_status": "exhausted",
        "last_status_at": now,
        "last_error_code": error.status_code,
        "last_error_reason": error.reason,
        "last_error_message": message,
        "last_error_reset_at": now + min(COOLDOWNS[error.reason] if wait is None else wait, _MAX_COOLDOWN),
    }


def recovered_fields(now: float) -> StoredFields:
    """The fields of a record once its key works again."""
    gone = ("last_error_code", "last_error_reason", "last_error_message", "last_error_reset_at")
    return {"last_status": "ok", "last_status_at": now, **dict.fromkeys(gone)}


def dead_fields(now: float, code: str) -> StoredFields:
    """The fields of a sign-in that the provider has ended for good."""
    return {**recovered_fields(now), "last_status": "dead", "last_error_reason": code}


def apply_fields(record: StoredFields, fields: StoredFields) -> None:
    """Change a record; ``None`` removes a field."""
    for name, value in fields.items():
        if value is None:
            record.pop(name, None)
        else:
            record[name] = value


def _cooldown_until(fields: StoredFields, code: float | None) -> float:
    failed_at = _moment(fields.get("last_status_at")) or 0.0
    if failed_at > time.time() + _CLOCK_ERROR:
        return 0.0  # written under a clock that was far ahead, so its reset time means nothing
    reset = _moment(fields.get("last_error_reset_at"))
    if reset is not None:
        return min(reset, failed_at + _MAX_COOLDOWN) if failed_at else reset
    return failed_at + (COOLDOWNS["auth"] if code == 401 else COOLDOWNS["rate_limit"])


def _text_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _moment(value: object) -> float | None:
    """A moment in seconds, from seconds, milliseconds or an ISO date."""
    number = _number(value)
    if number is not None:
        return number / 1000 if number >= _MIN_MILLISECONDS else number
    if not isinstance(value, str) or not value:
        return None
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
