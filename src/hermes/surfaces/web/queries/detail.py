"""One recorded event with its whole body, redacted; long texts are cut unless all of it is asked for."""

from __future__ import annotations

from typing import Any, cast

from msgspec import Struct

from hermes.base.errors import SessionNotFound
from hermes.journal.bodies import unpack
from hermes.journal.events import stored_event, stored_events
from hermes.journal.store.connection import JournalConnection
from hermes.trace.clean import Cleaner

#: Characters of one text that are shown at first.
LONGEST_TEXT = 20_000
#: Read beyond the cut, so that a secret across it is masked as a whole.
_SLACK = 4_096


class EventDetail(Struct, omit_defaults=True, kw_only=True):
    """One event."""

    session: str
    seq: int
    turn: str
    kind: str
    key: str
    at: float
    effect: str = ""
    epoch: int | None = None
    chain: str = ""
    body: Any = None
    #: Characters that were left out of texts.
    left_out: int = 0


def event_detail(
    connection: JournalConnection, session_id: str, seq: int, clean: Cleaner, *, whole: bool = False
) -> EventDetail:
    """The event with that number. Raises ``SessionNotFound`` when there is none."""
    event = stored_event(connection, session_id, seq)
    if event is None:
        raise SessionNotFound(f"session {session_id!r} has no event {seq}; it may have been deleted")
    try:
        value = unpack(connection, event.body)
    except ValueError as error:
        value = {"error": f"the body cannot be read: {error}; 'hermes trace verify' says more"}
    left_out: list[int] = []
    shown = clean.value(value if whole else _shortened(value, clean, left_out))
    return EventDetail(
        session=session_id,
        seq=seq,
        turn=event.turn_id,
        kind=event.kind,
        key=event.key,
        at=event.at,
        effect=event.effect or "",
        epoch=event.epoch,
        chain=(event.chain or b"").hex(),
        body=shown,
        left_out=sum(left_out),
    )


def event_list(connection: JournalConnection, session_id: str, after: int = 0) -> list[tuple[int, str, str, float]]:
    """Number, kind, key and time of the events with a number above ``after``."""
    return [(event.seq, event.kind, event.key, event.at) for event in stored_events(connection, session_id, after)]


def _shortened(value: Any, clean: Cleaner, left_out: list[int]) -> Any:
    """Plain data with its long texts cut; how many characters they lose is added to ``left_out``."""
    if isinstance(value, dict):
        return {name: _shortened(item, clean, left_out) for name, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_shortened(item, clean, left_out) for item in cast("list[Any]", value)]
    if not isinstance(value, str) or len(value) <= LONGEST_TEXT:
        return value
    left_out.append(len(value) - LONGEST_TEXT)
    kept = clean.text(value[: LONGEST_TEXT + _SLACK])[:LONGEST_TEXT]
    return f"{kept}…\n[{left_out[-1]:,} more characters]"
