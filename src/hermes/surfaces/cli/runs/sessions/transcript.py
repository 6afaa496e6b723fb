"""Sessions as text: lists, search hits, and transcripts for the terminal or as Markdown.

The records are redacted before they come here.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from hermes.journal.bodies import message_text
from hermes.journal.history.search import Hit
from hermes.journal.runner import Runner
from hermes.journal.sessions import SessionRow
from hermes.surfaces.cli.chat.tool_details import RecordedCall, folded_details
from hermes.surfaces.cli.terminal import fitted, one_line, plain, short_duration, terminal_width
from hermes.surfaces.commands.text import ago
from hermes.tools.declarations.builtin import builtin_declaration

Record = dict[str, Any]

_ID_WIDTH = 22
_RULE_WIDTH = 72
#: Below this width a session takes two lines.
_NARROW = 60
_MARKDOWN_WIDTH = 118
#: Before a line of a tool call's output.
_DETAIL = "      "
_WHO = {"user": "You", "assistant": "Assistant", "system": "System"}


def list_lines(rows: Sequence[SessionRow], runner: Runner, waiting: Container[str] = ()) -> Iterator[str]:
    """A table of sessions, a line each. The turns of those in ``waiting`` wait for an answer."""
    is_narrow = terminal_width(80) < _NARROW
    width = max((_ID_WIDTH, *(len(row.id) for row in rows)))  # those of callers have longer ids
    if not is_narrow:
        yield f"{'ID':<{width}}  {'USED':<10}  {'TURNS':>5}  TITLE"
    for row in rows:
        state = "waiting" if row.id in waiting else _state(row.state, row.runner, runner)
        note = "" if state == "completed" else f"[{state}] "
        note += f"({one_line(row.principal)}) " if row.principal else ""
        title = one_line(row.title) or "(no title)"
        title = f"{note}{'> ' if row.parent_id else ''}{title}"
        if is_narrow:
            yield _fitted(f"{row.id}  {_ago(row.updated_at)}")
            yield _fitted(f"  {title}")
        else:
            yield _fitted(f"{row.id:<{width}}  {_ago(row.updated_at):<10}  {row.turns:>5}  {title}")


def hit_lines(hits: Iterable[Hit]) -> Iterator[str]:
    """The messages that matched, each under its session."""
    for hit in hits:
        yield _fitted(f"{hit.session_id:<{_ID_WIDTH}}  {_ago(hit.updated_at):<10}  {one_line(hit.title)}")
        yield _fitted(f"  {_WHO.get(hit.role, hit.role)}: {one_line(hit.snippet)}")


def event_lines(records: Iterable[Record]) -> Iterator[str]:
    """The recorded events, a line each."""
    for event in (record for record in records if record["record"] == "event"):
        name = f"{event['kind']} {event['key']}".strip()
        body = msgspec.json.encode(event["body"]).decode()
        yield _fitted(f"{event['seq']:>5}  {_clock(event['at'])}  {name:<22}  {one_line(body)}")


class Transcript:
    """One session's records in reading order."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.session: Record = {}
        self.turns: list[Record] = []
        self._messages: defaultdict[int, list[Record]] = defaultdict(list)
        self._model_calls: defaultdict[tuple[str, str], list[Record]] = defaultdict(list)
        self._results: dict[tuple[str, str], Record] = {}
        for record in records:
            match record["record"]:
                case "session":
                    self.session = record
                case "turn":
                    self.turns.append(record)
                case "message":
                    self._messages[record["turn"]].append(record)
                case "model_call":
                    self._model_calls[record["turn_id"], record["key"]].append(record)
                case _ if record["kind"] == "step_done":
                    self._results[record["turn_id"], record["key"]] = record["body"]
                case _:
                    pass

    def messages(self, turn: Record) -> Iterator[Record]:
        """The messages of a turn. Tool results are part of the line of their call."""
        return (record for record in self._messages[turn["ordinal"]] if record["message"]["role"] != "tool")

    def model_call_lines(self, turn: Record, step: int, *, ok: bool) -> Iterator[str]:
        """The model calls of one reply: the successful ones, or the failed ones."""
        for call in self._model_calls[turn["id"], f"model:{step}"]:
            if (call["status"] == "ok") == ok:
                outcome = "" if ok else f"{call['status']}: {one_line(call['error'] or '', 200)}"
                parts = (one_line(call["model"], 60), outcome, _usage(call), short_duration(call["duration"]))
                yield ", ".join(filter(None, parts))

    def tool_lines(self, turn: Record, message: Record, width: int) -> Iterator[str]:
        """The tool calls of a reply with their results; long arguments are cut to the width."""
        for index, call in enumerate(message["message"].get("tool_calls") or ()):
            result = self._results.get((turn["id"], f"tool:{message['step']}.{index}"))
            function = call["function"]
            name, ending = one_line(function["name"], 40), _ending(result)
            room = max(width - len(name) - len(ending) - 3, 20)
            yield f"{name} {one_line(function['arguments'], room)}  {ending}"
            if result is not None:
                done = RecordedCall(
                    function["name"], result.get("args", {}), result.get("result", ""), result["status"]
                )
                details = folded_details(done, builtin_declaration(done.tool_name))
                yield from (_DETAIL + one_line(line.text, width - 4) for line in details)


