"""The subscribers of one hook, called in order and kept from harming the turn or one another."""

from __future__ import annotations

from typing import Any, NamedTuple

from hermes.contract.hooks import HOOKS, OBSERVER_SCHEMA
from hermes.hooks.copies import isolate, same
from hermes.hooks.subscriber import FAILED, Subscriber


class Answer(NamedTuple):
    """What one callback returned, when it was not ``None``."""

    plugin: str
    value: Any


class Emitter:
    """All subscribers of one hook. Immutable: a change in the table makes a new one.

    Each callback gets copies of its own, so nothing it does to a payload reaches the runtime or anybody else. The
    one exception is the hook's live field (``args`` of ``pre_tool_call``): what a callback changes there in place
    is taken over into the caller's dictionary, and an entry with the plugin's name is appended to the caller's
    ``middleware_trace`` list. A callback that raises, is late or runs behind the turn changes nothing.
    """

    __slots__ = ("_live", "hook", "subscribers")

    def __init__(self, hook: str, subscribers: tuple[Subscriber, ...]) -> None:
        self.hook = hook
        self.subscribers = subscribers
        self._live = HOOKS[hook].live

    def wants(self, field: str) -> bool:
        """False only when no subscriber's signature takes the field, so that it need not be built."""
        return any(subscriber.takes(field) for subscriber in self.subscribers)

    def __call__(self, /, **payload: Any) -> list[Answer]:
        """Tell every subscriber; what they answered, in the order they registered. Fields are the contract's."""
        payload.setdefault("telemetry_schema_version", OBSERVER_SCHEMA)
        answers: list[Answer] = []
        for subscriber in self.subscribers:
            given = subscriber.arguments(payload)
            value = subscriber.deliver(given)
            if value is FAILED:
                value = subscriber.denial()
            elif self._live and subscriber.in_time:
                _adopt(payload, given, self._live, subscriber.plugin)
            if value is not None:
                answers.append(Answer(subscriber.plugin, value))
        return answers


def _adopt(payload: dict[str, Any], given: dict[str, Any], field: str, plugin: str) -> None:
    """Take over what a callback changed in the live field."""
    own: dict[str, Any] | None = payload.get(field)
    changed: dict[str, Any] | None = given.get(field)
    if own is None or changed is None or same(own, changed):
        return
    own.clear()
    own.update(isolate(changed))
    trace: list[dict[str, str]] | None = payload.get("middleware_trace")
    if trace is not None:
        trace.append({"source": plugin, "reason": f"changed {field} in a hook"})
