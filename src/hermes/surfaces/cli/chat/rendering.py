"""Renderer of turn events: what each event means for what is shown. Outputs decide how it looks and where it goes."""

from __future__ import annotations

from hermes.base.sanitize import Redactor
from hermes.contract.events import (
    AttemptAnswered,
    AttemptFailed,
    BudgetReached,
    CheckpointMissing,
    ChildActivity,
    ChildEnded,
    ChildStarted,
    ContextCompacted,
    EndpointSkipped,
    ModelSwitched,
    ReasoningDelta,
    RetryScheduled,
    TextDelta,
    TextWithdrawn,
    ToolEnded,
    ToolStarted,
    TurnEvent,
    TurnStarted,
)
from hermes.surfaces.cli.terminal import one_line

#: Shown when text came from an attempt that failed.
WITHDRAWN = "… the text above is withdrawn: the answer starts anew"


class TurnRenderer:
    """Follows one turn after another; an output overrides what it shows. Not thread-safe."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        #: The answer as far as it was streamed.
        self._shown = ""
        #: Why the last attempt failed, until another one answers.
        self._failure = ""

    def render(self, event: TurnEvent) -> None:
        """Show an event."""
        if not isinstance(event, RetryScheduled):
            self.retry_over()
        if isinstance(event, ReasoningDelta):
            self.reasoning(event.text)
            return
        self.reasoning_over()
        if isinstance(event, TextDelta | AttemptAnswered | AttemptFailed | ModelSwitched):
            self.failure_over()
            self._failure = ""
        if isinstance(event, TextDelta):
            self._shown += event.text
            self.text(event.text)
            return
        self.text_over()
        if isinstance(event, AttemptFailed | EndpointSkipped | TextWithdrawn | TurnStarted) or (
            isinstance(event, AttemptAnswered) and event.finish_reason == "tool_calls"
        ):
            # Text of a failed attempt, or before tool calls, is not part of the answer.
            self._shown = ""
        self._render_step(event)

    def _render_step(self, event: TurnEvent) -> None:
        match event:
            case TurnStarted():
                self.started()
            case RetryScheduled():
                self.retry(event)
            case ToolStarted() | ChildStarted() | ChildActivity():
                self.running(event)
            case ToolEnded() | ChildEnded():
                self.call_ended(event)
            case AttemptFailed():
                self._failure = one_line(self._redactor.redact(_short_failure(event)))
            case EndpointSkipped():
                self.notice(f"! {one_line(self._redactor.redact(event.error))}", is_problem=True)
            case BudgetReached() | CheckpointMissing():
                self.notice(f"! {one_line(event.text)}", is_problem=True)
            case ModelSwitched():
                self.notice(_switched_line(event))
            case TextWithdrawn():
                self.notice(WITHDRAWN)
            case ContextCompacted():
                sizes = f"{event.messages_before} messages into {event.messages_after}"
                self.notice(f"… compacted {sizes} to free context")
            case _:
                pass

    # What an output shows. Something is *over* when another thing follows it; ``failure_over`` is the last moment to
    # show why an attempt failed. A retry is announced again as its time passes.

    def started(self) -> None: ...

    def text(self, text: str) -> None: ...

    def text_over(self) -> None: ...

    def reasoning(self, text: str) -> None: ...

    def reasoning_over(self) -> None: ...

    def running(self, event: ToolStarted | ChildStarted | ChildActivity) -> None: ...

    def call_ended(self, event: ToolEnded | ChildEnded) -> None: ...

    def retry(self, event: RetryScheduled) -> None: ...

    def retry_over(self) -> None: ...

    def failure_over(self) -> None: ...

    def notice(self, line: str, *, is_problem: bool = False) -> None: ...


def failure_text(event: AttemptFailed | EndpointSkipped) -> str:
    """What a model failed with."""
    return event.error if isinstance(event, EndpointSkipped) else event.error["message"]


def _short_failure(event: AttemptFailed) -> str:
    """What a model failed with, before it is asked again: without the advice to wait, which is being followed."""
    if event.retryable and event.reason == "rate_limit":
        return f"{event.provider}: rate limited"
    return failure_text(event)


def _switched_line(event: ModelSwitched) -> str:
    """Reports that another model answers."""
    now = f"{event.model} ({event.provider})"
    if not event.from_model:
        return one_line(f"→ back to {now}")
    return one_line(f"→ {now} takes over from {event.from_model} ({event.from_provider}): {event.reason}")
