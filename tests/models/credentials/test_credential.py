"""What follows from a record, however strange it is."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.errors import FailureReason, ProviderError
from hermes.models.credentials.credential import (
    Credential,
    apply_fields,
    dead_fields,
    failed_fields,
    read_credential,
    recovered_fields,
)

NOW = time.time()
BASE: dict[str, Any] = {"id": "a", "access_token": "sk-0123456789abcdef"}


def credential(**fields: Any) -> Credential:
    found = read_credential("lab", BASE | fields)
    assert found is not None
    return found


def failed(reason: FailureReason, code: int | None = None, retry_after: float | None = None) -> Credential:
    error = ProviderError("no", reason=reason, status_code=code, retry_after=retry_after)
    return credential(**failed_fields(error, NOW, "no"))


@pytest.mark.parametrize(
    ("reason", "retry_after", "seconds"),
    [
        ("auth", None, 300),
        ("billing", None, 3600),
        ("rate_limit", None, 3600),
        ("rate_limit", 7.0, 7),
        ("auth", 900.0, 900),
        ("rate_limit", 0.0, 0),
        ("rate_limit", float("nan"), 3600),
        ("rate_limit", -5.0, 3600),
        ("rate_limit", 1e12, 31 * 86_400),
    ],
)
def test_a_failed_key_rests_as_long_as_its_failure_says(
    reason: FailureReason, retry_after: float | None, seconds: float
) -> None:
    found = failed(reason, 429, retry_after)
    assert found.cooldown_until == pytest.approx(NOW + seconds)
    assert found.is_cooling_down(NOW + seconds - 0.1) or seconds == 0
    assert not found.is_cooling_down(NOW + seconds + 0.1)


@pytest.mark.parametrize(("code", "seconds"), [(401, 300), (402, 3600), (429, 3600), (None, 3600)])
def test_a_record_without_a_reset_time_goes_by_its_code(code: int | None, seconds: float) -> None:
    found = credential(last_status="exhausted", last_status_at=NOW, last_error_code=code)
    assert found.cooldown_until == pytest.approx(NOW + seconds)


def test_moments_are_understood_in_every_spelling() -> None:
    for value in (1_900_000_000, 1_900_000_000.0, 1_900_000_000_000, "2030-03-17T17:46:40Z", "2030-03-17T17:46:40"):
        assert credential(expires_at=value).expires_at == 1_900_000_000, value
    assert credential(expires_at_ms=1_900_000_000_000, expires_at="soon").expires_at == 1_900_000_000
    assert credential(expires_at="soon").expires_at is None


def test_what_a_clock_far_ahead_wrote_does_not_keep_a_key_out() -> None:
    later = NOW + 4 * 365 * 86_400
    found = credential(last_status="exhausted", last_status_at=later, last_error_reset_at=later + 60)
    assert not found.is_cooling_down(NOW)


def test_a_key_that_works_again_forgets_its_failure() -> None:
    record: dict[str, Any] = dict(BASE)
    apply_fields(record, failed_fields(ProviderError("x", reason="auth", status_code=401), NOW, "x"))
    apply_fields(record, recovered_fields(NOW))
    assert record == BASE | {"last_status": "ok", "last_status_at": NOW}
    apply_fields(record, dead_fields(NOW, "invalid_grant"))
    found = read_credential("lab", record)
    assert found is not None and (found.status, found.error_reason) == ("dead", "invalid_grant")


def test_of_a_key_its_end_is_shown_and_of_a_token_nothing() -> None:
    assert credential().masked == "…cdef"
    assert credential(access_token="short").masked == "…"
    assert credential(auth_type="oauth").masked == ""
    assert "sk-0123" not in repr(credential()) and "refresh-" not in repr(credential(refresh_token="refresh-x"))


def test_tokens_are_renewed_a_minute_before_they_end_if_they_can_be() -> None:
    renewable = credential(expires_at=NOW + 61, refresh_token="r")
    assert not renewable.needs_refresh(NOW) and renewable.needs_refresh(NOW + 2)
    assert not credential(expires_at=NOW - 5).needs_refresh(NOW)
    assert credential(expires_at=NOW - 5).has_expired(NOW) and not credential().has_expired(NOW)


values = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers(), max_size=2)
names = st.sampled_from(
    [
        *("id", "access_token", "label", "auth_type", "priority", "expires_at", "expires_at_ms", "last_status"),
        *("last_status_at", "last_error_code", "last_error_reset_at", "request_count", "refresh_token", "last_used_at"),
    ]
)


@given(record=st.dictionaries(names, values) | values)
def test_any_record_is_a_credential_or_none(record: object) -> None:
    found = read_credential("lab", record)
    if found is not None:
        assert found.id and found.secret and found.label
        assert isinstance(found.is_cooling_down(NOW), bool) and isinstance(found.needs_refresh(NOW), bool)
        assert found.request_count is not None and found.status in ("ok", "exhausted", "dead")
