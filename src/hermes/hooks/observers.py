"""Observers: the subscribers of a hook, called in order, with the turn or through a queue, and isolated from both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar, cast

from msgspec import UNSET
from msgspec.structs import asdict

from hermes.base.errors import PluginError
from hermes.contract.events import HOOK_EVENTS, Event
from hermes.contract.hooks import HOOKS, OBSERVER_SCHEMA
from hermes.hooks.answers import plain
from hermes.hooks.callback import FAILED, LATE, Callback
from hermes.hooks.copies import isolate, same
from hermes.hooks.prepared import PreparedCallback
from hermes.hooks.queue import BackgroundQueue, Overflow
from hermes.hooks.sinks import SinkCallback
from hermes.hooks.threads.runner import CallbackRunner

E = TypeVar("E", bound=Event)
OnError = Literal["allow", "deny"]


class Answer(NamedTuple):
    """What one callback returned, when it was not ``None``."""

    plugin: str
    value: Any


def first_text(answers: Sequence[Answer]) -> Answer | None:
    """The first answer that is a text: what counts of a hook that may replace one."""
    return next((answer for answer in answers if isinstance(answer.value, str)), None)


class Subscriber(Callback):
    """A callback that the turn waits for, as the contract has it by default.

    With a ``queue`` it receives its events in order behind the turn, and what it returns is not used.
    """

    __slots__ = ("_on_error", "_overflow", "queue")

    def __init__(
        self,
        plugin: str,
        hook: str,
        function: Callable[..., Any],
        runner: CallbackRunner | None,
        on_error: OnError | None = None,
        timeout: float | None = None,
        queue: BackgroundQueue | None = None,
        overflow: Overflow = "drop",
    ) -> None:
        super().__init__(plugin, hook, function, runner, timeout)
        self._on_error: OnError | None = on_error if queue is None else "allow"
        self.queue = queue
        self._overflow: Overflow = overflow

    def deliver(self, given: dict[str, Any], session: str) -> Any:
        """Call with these fields, which are the callback's own copies; its answer, or ``FAILED`` or ``LATE``."""
        if self.queue is None:
            return self._deliver(given, session)
        prepared = self._prepared(given) if isinstance(self.function, PreparedCallback) else given
        if prepared is not None:
            self.deliver_later(lambda: prepared)
        return None

    def _prepared(self, given: dict[str, Any]) -> dict[str, Any] | None:
        assert isinstance(self.function, PreparedCallback)
        try:
            return self.function.prepare(given)
        except Exception as error:
            self.blame(error, "the event is dropped")
            return None

    def deliver_later(self, take: Callable[[], dict[str, Any]]) -> bool:
        """Call behind the turn, with the fields that ``take`` gives by then. False when the event is dropped."""
        assert self.queue is not None
        # One thread for all sessions: the queue delivers one event at a time, perhaps after its session has ended.
        if self.queue.put(lambda: self._deliver(take(), ""), overflow=self._overflow):
            return True
        # The queue has warned.
        self.failed(OverflowError("its queue is full or closed"), "the event is dropped", quiet=True)
        return False

    def _deliver(self, given: dict[str, Any], session: str) -> Any:
        value = self.ask(given, session, self.consequence)
        if value is None or value is FAILED or value is LATE:
            return value
        try:
            return plain(value)
        except BaseException as error:
            self.blame(error, self.consequence)
            return FAILED

    @property
    def only_observes(self) -> bool:
        """Whether what it answers is never used."""
        return self.queue is not None or isinstance(self.function, SinkCallback)

    @property
    def consequence(self) -> str:
        return "the call is blocked" if self._on_error == "deny" else "the turn continues without it"

    def denial(self, outcome: object) -> dict[str, str] | None:
        """The answer in place of a policy callback that failed: block the call.

        A ``pre_tool_call`` callback that does not answer may be about to block it, so it does, unless the plugin has
        said that it should not.
        """
        silent = outcome is LATE and self._on_error is None and self.site == "pre_tool_call"
        if not silent and self._on_error != "deny":
            return None
        message = f"the policy of plugin {self.plugin!r} could not be evaluated ({self.last_error})"
        return {"action": "block", "message": message}


