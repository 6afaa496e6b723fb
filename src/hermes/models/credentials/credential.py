"""One stored credential: what its record in the file says, and what follows from that."""

from __future__ import annotations

import math
import time
from typing import Any, Literal, cast

import msgspec

from hermes.errors import FailureReason, ProviderError

AuthType = Literal["api_key", "oauth"]
Status = Literal["ok", "exhausted", "dead"]

#: A record as the file has it. Fields that are not known here stay as they are.
Record = dict[str, Any]

#: Failures that concern the key and not the request, with the seconds the key then rests.
COOL_DOWNS: dict[FailureReason, float] = {"auth": 300.0, "billing": 3600.0, "rate_limit": 3600.0}
#: No provider keeps a key out for longer; a reset time beyond it is a mistake.
_LONGEST_REST = 31 * 86_400.0
#: A token is renewed this long before it ends, so that it does not end on the way.
RENEWAL_MARGIN = 60.0
#: How far a clock may be wrong before what it wrote is not believed.
_CLOCK_ERROR = 300.0
#: Of a shorter key the last characters would give away too much.
_SHOWS_ITS_END = 16
#: Moments beyond this are milliseconds: as seconds they are thousands of years away.
_MILLISECONDS_FROM = 1e11


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
    #: When the token ends; ``None`` for one that does not, or does not say.
    expires_at: float | None = None
    status: Status = "ok"
    #: Until when the credential rests after a failure.
    rests_until: float = 0.0
    error_code: int | None = None
    error_reason: str = ""
    error_message: str = ""
    request_count: int = 0
    last_used_at: float = 0.0

    def __repr__(self) -> str:
        return f"Credential({self.provider!r}, {self.id!r}, {self.label!r}, {self.auth_type}, {self.status})"

    def is_resting(self, now: float) -> bool:
        """Whether it failed so lately that another one should be used."""
        return self.status == "exhausted" and now < self.rests_until

    def needs_renewal(self, now: float) -> bool:
        """Whether its token ends soon and there is a way to get another."""
        return bool(self.refresh_token) and self.expires_at is not None and now > self.expires_at - RENEWAL_MARGIN

    def has_ended(self, now: float) -> bool:
        """Whether its token is certainly of no use any more."""
        return self.expires_at is not None and now >= self.expires_at

    @property
    def masked(self) -> str:
        """Enough of a key to tell it from another one; nothing of a token."""
        if self.auth_type == "oauth":
            return ""
        return f"…{self.secret[-4:]}" if len(self.secret) >= _SHOWS_ITS_END else "…"


def read_credential(provider: str, record: object) -> Credential | None:
    """The credential that a record describes, or ``None`` when it is not one that could be used."""
    if not isinstance(record, dict):
        return None
    fields = cast("Record", record)
    identity, secret = fields.get("id"), fields.get("access_token")
    if not (isinstance(identity, str) and identity and isinstance(secret, str) and secret):
        return None
    status = fields.get("last_status")
    code = _number(fields.get("last_error_code"))
    return Credential(
        provider=provider,
        id=identity,
        label=_text(fields.get("label")) or identity,
        secret=secret,
        auth_type="oauth" if _text(fields.get("auth_type")).startswith("oauth") else "api_key",
        refresh_token=_text(fields.get("refresh_token")),
        base_url=_text(fields.get("base_url")),
        source=_text(fields.get("source")),
        priority=_number(fields.get("priority")) or 0.0,
        expires_at=_moment(fields.get("expires_at_ms")) or _moment(fields.get("expires_at")),
        status=status if status in ("exhausted", "dead") else "ok",
        rests_until=_rests_until(fields, code),
        error_code=None if code is None else int(code),
        error_reason=_text(fields.get("last_error_reason")),
        error_message=_text(fields.get("last_error_message")),
        request_count=int(_number(fields.get("request_count")) or 0),
        last_used_at=_moment(fields.get("last_used_at")) or 0.0,
    )


def failed_fields(error: ProviderError, now: float, message: str) -> Record:
    """What the record of a key says after a failure that concerns it."""
    told = error.retry_after
    told = told if told is not None and math.isfinite(told) and told >= 0 else None
    return {
        "last_status": "exhausted",
        "last_status_at": now,
        "last_error_code": error.status_code,
        "last_error_reason": error.reason,
        "last_error_message": message,
        "last_error_reset_at": now + min(COOL_DOWNS[error.reason] if told is None else told, _LONGEST_REST),
    }


def recovered_fields(now: float) -> Record:
    """What the record says once the key works again."""
    gone = ("last_error_code", "last_error_reason", "last_error_message", "last_error_reset_at")
    return {"last_status": "ok", "last_status_at": now, **dict.fromkeys(gone)}


def dead_fields(now: float, code: str) -> Record:
    """What the record says of a sign-in that the provider has ended for good."""
    return {**recovered_fields(now), "last_status": "dead", "last_error_reason": code}


def apply_fields(record: Record, fields: Record) -> None:
    """Change a record; ``None`` takes a field away."""
    for name, value in fields.items():
        if value is None:
            record.pop(name, None)
        else:
            record[name] = value


def _rests_until(fields: Record, code: float | None) -> float:
    failed_at = _moment(fields.get("last_status_at")) or 0.0
    if failed_at > time.time() + _CLOCK_ERROR:
        return 0.0  # written under a clock that was far ahead, so its reset time means nothing
    reset = _moment(fields.get("last_error_reset_at"))
    if reset is not None:
        return min(reset, failed_at + _LONGEST_REST) if failed_at else reset
    return failed_at + (COOL_DOWNS["auth"] if code == 401 else COOL_DOWNS["rate_limit"])


def _text(value: object) -> str:
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
        return number / 1000 if number >= _MILLISECONDS_FROM else number
    if not isinstance(value, str) or not value:
        return None
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
