"""Live tracing to Langfuse: events are queued at once, and everything else is done on the background queue."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hermes.base.sanitize import Redactor
from hermes.contract.events import ChildStarted, Event, SessionFinalized, SessionStarted
from hermes.trace.tracker import TRACKED, Tracker

from .settings import LangfuseSettings

if TYPE_CHECKING:
    from .content import ObservationContent
    from .pipeline import LangfusePipeline

log = logging.getLogger(__name__)

#: How many events may wait.
CAPACITY = 10_000
#: How long the end of the program waits for OpenTelemetry to be imported, which depends on this machine alone.
_LOADING_SECONDS = 10.0
#: Fields that nothing is made from, and those that only content is made from.
_UNUSED = frozenset({"request_messages", "response", "tools", "middleware_trace", "child_goal", "child_summary"})
_CONTENT_FIELDS = frozenset(
    {"user_message", "assistant_response", "conversation_history", "assistant_message", "args", "result"}
    | {"error_message", "command"}
)


class LangfuseTracing:
    """Takes the events of one host. Importing OpenTelemetry takes longer than many turns: the first event does it."""

    def __init__(self, settings: LangfuseSettings, plugin: str, redactor: Redactor) -> None:
        self._settings = settings
        self._plugin = plugin
        self._redactor = redactor
        redactor.add_secret(settings.secret_key, "LANGFUSE_SECRET_KEY")
        #: Made by the first event.
        self.pipeline: LangfusePipeline | None = None
        self._tracker: Tracker | None = None
        self._content: ObservationContent | None = None
        self._is_loaded = threading.Event()
        self._children: set[str] = set()
        self._has_news = self._is_broken = False
        self._queue: Any = None

    def join(self, ctx: Any) -> None:
        """Observe every turn. No field is copied that nothing is made from."""
        unused = _UNUSED if self._settings.capture_content else _UNUSED | _CONTENT_FIELDS
        self._queue = ctx.background_queue(CAPACITY)
        ctx.register_event_sink(
            self.take, events=[kind for kind in TRACKED if kind is not SessionStarted], leave_out=unused
        )
        atexit.register(self.finish)

    def finish(self) -> None:
        """The process exits: end what is open, and send what is waiting."""
        if self._has_news:
            at = time.time()
            self._put(lambda: self._tracker and self._tracker.abandon("the process ended first", at))
            self.flush(self._settings.flush_seconds)

    def flush(self, seconds: float) -> None:
        """Wait until everything is sent, until a deadline; what is not out by then counts as lost."""
        self._has_news = False
        if not self._queue.put(self._flush):
            return  # the host is closed, and has sent what there was
        if not self._is_loaded.wait(_LOADING_SECONDS):
            log.warning("OpenTelemetry was not loaded within %g s: the last turns are not sent", _LOADING_SECONDS)
        elif (self._queue.is_late or not self._queue.flush(seconds)) and self.pipeline is not None:
            self.pipeline.give_up(seconds)

    def close(self) -> None:
        """End all threads. Otherwise they live with the process."""
        atexit.unregister(self.finish)
        if self.pipeline is not None:
            self.pipeline.close()

    # -- in the turn's thread -----------------------------------------------------------------------------------

    def take(self, event: Event) -> None:
        """Queue an event. When the program ends, the server gets what is waiting."""
        at = time.time()
        if not isinstance(event, SessionFinalized):
            self._has_news = True
        if not self._put(lambda: self._trace(event, at)) and self.pipeline is not None:
            self.pipeline.health.failed("there are more events than can be sent to Langfuse; some are left out")
        if isinstance(event, ChildStarted):
            self._children.add(event.child_session_id)
        elif isinstance(event, SessionFinalized):
            if event.session_id in self._children:
                # A child is over in the middle of its parent's turn, which must not wait for a server.
                self._children.discard(event.session_id)
            elif event.reason == "shutdown" and self._has_news:
                self.flush(self._settings.flush_seconds)

    def _put(self, work: Callable[[], object]) -> bool:
        return self._queue.put(lambda: self._run(work))

    # -- on the queue's thread ----------------------------------------------------------------------------------

    def _trace(self, event: Event, at: float) -> None:
        if self._tracker is None:
            if isinstance(event, SessionFinalized):
                return
            self._tracker = self._open()
        self._tracker.take(event, at)
        if isinstance(event, SessionFinalized) and self._content is not None:
            self._content.forget(event.session_id)

    def _open(self) -> Tracker:
        from hermes.trace.otel.spans import SpanSink

        from .content import ObservationContent
        from .observations import LangfuseSpans
        from .pipeline import LangfusePipeline

        self.pipeline = LangfusePipeline(self._settings, self._plugin)
        self._is_loaded.set()
        self._content = ObservationContent(self._settings, self._redactor)
        # In contexts of its own: whatever trace the code around a turn is in, it is not this one.
        return Tracker(SpanSink(self.pipeline.tracer, LangfuseSpans(self._settings, self._content)))

    def _run(self, work: Callable[[], object]) -> None:
        if self._is_broken:
            return
        try:
            work()
        except Exception as error:
            if self.pipeline is not None:
                self.pipeline.health.failed(error)
                raise
            self._is_broken = True
            self._is_loaded.set()
            name = getattr(error, "name", None) or type(error).__name__
            log.warning(
                "nothing is sent to Langfuse: OpenTelemetry cannot be used (%s); is the 'langfuse' extra complete?",
                name,
            )

    def _flush(self) -> None:
        self._is_loaded.set()  # even if no event has needed it
        if self.pipeline is not None:
            self.pipeline.flush()
