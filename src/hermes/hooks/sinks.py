"""Event sinks: callbacks that receive typed events in place of hook keywords."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from hermes.contract.events import HOOK_EVENTS, Event, empty_fields, event_from
from hermes.contract.fields import SCHEMA_VERSION
from hermes.contract.hooks import HOOKS

EventSink = Callable[[Event], object]

#: Hooks that ask for a decision about a text are not events of a run.
_DECISIONS = frozenset(
    {
        "transform_llm_output",
        "transform_tool_result",
        "transform_terminal_output",
        "transform_api_error_classification",
        "pre_verify",
        "pre_gateway_dispatch",
    }
)
#: Event type -> the hook it comes from.
SINK_HOOKS: dict[type[Event], str] = {kind: hook for hook, kind in HOOK_EVENTS.items() if hook not in _DECISIONS}
#: The types that a sink gets without naming any: not what follows an answer piece by piece.
DEFAULT_EVENTS = tuple(kind for kind, hook in SINK_HOOKS.items() if not HOOKS[hook].is_queued)


class SinkCallback:
    """The callback of one hook that passes its event to a sink.

    Its signature names the fields that the sink takes, so that no other field is built or copied for it.
    """

    def __init__(self, kind: type[Event], sink: EventSink, leave_out: Collection[str] = ()) -> None:
        import inspect  # only a sink needs it

        self.sink = sink
        self._kind = kind
        left_out = {SCHEMA_VERSION.name, *leave_out}
        names = [field.name for field in HOOKS[SINK_HOOKS[kind]].fields if field.name not in left_out]
        self._empty = {name: value for name, value in empty_fields(kind).items() if name not in names}
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
        )

    def __call__(self, **fields: Any) -> None:
        try:
            event = self._kind(**fields, **self._empty)
        except TypeError:  # a plugin emitted the hook with fewer fields
            event = event_from(self._kind, fields)
        self.sink(event)
