"""ATIF v1.7 trajectories: one document per session, its children embedded and referenced, and its file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from hermes.base.config.files import replace_file
from hermes.base.version import __version__
from hermes.trace.formats.atif_parts import (
    approvals,
    attempts,
    content,
    iso,
    metrics,
    milliseconds,
    no_nulls,
    tool_call,
)
from hermes.trace.records import Mark, ModelStep, SessionRecord, ToolStep, TurnRecord, UsageRecord

SCHEMA_VERSION = "ATIF-v1.7"

Document = dict[str, Any]

CANNOT_HOLD = (
    "A span: steps have one moment each; how long attempts and tools took is in 'extra'.",
    "Turns: they show as 'turn_id' in 'extra'. Turns that were taken back are left out and counted.",
    "Failed attempts, approvals and questions beside the conversation: all in 'extra'.",
    "A system prompt or tools that changed between turns: those of the first turn stand for all.",
    "Images: their place is kept, their bytes are not.",
)


def document(
    session: SessionRecord, *, agent_name: str = "Hermes Agent", agent_version: str = __version__, model_name: str = ""
) -> Document:
    """The trajectory of a session with its children in it. A child alone makes a document of its own just so.

    ``model_name`` replaces the session's own in ``agent``.
    """
    agent = no_nulls(
        {
            "name": agent_name,
            "version": agent_version,
            "model_name": model_name or session.model or None,
            "tool_definitions": list(session.tools) or None,
        }
    )
    return _Trajectory(session, agent).document()


class _Trajectory:
    """One session on its way into a document."""

    def __init__(self, session: SessionRecord, agent: Document) -> None:
        self._session = session
        self._agent = agent
        self._children = session.children_by_call()
        self._steps: list[Document] = []
        self._embedded: list[Document] = []

    def document(self) -> Document:
        session = self._session
        shown = [turn for turn in session.turns if not turn.undone]
        hidden = {turn.id for turn in session.turns if turn.undone}
        if session.system_prompt or not shown:
            self._add(session.started_at, "system", session.system_prompt)
        marks = iter(session.marks)
        mark = next(marks, None)
        for turn in shown:
            while mark is not None and mark.at <= turn.started_at:
                self._add_mark(mark, {})
                mark = next(marks, None)
            self._add_turn(turn)
        self._embed_remaining_children(hidden)
        extra = no_nulls(
            {
                "platform": session.platform or None,
                "provider": session.provider or None,
                "status": session.status,
                "title": session.title or None,
                "parent_session_id": session.parent_id or None,
                "parent_tool_call_id": session.parent_tool_call_id or None,
                "goal": session.goal or None,
                "undone_turns": len(hidden) or None,
                "side_calls": self._side_calls(shown) or None,
            }
        )
        made: Document = {
            "schema_version": SCHEMA_VERSION,
            "session_id": session.id,
            "trajectory_id": session.id,
            "agent": self._agent,
            "steps": self._steps,
            "final_metrics": self._final_metrics(shown),
            "extra": extra,
        }
        if self._embedded:
            made["subagent_trajectories"] = self._embedded
        return made

    # -- steps --------------------------------------------------------------------------------------------------

    def _add(self, at: float, source: str, message: Any, **more: Any) -> Document:
        step = no_nulls(
            {"step_id": len(self._steps) + 1, "timestamp": iso(at), "source": source, "message": message, **more}
        )
        self._steps.append(step)
        return step

    def _add_turn(self, turn: TurnRecord) -> None:
        first = len(self._steps)
        about = {"turn_id": turn.id}
        context = {"context": turn.context} if turn.context else {}
        self._add(turn.started_at, "user", content(turn.user_message), extra={**about, **context})
        for part in _in_order(turn):
            if isinstance(part, Mark):
                self._add_mark(part, about)
            elif isinstance(part, ModelStep):
                self._add_model_step(turn, part)
            else:
                self._add_tool_of_a_plugin(turn, part)
        self._close_turn(turn, self._steps[first:])
        if turn.copied:
            for step in self._steps[first:]:
                step["is_copied_context"] = True

    def _add_mark(self, mark: Mark, about: Document) -> None:
        message = mark.data.get("summary") or f"[{mark.name}]"
        data = {name: value for name, value in mark.data.items() if name != "summary"}
        self._add(mark.at, "system", message, extra={**about, "mark": mark.name, **data})

    def _add_model_step(self, turn: TurnRecord, step: ModelStep) -> None:
        about = {"turn_id": turn.id}
        for message in step.messages:
            source = "system" if message.get("role") == "system" else "user"
            self._add(step.started_at, source, content(message.get("content") or ""), extra=about)
        last = step.attempts[-1]
        at = step.ended_at or step.started_at
        extra: Document = {**about, "api_request_id": last.api_request_id}
        if len(step.attempts) > 1 or not step.is_answered:
            extra["attempts"] = attempts(step)
        if not step.is_answered:
            self._add(at, "system", f"[no answer: {last.error or last.status}]", extra=extra)
            return
        extra |= no_nulls(
            {
                "provider": step.provider or None,
                "finish_reason": step.finish_reason or None,
                "duration_ms": milliseconds(last.started_at, last.ended_at),
            }
        )
        ran = {tool.tool_call_id: tool for tool in step.tools}
        self._add(
            at,
            "agent",
            step.text,
            model_name=step.model or None,
            reasoning_content=step.reasoning or None,
            tool_calls=[tool_call(call, ran.get(call.id)) for call in step.tool_calls] or None,
            observation=self._observation(turn, step),
            metrics=metrics(step.usage) if step.usage is not None else None,
            llm_call_count=1,
            extra=extra,
        )

    def _observation(self, turn: TurnRecord, step: ModelStep) -> Document | None:
        asked = {call.id for call in step.tool_calls}
        results = [self._result(turn, tool) for tool in step.tools if tool.tool_call_id in asked]
        ran = {tool.tool_call_id for tool in step.tools}
        for call in step.tool_calls:
            if call.id not in ran:
                nothing: Document = {"source_call_id": call.id, "content": "", "extra": {"status": "not_run"}}
                results.append(nothing | self._references(turn.id, call.id))
        return {"results": results} if results else None

    def _result(self, turn: TurnRecord, tool: ToolStep) -> Document:
        extra = no_nulls(
            {
                "status": tool.status,
                "duration_ms": milliseconds(tool.started_at, tool.ended_at),
                "error_type": tool.error_type or None,
                "approvals": approvals(tool) or None,
            }
        )
        result: Document = {"source_call_id": tool.tool_call_id, "content": tool.result, "extra": extra}
        return result | self._references(turn.id, tool.tool_call_id)

    def _add_tool_of_a_plugin(self, turn: TurnRecord, tool: ToolStep) -> None:
        """A call that no model asked for is a step of its own, in which no model had a part."""
        call = {"tool_call_id": tool.tool_call_id, "function_name": tool.name, "arguments": tool.args}
        self._add(
            tool.started_at,
            "agent",
            "",
            tool_calls=[call],
            observation={"results": [self._result(turn, tool)]},
            llm_call_count=0,
            extra={"turn_id": turn.id},
        )

    def _close_turn(self, turn: TurnRecord, steps: list[Document]) -> None:
        if turn.status in ("interrupted", "failed"):
            at = turn.ended_at or turn.started_at
            message = f"[{turn.status}: {turn.error}]" if turn.error else f"[{turn.status}]"
            self._add(at, "system", message, extra={"turn_id": turn.id})
        elif turn.answer and steps[-1]["source"] == "agent" and steps[-1]["message"] != turn.answer:
            steps[-1]["extra"]["answer"] = turn.answer  # a plugin changed what the user was shown

    # -- children -----------------------------------------------------------------------------------------------

    def _references(self, turn_id: str, tool_call_id: str) -> Document:
        children = self._children.pop((turn_id, tool_call_id), [])
        return {"subagent_trajectory_ref": [self._embed(child) for child in children]} if children else {}

    def _embed(self, child: SessionRecord) -> Document:
        agent = {name: value for name, value in self._agent.items() if name in ("name", "version")}
        agent |= no_nulls({"model_name": child.model or None, "tool_definitions": list(child.tools) or None})
        self._embedded.append(_Trajectory(child, agent).document())
        return {"trajectory_id": child.id, "session_id": child.id}

    def _embed_remaining_children(self, hidden: set[str]) -> None:
        """Children of a call that never came to be recorded; those of turns that were taken back went with them."""
        for (turn_id, _), children in list(self._children.items()):
            for child in children if turn_id not in hidden else ():
                result = {"content": child.goal, "subagent_trajectory_ref": [self._embed(child)]}
                self._add(child.started_at, "system", "[child agent]", observation={"results": [result]})

    # -- sums ---------------------------------------------------------------------------------------------------

    def _side_calls(self, turns: list[TurnRecord]) -> list[Document]:
        return [
            no_nulls(
                {
                    "purpose": call.purpose,
                    "model_name": call.attempt.model,
                    "status": call.attempt.status,
                    "metrics": metrics(call.usage) if call.usage is not None else None,
                }
            )
            for call in (*self._session.side_calls, *(call for turn in turns for call in turn.side_calls))
        ]

    def _final_metrics(self, turns: list[TurnRecord]) -> Document:
        own = sum((step.usage for turn in turns for step in turn.steps if step.usage is not None), UsageRecord())
        costs = [child["final_metrics"].get("total_cost_usd") for child in self._embedded]
        known = [cost for cost in (own.cost_usd, *costs) if cost is not None]
        sums = metrics(replace(own, cost_usd=sum(known) if known else None))
        extra = sums.pop("extra", None)
        totals = {f"total_{name}": value for name, value in sums.items()}
        return no_nulls({**totals, "total_steps": len(self._steps), "extra": extra})


def _in_order(turn: TurnRecord) -> Iterator[ModelStep | ToolStep | Mark]:
    """What happened in a turn, as steps have it: a model's by when it answered, everything else by when it began."""
    if not (turn.marks or turn.other_tools):
        return iter(turn.steps)
    marks = [mark for mark in turn.marks if mark.name != "undone"]
    parts: list[ModelStep | ToolStep | Mark] = [*marks, *turn.steps, *turn.other_tools]
    return iter(sorted(parts, key=_moment))


