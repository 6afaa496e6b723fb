"""Timings: what is understood, and fire times across changes of the clock, in the time zones that have the odd ones."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.service.schedules.timing import (
    Timing,
    TimingError,
    duration_text,
    last_fire,
    local_zone,
    moment_text,
    next_fire,
    parse_timing,
    read_timing,
    zone_of,
)

BERLIN = "Europe/Berlin"


def at(text: str, zone: str = BERLIN) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone_of(zone)).timestamp()


def fires(text: str, zone: str, after: float, count: int) -> list[str]:
    """The next fire times on the clock of the zone."""
    timing, found = parse_timing(text, zone, after), list[str]()
    for _ in range(count):
        following = next_fire(timing, zone, 0.0, after)
        assert following is not None
        found.append(moment_text(following, zone))
        after = following
    return found


# -- reading --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("0 9 * * mon-fri", "0 9 * * mon-fri"),
        ("  0   9 * * 1 ", "0 9 * * 1"),
        ("@daily", "0 0 * * *"),
        ("@HOURLY", "0 * * * *"),
        ("every 2h", "every 2h"),
        ("Every 90 minutes", "every 1h30m"),
        ("every day", "every 1d"),
        ("every 1 week", "every 7d"),
        ("in 30m", "2026-01-01T12:30:00+01:00"),
        ("1h30m", "2026-01-01T13:30:00+01:00"),
        ("at 2026-07-01 08:00", "2026-07-01T08:00:00+02:00"),
        ("2026-07-01T08:00:00Z", "2026-07-01T10:00:00+02:00"),
        ("2026-07-01", "2026-07-01T00:00:00+02:00"),
    ],
)
def test_timings_are_stored_in_one_form(written: str, stored: str) -> None:
    timing = parse_timing(written, BERLIN, at("2026-01-01 12:00"))
    assert timing.text == stored
    assert read_timing(stored) == timing


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "is not a time or schedule; allowed are a cron expression of five fields"),
        ("tomorrow", "is not a time or schedule"),
        ("* * * * * *", "is not a time or schedule"),
        ("61 * * * *", "is wrong: bad minute"),
        ("0 0 30 2 *", "is wrong: bad day-of-month"),
        ("0 0 1 * mon#6", "is wrong"),
        ("every 30s", "from 1 minute to 366 days"),
        ("every 400d", "from 1 minute to 366 days"),
        ("every so often", "has no duration"),
        ("2026-01-01 11:59", "is over: it is 2026-01-01 12:00:00 +0100 now"),
        ("in 0m", "is over"),
        ("2026-13-01", "is not a moment"),
        ("in 999999999d", "years away"),
    ],
)
def test_wrong_timings_say_what_is_allowed(written: str, said: str) -> None:
    with pytest.raises(TimingError, match=re.escape(said)):
        parse_timing(written, BERLIN, at("2026-01-01 12:00"))


@given(st.integers(min_value=60, max_value=366 * 86_400))
@settings(max_examples=60, deadline=None)
def test_the_text_of_an_interval_gives_the_interval(seconds: int) -> None:
    timing = parse_timing(f"every {duration_text(seconds)}", "UTC", 0.0)
    assert (timing.seconds, read_timing(timing.text)) == (seconds, timing)


def test_unknown_time_zones_name_the_nearest() -> None:
    with pytest.raises(TimingError, match="did you mean 'Europe/Berlin'"):
        zone_of("Europe/Berln")
    for name in ("../etc/passwd", "", "Mars/Olympus_Mons_Base"):
        with pytest.raises(TimingError, match="there is no time zone"):
            zone_of(name)


def test_the_zone_of_the_machine(tmp_path: Path) -> None:
    assert local_zone({"TZ": "Asia/Kathmandu"}, root=tmp_path) == "Asia/Kathmandu"
    assert local_zone({"TZ": "CET-1CEST,M3.5.0"}, root=tmp_path) == "UTC"
    (tmp_path / "timezone").write_text("America/Sao_Paulo\n")
    assert local_zone({}, root=tmp_path) == "America/Sao_Paulo"
    (tmp_path / "localtime").symlink_to("/usr/share/zoneinfo/Europe/Paris")
    assert local_zone({}, root=tmp_path) == "Europe/Paris"


# -- changes of the clock -------------------------------------------------------------------------------------------


def test_a_time_that_the_clock_skips_fires_once_right_after() -> None:
    assert fires("30 2 * * *", BERLIN, at("2026-03-28 12:00"), 2) == [
        "2026-03-29 03:00:00 +0200",
        "2026-03-30 02:30:00 +0200",
    ]
    # Two times in the gap are one fire.
    assert fires("15,45 2 * * *", BERLIN, at("2026-03-29 00:00"), 2) == [
        "2026-03-29 03:00:00 +0200",
        "2026-03-30 02:15:00 +0200",
    ]


def test_an_expression_of_times_that_the_clock_always_skips_is_refused() -> None:
    """The hour of the last Sunday in March: with a star it follows the clock, which does not show it."""
    assert next_fire(Timing("cron", "* 2 * 3 7L"), BERLIN, 0.0, at("2026-01-01 00:00")) is None
    with pytest.raises(TimingError, match="never fires"):
        parse_timing("* 2 * 3 7L", BERLIN, at("2026-01-01 00:00"))
    assert fires("0 2 * 3 7L", BERLIN, at("2026-01-01 00:00"), 1) == ["2026-03-29 03:00:00 +0200"]


def test_a_time_that_the_clock_shows_twice_fires_the_first_time() -> None:
    assert fires("30 2 * * *", BERLIN, at("2026-10-24 12:00"), 2) == [
        "2026-10-25 02:30:00 +0200",
        "2026-10-26 02:30:00 +0100",
    ]
    second_pass = at("2026-10-25 02:30") + 3_600 - 60
    assert moment_text(second_pass, BERLIN) == "2026-10-25 02:29:00 +0100"
    assert fires("30 2 * * *", BERLIN, second_pass, 1) == ["2026-10-26 02:30:00 +0100"]


def test_an_expression_that_repeats_by_the_clock_follows_elapsed_time() -> None:
    assert fires("*/30 * * * *", BERLIN, at("2026-10-25 01:30"), 5) == [
        "2026-10-25 02:00:00 +0200",
        "2026-10-25 02:30:00 +0200",
        "2026-10-25 02:00:00 +0100",
        "2026-10-25 02:30:00 +0100",
        "2026-10-25 03:00:00 +0100",
    ]
    assert fires("*/30 * * * *", BERLIN, at("2026-03-29 01:29"), 2) == [
        "2026-03-29 01:30:00 +0100",
        "2026-03-29 03:00:00 +0200",
    ]


def test_an_interval_is_elapsed_time() -> None:
    timing, anchor = parse_timing("every 1d", BERLIN, 0.0), at("2026-03-28 09:00")
    first = next_fire(timing, BERLIN, anchor, anchor)
    assert first is not None
    assert moment_text(first, BERLIN) == "2026-03-29 10:00:00 +0200"
    assert next_fire(timing, BERLIN, anchor, anchor - 10_000_000) == first  # never before it was made


def test_a_moment_in_the_gap_is_the_next_that_exists() -> None:
    now = at("2026-01-01 12:00")
    assert parse_timing("2026-03-29 02:30", BERLIN, now).text == "2026-03-29T03:00:00+02:00"
    assert parse_timing("2026-10-25 02:30", BERLIN, now).text == "2026-10-25T02:30:00+02:00"


ZONES = st.sampled_from(
    [
        *("UTC", BERLIN, "America/New_York", "Asia/Kolkata", "Pacific/Auckland"),
        "Australia/Lord_Howe",  # half an hour
        "America/Havana",  # at midnight
        "Asia/Beirut",
        "Africa/Casablanca",  # twice a year around Ramadan
        "America/Scoresbysund",
    ]
)
EXPRESSIONS = st.builds(
    " ".join,
    st.tuples(
        st.sampled_from(["0", "30", "*", "*/7", "15,45", "0-10/5"]),
        st.sampled_from(["0", "1", "2", "3", "*", "*/2", "1-3", "22-23"]),
        st.sampled_from(["*", "1", "L", "29", "*/5"]),
        st.sampled_from(["*", "3", "4,10", "11"]),
        st.sampled_from(["*", "sun", "1-5", "sun#1", "7L"]),
    ),
)
MOMENTS = st.floats(min_value=1_700_000_000, max_value=1_860_000_000)


@given(EXPRESSIONS, ZONES, MOMENTS, st.floats(min_value=0, max_value=1))
@settings(max_examples=150, deadline=None)
def test_fire_times_do_not_depend_on_when_they_are_asked_for(
    expression: str, zone: str, after: float, part: float
) -> None:
    timing = Timing("cron", expression)
    following = next_fire(timing, zone, 0.0, after)
    if following is None:
        return
    assert following > after
    between = after + (following - after) * part
    if between < following:
        assert next_fire(timing, zone, 0.0, between) == following


@cache
def changes_of_the_clock(zone: str) -> list[float]:
    """The hours of 2024 to 2027 in which the offset of a zone changes, as their beginnings."""

    def offset(moment: float) -> timedelta | None:
        return datetime.fromtimestamp(moment, zone_of(zone)).utcoffset()

    begin = datetime(2024, 1, 1, tzinfo=UTC).timestamp()
    days = [
        begin + 86_400 * day
        for day in range(4 * 365)
        if offset(begin + 86_400 * day) != offset(begin + 86_400 * (day + 1))
    ]
    return [
        day + 3_600 * n for day in days for n in range(24) if offset(day + 3_600 * n) != offset(day + 3_600 * (n + 1))
    ]


@given(
    EXPRESSIONS, ZONES.filter(changes_of_the_clock), st.integers(0, 1_000), st.integers(-8, 8), st.integers(0, 3_599)
)
@settings(max_examples=150, deadline=None)
def test_the_same_close_to_changes_of_the_clock(
    expression: str, zone: str, choice: int, quarters: int, second: int
) -> None:
    changes = changes_of_the_clock(zone)
    after = changes[choice % len(changes)] + quarters * 900 + second
    timing = Timing("cron", expression)
    following = next_fire(timing, zone, 0.0, after)
    if following is None or following - after > 86_400:
        return
    for step in range(1, 4):
        between = after + (following - after) * step / 4
        assert next_fire(timing, zone, 0.0, between) == following


@given(EXPRESSIONS, ZONES, MOMENTS, st.integers(min_value=0, max_value=40 * 86_400))
@settings(max_examples=100, deadline=None)
def test_the_last_fire_time_is_the_one_before_the_next(expression: str, zone: str, after: float, length: int) -> None:
    timing = Timing("cron", expression)
    first = next_fire(timing, zone, 0.0, after)
    if first is None:
        return
    until = first + length
    last = last_fire(timing, zone, 0.0, first, until)
    assert first <= last <= until
    following = next_fire(timing, zone, 0.0, last)
    assert following is None or following > until


@given(st.integers(60, 10_000_000), MOMENTS, st.floats(min_value=0, max_value=1e8))
@settings(max_examples=60, deadline=None)
def test_an_interval_keeps_its_grid(seconds: int, anchor: float, later: float) -> None:
    timing, anchor = Timing("every", "", seconds=seconds), float(int(anchor))
    following = next_fire(timing, "UTC", anchor, anchor + later)
    assert following is not None
    assert following > anchor + later
    assert (following - anchor) % seconds == 0
    assert last_fire(timing, "UTC", anchor, following, following + seconds - 1) == following


def test_zones_are_those_of_the_clock() -> None:
    assert datetime.fromtimestamp(0, zone_of(BERLIN)).utcoffset() == timedelta(hours=1)
