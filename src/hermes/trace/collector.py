"""Makes the records of runs while they happen, from what the observer hooks tell."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from hermes.contract.hooks import HOOKS
from hermes.sanitize import Redactor
from hermes.trace.clean import Cleaner
from hermes.trace.records import SessionRecord
from hermes.trace.tool_events import ToolEvents
from hermes.trace.turn_events import TurnEvents
from hermes.trace.watched import Watched

Handler = Callable[..., None]


class Collector:
    """Collects the sessions of a host, each on its own. May be told of events from any thread.

    A plugin subscribes ``handlers()``, or passes on what it gets itself to ``handle``. ``session`` gives the record of
    a session as it stands, its children in it; ``forget`` drops it once nobody needs it any more. What is kept grows
    with what is new in a run, never with the length of its requests.

    Nothing is exported from here without being redacted first; ``redactor`` may know more secrets than shapes do.
    """

    def __init__(self, redactor: Redactor | None = None, clock: Callable[[], float] = time.time) -> None:
        self._watched = Watched(Cleaner(redactor) if redactor is not None else Cleaner(), clock)
        parts = (TurnEvents(self._watched), ToolEvents(self._watched))
        self._handlers: dict[str, Handler] = {
            hook: getattr(part, hook) for part in parts for hook in HOOKS if hasattr(part, hook)
        }

    # -- telling it ---------------------------------------------------------------------------------------------

    def handlers(self) -> dict[str, Handler]:
        """The callback for each hook, to be registered under its name. Each names the fields it needs."""
        return dict(self._handlers)

    def handle(self, hook_name: str, payload: Mapping[str, Any]) -> None:
        """Take in one event. Hooks that say nothing about a run are ignored."""
        handler = self._handlers.get(hook_name)
        if handler is not None:
            handler(**{name: payload[name] for name in _fields(handler) if name in payload})

    # -- asking it ----------------------------------------------------------------------------------------------

    def session(self, session_id: str) -> SessionRecord | None:
        """The record of a session as it stands, or None when nothing was heard of it."""
        with self._watched.lock:
            draft = self._watched.sessions.get(session_id)
            return None if draft is None else draft.freeze()

    def root_of(self, session_id: str) -> str:
        """The session that a user talks to, of which this one is a descendant, or it itself."""
        sessions = self._watched.sessions
        with self._watched.lock:
            while (draft := sessions.get(session_id)) is not None and draft.parent_id in sessions:
                session_id = draft.parent_id
            return session_id

    def roots(self) -> list[str]:
        """The sessions that nobody delegated to, oldest first."""
        sessions = self._watched.sessions
        with self._watched.lock:
            return [one.id for one in sessions.values() if one.parent_id not in sessions]

    def forget(self, session_id: str) -> None:
        """Drop a session with its descendants."""
        with self._watched.lock:
            self._watched.forget(session_id)


def _fields(handler: Handler) -> tuple[str, ...]:
    """The keyword arguments that a handler names."""
    code = handler.__code__
    return code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
