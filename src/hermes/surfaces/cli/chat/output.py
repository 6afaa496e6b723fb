"""Output styles of ``hermes chat``: quiet, streamed text, JSON, or JSON lines."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Protocol, TextIO

import msgspec

from hermes.agent.events import TurnResult
from hermes.base.sanitize import Redactor, sanitise
from hermes.contract import events
from hermes.surfaces.cli.chat.rendering import TurnRenderer
from hermes.surfaces.cli.terminal import fitted, plain, short_duration, terminal_width
from hermes.tools.declarations.builtin import builtin_declaration
from hermes.tools.declarations.declaration import Declaration


@contextlib.contextmanager
def reserved(stdout: TextIO) -> Generator[TextIO]:
    """A stream to where stdout leads that this program alone can write to.

    What plugins and libraries write to the file descriptor of stdout goes to stderr meanwhile.
    """
    try:
        number, other = stdout.fileno(), sys.stderr.fileno()
        stdout.flush()
        kept = os.dup(number)
    except (OSError, ValueError, AttributeError):
        yield stdout  # not a file, or a closed one
        return
    os.dup2(other, number)
    stream = open(kept, "w", encoding=stdout.encoding, errors=stdout.errors)  # noqa: PTH123, SIM115  (a descriptor)
    try:
        yield stream
    finally:
        with contextlib.suppress(OSError, ValueError):
            stdout.flush()  # what others left in its buffer does not belong there either
        os.dup2(kept, number)
        with contextlib.suppress(OSError):
            stream.close()


class Output(Protocol):
    """An output style."""

    #: Where answers go.
    stdout: TextIO

    def begin(self, session_id: str) -> None: ...

    def event(self, event: events.TurnEvent) -> None: ...

    def end(self, result: TurnResult) -> None: ...


class QuietOutput:
    """The session id on stderr first, then only the answer on stdout.

    Escape sequences and control characters of the model are left out, unless ``raw``.
    """

    def __init__(self, stdout: TextIO, *, raw: bool = False) -> None:
        self.stdout = stdout
        self._raw = raw

    def begin(self, session_id: str) -> None:
        print(f"session_id: {session_id}", file=sys.stderr, flush=True)

    def event(self, event: events.TurnEvent) -> None:
        """Never called: nothing is shown before the answer is recorded."""

    def end(self, result: TurnResult) -> None:
        if result.status in ("completed", "incomplete"):
            print(result.answer if self._raw else plain(result.answer), file=self.stdout, flush=True)


class StreamJsonOutput:
    """One event per line as it happens; the last line is the result."""

    def __init__(self, stdout: TextIO, redactor: Redactor) -> None:
        self.stdout = stdout
        self._redactor = redactor

    def begin(self, session_id: str) -> None:
        _print_json(self.stdout, {"type": "session", "session_id": session_id})

    def event(self, event: events.TurnEvent) -> None:
        if not isinstance(event, events.RetryScheduled) or event.is_first:  # programs can count themselves
            _print_json(self.stdout, event_document(event, self._redactor))

    def end(self, result: TurnResult) -> None:
        _print_json(self.stdout, {"type": "result", **result_document(result, self._redactor)})


class JsonOutput(StreamJsonOutput):
    """One document when the turn has ended."""

    def begin(self, session_id: str) -> None:
        """Nothing to do: the document has the session id."""

    def event(self, event: events.TurnEvent) -> None:
        """Never called: the document has everything."""

    def end(self, result: TurnResult) -> None:
        _print_json(self.stdout, result_document(result, self._redactor))


class TextOutput(TurnRenderer):
    """Text as it streams, a line per tool call, usage at the end. The answer is on stdout, the rest on stderr.

    Escape sequences and control characters of the model are left out, unless ``raw`` and not on a terminal.
    """

    def __init__(self, stdout: TextIO, redactor: Redactor, *, raw: bool = False) -> None:
        super().__init__(redactor)
        self.stdout = stdout
        self._raw = raw and not stdout.isatty()
        self._at_line_start = True
        self._is_failure_shown = False
        #: A line on stderr counts down and is to be wiped out.
        self._is_counting = False
        #: Whether a question has the terminal.
        self.is_asking: Callable[[], bool] = lambda: False
        #: What is going on until the first answer.
        self.activity = ""
        #: The folder that paths in calls are relative to.
        self.cwd = Path()
        #: What the tools declare; those of the host, when it is there.
        self.declaration: Callable[[str], Declaration] = builtin_declaration

    @property
    def can_withdraw(self) -> bool:
        """Whether a person sees the text: what is in a file or a pipe cannot be taken back."""
        return self.stdout.isatty()

    def begin(self, session_id: str) -> None:
        """The session is named at the end, where a person looks for it."""

    def event(self, event: events.TurnEvent) -> None:
        self.render(event)

    def end(self, result: TurnResult) -> None:
        self.retry_over()
        if result.status in ("completed", "incomplete") and self._shown != result.answer:
            # Nothing was streamed, or a plugin replaced it: show the recorded answer.
            self.new_line()
            self.text(result.answer)
        self.new_line()
        print(usage_line(result), file=sys.stderr, flush=True)

    def pause(self) -> None:
        """Make room for a question: nothing to do where nothing is drawn."""

    def started(self) -> None:
        self.new_line()

    def text(self, text: str) -> None:
        self.stdout.write(text if self._raw else plain(text))
        self.stdout.flush()
        self._at_line_start = text.endswith("\n")

    def call_ended(self, event: events.ToolEnded | events.ChildEnded) -> None:
        from hermes.surfaces.cli.chat.tool_lines import ToolLines

        self.notice(ToolLines(self._redactor, declaration=self.declaration).finished(event))

    def retry(self, event: events.RetryScheduled) -> None:
        """One line, which counts down on a terminal."""
        line = f"! {self._failure}; " if self._failure else "… "
        self._is_failure_shown = bool(self._failure)
        line += f"trying again in {max(event.seconds, 0.1):.{0 if event.seconds >= 1 else 1}f} s"
        line += f" ({event.retry} of {event.max_retries})"
        if sys.stderr.isatty():
            self.new_line()
            self._is_counting = True
            print(f"\r{fitted(line, terminal_width(80) - 1)}\x1b[K", end="", file=sys.stderr, flush=True)
        elif event.is_first and (self._failure or event.seconds >= 1):
            self.notice(line)

    def retry_over(self) -> None:
        if self._is_counting:
            self._is_counting = False
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def failure_over(self) -> None:
        """Show why the last attempt failed, when no retry has shown it."""
        if self._failure and not self._is_failure_shown:
            self.notice(f"! {self._failure}")
        self._is_failure_shown = False

    def notice(self, line: str, *, is_problem: bool = False) -> None:
        self.new_line()
        print(line, file=sys.stderr, flush=True)

    def new_line(self) -> None:
        """End the line of the answer, if one is begun."""
        if not self._at_line_start:
            self.stdout.write("\n")
            self.stdout.flush()
            self._at_line_start = True


def result_document(result: TurnResult, redactor: Redactor) -> dict[str, Any]:
    """A turn's result as plain data."""
    usage = result.usage
    return {
        "answer": result.answer,
        "session_id": result.session_id,
        "turn_id": result.turn_id,
        "status": result.status,
        "error": None if result.error is None else redactor.redact(result.error),
        "model": result.model,
        "provider": result.provider,
        "usage": usage.as_hook_payload(),
        "cost_usd": usage.cost_usd,
        "finish_reason": result.finish_reason or None,
        "steps": result.steps,
        "tool_calls": [_field_values(call, _ENDED_CALL, redactor) for call in result.tool_calls],
        "duration_seconds": round(result.duration, 4),
    }


