"""Stream report: tells plugins of an answer while it streams, with secrets masked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hermes.base.sanitize import MaskedStream, Redactor
from hermes.contract.events import ReasoningDelta, StreamDelta, StreamEnded, StreamStarted, TextDelta

if TYPE_CHECKING:
    from hermes.hooks.table import Hooks
    from hermes.models.wires.wire import Delta


class StreamReport:
    """The events of one attempt's stream: a start with its first piece, its pieces, and one end."""

    def __init__(self, hooks: Hooks, redactor: Redactor, fields: Mapping[str, Any], *, with_reasoning: bool) -> None:
        self._hooks = hooks
        self._redactor = redactor
        self._fields = fields
        self._with_reasoning = with_reasoning
        self._masked = MaskedStream(redactor)
        self._kind = ""
        self._has_started = False
        self._said: list[str] = []

    def piece(self, delta: Delta) -> None:
        """The next piece; of a tool call only that there is one."""
        if not self._has_started:
            self._has_started = True
            if self._hooks.on_stream_start is not None:
                self._hooks.on_stream_start(StreamStarted(**self._fields))
        is_text = isinstance(delta, TextDelta)
        if not is_text and not (self._with_reasoning and isinstance(delta, ReasoningDelta)):
            return
        kind = "text" if is_text else "reasoning"
        if kind != self._kind:
            self._flush()
            self._kind = kind
        self._tell(self._masked.feed(delta.text))

    def end(self, error: BaseException | None) -> None:
        """The stream is over, if there was one."""
        if not self._has_started:
            return
        self._flush()
        emit = self._hooks.on_stream_end
        if emit is not None:
            words = None if error is None else self._redactor.redact(f"{type(error).__name__}: {error}")
            text = "".join(self._said)
            emit(StreamEnded(**self._fields, final_text=text, finished=error is None, error=words))

    def _flush(self) -> None:
        self._tell(self._masked.finish())

    def _tell(self, text: str) -> None:
        if not text:
            return
        if self._kind == "text":
            self._said.append(text)
        if self._hooks.on_stream_delta is not None:
            self._hooks.on_stream_delta(StreamDelta(**self._fields, delta=text, kind=self._kind))
