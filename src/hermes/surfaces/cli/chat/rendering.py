"""Renderer of turn events: what each event means for what is shown. Outputs decide how it looks and where it goes."""

from __future__ import annotations

from hermes.base.sanitize import Redactor
from hermes.contract import events
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

    def render(self, event: events.TurnEvent) -> None:
        """Show an event."""
        if not isinstance(event, events.RetryScheduled):
            self.retry_over()
        if isinstance(event, events.ReasoningDelta):
            self.reasoning(event.text)
            return
        self.reasoning_over()
        if isinstance(event, events.TextDelta | events.AttemptAnswered | events.AttemptFailed | events.ModelSwitched):
            self.failure_over()
            self._failure = ""
        if isinstance(event, events.TextDelta):
            self._shown += event.text
            self.text(event.text)
            return
        self.text_over()
        has_failed = isinstance(event, events.AttemptFailed | events.EndpointSkipped | events.TextWithdrawn)
        calls_tools = isinstance(event, events.AttemptAnswered) and event.finish_reason == "tool_calls"
        if has_failed or calls_tools or isinstance(event, events.TurnStarted):
            # Text of a failed attempt, or before tool calls, is not part of the answer.
            self._shown = ""
        self._render_step(event)

    def _render_step(self, event: events.TurnEvent) -> None:
        match event:
            case events.TurnStarted():
                self.started()
            case events.RetryScheduled():
                self.retry(event)
            case events.ToolStarted() | events.ChildStarted() | events.ChildActivity():
                self.running(event)
            case events.ToolEnded() | events.ChildEnded():
                self.call_ended(event)
            case events.AttemptFailed():
                self._failure = one_line(self._redactor.redact(_short_failure(event)))
            case events.EndpointSkipped():
                self.notice(f"! {one_line(self._redactor.redact(event.error))}", is_problem=True)
            case events.BudgetReached() | events.CheckpointMissing():
                self.notice(f"! {one_line(event.text)}", is_problem=True)
            case events.ModelSwitched():
                self.notice(_switched_line(event))
            case events.TextWithdrawn():
                self.notice(WITHDRAWN)
            case events.ContextCompacted():
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

    def running(self, event: events.ToolStarted | events.ChildStarted | events.ChildActivity) -> None: ...

    def call_ended(self, event: events.ToolEnded | events.ChildEnded) -> None: ...

    def retry(self, event: events.RetryScheduled) -> None: ...

    def retry_over(self) -> None: ...

    def failure_over(self) -> None: ...

    def notice(self, line: str, *, is_problem: bool = False) -> None: ...


def _short_failure(event: events.AttemptFailed) -> str:
    """What a model failed with, before it is asked again: without the advice to wait, which is being followed."""
    if event.retryable and event.reason == "rate_limit":
        return f"{event.provider}: rate limited"
    return event.error["message"]


def _switched_line(event: events.ModelSwitched) -> str:
    """Reports that another model answers."""
    now = f"{event.model} ({event.provider})"
    if not event.from_model:
        return one_line(f"→ back to {now}")
    return one_line(f"→ {now} takes over from {event.from_model} ({event.from_provider}): {event.reason}")
