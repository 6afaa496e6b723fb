"""Live events of a turn between processes: small JSON texts that fit into a PostgreSQL notification.

They are provisional and best effort. What counts is in the journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, get_args

import msgspec

from hermes.contract.events import ReasoningDelta, TextDelta, TurnEvent
from hermes.journal.bodies import prepare_struct, to_json

#: The longest notification that PostgreSQL accepts has 7,999 bytes.
MAX_BYTES = 7_900
#: What a long text in an event is cut to: enough for a line about it, and the journal has all of it.
_MAX_TEXT = 1_500

_EVENTS: dict[str, type[Any]] = {event.__name__: event for event in get_args(TurnEvent)}
for _event in _EVENTS.values():
    prepare_struct(_event)


def encode_event(event: TurnEvent) -> str:
    """An event as JSON; long texts in it are cut."""
    name = type(event).__name__
    text = to_json([name, msgspec.to_builtins(event)])
    return text if len(text) <= _MAX_TEXT else to_json([name, _cut(msgspec.to_builtins(event), _MAX_TEXT // 3)])


def _cut(value: Any, length: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= length else f"{value[:length]}…"
    if isinstance(value, dict):
        return {key: _cut(item, length // 2) for key, item in list(value.items())[:50]}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list):
        return [_cut(item, length // 2) for item in value[:50]]  # pyright: ignore[reportUnknownVariableType]
    return value


def decode_event(encoded: list[Any]) -> TurnEvent | None:
    """The event, or None for one that this version does not know."""
    name, fields = encoded
    known = _EVENTS.get(name)
    if known is None:
        return None
    try:
        return msgspec.convert(fields, known)
    except msgspec.ValidationError:
        return None


def joined(events: Iterable[TurnEvent]) -> Iterator[TurnEvent]:
    """The same events with neighbouring pieces of text put together, as long as they fit into one notification."""
    waiting: TextDelta | ReasoningDelta | None = None
    for event in events:
        if isinstance(event, TextDelta | ReasoningDelta):
            if waiting is not None and type(waiting) is type(event) and len(waiting.text) + len(event.text) < _MAX_TEXT:
                waiting = type(event)(waiting.text + event.text)
                continue
            if waiting is not None:
                yield waiting
            yield from _pieces(event)[:-1]
            waiting = _pieces(event)[-1]
            continue
        if waiting is not None:
            yield waiting
            waiting = None
        yield event
    if waiting is not None:
        yield waiting


def _pieces(event: TextDelta | ReasoningDelta) -> list[TextDelta | ReasoningDelta]:
    if len(event.text) <= _MAX_TEXT // 2:
        return [event]
    size = _MAX_TEXT // 2
    return [type(event)(event.text[start : start + size]) for start in range(0, len(event.text), size)]


def notifications(turn_id: str, events: Iterable[TurnEvent], state: str = "") -> Iterator[str]:
    """The notifications that carry these events, in order. ``state`` is that of the turn after the last one."""
    head = f'{{"turn":{to_json(turn_id)},"events":['
    room = MAX_BYTES - len(head.encode()) - 64
    batch: list[str] = []
    size = 0
    for text in map(encode_event, joined(events)):
        length = len(text.encode()) + 1
        if length > room:
            continue  # best effort: the journal has it
        if size + length > room:
            yield f"{head}{','.join(batch)}]}}"
            batch, size = [], 0
        batch.append(text)
        size += length
    if batch or state:
        end = f',"state":{to_json(state)}' if state else ""
        yield f"{head}{','.join(batch)}]{end}}}"
