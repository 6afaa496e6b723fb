"""Comparison of recorded runs: aligned by turn and step, then by content."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, cast

import msgspec

from hermes.journal.records import FailureRecord, step_place
from hermes.record.recording import Recording, TurnRecording

#: Fields of a step that are compared; other steps are compared as a whole.
_FIELDS = {
    "setup": ("system", "tools", "max_steps", "context", "stand_ins", "continues"),
    "model": ("parameters", "reply"),
    "tool": ("name", "args", "result", "status"),
}
_REPLY = ("content", "reasoning", "tool_calls", "finish_reason")
#: The id of the session, for providers that cache by it.
_CACHE_KEY = "prompt_cache_key"
_LAST = 1_000_000_000
_KINDS = {"window": 0, "compact": 1, "budget": 2, "model": 3, "tool": 4, "steer": 5, "continue": 6, "verify": 7}


class Difference(msgspec.Struct, frozen=True):
    """One thing that is not the same in two runs. ``None`` is what one of them does not have."""

    session_id: str
    #: Counted from 1.
    turn: int
    step: str
    #: The part of the step, such as ``system`` or ``args``; empty is the step itself.
    field: str
    before: Any
    after: Any

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return f"turn {self.turn}, {self.step}" + (f", {self.field}" if self.field else "")


def compare_recordings(before: Recording, after: Recording, *, strict: bool = False) -> list[Difference]:
    """Every difference between two sessions and their children, in the order of the run."""
    found: list[Difference] = []
    left, right = ([turn for turn in one.turns if not turn.undone] for one in (before, after))
    for number, (first, second) in enumerate(zip_longest(left, right), start=1):
        if first is not None and second is not None:
            found += compare_turns(after.id, first, second, strict=strict)
        else:
            said = (first.message if first else None, second.message if second else None)
            found.append(Difference(after.id, number, "turn", "", *said))
    children, others = list(before.children), list(after.children)
    if {child.id for child in children} == {child.id for child in others}:
        children.sort(key=lambda child: child.id)
        others.sort(key=lambda child: child.id)
    for first, second in zip_longest(children, others):
        if first is not None and second is not None:
            found += compare_recordings(first, second, strict=strict)
        elif extra := first or second:
            titles = (first.title if first else None, second.title if second else None)
            found.append(Difference(extra.id, 1, "child session", "", *titles))
    return found


def compare_turns(
    session_id: str, before: TurnRecording, after: TurnRecording, *, strict: bool = False
) -> list[Difference]:
    """Every difference between two turns."""
    found: list[Difference] = []

    def add(step: str, field: str, first: Any, second: Any) -> None:
        found.append(Difference(session_id, before.number, step, field, first, second))

    if before.message != after.message:
        add("message", "", before.message, after.message)
    attempts = _failures(before), _failures(after)
    partners = _moved_calls(before, after)
    for key in sorted({*before.steps, *after.steps}, key=_order):
        partner = partners.get(key, key)
        if partner != key:
            add(key, "order", key, partner)
        failed, failed_again = attempts[0].get(key, []), attempts[1].get(key, [])
        if key.startswith("model:") and failed != failed_again:
            add(key, "failed attempts", failed, failed_again)
        for change in _changes(key, _body(before, key), _body(after, partner), strict):
            add(key, *change)
        # Where something differed before, the requests that follow are bound to.
        if not found and key.startswith("model:"):
            for change in _request_changes(key, before, after):
                add(key, *change)
    if before.state != after.state:
        add("end", "state", before.state, after.state)
    elif not found and (before.error or "") != (after.error or ""):
        add("end", "error", before.error, after.error)
    return found


def _moved_calls(before: TurnRecording, after: TurnRecording) -> dict[str, str]:
    """The same calls of one reply in another order: the step of each in the other run."""
    moved: dict[str, str] = {}
    replies, others = _calls_by_reply(before), _calls_by_reply(after)
    for reply, first in replies.items():
        second = others.get(reply, {})
        if first != second and sorted(first.values()) == sorted(second.values()):
            for key, call in first.items():
                same = key if second.get(key) == call else next(one for one, other in second.items() if other == call)
                moved[key] = same
                del second[same]
    return moved


def _calls_by_reply(turn: TurnRecording) -> dict[str, dict[str, bytes]]:
    """The calls of each reply: tool and arguments by step."""
    found: dict[str, dict[str, bytes]] = {}
    for key, body in turn.tool_calls().items():
        call = msgspec.json.encode((body.name, body.args), order="deterministic")
        found.setdefault(key.partition(".")[0], {})[key] = call
    return found


def _order(key: str) -> tuple[int, int, int]:
    """The place of a step in its turn."""
    place = step_place(key)
    if place.name == "setup":
        return (0, 0, 0)
    if place.name == "final":
        return (_LAST, 0, 0)
    return (place.step, _KINDS.get(place.name, 8), place.call)


def _failures(turn: TurnRecording) -> dict[str, list[str]]:
    """Why attempts failed, by step. One that was interrupted is seen in the end of the turn."""
    found: dict[str, list[str]] = {}
    for attempt in turn.attempts:
        body = attempt.body
        if isinstance(body, FailureRecord) and body.reason not in ("interrupted", "error"):
            found.setdefault(attempt.key, []).append(body.reason)
    return found


def _body(turn: TurnRecording, key: str) -> dict[str, Any] | None:
    """The record of a step as plain data."""
    record = turn.steps.get(key)
    return None if record is None else msgspec.to_builtins(record)


def _changes(
    key: str, first: dict[str, Any] | None, second: dict[str, Any] | None, strict: bool
) -> Iterator[tuple[str, Any, Any]]:
    """The fields in which two steps differ; all of one where the other is missing."""
    if first is None or second is None:
        yield "", first and _shown(key, first), second and _shown(key, second)
        return
    kind = key.partition(":")[0]
    one, other = _shown(key, first), _shown(key, second)
    if kind in _FIELDS:
        for name in one:
            if one[name] != other[name]:
                yield name, one[name], other[name]
    elif one != other:
        yield "", one, other
    if strict:
        yield from _strict_changes(first, second)


def _strict_changes(first: dict[str, Any], second: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    one: dict[str, Any] = first.get("environment") or {}
    other: dict[str, Any] = second.get("environment") or {}
    for name in ("hermes", "plugins"):
        if _visible(one.get(name)) != _visible(other.get(name)):
            yield f"environment.{name}", one.get(name), other.get(name)
    if (first.get("decisions") or []) != (second.get("decisions") or []):
        yield "decisions", first.get("decisions") or [], second.get("decisions") or []


def _visible(value: Any) -> Any:
    """A version, or plugins without those that take no part in a replay."""
    if not isinstance(value, dict):
        return value
    plugins = cast("dict[str, str]", value)
    return {name: version for name, version in plugins.items() if not name.startswith(("observability/", "chaos"))}


def _shown(key: str, body: dict[str, Any]) -> dict[str, Any]:
    """The part of a step that is compared and shown."""
    fields = _FIELDS.get(key.partition(":")[0])
    if fields is None:
        return {name: value for name, value in body.items() if name != "decisions"}
    shown = {name: body.get(name) or None for name in fields}
    if "reply" in shown:
        reply: dict[str, Any] = body["reply"]
        shown["reply"] = {name: reply.get(name) or None for name in _REPLY}
        shown["reply"]["finish_reason"] = reply.get("finish_reason", "stop")
        calls: list[dict[str, Any]] = reply.get("tool_calls") or []
        shown["reply"]["tool_calls"] = [{"name": one["name"], "arguments": one["arguments"]} for one in calls] or None
        parameters: dict[str, Any] = body.get("parameters") or {}
        shown["parameters"] = {name: value for name, value in parameters.items() if name != _CACHE_KEY} or None
    if "continues" in shown:
        shown["continues"] = body.get("continues", True)
    return shown


def _request_changes(key: str, before: TurnRecording, after: TurnRecording) -> Iterator[tuple[str, Any, Any]]:
    """Why a request is not the one that was sent: the first message that differs, or the bytes alone."""
    if before.id != after.id:
        return  # of another session: its id is part of the request where a provider caches by it
    digests = [turn.steps[key].request_sha256 for turn in (before, after)]
    if digests[0] == digests[1] or not all(digests):
        return
    place = (step_place(key).step, 0)
    for at in sorted({*before.messages, *after.messages}):
        one, other = before.messages.get(at), after.messages.get(at)
        if at < place and one != other:
            yield f"message {at[0]}.{at[1]}", one, other
            return
    yield "request_sha256", *digests


# -- differences for people -------------------------------------------------------------------------------------------


#: Lines of a diff that are shown, and characters of each.
MOST_LINES, LONGEST_LINE = 14, 160


def difference_lines(difference: Difference, *, names: tuple[str, str] = ("recorded", "now")) -> list[str]:
    """The place, and what changed there."""
    lines = [f"{difference.place}:"]
    before, after = as_text(difference.before), as_text(difference.after)
    if difference.before is None:
        return [*lines, *_short([f"+ {line}" for line in after.splitlines()])]
    if difference.after is None:
        return [*lines, *_short([f"- {line}" for line in before.splitlines()])]
    changed = difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="", n=1)
    shown = [line for line in changed if not line.startswith(("---", "+++"))]
    if not shown:
        shown = [f"-{before!r}", f"+{after!r}"]
    return [*lines, *_short(shown)]


def as_text(value: Any) -> str:
    """A value as text with a line for each part."""
    if isinstance(value, str):
        return value
    return msgspec.json.format(msgspec.json.encode(value, order="deterministic"), indent=2).decode()


def _short(lines: list[str]) -> list[str]:
    cut = [line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…" for line in lines]
    if len(cut) <= MOST_LINES:
        return [f"  {line}" for line in cut]
    left = len(cut) - MOST_LINES
    return [*(f"  {line}" for line in cut[:MOST_LINES]), f"  … {left} more line{'' if left == 1 else 's'}"]
