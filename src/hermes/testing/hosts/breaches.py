"""Breaches of the contract in a complete recording, whatever the conversation was."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from hermes.contract.fields import Field, Fields
from hermes.contract.hooks import HOOKS, OBSERVER_SCHEMA, PAIRS
from hermes.contract.middleware import MIDDLEWARE, MIDDLEWARE_SCHEMA
from hermes.contract.rules import CHOICES, MAY_BE_EMPTY, NEVER_EMPTY, ORDERS

Key = tuple[Any, ...]


class RecordedEvent(NamedTuple):
    """One call of a hook or middleware kind, with the fields it carried."""

    name: str
    payload: dict[str, Any]


class Unbalanced(NamedTuple):
    """A start without exactly one end, or an end without a start."""

    start: str
    key: Key
    starts: int
    ends: int


Events = Sequence[RecordedEvent]

#: The Python types of the words in a field's type; what has another word is not looked at.
_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "dict": (dict,),
    "list": (list,),
    "None": (type(None),),
}
_VERSIONS = {"telemetry_schema_version": OBSERVER_SCHEMA, "middleware_schema_version": MIDDLEWARE_SCHEMA}
#: Sites where every provider attempt is seen once.
_ATTEMPTS = ("llm_request", "pre_api_request", "llm_execution")


def breaches(events: Events) -> list[str]:
    """Every way in which a complete recording breaks the contract, once each. Empty when all is well."""
    found = [
        *wrong_fields(events),
        *(f"{entry.start} {entry.key}: {entry.starts} starts, {entry.ends} ends" for entry in unbalanced(events)),
        *_wrong_values(events),
        *_wrong_order(events),
        *_wrong_counts(events),
        *_wrong_turns(events),
    ]
    return list(dict.fromkeys(found))


def fields_of(site: str) -> Fields:
    """The fields of a hook or middleware kind."""
    return HOOKS[site].fields if site in HOOKS else MIDDLEWARE[site].fields


def wrong_fields(events: Events) -> list[str]:
    """Fields that the contract does not know, and fields it promises that were not there."""
    found: dict[str, None] = {}
    for name, payload in events:
        fields = fields_of(name)
        known = {field.name for field in fields}
        promised = {field.name for field in fields if field.always} - {"next_call"}
        found.update({f"{name}: {field} is not in the contract": None for field in sorted(payload.keys() - known)})
        found.update({f"{name}: {field} is missing": None for field in sorted(promised - payload.keys())})
    return list(found)


def unbalanced(events: Events) -> list[Unbalanced]:
    """Every start that has not exactly one end, and every end without a start."""
    found: list[Unbalanced] = []
    for pair in PAIRS:
        starts, ends = Counter[Key](), Counter[Key]()
        for event in events:
            counter = starts if event.name == pair.start else ends if event.name in pair.ends else None
            if counter is not None:
                counter[_key(event, pair.key)] += 1
        keys = [key for key in {**starts, **ends} if starts[key] != ends[key]]
        if pair.may_repeat:
            keys = [key for key in keys if not starts[key] > ends[key] > 0]
        found.extend(Unbalanced(pair.start, key, starts[key], ends[key]) for key in keys)
    return found


def _key(event: RecordedEvent, fields: Sequence[str]) -> Key:
    return tuple(event.payload.get(field) for field in fields)


# -- values -------------------------------------------------------------------------------------------------------


def _wrong_values(events: Events) -> Iterator[str]:
    for name, payload in events:
        for field in fields_of(name):
            if field.name in payload and (problem := _problem(name, field, payload[field.name])):
                yield f"{name}: {field.name} {problem}"
        if payload.get("started_at", 0) > payload.get("ended_at", float("inf")):
            yield f"{name}: it ended before it started"


def _problem(site: str, field: Field, value: object) -> str:
    """What is wrong with a value; empty when nothing is."""
    words = [part.partition("[")[0] for part in field.type.split(" | ")]
    types = [kind for word in words for kind in _TYPES.get(word, (object,))]
    if not isinstance(value, tuple(types)) or (isinstance(value, bool) and not {bool, object} & set(types)):
        return f"is {type(value).__name__}, not {field.type}"
    if value == "" and field.name in NEVER_EMPTY and (site, field.name) not in MAY_BE_EMPTY:
        return "is empty"
    choices = CHOICES.get((site, field.name))
    if choices is not None and value not in choices:
        return f"is {value!r}, not one of {', '.join(choices)}"
    if value != _VERSIONS.get(field.name, value):
        return f"is {value!r}, not {_VERSIONS[field.name]!r}"
    return ""


# -- order --------------------------------------------------------------------------------------------------------


def _wrong_order(events: Events) -> Iterator[str]:
    for order in ORDERS:
        seen: dict[Key, dict[str, tuple[int, int]]] = defaultdict(dict)
        for place, event in enumerate(events):
            if event.name in order.sites:
                sites = seen[_key(event, order.key)]
                sites[event.name] = (sites.get(event.name, (place, 0))[0], place)
        for sites in seen.values():
            known = [site for site in order.sites if site in sites]
            for earlier, later in pairwise(known):
                if sites[earlier][0] > sites[later][0] or sites[earlier][1] > sites[later][1]:
                    yield f"{later} comes before {earlier}"


# -- counts -------------------------------------------------------------------------------------------------------


def _wrong_counts(events: Events) -> Iterator[str]:
    for site in _ATTEMPTS:
        ids = Counter(event.payload.get("api_request_id") for event in events if event.name == site)
        yield from (f"{site}: api_request_id {one!r} is used {count} times" for one, count in ids.items() if count > 1)
    attempts: dict[Key, int] = {}
    retries: dict[Key, int] = {}
    for event in events:
        turn = _key(event, ("session_id", "turn_id"))
        if event.name == "pre_api_request":
            count: int = event.payload.get("api_call_count", 0)
            before = attempts.get(turn, count - 1)
            if count != before + 1 or count < 1:
                yield f"pre_api_request: api_call_count is {count} after {before}"
            attempts[turn] = count
        elif event.name == "post_api_request":
            retries = {key: count for key, count in retries.items() if key[:2] != turn}
        elif event.name == "api_request_error":
            endpoint = (*turn, *_key(event, ("provider", "base_url", "model")))
            count = event.payload.get("retry_count", 0)
            if count <= retries.get(endpoint, -1):
                yield f"api_request_error: retry_count is {count} after {retries[endpoint]}"
            retries[endpoint] = count


# -- turns --------------------------------------------------------------------------------------------------------


def _wrong_turns(events: Events) -> Iterator[str]:
    sessions: set[Any] = set()
    answered = {_key(event, ("session_id", "turn_id")) for event in events if event.name == "post_llm_call"}
    for name, payload in events:
        session = payload.get("session_id")
        if name == "pre_llm_call":
            if payload.get("is_first_turn") and session in sessions:
                yield "pre_llm_call: is_first_turn is true again"
            sessions.add(session)
        elif name == "on_session_end":
            has_answer = (session, payload.get("turn_id")) in answered
            told = (payload.get("completed"), bool(payload.get("finish_reason")))
            if told != (has_answer, has_answer):
                yield f"on_session_end: completed and finish_reason are {told}, and the answer is {has_answer}"
            if has_answer and payload.get("interrupted"):
                yield "on_session_end: a turn with an answer was not interrupted"