def _moment(part: ModelStep | ToolStep | Mark) -> float:
    if isinstance(part, Mark):
        return part.at
    return part.ended_at or part.started_at if isinstance(part, ModelStep) else part.started_at


DEFAULT_TEMPLATE = "trajectory-{session_id}.json"

_PLACEHOLDER = "{session_id}"
_LONGEST_NAME = 120


def write_trajectory(folder: Path, template: str, document: dict[str, Any]) -> Path:
    """Write a document under the name its session gives it, replacing an older one; the path.

    Readers see the old file or the new one, never half of one. ``OSError`` when the folder cannot be written.
    """
    name = file_name(template, str(document.get("session_id") or document.get("trajectory_id") or ""))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    replace_file(path, msgspec.json.encode(document), mode=0o600, follow=False)
    return path


def file_name(template: str, session_id: str) -> str:
    """The template with the session in it. Raises ``ValueError`` for one that is no plain file name."""
    rest = template.replace(_PLACEHOLDER, "")
    if "{" in rest or "}" in rest:
        raise ValueError(f"found {template!r}; the only placeholder allowed is {_PLACEHOLDER}")
    if not rest.strip(". ") or "/" in rest or "\\" in rest or "\0" in rest:
        raise ValueError(f"found {template!r}; allowed is a file name without folders, such as {DEFAULT_TEMPLATE}")
    return template.replace(_PLACEHOLDER, _safe(session_id))


def _safe(session_id: str) -> str:
    """The id as part of a file name: what could lead elsewhere becomes a dash, and two ids stay two names."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in session_id)[:_LONGEST_NAME]
    if kept == session_id and kept.strip("."):
        return kept
    import hashlib

    digest = hashlib.sha256(session_id.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{kept.strip('.')}-{digest}"
