"""Evidence: the events of a session in one file that is verified offline, without the journal and without Hermes.

The file is text: a line that says what it is, the blobs, the events in their order with their chain, the seals, and a
line with the digest of all bytes before it. A redacted body leaves its digest behind, so that the chain still holds.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from hermes.base.version import __version__
from hermes.journal.bodies import MissingBlob, blob_text, blobs_of, body_digest
from hermes.journal.events import first_link, next_link, stored_events
from hermes.journal.history.copies import check_size
from hermes.journal.sessions import Sessions
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.trace.seals import Seal

EVIDENCE_VERSION = 1
_MARK = "hermes_evidence"
_encode = msgspec.json.Encoder().encode


class Verification(msgspec.Struct):
    """The result of a check. ``problems`` name the first thing that is wrong of each kind."""

    session_id: str = ""
    events: int = 0
    redacted: int = 0
    #: The chain of each event by its number, as computed.
    chain: dict[int, str] = {}
    seals: list[Seal] = []
    problems: list[str] = []


def export_evidence(store: Store, session_id: str, seals: Sequence[Seal], *, redact: Sequence[str] = ()) -> bytes:
    """The events of a session as a file. ``redact`` are patterns of step keys, such as ``tool:*``; ``*`` is all."""
    session = Sessions(store).get(session_id).id
    check_size(store, session)

    def read(connection: JournalConnection) -> list[bytes]:
        return list(_lines(connection, session, seals, redact))

    text = b"".join(line + b"\n" for line in store.read(read))
    return text + _encode({"sha256": hashlib.sha256(text).hexdigest()}) + b"\n"


def _lines(
    connection: JournalConnection, session_id: str, seals: Sequence[Seal], redact: Sequence[str]
) -> Iterator[bytes]:
    yield _encode({_MARK: EVIDENCE_VERSION, "session": session_id, "hermes": __version__})
    events: list[dict[str, Any]] = []
    blobs: dict[str, str] = {}
    for stored in stored_events(connection, session_id):
        event = stored._asdict()
        event["chain"] = (event["chain"] or b"").hex()
        if any(fnmatch.fnmatchcase(event["key"] or event["kind"], pattern) for pattern in redact):
            event["body"] = f'{{"$redacted":"{body_digest(event["body"])}"}}'
        else:
            for digest in blobs_of(connection, event["body"]):
                blobs[digest] = ""
        events.append(event)
    for digest in blobs:
        with contextlib.suppress(MissingBlob):
            yield _encode({"blob": digest, "data": blob_text(connection, digest)})
    for event in events:
        yield _encode({"event": event})
    for seal in seals:
        yield _encode({"seal": seal})


def verify_evidence(data: bytes, anchors: Sequence[Seal] = ()) -> Verification:
    """Check a file: its bytes, its chain, and its end against ``anchors``. Signatures are for the caller to check."""
    result = Verification()
    lines = _checked_lines(data, result)
    events: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        found = _decode(line)
        if found is None:
            result.problems.append(f"line {number} cannot be read")
        elif number == 1:
            _check_head(found, result)
        else:
            _take(found, number, events, result)
    _check_chain(events, result)
    _check_seals(result, anchors)
    return result


def _checked_lines(data: bytes, result: Verification) -> list[bytes]:
    lines = data.split(b"\n")
    last = _decode(lines[-2]) if len(lines) > 2 and lines[-1] == b"" else None
    if last is None or set(last) != {"sha256"} or _encode(last) != lines[-2]:
        result.problems.append("the end of the file is missing or was changed")
        return [line for line in lines if line]
    digest = hashlib.sha256(data[: -len(lines[-2]) - 1]).hexdigest()
    if last["sha256"] != digest:
        result.problems.append("the bytes of the file do not fit the digest at its end")
    return lines[:-2]


def _decode(line: bytes) -> dict[str, Any] | None:
    try:
        found: Any = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _check_head(head: Mapping[str, Any], result: Verification) -> None:
    version = head.get(_MARK)
    if not isinstance(version, int):
        result.problems.append("this is not evidence of hermes; 'hermes audit export' writes it")
    elif version > EVIDENCE_VERSION:
        result.problems.append(f"it has version {version}, this hermes knows {EVIDENCE_VERSION}; upgrade hermes")
    result.session_id = str(head.get("session", ""))


def _take(found: dict[str, Any], number: int, events: list[dict[str, Any]], result: Verification) -> None:
    if "event" in found and isinstance(found["event"], dict):
        events.append(cast("dict[str, Any]", found["event"]))
    elif "blob" in found:
        if hashlib.sha256(str(found.get("data")).encode("utf-8", "replace")).hexdigest() != found["blob"]:
            result.problems.append(f"the stored text {found['blob']} (line {number}) was altered")
    elif "seal" in found:
        try:
            result.seals.append(msgspec.convert(found["seal"], Seal))
        except msgspec.ValidationError:
            result.problems.append(f"the seal in line {number} cannot be read")
    else:
        result.problems.append(f"line {number} is not part of the evidence")


def _check_chain(events: list[dict[str, Any]], result: Verification) -> None:
    """Walk the chain. The first event that does not fit is named; what follows it cannot be judged."""
    link, expected = first_link(result.session_id), 1
    result.events = len(events)
    for event in events:
        name = _name(event)
        seq = event.get("seq")
        if seq != expected:
            result.problems.append(_misplaced(event, seq, expected, events))
            return
        try:
            digest = body_digest(event["body"])
            values = (event["turn_id"], event["kind"], event["key"], event["effect"], digest, event["at"])
            link = next_link(link, expected, *values, event["epoch"])
        except (KeyError, TypeError, AttributeError):
            result.problems.append(f"{name} was altered: a part of it is missing")
            return
        if link.hex() != event.get("chain"):
            result.problems.append(f"{name} was altered")
            return
        result.redacted += str(event["body"]).startswith('{"$redacted"')
        result.chain[expected] = link.hex()
        expected += 1


def _misplaced(event: dict[str, Any], seq: Any, expected: int, events: list[dict[str, Any]]) -> str:
    numbers = [one.get("seq") for one in events]
    if not isinstance(seq, int):
        return f"{_name(event)} was altered: it has no number"
    if numbers.count(seq) > 1:
        return f"an event was inserted: number {seq} is there more than once"
    if seq > expected and expected in numbers:
        return f"events were reordered: number {seq} is before number {expected}"
    if seq > expected:
        return f"event {expected} was removed: number {seq} follows number {expected - 1}"
    return f"events were reordered: number {seq} is behind number {expected - 1}"


def _check_seals(result: Verification, anchors: Sequence[Seal]) -> None:
    if result.problems:
        return
    last = max(result.chain, default=0)
    for seal in (*result.seals, *anchors):
        what = f"the seal of event {seal.seq}"
        if seal.session != result.session_id:
            result.problems.append(f"{what} belongs to session {seal.session}")
        elif seal.seq > last:
            result.problems.append(f"the end was cut off: event {seal.seq} was sealed, the last one here is {last}")
        elif result.chain.get(seal.seq) != seal.chain:
            result.problems.append(f"{what} does not fit: an event up to number {seal.seq} was replaced")
        else:
            continue
        return


def _name(event: Mapping[str, Any]) -> str:
    step = f"{event.get('kind', '')} {event.get('key', '')}".strip()
    return f"event {event.get('seq')} ({step})"