def check_options(hook: str, timeout: float | None, background: bool, on_error: str | None, overflow: str) -> None:
    """Raise ``PluginError`` when a registration's options make no sense."""
    if on_error not in (None, "allow", "deny"):
        raise PluginError(f"register_hook({hook!r}): on_error is {on_error!r}; it may be 'allow' or 'deny'")
    if on_error == "deny" and (background or hook != "pre_tool_call"):
        raise PluginError(
            f"register_hook({hook!r}): on_error='deny' is for pre_tool_call callbacks that run with the turn; "
            "leave it out here"
        )
    if overflow not in ("drop", "block"):
        raise PluginError(f"register_hook({hook!r}): overflow is {overflow!r}; it may be 'drop' or 'block'")
    if overflow == "block" and not background:
        raise PluginError(f"register_hook({hook!r}): overflow='block' needs background=True")
    if timeout is not None and not timeout > 0:
        raise PluginError(f"register_hook({hook!r}): timeout is {timeout!r}; it must be seconds above 0")


class Emitter(Generic[E]):
    """All subscribers of one hook, which is emitted with events of one type. Immutable: a change makes a new one.

    Each callback gets copies of its own, so nothing it does to a payload reaches the runtime or another callback. The
    one exception is the hook's live field (``args`` of ``pre_tool_call``): what a callback changes there in place
    is taken over into the caller's dictionary, and an entry with the plugin's name is appended to the caller's
    ``middleware_trace`` list; the answer ``{"action": "modify", "args": {...}}`` is another way to change it. Later
    callbacks get the changed field. Those before the last change are asked again about what it has become, so that
    each has seen what it lets pass. A callback that raises, is late or runs behind the turn changes nothing.
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
        last_change = 0
        for position, subscriber in enumerate(self.subscribers):
            given = subscriber.arguments(payload)
            value = subscriber.deliver(given, session)
            if value is FAILED or value is LATE:
                value = subscriber.denial(value)
            elif self._live and subscriber.queue is None:
                _modify(payload, given, self._live, value)
                if _adopt(payload, given, self._live, subscriber):
                    last_change = position
            if value is not None:
                answers.append(Answer(subscriber.plugin, value))
        return answers + self._ask_again(last_change, payload, session) if last_change else answers

    def _ask_again(self, count: int, payload: dict[str, Any], session: str) -> list[Answer]:
        """What the first subscribers answer about the live field as it is now. What they change in it is not used."""
        answers: list[Answer] = []
        for subscriber in self.subscribers[:count]:
            if subscriber.only_observes:
                continue
            value = subscriber.deliver(subscriber.arguments(payload), session)
            if value is FAILED or value is LATE:
                value = subscriber.denial(value)
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


def _modify(payload: dict[str, Any], given: dict[str, Any], field: str, answer: object) -> None:
    """Write the values of a ``modify`` answer over those of the callback's copy of the live field."""
    said = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    changes: object = said.get(field) if said.get("action") == "modify" else None
    if isinstance(changes, dict) and payload.get(field) is not None:
        given[field] = {**given.get(field, payload[field]), **cast("dict[str, Any]", changes)}


def _adopt(payload: dict[str, Any], given: dict[str, Any], field: str, subscriber: Subscriber) -> bool:
    """Take over what a callback changed in the live field; whether it changed anything."""
    own: dict[str, Any] | None = payload.get(field)
    changed: dict[str, Any] | None = given.get(field)
    if own is None or changed is None or same(own, changed):
        return False
    try:
        taken = isolate(changed)
    except BaseException as error:  # a thread of the plugin's own may be changing it at this moment
        subscriber.blame(error, "what it changed is not used")
        return False
    own.clear()
    own.update(taken)
    trace: list[dict[str, str]] | None = payload.get("middleware_trace")
    if trace is not None:
        trace.append({"source": subscriber.plugin, "reason": f"changed {field} in a hook"})
    return True
