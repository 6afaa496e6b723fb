"""Checks an ATOF 0.1 stream: the rules of the format, and those that a whole run keeps beyond them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, cast

import msgspec

Event = dict[str, Any]

_VERSION = re.compile(r"0\.\d+")
_SAME = ("name", "category", "parent_uuid", "attributes")


def check_atof(lines: Iterable[bytes]) -> list[str]:
    """The problems of a stream, as text; none when it is valid."""
    problems: list[str] = []
    events: list[Event] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            event: Any = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            problems.append(f"line {number}: no JSON ({error})")
            continue
        found = list(_envelope(cast("Event", event))) if isinstance(event, dict) else ["no JSON object"]
        problems += [f"line {number}: {text}" for text in found]
        if not found:
            events.append(cast("Event", event))
    return [*problems, *_pairing(events)]


def _envelope(event: Event) -> Iterator[str]:
    kind = event.get("kind")
    if kind not in ("scope", "mark"):
        yield f"kind is {kind!r}; allowed: scope, mark"
    if not _VERSION.fullmatch(str(event.get("atof_version", ""))):
        yield f"atof_version is {event.get('atof_version')!r}; allowed: 0.N"
    for name in ("uuid", "name"):
        if not isinstance(event.get(name), str) or not event[name]:
            yield f"{name} is missing"
    if "parent_uuid" not in event:
        yield "parent_uuid is missing; null says that there is none"
    if _moment(event) is None:
        yield f"timestamp is {event.get('timestamp')!r}; allowed: RFC 3339 with an offset, or whole microseconds"
    if kind == "mark" and not {"scope_category", "attributes"}.isdisjoint(event):
        yield "a mark has neither scope_category nor attributes"
    if kind == "scope":
        yield from _scope(event)


def _scope(event: Event) -> Iterator[str]:
    if event.get("scope_category") not in ("start", "end"):
        yield f"scope_category is {event.get('scope_category')!r}; allowed: start, end"
    if not event.get("category"):
        yield "category is missing"
    attributes = event.get("attributes")
    if not isinstance(attributes, list) or attributes != sorted(set(map(str, cast("list[Any]", attributes)))):
        yield "attributes are not a sorted list without repetition"
    profile: Any = event.get("category_profile")
    if event.get("category") == "custom" and not (isinstance(profile, dict) and "subtype" in profile):
        yield "category 'custom' needs category_profile.subtype"


def _pairing(events: list[Event]) -> Iterator[str]:
    """Every start has its one end, later, inside its parent; no call begins before the answer that asked for it."""
    starts: dict[str, Event] = {}
    ends: dict[str, Event] = {}
    for event in events:
        if event["kind"] == "scope":
            known = starts if event["scope_category"] == "start" else ends
            if event["uuid"] in known:
                yield f"{_who(event)}: {event['scope_category']} is there twice"
            known[event["uuid"]] = event
    for uuid, end in ends.items():
        if uuid not in starts:
            yield f"{_who(end)}: has an end and no start"
    for uuid, start in starts.items():
        end = ends.get(uuid)
        if end is None:
            yield f"{_who(start)}: has a start and no end"
            continue
        for name in _SAME:
            if start.get(name) != end.get(name):
                yield f"{_who(start)}: start and end differ in {name}"
        if _at(end) <= _at(start):
            yield f"{_who(start)}: does not end later than it starts"
        yield from _nesting(start, end, starts, ends)
    for event in events:
        if event["kind"] == "mark" and event["parent_uuid"] is not None and event["parent_uuid"] not in starts:
            yield f"mark {event['name']}: its parent {event['parent_uuid']} is not in the stream"
    yield from _order(list(starts.values()), ends)


def _nesting(start: Event, end: Event, starts: dict[str, Event], ends: dict[str, Event]) -> Iterator[str]:
    parent = start["parent_uuid"]
    if parent is None:
        return
    if parent not in starts:
        # NeMo Relay puts sessions under a root of its own, which it never reports.
        if start.get("category") != "agent":
            yield f"{_who(start)}: its parent {parent} is not in the stream"
    elif _at(start) < _at(starts[parent]) or (parent in ends and _at(end) > _at(ends[parent])):
        yield f"{_who(start)}: is not within {_who(starts[parent])}"


def _order(starts: list[Event], ends: dict[str, Event]) -> Iterator[str]:
    requests = Counter(
        (one["parent_uuid"], request)
        for one in starts
        if one.get("category") == "llm" and (request := _metadata(one).get("api_request_id"))
    )
    for (_, request), count in requests.items():
        if count > 1:
            yield f"model call {request} has {count} scopes"
    asked: dict[tuple[Any, str], int] = {}
    for one in starts:
        end = ends.get(one["uuid"])
        if one.get("category") == "llm" and end is not None:
            for call_id in _calls_of(end):
                key = (one["parent_uuid"], call_id)
                asked[key] = min(asked.get(key, _at(end)), _at(end))
    for one in starts:
        call_id = _metadata(one).get("tool_call_id")
        answered = asked.get((one["parent_uuid"], str(call_id))) if one.get("category") == "tool" else None
        if answered is not None and _at(one) < answered:
            yield f"{_who(one)}: starts before the answer that asked for it has ended"


def _calls_of(end: Event) -> list[str]:
    data: Any = end.get("data")
    message: Any = cast("Event", data).get("assistant_message") if isinstance(data, dict) else None
    calls: Any = cast("Event", message).get("tool_calls") if isinstance(message, dict) else None
    return [str(cast("Event", call).get("id")) for call in cast("list[Any]", calls or ()) if isinstance(call, dict)]


def _metadata(event: Event) -> Event:
    found: Any = event.get("metadata")
    return cast("Event", found) if isinstance(found, dict) else {}


def _who(event: Event) -> str:
    metadata = _metadata(event)
    known = (
        metadata.get("tool_call_id") or metadata.get("api_request_id") or metadata.get("session_id") or event["uuid"]
    )
    return f"{event.get('category')} {event['name']} ({known})"


def _at(event: Event) -> int:
    return _moment(event) or 0


def _moment(event: Event) -> int | None:
    """The timestamp in microseconds, None when it is none."""
    value = event.get("timestamp")
    if isinstance(value, int) and not isinstance(value, bool):
        return value if value >= 0 else None
    if not isinstance(value, str):
        return None
    try:
        parsed = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return None
    return None if parsed.tzinfo is None else round(parsed.timestamp() * 1_000_000)