def transcript_lines(records: Iterable[Record], runner: Runner) -> Iterator[str]:
    """A session from beginning to end, for a terminal."""
    transcript = Transcript(records)
    yield from _heading(transcript.session, runner)
    for turn in transcript.turns:
        when = f", {_clock(turn['started_at'])}" + (", undone" if turn["undone"] else "")
        for message in transcript.messages(turn):
            yield ""
            yield f"--- {_who(message)}{when} ".ljust(_RULE_WIDTH, "-")
            when = ""
            yield from (f"  ! {line}" for line in transcript.model_call_lines(turn, message["step"], ok=False))
            text = _plain_text(message)
            if text:
                yield text
            for line in transcript.tool_lines(turn, message, terminal_width(80) - 4):
                yield line if line.startswith(_DETAIL) else f"  > {line}"
            yield from (f"  ({line})" for line in transcript.model_call_lines(turn, message["step"], ok=True))
        if turn["error"]:
            yield f"  ! {turn['state']}: {one_line(turn['error'])}"


def markdown(records: Iterable[Record]) -> str:
    """A session as a Markdown document."""
    transcript = Transcript(records)
    session = transcript.session
    lines = [
        f"# {one_line(session['title']) or session['id']}",
        "",
        f"Session `{session['id']}`, {_date(session['created_at'])}, {_model(session)}",
    ]
    for turn in transcript.turns:
        for message in transcript.messages(turn):
            lines += ["", f"## {_who(message)}", ""]
            text = _plain_text(message)
            if text:
                lines += [text, ""]
            for line in transcript.tool_lines(turn, message, _MARKDOWN_WIDTH):
                lines.append(f"      {line.strip()}" if line.startswith(_DETAIL) else f"- {line}")
        if turn["error"]:
            lines += ["", f"> {turn['state']}: {one_line(turn['error'])}"]
        if turn["undone"]:
            lines += ["", "> undone: not part of the conversation any more"]
    return "\n".join(lines).rstrip()


def _heading(session: Record, runner: Runner) -> Iterator[str]:
    facts = {
        "Session": session["id"],
        "Title": one_line(session["title"]) or "(no title)",
        "Started": f"{_date(session['created_at'])}, last used {_ago(session['updated_at'])}",
        "Folder": one_line(session["cwd"]),
        "Model": _model(session),
        "Turns": f"{session['turns']}, {_state(session['state'], session['runner'], runner)}",
        "Usage": _usage(session),
        "Parent": session["parent_id"],
        "Branch": session["branched_from"] and f"of {session['branched_from']}",
    }
    yield from (f"{name:<7}  {fact}" for name, fact in facts.items() if fact or name == "Folder")


def _who(message: Record) -> str:
    role: str = message["message"]["role"]
    return _WHO.get(role, role)


def _plain_text(message: Record) -> str:
    return plain(message_text(message["message"])).strip("\n")


def _ending(result: Record | None) -> str:
    if result is None:
        return "no result"
    ending = f"{result['status']}, {short_duration(result['duration_ms'] / 1000)}"
    return f"{ending}: {one_line(result['error_message'], 200)}" if result["error_message"] else ending


def _model(session: Record) -> str:
    return one_line("/".join(filter(None, (session["provider"], session["model"])))) or "unknown model"


def _usage(counts: Record) -> str:
    """Tokens and cost, when there are any."""
    sent, received, cost = counts["input_tokens"], counts["output_tokens"], counts["cost_usd"]
    tokens = f"{sent or 0:,} tokens in, {received or 0:,} out" if sent or received else ""
    return ", ".join(filter(None, (tokens, f"${cost:.4f}" if cost is not None else "")))


def _state(state: str, owner: str | None, runner: Runner) -> str:
    """The state; ``cut off`` for a session recorded as running whose process is gone."""
    if state == "running" and not (owner and runner.is_alive(owner)):
        return "cut off"
    return state


def _ago(then: float) -> str:
    """How long ago it was; after a week, the date."""
    return ago(then) if time.time() - then < 7 * 86_400 else time.strftime("%Y-%m-%d", time.localtime(then))


def _date(then: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(then))


def _clock(then: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(then))


def _fitted(line: str) -> str:
    """The line, cut to the width of the terminal."""
    return fitted(line, max(terminal_width(80), 30))
