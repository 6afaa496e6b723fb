"""Stored credentials as text and data for a person. Of a key its last characters are shown, of a token nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from hermes.cli.terminal import plain
from hermes.config.sections import PoolStrategy
from hermes.models.credentials.credential import Credential
from hermes.models.credentials.refresh import login_command
from hermes.sanitize import redact_text

_HEADINGS = ("PROVIDER", "ID", "PROFILE", "KEY", "REQUESTS", "STATE")
_NOTHING = (
    "Nothing is stored. 'hermes auth add PROVIDER' stores a key, 'hermes auth login PROVIDER' signs in "
    "at one that is set up for it."
)


def credential_lines(credentials: Sequence[Credential]) -> Iterator[str]:
    """A table, a line each."""
    if not credentials:
        yield _NOTHING
        return
    rows = [_HEADINGS, *map(_cells, credentials)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS) - 1)]
    for row in rows:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()


def credential_row(one: Credential, strategy: PoolStrategy) -> dict[str, Any]:
    """A credential as data."""
    now = time.time()
    return {
        "provider": one.provider,
        "id": one.id,
        "profile": one.label,
        "type": one.auth_type,
        "key": one.masked,
        "source": one.source,
        "strategy": strategy,
        "status": _status(one, now),
        "back_in_seconds": round(one.cooldown_until - now) if one.is_cooling_down(now) else None,
        "last_error_code": one.error_code,
        "last_error_reason": one.error_reason or None,
        "last_error_message": redact_text(one.error_message) or None,
        "requests": one.request_count,
        "last_used_at": one.last_used_at or None,
        "expires_at": one.expires_at,
    }


def _cells(one: Credential) -> tuple[str, ...]:
    stored = one.source != "configured"
    return (
        plain(one.provider),
        plain(one.id) or "-",
        plain(one.label) or "-",
        "sign-in" if one.auth_type == "oauth" else one.masked,
        str(one.request_count) if stored else "-",
        _state(one) if stored else "from the configuration or the environment, used first",
    )


def _state(one: Credential) -> str:
    now = time.time()
    why = ", ".join(filter(None, (plain(one.error_reason), f"HTTP {one.error_code}" if one.error_code else "")))
    match _status(one, now):
        case "dead":
            return f"ended ({why or 'refused'}); run: {plain(login_command(one))}"
        case "cooling_down":
            return f"cooling down, back in {_duration(one.cooldown_until - now)} ({why})"
        case "expired":
            return f"expired; run: {plain(login_command(one))}"
        case _:
            return f"ready, after a failure ({why})" if one.status == "exhausted" else "ready"


def _status(one: Credential, now: float) -> str:
    if one.status == "dead":
        return "dead"
    if one.is_cooling_down(now):
        return "cooling_down"
    return "expired" if one.has_expired(now) and not one.refresh_token else "ready"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3_600:.0f} h"
