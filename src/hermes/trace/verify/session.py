"""Checks that a journaled session is whole: every start has its one end, and nothing is missing in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec

from hermes.journal.events import first_link, next_link
from hermes.journal.records import STEP_DONE, ReplyRecord, convert_record, step_place

Record = dict[str, Any]


class JournalProblem(msgspec.Struct, frozen=True):
    """Something a whole session would not show."""

    turn: int
    key: str
    text: str

    def __str__(self) -> str:
        if self.turn < 0:
            return self.text
        place = f"turn {self.turn + 1}" + (f", {self.key}" if self.key else "")
        return f"{place}: {self.text}"


#: The turn of a problem that belongs to no turn.
_NO_TURN = -1


def verify(records: Iterable[Record]) -> list[JournalProblem]:
    """The problems of one session, given what the journal exports of it or what an inspection found."""
    by_kind: dict[str, list[Record]] = {"turn": [], "event": [], "model_call": [], "message": [], "damage": []}
    for record in records:
        by_kind.setdefault(record["record"], []).append(record)
    problems = [JournalProblem(_NO_TURN, "", f"{row['where']}: {row['text']}") for row in by_kind["damage"]]
    problems += _gaps(by_kind["event"])
    problems += _broken_chain(by_kind["event"], (by_kind.get("session") or [{}])[0])
    events, calls = (_grouped(by_kind[kind], "turn_id") for kind in ("event", "model_call"))
    messages = _grouped(by_kind["message"], "turn")
    for turn in by_kind["turn"]:
        rows = messages.get(turn["ordinal"], ())
        said: dict[tuple[int, int], Record] = {(row["step"], row["position"]): row["message"] or {} for row in rows}
        part = _TurnPart(turn, events.get(turn["id"], []), calls.get(turn["id"], []), said)
        try:
            problems.extend(JournalProblem(turn["ordinal"], key, text) for key, text in part.check())
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            text = f"its record does not have the form it should have ({type(error).__name__}: {error})"
            problems.append(JournalProblem(turn["ordinal"], "", text))
    return problems


def _broken_chain(events: list[Record], session: Record) -> Iterator[JournalProblem]:
    """The first event that is not what was recorded, and events that are missing at the end."""
    head, last = session.get("head_seq"), events[-1]["seq"] if events else 0
    if head is not None and head != last:
        yield JournalProblem(_NO_TURN, "", f"the last event recorded is number {head}, the last one there is {last}")
    previous = 0
    link = first_link(session.get("id", ""))
    for event in events:
        if event["seq"] != previous + 1 or "chain" not in event:
            return  # what is missing is reported; the chain cannot be followed beyond it
        previous, chain = event["seq"], bytes.fromhex(event["chain"])
        if not chain and link == first_link(session.get("id", "")):
            continue  # recorded before there was a chain
        names = ("seq", "turn_id", "kind", "key", "effect", "body_sha256", "at", "epoch")
        if next_link(link, *(event[name] for name in names)) != chain:
            what = f"event {event['seq']} ({event['kind']} {event['key']}".rstrip() + ")"
            yield JournalProblem(_NO_TURN, "", f"{what} is not what was recorded: it was altered, added or moved")
            return
        link = chain


def _grouped(records: list[Record], name: str) -> dict[Any, list[Record]]:
    """Records by one of their fields: a long session is looked through once, not once for each of its turns."""
    found: dict[Any, list[Record]] = {}
    for record in records:
        found.setdefault(record[name], []).append(record)
    return found


def _gaps(events: list[Record]) -> Iterator[JournalProblem]:
    for expected, event in enumerate(events, start=1):
        if event["seq"] != expected:
            yield JournalProblem(0, "", f"event {expected} is missing; the next one there is has number {event['seq']}")
            return


class _TurnPart(msgspec.Struct, frozen=True):
    """One turn of the session with what belongs to it."""

    turn: Record
    events: list[Record]
    calls: list[Record]
    messages: dict[tuple[int, int], Record]

    def check(self) -> Iterator[tuple[str, str]]:
        yield from self._check_frame()
        yield from self._check_steps()
        yield from self._check_attempts()
        yield from self._check_tool_calls()

    @property
    def _is_over(self) -> bool:
        return self.turn["state"] != "running"

    @property
    def _is_whole(self) -> bool:
        """Whether everything begun has to have an end; a turn that was taken back may have been cut off before."""
        return self._is_over and not self.turn["undone"]

    def _done(self) -> dict[str, Any]:
        """The bodies of finished steps; of those that cannot be read, which are reported elsewhere, None."""
        return {event["key"]: event["body"] for event in self.events if event["kind"] == STEP_DONE}

    def _check_frame(self) -> Iterator[tuple[str, str]]:
        """The turn itself: started once, ended once for every time it ran and was not cut off."""
        is_open = False
        kinds = [event["kind"] for event in self.events]
        if kinds[:1] != ["turn_started"] or kinds.count("turn_started") != 1:
            yield "", "does not begin with its one start"
        for kind in kinds:
            if kind in ("turn_started", "turn_resumed"):
                is_open = True
            elif kind == "turn_ended":
                if not is_open:
                    yield "", "ended twice"
                is_open = False
        if is_open:
            yield "", "has no end" if self._is_over else "is not finished; 'hermes chat --resume' finishes it"
        elif not self._is_over:
            yield "", "ended, but its row says that it still runs"
        if self.turn["state"] == "completed" and "final" not in self._done():
            yield "final", "the answer was never recorded"

    def _check_steps(self) -> Iterator[tuple[str, str]]:
        """Steps: done at most once, and every claim and every wait for an answer followed by a result."""
        done = Counter(event["key"] for event in self.events if event["kind"] == "step_done")
        for key, count in done.items():
            if count > 1:
                yield key, f"was done {count} times"
        for event in self.events:
            if event["kind"] == "step_claimed" and event["key"] not in done and self._is_whole:
                yield event["key"], "was started and has no result"
        for event in self.events:
            if event["kind"] == "call_waits" and event["key"] not in done and self._is_whole:
                is_asked = event["body"] is not None and "question" in event["body"]
                told = "; plugins were told of its question, and not of an answer" if is_asked else ""
                yield event["key"], f"waited for an answer and never went on{told}"

    def _check_attempts(self) -> Iterator[tuple[str, str]]:
        """Model calls: an answer for every model step, and a recorded failure for every failed attempt."""
        answered = Counter(call["key"] for call in self.calls if call["status"] == "ok")
        for key in self._done():
            if key.startswith("model:") and answered[key] != 1:
                yield key, f"has {answered[key]} answered attempts instead of one"
        # Questions beside the conversation have no events.
        own = [call for call in self.calls if not call["key"].startswith(("side:", "plugin:"))]
        failed = sum(call["status"] in ("error", "interrupted") for call in own)
        recorded = sum(event["kind"] == "attempt_failed" for event in self.events)
        if failed != recorded:
            yield "", f"{failed} attempts failed, {recorded} of them are among the events"

    def _check_tool_calls(self) -> Iterator[tuple[str, str]]:
        """Tool calls of a turn that is over: a result and a message for every call of every reply."""
        done = self._done()
        replies = (
            {key: body for key, body in done.items() if key.startswith("model:") and body} if self._is_whole else {}
        )
        for key, body in replies.items():
            answered: ReplyRecord = convert_record(STEP_DONE, key, body)
            step = step_place(key).step
            if self.messages.get((step, 0), {}).get("role") == "user":
                continue  # the last request of a spent budget offers no tools: calls in its answer do not count
            for index, call in enumerate(answered.reply.tool_calls):
                tool_key = f"tool:{step}.{index}"
                message = self.messages.get((step, index + 1), {})
                if tool_key not in done:
                    yield tool_key, f"{call.name} was asked for and never closed"
                elif message.get("tool_call_id") != call.id:
                    yield tool_key, f"the result of {call.name} never reached the conversation"


def verify_file(data: bytes, form: str = "") -> list[str]:
    """The problems of an ATIF document or an ATOF stream; its first line shows which of them it is."""
    from hermes.trace.verify.atif import check_atif
    from hermes.trace.verify.atof import check_atof

    if (form or _form_of(data)) == "atof":
        return check_atof(data.splitlines())
    try:
        document: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return [f"no JSON document ({error})"]
    if not form and not (isinstance(document, dict) and "schema_version" in document):
        return ["neither an ATIF document, which has a schema_version, nor an ATOF stream, a JSON event per line"]
    return check_atif(cast("object", document))


def _form_of(data: bytes) -> str:
    first = data.lstrip().partition(b"\n")[0]
    try:
        event = msgspec.json.decode(first)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return "atif"
    return "atof" if isinstance(event, dict) and "atof_version" in event else "atif"
