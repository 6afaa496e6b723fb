"""Base classes of context engines and memory providers: ``agent.context_engine``, ``agent.memory_provider``."""

from __future__ import annotations

import re
from abc import ABCMeta
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from inspect import iscoroutinefunction, signature
from threading import Thread
from typing import Any

from hermes.plugins.compat.names import Names
from hermes.plugins.services import PluginHost
from hermes.tools.results import tool_error

Messages = list[dict[str, Any]]

#: What is said without anything in it.
_USUAL = re.compile(
    r"(hi|hello|hey|yes|no|ok|okay|sure|thanks|thank you|go on|continue|stop|bye)[.!? ]*", re.IGNORECASE
)


#: What an engine cannot do without; each is called with one value.
_NEEDED = ("update_from_response", "should_compress", "compress")


def _takes_one(engine: type, method: str) -> bool:
    """Whether the class has that method, to be called with one value, and it answers at once."""
    function = getattr(engine, method, None)
    if not callable(function) or iscoroutinefunction(function):
        return False
    try:
        signature(function).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True


class _EngineKind(ABCMeta):
    """The type of engines: an abstract one, as plugins may derive from another abstract class too.

    Upstream takes an engine from its folder for what it does, whatever it derives from.
    """

    def __subclasscheck__(cls, subclass: type) -> bool:
        is_like_one = cls.__bases__ == (object,) and all(map(partial(_takes_one, subclass), _NEEDED))
        return is_like_one or super().__subclasscheck__(subclass)


class ContextEngine(metaclass=_EngineKind):
    """Decides when and how a conversation that grows too long is made shorter."""

    name: str = ""

    last_prompt_tokens: int = 0
    last_completion_tokens: int = 0
    last_total_tokens: int = 0
    threshold_tokens: int = 0
    context_length: int = 0
    compression_count: int = 0
    threshold_percent: float = 0.75
    protect_first_n: int = 3
    protect_last_n: int = 6

    def update_from_response(self, usage: dict[str, Any]) -> None:
        """Take note of what a model call took."""
        raise NotImplementedError(f"{self.name} does not count tokens")

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Whether it is time."""
        raise NotImplementedError(f"{self.name} does not say when to compress")

    def compress(self, messages: Messages, current_tokens: int | None = None, **options: Any) -> Messages:
        """A shorter conversation that says the same."""
        raise NotImplementedError(f"{self.name} does not compress")

    def should_compress_preflight(self, messages: Messages) -> bool:
        """A cheap guess before a request, when nothing is counted yet."""
        return False

    def has_content_to_compress(self, messages: Messages) -> bool:
        """Whether compressing now could achieve anything."""
        return True

    def on_session_start(self, session_id: str, **details: Any) -> None:
        """A conversation begins."""

    def on_session_end(self, session_id: str, messages: Messages) -> None:
        """A conversation is over, for good."""

    def on_session_reset(self) -> None:
        """Start counting anew."""
        self.last_prompt_tokens = self.last_completion_tokens = self.last_total_tokens = self.compression_count = 0

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """Tools it offers to the model."""
        return []

    def handle_tool_call(self, name: str, args: dict[str, Any], **details: Any) -> str:
        """Run one of them."""
        return tool_error(f"Unknown context engine tool: {name}")

    def get_status(self) -> dict[str, Any]:
        """How full the context is."""
        used = max(self.last_prompt_tokens, 0)
        share = min(100.0, used / self.context_length * 100) if self.context_length else 0
        return {
            "last_prompt_tokens": used,
            "threshold_tokens": self.threshold_tokens,
            "context_length": self.context_length,
            "usage_percent": share,
            "compression_count": self.compression_count,
        }

    def update_model(self, model: str, context_length: int, **details: Any) -> None:
        """Another model answers from here on."""
        self.context_length = context_length
        self.threshold_tokens = int(context_length * self.threshold_percent)


@dataclass(frozen=True)
class RecallStatus:
    """What a memory remembered for a message, in a few words for the user."""

    provider_label: str
    count: int
    glyph: str = "🧠"


def is_trivial_prompt(text: str | None) -> bool:
    """Whether a message is so short or so usual that there is nothing to remember about it."""
    said = (text or "").strip()
    return len(said) < 3 or said.startswith("/") or bool(_USUAL.fullmatch(said))


def spawn_context_thread(
    target: Callable[..., Any],
    *,
    name: str | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    daemon: bool = True,
) -> Thread:
    """A thread that is not started yet; in it the same session and home are current as here."""
    context = copy_context()
    return Thread(target=partial(context.run, target), name=name, args=tuple(args), kwargs=kwargs, daemon=daemon)


class MemoryProvider:
    """Remembers across conversations."""

    name: str = ""

    def is_available(self) -> bool:
        """Whether it is set up, found out without a network call."""
        raise NotImplementedError(f"{self.name} does not say whether it is available")

    def initialize(self, session_id: str, **details: Any) -> None:
        """Get ready for a conversation."""
        raise NotImplementedError(f"{self.name} cannot be started")

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """Tools it offers to the model."""
        return []

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **details: Any) -> str:
        """Run one of them."""
        raise NotImplementedError(f"{self.name} has no tool {tool_name}")

    def system_prompt_block(self) -> str:
        """Text for the system prompt."""
        return ""

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """What it remembers about a message."""
        return ""

    def recall_status(self) -> RecallStatus | None:
        """What the last ``prefetch`` found, for the user."""
        return None

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
        """Begin to remember, for the next turn."""

    def sync_turn(self, user_content: str, assistant_content: str, **details: Any) -> None:
        """Keep a turn."""

    def shutdown(self) -> None:
        """Finish what is still being written."""

    def on_turn_start(self, turn_number: int, message: str, **details: Any) -> None:
        """A turn begins."""

    def on_session_end(self, messages: Messages) -> None:
        """A conversation is over."""

    def on_session_switch(self, new_session_id: str, **details: Any) -> None:
        """The process moves on to another conversation."""

    def on_pre_compress(self, messages: Messages) -> str:
        """What of these messages, which are about to go, should be kept in mind."""
        return ""

    def on_delegation(self, task: str, result: str, **details: Any) -> None:
        """A child agent has reported."""

    def on_memory_write(self, action: str, target: str, content: str, *more: Any, **details: Any) -> None:
        """The built-in memory was changed."""

    def get_config_schema(self) -> list[dict[str, Any]]:
        """What a person is asked when setting it up."""
        return []

    def save_config(self, values: dict[str, Any], hermes_home: str) -> None:
        """Keep their answers."""

    def backup_paths(self) -> list[str]:
        """Files of its own that belong in a backup."""
        return []


def memory_plugins(host: PluginHost) -> Names:
    """``plugins.memory``: the memories that plugins of this host offer."""

    def load_memory_provider(name: str) -> Any:
        return next((offer.value for offer in host.plugins.offers("memory_provider") if offer.name == name), None)

    def discover_memory_providers() -> list[tuple[str, str, bool]]:
        return [(offer.name, "", _is_available(offer.value)) for offer in host.plugins.offers("memory_provider")]

    return {"discover_memory_providers": discover_memory_providers, "load_memory_provider": load_memory_provider}


def _is_available(provider: Any) -> bool:
    try:
        return bool(provider.is_available())
    except Exception:  # whatever a plugin's object does, the others are listed
        return False
