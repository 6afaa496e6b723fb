"""Timing of a schedule: a cron expression, an interval or one moment, and the fire times that follow from it.

Fire times are seconds since the epoch. Time zones and changes of the clock (DST) matter for cron expressions and for
moments without an offset; an interval is elapsed time.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Literal

from msgspec import Struct

from hermes.base.errors import HermesError, did_you_mean

#: Schedules fire at most once a minute.
SHORTEST_INTERVAL = 60
LONGEST_INTERVAL = 366 * 86_400
#: A moment or an occurrence that is farther away than this does not come.
_YEARS_AHEAD = 50
_FARTHEST = timedelta(seconds=_YEARS_AHEAD * LONGEST_INTERVAL)
#: More seconds than a clock changes by at once.
_CHANGE = 10_800

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(
    r"(?:\s*(\d{1,9})\s*(w(?:eeks?)?|d(?:ays?)?|h(?:ours?|rs?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?))+", re.IGNORECASE
)
_PART = re.compile(r"(\d{1,9})\s*([wdhms])", re.IGNORECASE)
_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
ALLOWED = (
    "allowed are a cron expression of five fields ('0 9 * * mon-fri' or @daily), an interval ('every 2h'), "
    "a delay ('in 30m') or a moment ('2027-01-31 18:00')"
)


class TimingError(HermesError):
    """A timing or a time zone that cannot be used."""


class Timing(Struct, frozen=True):
    """When a schedule fires. ``text`` is the form in which it is stored and shown."""

    kind: Literal["cron", "every", "once"]
    text: str
    #: Of an interval.
    seconds: int = 0
    #: Of a single moment.
    at: float = 0.0


# -- reading --------------------------------------------------------------------------------------------------------


def parse_timing(text: str, zone: str, now: float) -> Timing:
    """The timing that a user or a model wrote. Delays count from ``now``; a moment must be later than that."""
    words = " ".join(text.split())
    if words.lower().startswith("every "):
        length = words[6:]
        seconds = _duration(length if length[:1].isdigit() else f"1 {length}", words)
        if not SHORTEST_INTERVAL <= seconds <= LONGEST_INTERVAL:
            raise TimingError(f"the interval {words!r} is not allowed; it must be from 1 minute to 366 days")
        return Timing("every", f"every {duration_text(seconds)}", seconds=seconds)
    delay = words[3:] if words.lower().startswith("in ") else words
    if _DURATION.fullmatch(delay):
        return _once(now + _duration(delay, words), zone, now, words)
    moment = words[3:] if words.lower().startswith("at ") else words
    if re.match(r"\d{4}-\d\d-\d\d", moment):
        return _once(_instant(moment, zone), zone, now, words)
    timing = _cron(words)
    if next_fire(timing, zone, now, now) is None:
        raise TimingError(
            f"{words!r} never fires: the clock skips the times that it names, each year; name other times"
        )
    return timing


def read_timing(text: str) -> Timing:
    """The timing with that stored text."""
    if text.startswith("every "):
        return Timing("every", text, seconds=_duration(text[6:], text))
    if re.match(r"\d{4}-", text):
        return Timing("once", text, at=datetime.fromisoformat(text).timestamp())
    return Timing("cron", text)


def duration_text(seconds: int) -> str:
    """A number of seconds in the units of a timing: ``1h30m``."""
    parts: list[str] = []
    for unit in ("d", "h", "m", "s"):
        count, seconds = divmod(seconds, _UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _duration(text: str, whole: str) -> int:
    if not _DURATION.fullmatch(text.strip()):
        raise TimingError(f"{whole!r} has no duration such as 30m, 2h or 1d12h; {ALLOWED}")
    return sum(int(count) * _UNITS[unit.lower()] for count, unit in _PART.findall(text))


def _once(at: float, zone: str, now: float, text: str) -> Timing:
    if at <= now:
        raise TimingError(f"{text!r} is over: it is {moment_text(now, zone)} now; name a later moment")
    if at - now > _FARTHEST.total_seconds():
        raise TimingError(f"{text!r} is more than {_YEARS_AHEAD} years away; name an earlier moment")
    at = math.ceil(at)
    written = datetime.fromtimestamp(at, zone_of(zone)).isoformat(timespec="seconds")
    return Timing("once", written, at=at)


def _instant(text: str, zone: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise TimingError(f"{text!r} is not a moment such as 2027-01-31 18:00; {ALLOWED}") from None
    if moment.tzinfo is not None:
        return moment.timestamp()
    # Of a moment that the clock shows twice the first counts, of one that it skips the next that exists.
    return _after_gap(moment.replace(tzinfo=zone_of(zone), fold=0)).timestamp()


def _cron(text: str) -> Timing:
    from cronsim import CronSim, CronSimError

    expression = _NAMED.get(text.lower(), text)
    if len(expression.split()) != 5:
        raise TimingError(f"{text!r} is not a time or schedule; {ALLOWED}")
    try:
        next(CronSim(expression, datetime(2024, 1, 1)))  # without a zone: a time of the clock
    except CronSimError as error:
        raise TimingError(f"the cron expression {text!r} is wrong: {str(error).lower()}; {ALLOWED}") from None
    except StopIteration:
        raise TimingError(f"the cron expression {text!r} never fires; check its day and month") from None
    return Timing("cron", expression)


# -- fire times -----------------------------------------------------------------------------------------------------


def next_fire(timing: Timing, zone: str, anchor: float, after: float) -> float | None:
    """The first fire time later than ``after``; None when there is none. Intervals count from ``anchor``."""
    if timing.kind == "once":
        return timing.at if timing.at > after else None
    if timing.kind == "every":
        number = max(1, math.floor((after - anchor) / timing.seconds) + 1)
        return anchor + number * timing.seconds
    return _next_occurrence(timing.text, zone_of(zone), after)


def _next_occurrence(expression: str, zone: tzinfo, after: float) -> float | None:
    """The next occurrence of a cron expression, with the rules of Debian's cron for changes of the clock.

    The library only finds the matching times of the clock, without a zone: in a zone its results depend on where it
    starts, when a clock changes by half an hour.
    """
    from cronsim import CronSim

    follows_clock = any(field.startswith("*") for field in expression.split()[:2])
    start = _clock(after, zone)
    # Close to a change of the clock an earlier time of the clock may come later.
    slack = (
        _CHANGE
        if _clock(after + _CHANGE, zone) - _clock(after - _CHANGE, zone) != timedelta(seconds=2 * _CHANGE)
        else 0
    )
    best: float | None = None
    for shown in CronSim(expression, start - timedelta(seconds=slack)):
        if best is not None and shown > _clock(best, zone) + timedelta(seconds=slack):
            break
        if shown - start > _FARTHEST:  # it names only times that the clock skips, each year
            break
        for at in _instants(shown, zone, follows_clock=follows_clock):
            if at > after and (best is None or at < best):
                best = at
        if best is not None and not slack:
            break
    return best


def _clock(at: float, zone: tzinfo) -> datetime:
    """What the clock of a zone shows at that moment."""
    return datetime.fromtimestamp(math.floor(at), zone).replace(tzinfo=None, fold=0)


def _instants(shown: datetime, zone: tzinfo, *, follows_clock: bool) -> list[float]:
    """The moments that a time of the clock can mean.

    One that the clock shows twice is the first of them, or both with ``follows_clock``. One that it skips is the next
    that it shows, or none.
    """
    first = shown.replace(tzinfo=zone, fold=0)
    if first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != shown:
        if follows_clock:
            return []
        return [_after_gap(first).timestamp()]
    second = shown.replace(tzinfo=zone, fold=1)
    is_twice = follows_clock and second.utcoffset() != first.utcoffset()
    return [first.timestamp(), second.timestamp()] if is_twice else [first.timestamp()]


def _after_gap(moment: datetime) -> datetime:
    """The next minute that the clock shows."""
    while moment != moment.astimezone(UTC).astimezone(moment.tzinfo):
        moment += timedelta(minutes=1)
    return moment


def last_fire(timing: Timing, zone: str, anchor: float, first: float, until: float) -> float:
    """The last fire time from ``first``, which is one, to ``until``."""
    if timing.kind == "once":
        return first
    if timing.kind == "every":
        return max(first, anchor + math.floor((until - anchor) / timing.seconds) * timing.seconds)
    window = 3_600.0
    while True:
        start = max(first, until - window)
        found = first if start == first else None
        following = next_fire(timing, zone, anchor, start)
        while following is not None and following <= until:
            found = following
            following = next_fire(timing, zone, anchor, following)
        if found is not None:
            return found
        window *= 4


# -- time zones -----------------------------------------------------------------------------------------------------


def zone_of(name: str) -> tzinfo:
    """The time zone with that IANA name."""
    if name.upper() == "UTC":
        return UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise TimingError(_unknown_zone(name)) from None


def local_zone(env: Mapping[str, str] = os.environ, *, root: Path = Path("/etc")) -> str:
    """The IANA name of the machine's time zone; UTC when it has none that is known."""
    candidates = [env.get("TZ", "").lstrip(":")]
    target = os.path.realpath(root / "localtime")
    if "zoneinfo/" in target:
        candidates.append(target.rpartition("zoneinfo/")[2])
    try:
        candidates.append((root / "timezone").read_text().strip())
    except OSError:
        pass
    for name in filter(None, candidates):
        try:
            zone_of(name)
        except TimingError:
            continue
        return "UTC" if name in ("Etc/UTC", "UCT", "Etc/UCT") else name
    return "UTC"


def moment_text(at: float, zone: str) -> str:
    """A moment on the clock of a zone, with its offset."""
    return datetime.fromtimestamp(at, zone_of(zone)).strftime("%Y-%m-%d %H:%M:%S %z")


def _unknown_zone(name: str) -> str:
    from zoneinfo import available_timezones

    known = available_timezones()
    if not known:
        return (
            f"the time zone {name!r} cannot be looked up: this machine has no tz database; install tzdata, or use UTC"
        )
    hint = did_you_mean(name, known, otherwise="use an IANA name such as Europe/Berlin or UTC")
    return f"there is no time zone {name!r}{hint}"
