"""Timeline of a run: a row for each turn, model call, tool call, approval and child, drawn as a waterfall chart."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal, cast

import msgspec

from hermes.surfaces.cli.runs.trace.format import NARROW, compaction, cost, duration
from hermes.surfaces.cli.terminal import cells, fitted, one_line
from hermes.surfaces.commands.text import plural
from hermes.trace.records import Mark, ModelStep, SessionRecord, SideCall, ToolStep, TurnRecord, UsageRecord, family

Kind = Literal["turn", "model", "attempt", "tool", "approval", "child", "side", "mark"]
Children = dict[tuple[str, str], list[SessionRecord]]

_LONGEST_LABEL = 200


class Row(msgspec.Struct, frozen=True):
    """One line: what it was, its start and end, its result."""

    depth: int
    kind: Kind
    label: str
    started_at: float
    #: None while it runs, or when its end was never recorded.
    ended_at: float | None
    #: Shown after the duration: tokens and cost, a status, an answer.
    detail: str = ""
    failed: bool = False


def turn_rows(session: SessionRecord, turn: TurnRecord, depth: int = 0) -> Iterator[Row]:
    """A turn with its steps by start time; children are nested under the call that started them."""
    children = session.children_by_call()
    notes = [turn.status, *(["undone"] if turn.undone else []), *(["copied"] if turn.copied else [])]
    label, failed = _label(_user_text(turn)), turn.status == "failed"
    yield Row(depth, "turn", label, turn.started_at, turn.ended_at, ", ".join(notes), failed)
    parts: list[ModelStep | ToolStep | SideCall | Mark] = [
        *(mark for mark in turn.marks if mark.name != "undone"),
        *turn.side_calls,
        *turn.steps,
        *turn.other_tools,
    ]
    for part in sorted(parts, key=_start_of):
        if isinstance(part, ModelStep):
            yield from _model_rows(part, depth + 1)
            for tool in sorted(part.tools, key=lambda tool: tool.started_at):
                yield from _tool_rows(tool, turn, children, depth + 1)
        elif isinstance(part, ToolStep):
            yield from _tool_rows(part, turn, children, depth + 1)
        elif isinstance(part, SideCall):
            yield _side_row(part, depth + 1)
        else:
            is_counted = part.name == "compacted" and "tokens_before" in part.data
            yield Row(depth + 1, "mark", part.name, part.at, part.at, compaction(part.data) if is_counted else "")


def _model_rows(step: ModelStep, depth: int) -> Iterator[Row]:
    *earlier, last = step.attempts
    detail = usage_text(step.usage, cached=False) if step.is_answered else last.error or last.status
    label = f"{step.model} ({step.provider})" if step.provider else step.model
    yield Row(depth, "model", label, step.started_at, step.ended_at, _label(detail), not step.is_answered)
    if earlier:
        for number, attempt in enumerate(step.attempts, start=1):
            name = f"{number}: {attempt.model} ({attempt.provider})"
            failed = attempt.status != "ok"
            words = _label(attempt.error) if failed else "ok"
            yield Row(depth + 1, "attempt", name, attempt.started_at, attempt.ended_at, words, failed)


def _tool_rows(tool: ToolStep, turn: TurnRecord, children: Children, depth: int) -> Iterator[Row]:
    arguments = msgspec.json.encode(tool.args).decode() if tool.args else ""
    failed = tool.status not in ("ok", "running")
    detail = f"{tool.status}: {_label(tool.error_message)}" if tool.error_message else tool.status
    yield Row(depth, "tool", _label(f"{tool.name} {arguments}"), tool.started_at, tool.ended_at, detail, failed)
    for one in tool.approvals:
        answer = one.choice or "no answer yet"
        label = f"{', '.join(one.rules)}: {one.description}"
        yield Row(depth + 1, "approval", _label(label), one.asked_at, one.answered_at, answer, one.choice == "deny")
    for child in children.get((turn.id, tool.tool_call_id), ()):
        yield from _child_rows(child, depth + 1)


def _child_rows(child: SessionRecord, depth: int) -> Iterator[Row]:
    label = f"{child.goal} ({child.id})".strip()
    failed = child.status in ("failed", "interrupted")
    yield Row(depth, "child", _label(label), child.started_at, child.ended_at, child.status, failed)
    for turn in child.turns:
        # The only user message of a child is its task, shown in the line above.
        yield from list(turn_rows(child, turn, depth))[1:]


def side_rows(session: SessionRecord) -> list[Row]:
    """Model calls between turns."""
    return [_side_row(call, 0) for call in session.side_calls]


def _side_row(call: SideCall, depth: int) -> Row:
    attempt = call.attempt
    failed = attempt.status != "ok"
    detail = _label(attempt.error) if failed else usage_text(call.usage, cached=False)
    label = f"{call.purpose}: {attempt.model}"
    return Row(depth, "side", label, attempt.started_at, attempt.ended_at, detail, failed)


def usage_text(usage: UsageRecord | None, *, cached: bool = True) -> str:
    """Tokens and cost in few characters."""
    if usage is None:
        return "usage unknown"
    part = f" ({usage.cache_read_tokens:,} cached)" if cached and usage.cache_read_tokens else ""
    price = f", {cost(usage.cost_usd)}" if usage.cost_usd is not None else ""
    return f"{usage.prompt_tokens:,} in{part}, {usage.output_tokens:,} out{price}"


def summary(session: SessionRecord) -> str:
    """One line about a session: platform, model, and totals including children."""
    turns = model_calls = tools = children = 0
    usage = UsageRecord()
    for one in family(session):
        children += one is not session
        for turn in one.turns:
            turns += one is session
            model_calls += sum(len(step.attempts) for step in turn.steps) + len(turn.side_calls)
            tools += sum(1 for _ in turn.tools())
            usage = sum((call.usage for call in turn.side_calls if call.usage is not None), usage)
        model_calls += len(one.side_calls)
        usage = sum((call.usage for call in one.side_calls if call.usage is not None), usage + one.usage())
    parts = [session.platform, f"{session.model} ({session.provider})" if session.provider else session.model]
    parts += [plural(turns, "turn"), plural(model_calls, "model call"), plural(tools, "tool call")]
    parts += [f"{children} children" if children > 1 else "1 child"] if children else []
    return ", ".join([*filter(None, parts), usage_text(usage)])


def _start_of(part: ModelStep | ToolStep | SideCall | Mark) -> float:
    if isinstance(part, Mark):
        return part.at
    return part.attempt.started_at if isinstance(part, SideCall) else part.started_at


def _user_text(turn: TurnRecord) -> str:
    """The user message as text."""
    message = turn.user_message
    if isinstance(message, str):
        return message
    parts = (cast("dict[str, Any]", part) if isinstance(part, dict) else {"text": str(part)} for part in message)
    return " ".join(str(part.get("text") or f"[{part.get('type', 'content')}]") for part in parts)


def _label(text: str) -> str:
    return one_line(text, _LONGEST_LABEL)


_SHARE_OF_LABEL = 0.36
_SHARE_OF_BAR = 0.24
_DURATION_WIDTH = 8

_COLOURS: dict[Kind, str] = {
    "turn": "1",
    "model": "36",
    "attempt": "36",
    "tool": "32",
    "approval": "33",
    "child": "35",
    "side": "34",
    "mark": "2",
}
_FAILED = "31"


class ChartStyle(msgspec.Struct, frozen=True):
    """Width and character set of the chart."""

    width: int
    unicode: bool
    colour: bool


def draw(rows: list[Row], style: ChartStyle) -> Iterator[str]:
    """Draw a line for each row."""
    start, end = min(row.started_at for row in rows), max(row.ended_at or row.started_at for row in rows)
    bar_width = int(style.width * _SHARE_OF_BAR)
    is_narrow = style.width < NARROW
    # Without the details, the label gets their room.
    label_width = style.width - bar_width - _DURATION_WIDTH - 4 if is_narrow else int(style.width * _SHARE_OF_LABEL)
    for row in rows:
        name = "" if row.kind == "turn" else f"{row.kind} "
        label = fitted("  " * row.depth + name + row.label, label_width)
        label += " " * (label_width - cells(label))
        bar = _bar(row, start, end, bar_width, unicode=style.unicode)
        took = duration(None if row.ended_at is None else row.ended_at - row.started_at)
        line = f"{label}  {bar}  {'' if row.kind == 'mark' else took:>{_DURATION_WIDTH}}  "
        detail = "" if is_narrow else fitted(row.detail, max(style.width - cells(line), 8))
        if style.colour:
            colour = _FAILED if row.failed else _COLOURS[row.kind]
            yield f"\x1b[{colour}m{label}  {bar}\x1b[0m{line[len(label) + len(bar) + 2 :]}{detail}".rstrip()
        else:
            yield f"{line}{detail}".rstrip()


def _bar(row: Row, start: float, end: float, columns: int, *, unicode: bool) -> str:
    """The bar of a row in a chart from start to end, at least one character wide."""
    whole = max(end - start, 1e-6)
    first = min(int((row.started_at - start) / whole * columns), columns - 1)
    if row.kind == "mark":
        return (" " * first + ("◆" if unicode else "*")).ljust(columns)
    ended_at = end if row.ended_at is None else row.ended_at
    stop = min(math.ceil((ended_at - start) / whole * columns), columns)
    sign = ("▒" if unicode else "=") if row.kind in ("turn", "child", "approval") else ("█" if unicode else "#")
    return (" " * first + sign * max(stop - first, 1)).ljust(columns)