_CALL = {"tool_call_id": "tool_call_id", "name": "tool_name", "args": "args"}
_CHILD = {"session_id": "child_session_id", "task_index": "task_index"}
_TASK = {"tool_call_id": "tool_call_id", **_CHILD, "goal": "child_goal"}
_ENDED_CALL = {**_CALL, "status": "status", "duration_ms": "duration_ms", "error": "error_message", "result": "result"}


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


#: Per event, its type and the fields of its document with the attributes that they come from.
EVENT_FIELDS: dict[type[Any], tuple[str, dict[str, str]]] = {
    events.TurnStarted: ("turn_started", _same("turn_id", "resumed")),
    events.TextDelta: ("text", _same("text")),
    events.ReasoningDelta: ("reasoning", _same("text")),
    events.ToolStarted: ("tool_started", _CALL),
    events.ToolEnded: ("tool_finished", _ENDED_CALL),
    events.AttemptAnswered: (
        "model_answered",
        {"model": "response_model", **_same("finish_reason", "usage"), "duration_seconds": "api_duration"},
    ),
    events.AttemptFailed: ("model_failed", _same("provider", "model", "error")),
    events.EndpointSkipped: ("model_failed", _same("provider", "model", "error")),
    events.ModelSwitched: (
        "model_switched",
        _same("provider", "model", "from_provider", "from_model", "reason"),
    ),
    events.ChildStarted: ("child_started", {**_TASK, "role": "child_role"}),
    events.ChildActivity: ("child_activity", {**_CHILD, "name": "tool_name", "args": "args"}),
    events.ChildEnded: (
        "child_finished",
        {**_TASK, "status": "child_status", "duration_ms": "duration_ms", "error": "child_error"},
    ),
    events.BudgetReached: ("budget_reached", _same("text")),
    events.CheckpointMissing: ("checkpoint_missing", _same("text")),
    events.TextWithdrawn: ("text_withdrawn", {}),
    events.RetryScheduled: ("retry_scheduled", _same("provider", "model", "seconds", "retry", "max_retries")),
    events.ContextCompacted: (
        "context_compacted",
        _same("messages_before", "messages_after", "tokens_before", "tokens_after"),
    ),
}


