"""``ctx.llm``: a plugin's access to the user's model. The host checks what it may choose and makes the call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from hermes.hooks.threads.timed_call import host_work

if TYPE_CHECKING:
    from hermes.contract.llm import (
        PluginLlmCompleteResult,
        PluginLlmImageInput,
        PluginLlmStructuredResult,
        PluginLlmTextInput,
    )

    Input = PluginLlmTextInput | PluginLlmImageInput | Mapping[str, Any]

P = ParamSpec("P")
R = TypeVar("R")


class ModelAccess(Protocol):
    """What ``HostServices.llm(plugin_id)`` returns: every option of the call arrives by name, unset ones as None."""

    def complete(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> PluginLlmCompleteResult:
        """Answer a conversation in text."""
        ...

    def complete_structured(self, **options: Any) -> PluginLlmStructuredResult:
        """Answer instructions and inputs with data."""
        ...

    async def acomplete(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> PluginLlmCompleteResult:
        """``complete`` for a running event loop."""
        ...

    async def acomplete_structured(self, **options: Any) -> PluginLlmStructuredResult:
        """``complete_structured`` for a running event loop."""
        ...


def _without_self(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a method by name: its published signature is spelled once."""
    del given["self"]
    return given


def _for_event_loops(
    method: Callable[Concatenate[PluginLlm, P], R],
) -> Callable[Concatenate[PluginLlm, P], Coroutine[Any, Any, R]]:
    """The method for a running event loop, with the same signature."""
    name, signature = f"a{method.__name__}", inspect.signature(method)

    @wraps(method)
    async def twin(self: PluginLlm, *args: P.args, **options: P.kwargs) -> R:
        given = signature.bind(self, *args, **options)
        given.apply_defaults()
        with host_work():
            return await getattr(self._access(self.plugin_id), name)(**_without_self(given.arguments))  # pyright: ignore[reportPrivateUsage]

    twin.__name__, twin.__doc__ = name, f"``{method.__name__}`` for a running event loop."
    return twin


class PluginLlm:
    """One plugin's model access. The host is asked at every call, so that a change of its rules counts at once."""

    __slots__ = ("_access", "plugin_id")

    def __init__(self, plugin_id: str, access: Callable[[str], ModelAccess]) -> None:
        self.plugin_id = plugin_id
        self._access = access

    def __repr__(self) -> str:
        return f"PluginLlm(plugin_id={self.plugin_id!r})"

    def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        provider: str | None = None,
        model: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        timeout: float | None = None,
        agent_id: str | None = None,
        profile: str | None = None,
        purpose: str | None = None,
    ) -> PluginLlmCompleteResult:
        """The model's answer to a conversation. Provider, model, agent and profile need the operator's consent."""
        given = _without_self(locals())
        with host_work():
            return self._access(self.plugin_id).complete(**given)

    def complete_structured(
        self,
        *,
        instructions: str,
        input: Sequence[Input],  # noqa: A002  (the contract's spelling)
        json_schema: Mapping[str, Any] | None = None,
        json_mode: bool = False,
        schema_name: str | None = None,
        system_prompt: str | None = None,
        provider: str | None = None,
        model: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        timeout: float | None = None,
        agent_id: str | None = None,
        profile: str | None = None,
        purpose: str | None = None,
    ) -> PluginLlmStructuredResult:
        """The model's answer to instructions about texts and images, as data when a schema or JSON is asked for."""
        given = _without_self(locals())
        with host_work():
            return self._access(self.plugin_id).complete_structured(**given)

    acomplete = _for_event_loops(complete)
    acomplete_structured = _for_event_loops(complete_structured)
