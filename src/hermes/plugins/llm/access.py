"""``ctx.llm``: a plugin's access to the user's model. The host checks what it may choose and makes the call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from hermes.hooks.threads.timed_call import host_work

if TYPE_CHECKING:
    from hermes.contract.llm import (
        PluginLlmCompleteResult,
        PluginLlmImageInput,
        PluginLlmStructuredResult,
        PluginLlmTextInput,
    )

    Input = PluginLlmTextInput | PluginLlmImageInput | Mapping[str, Any]


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
        given = _arguments(locals())
        with host_work():
            return self._access(self.plugin_id).complete(**given)

    async def acomplete(
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
        """``complete`` for a running event loop."""
        given = _arguments(locals())
        with host_work():
            return await self._access(self.plugin_id).acomplete(**given)

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
        given = _arguments(locals())
        with host_work():
            return self._access(self.plugin_id).complete_structured(**given)

    async def acomplete_structured(
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
        """``complete_structured`` for a running event loop."""
        given = _arguments(locals())
        with host_work():
            return await self._access(self.plugin_id).acomplete_structured(**given)


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a method by name, from its ``locals()``: the published signature is spelled once each."""
    del given["self"]
    return given
