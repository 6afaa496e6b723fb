"""Emitter of one hook: its subscribers are called in order and isolated from the turn and from one another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import UNSET
from msgspec.structs import asdict

from hermes.contract.events import HOOK_EVENTS, Event
from hermes.contract.hooks import HOOKS, OBSERVER_SCHEMA
from hermes.hooks.callback import FAILED, LATE
from hermes.hooks.copies import isolate, same
from hermes.hooks.subscriber import Subscriber

E = TypeVar("E", bound=Event)


class Answer(NamedTuple):
    """What one callback returned, when it was not ``None``."""

    plugin: str
    value: Any


def first_text(answers: Sequence[Answer]) -> Answer | None:
    """The first answer that is a text: what counts of a hook that may replace one."""
    return next((answer for answer in answers if isinstance(answer.value, str)), None)


class Emitter(Generic[E]):
    """All subscribers of one hook, which is emitted with events of one type. Immutable: a change makes a new one.

    Each callback gets copies of its own, so nothing it does to a payload reaches the runtime or another callback. The
    one exception is the hook's live field (``args`` of ``pre_tool_call``): what a callback changes there in place
    is taken over into the caller's dictionary, and an entry with the plugin's name is appended to the caller's
    ``middleware_trace`` list. A callback that raises, is late or runs behind the turn changes nothing.
    """

    __slots__ = ("_live", "_not_keywords", "_optional", "hook", "subscribers")

    def __init__(self, hook: str, subscribers: tuple[Subscriber, ...]) -> None:
        self.hook = hook
        self.subscribers = subscribers
        self._live = HOOKS[hook].live
        self._not_keywords, self._optional = _SPECIAL_FIELDS[hook]

    def wants(self, field: str) -> bool:
        """False only when no subscriber's signature takes the field, so that it need not be built."""
        return any(subscriber.takes(field) for subscriber in self.subscribers)

    def __call__(self, event: E) -> list[Answer]:
        """Call every subscriber with the event's fields; what they answered, in the order they registered."""
        payload = asdict(event)
        for name in self._not_keywords:
            del payload[name]
        for name in self._optional:
            if payload[name] is UNSET:
                del payload[name]
        payload["telemetry_schema_version"] = OBSERVER_SCHEMA
        return self._deliver(payload)

    def invoke(self, /, **fields: Any) -> list[Answer]:
        """The same with any fields, for plugins that emit a hook themselves."""
        fields.setdefault("telemetry_schema_version", OBSERVER_SCHEMA)
        return self._deliver(fields)

    def _deliver(self, payload: dict[str, Any]) -> list[Answer]:
        answers: list[Answer] = []
        session: Any = payload.get("session_id")
        session = session if type(session) is str else ""
        for subscriber in self.subscribers:
            given = subscriber.arguments(payload)
            value = subscriber.deliver(given, session)
            if value is FAILED or value is LATE:
                value = subscriber.denial(value)
            elif self._live and subscriber.in_time:
                _adopt(payload, given, self._live, subscriber)
            if value is not None:
                answers.append(Answer(subscriber.plugin, value))
        return answers


def _special_fields(hook: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fields of a hook's event that are not keywords, and those that may be unset."""
    kind = HOOK_EVENTS[hook]
    keywords = {field.name for field in HOOKS[hook].fields}
    defaults = kind.__struct_defaults__
    optional = kind.__struct_fields__[len(kind.__struct_fields__) - len(defaults) :]
    unset = [name for name, default in zip(optional, defaults, strict=True) if default is UNSET]
    return tuple(name for name in kind.__struct_fields__ if name not in keywords), tuple(unset)


_SPECIAL_FIELDS = {hook: _special_fields(hook) for hook in HOOKS}


def _adopt(payload: dict[str, Any], given: dict[str, Any], field: str, subscriber: Subscriber) -> None:
    """Take over what a callback changed in the live field."""
    own: dict[str, Any] | None = payload.get(field)
    changed: dict[str, Any] | None = given.get(field)
    if own is None or changed is None or same(own, changed):
        return
    try:
        taken = isolate(changed)
    except BaseException as error:  # a thread of the plugin's own may be changing it at this moment
        subscriber.blame(error, "what it changed is not used")
        return
    own.clear()
    own.update(taken)
    trace: list[dict[str, str]] | None = payload.get("middleware_trace")
    if trace is not None:
        trace.append({"source": subscriber.plugin, "reason": f"changed {field} in a hook"})
