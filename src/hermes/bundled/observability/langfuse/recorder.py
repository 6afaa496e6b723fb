"""Stands between the turns and Langfuse: takes the events at once, and has everything else done behind them."""

from __future__ import annotations

import atexit
import inspect
import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .content import CONTENT_FIELDS
from .scribe import Scribe
from .settings import Settings
from .worker import Worker

if TYPE_CHECKING:
    from .pipeline import Pipeline
    from .tree import Tree

log = logging.getLogger(__name__)

#: How long the end of the program waits for the SDK to be loaded, which depends on this machine alone.
_LOADING_SECONDS = 10.0
_HOOKS = (
    *("pre_llm_call", "post_llm_call", "on_session_end", "on_session_finalize"),
    *("pre_api_request", "post_api_request", "api_request_error"),
    *("pre_tool_call", "post_tool_call"),
    *("pre_approval_request", "post_approval_response"),
    *("subagent_start", "subagent_stop"),
)


class Recorder:
    """Takes events in the turn's thread and hands them to a scribe on a thread of its own.

    Loading the SDK takes longer than many turns, so that the first event does it, also over there.
    """

    def __init__(self, settings: Settings, plugin: str) -> None:
        self._settings = settings
        self._plugin = plugin
        self._worker = Worker("hermes-langfuse")
        self._scribe = Scribe(settings, self._plant)
        #: Made by the first event.
        self.pipeline: Pipeline | None = None
        self._is_loaded = threading.Event()
        self._children: set[str] = set()
        self._has_news = self._is_broken = self._is_full = False

    def join(self, ctx: Any) -> None:
        """Join the hooks. The signatures of the callbacks decide what the runtime copies for them."""
        hidden = frozenset[str]() if self._settings.capture_content else CONTENT_FIELDS
        for name in _HOOKS:
            ctx.register_hook(name, _Passed(self._take, getattr(self._scribe, name), hidden))
        ctx.register_hook("subagent_start", self._note_child)
        ctx.register_hook("on_session_finalize", self._wait_at_the_end)
        atexit.register(self.finish)

    def finish(self) -> None:
        """End what is open, and give the server its last chance."""
        if self._has_news:
            self._worker.put(lambda: self._do(lambda: self._scribe.end_everything(time.time())))
            self.flush(self._settings.flush_seconds)

    def flush(self, seconds: float) -> None:
        """Wait until everything is sent, but not longer than that; what is not out by then counts as lost."""
        self._has_news = False
        self._worker.put(self._flush)
        if not self._is_loaded.wait(_LOADING_SECONDS):
            log.warning("the Langfuse SDK was not loaded within %g s: the last turns are not sent", _LOADING_SECONDS)
        elif not self._worker.wait(seconds) and self.pipeline is not None:
            self.pipeline.give_up(seconds)

    def close(self) -> None:
        """End all threads. A recorder otherwise lives with the process."""
        atexit.unregister(self.finish)
        self._worker.close()
        if self.pipeline is not None:
            self.pipeline.close()

    # -- in the turn's thread -----------------------------------------------------------------------------------

    def _take(self, method: Callable[..., None], fields: dict[str, Any]) -> None:
        at = time.time()
        self._has_news = True
        if not self._worker.put(lambda: self._do(lambda: method(at, **fields))):
            self._overflow()

    def _overflow(self) -> None:
        words = "there are more events than can be sent to Langfuse; some are left out"
        if self.pipeline is not None:
            self.pipeline.health.failed(words)
        log.log(logging.DEBUG if self._is_full else logging.WARNING, words)
        self._is_full = True

    def _note_child(self, *, child_session_id: str) -> None:
        self._children.add(child_session_id)

    def _wait_at_the_end(self, *, session_id: str, reason: str = "") -> None:
        """When the program ends, the server gets what is left."""
        if session_id in self._children:
            # A child is over in the middle of its parent's turn, which must not wait for a server.
            self._children.discard(session_id)
        elif reason == "shutdown" and self._has_news:
            self.flush(self._settings.flush_seconds)

    # -- behind the turn ----------------------------------------------------------------------------------------

    def _plant(self) -> Tree:
        from .pipeline import Pipeline
        from .tree import Tree

        self.pipeline = Pipeline(self._settings, self._plugin)
        self._is_loaded.set()
        return Tree(self.pipeline, self._settings.tags)

    def _do(self, work: Callable[[], None]) -> None:
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
                "nothing is sent to Langfuse: its SDK cannot be used (%s); is the 'langfuse' extra whole?", name
            )

    def _flush(self) -> None:
        self._is_loaded.set()  # even if no event has needed it
        if self.pipeline is not None:
            self.pipeline.flush()


class _Passed:
    """A callback with the signature of the method that its events are for."""

    def __init__(self, take: Callable[..., None], method: Callable[..., None], hidden: frozenset[str]) -> None:
        self._take = take
        self._method = method
        whole = inspect.signature(method)
        shown = [one for one in whole.parameters.values() if one.kind is one.KEYWORD_ONLY and one.name not in hidden]
        self.__signature__ = whole.replace(parameters=shown)

    def __call__(self, **fields: Any) -> None:
        self._take(self._method, fields)
