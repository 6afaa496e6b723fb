"""Event recorder: keeps every hook and middleware call of a host, in order."""

from __future__ import annotations

import threading
from typing import Any

from hermes.contract.hooks import HOOKS
from hermes.contract.middleware import MIDDLEWARE
from hermes.hooks.copies import isolate
from hermes.hooks.table import Hooks
from hermes.testing.hosts.breaches import RecordedEvent, Unbalanced, breaches, unbalanced, wrong_fields

__all__ = ["EventRecorder", "RecordedEvent", "Unbalanced"]

_QUEUED = frozenset(name for name, spec in HOOKS.items() if spec.is_queued)


class EventRecorder:
    """Subscribes to every hook and passes every middleware call on, keeping a copy of each.

    Use ``recorder.register`` as a plugin's ``register``, or ``recorder.attach(hooks)``.
    """

    def __init__(self, plugin: str = "recorder") -> None:
        self._plugin = plugin
        self._events: list[RecordedEvent] = []
        self._changed = threading.Condition()
        self._hooks: Hooks | None = None

    def attach(self, hooks: Hooks) -> EventRecorder:
        """Listen to everything these hooks run."""
        self._hooks = hooks
        for name in HOOKS:
            hooks.subscribe(name, self._plugin, self._observer(name))
        for kind in MIDDLEWARE:
            hooks.add_middleware(kind, self._plugin, self._middleware(kind))
        return self

    def register(self, ctx: Any) -> None:
        """Listen as a plugin does."""
        for name in HOOKS:
            ctx.register_hook(name, self._observer(name))
        for kind in MIDDLEWARE:
            ctx.register_middleware(kind, self._middleware(kind))

    @property
    def events(self) -> list[RecordedEvent]:
        """The events so far, oldest first."""
        with self._changed:
            return list(self._events)

    def names(self, *, middleware: bool = False, streams: bool = False) -> list[str]:
        """The hooks in the order they fired; with ``middleware``, the middleware kinds among them too.

        Hooks that are always delivered behind the turn, which follow streams, have no certain place in that order;
        they are listed with ``streams``.
        """
        if streams:
            self._settle()
        listed = [event.name for event in self.events if middleware or event.name in HOOKS]
        return listed if streams else [name for name in listed if name not in _QUEUED]

    def of(self, name: str) -> list[dict[str, Any]]:
        """The payloads of one hook or middleware kind. What is still queued is waited for."""
        if name in _QUEUED:
            self._settle()
        return [event.payload for event in self.events if event.name == name]

    def clear(self) -> None:
        with self._changed:
            self._events.clear()

    def wait_for(self, name: str, count: int = 1, timeout: float = 30.0) -> list[dict[str, Any]]:
        """Wait until a hook has fired so often; ``TimeoutError`` when it does not."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._count(name) >= count, timeout):
                raise TimeoutError(f"{name} fired {self._count(name)} times within {timeout:g} s, not {count}")
        return self.of(name)

    def pairs_unbalanced(self) -> list[Unbalanced]:
        """Every start that has not exactly one end, and every end without a start. Empty when all is well."""
        self._settle()
        return unbalanced(self.events)

    def contract_violations(self) -> list[str]:
        """Fields that the contract does not know, and fields it promises that were not there."""
        return wrong_fields(self.events)

    def breaches(self) -> list[str]:
        """Everything that is wrong with a complete recording: fields, pairs, order, values, counts. Empty is well."""
        self._settle()
        return breaches(self.events)

    def _settle(self) -> None:
        """Wait for events that are still queued."""
        if self._hooks is not None:
            self._hooks.flush()

    def _count(self, name: str) -> int:
        return sum(event.name == name for event in self._events)

    def _observer(self, name: str) -> Any:
        def observe(**payload: Any) -> None:
            self._record(name, payload)

        return observe

    def _middleware(self, kind: str) -> Any:
        wraps = MIDDLEWARE[kind].wraps

        def pass_on(**payload: Any) -> Any:
            next_call = payload.pop("next_call", None)
            self._record(kind, payload)
            return next_call() if wraps and next_call is not None else None

        return pass_on

    def _record(self, name: str, payload: dict[str, Any]) -> None:
        with self._changed:
            self._events.append(RecordedEvent(name, isolate(payload)))
            self._changed.notify_all()