def event_document(event: events.TurnEvent, redactor: Redactor) -> dict[str, Any]:
    """An event as plain data."""
    kind, fields = EVENT_FIELDS[type(event)]
    return {"type": kind, **_field_values(event, fields, redactor)}


def _field_values(event: object, fields: dict[str, str], redactor: Redactor) -> dict[str, Any]:
    values: dict[str, Any] = {name: getattr(event, attribute) for name, attribute in fields.items()}
    for name, value in values.items():
        if name == "args":
            values[name] = sanitise(value, redactor=redactor)
        elif name in ("seconds", "duration_seconds"):
            values[name] = round(value, 3 if name == "seconds" else 4)
        elif name in ("error", "goal", "result") and value is not None:
            values[name] = redactor.redact(value if isinstance(value, str) else value["message"])
    return values


def usage_line(result: TurnResult) -> str:
    """Model, tokens, cost, time and session of a turn."""
    usage = result.usage
    cost = "" if usage.cost_usd is None else f" · ${usage.cost_usd:.4f}"
    state = "" if result.status == "completed" else f" · {result.status}"
    return (
        f"{result.model or 'no model'} · {usage.prompt_tokens} in, {usage.output_tokens} out{cost} · "
        f"{short_duration(result.duration)} · session {result.session_id}{state}"
    )


def _print_json(stdout: TextIO, document: dict[str, Any]) -> None:
    """Print JSON as UTF-8, independent of the terminal's encoding."""
    stdout.flush()
    stdout.buffer.write(_encode(document) + b"\n")
    stdout.buffer.flush()


def _encode(document: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(document)
    except UnicodeEncodeError:
        return msgspec.json.encode(sanitise(document))
