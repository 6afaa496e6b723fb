"""Moments as trace formats write them."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(at: float) -> str:
    """Seconds since the epoch as RFC 3339 in UTC, to the microsecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def milliseconds(started_at: float, ended_at: float | None) -> int | None:
    """How long something took; None while it runs."""
    return None if ended_at is None else round((ended_at - started_at) * 1000)
