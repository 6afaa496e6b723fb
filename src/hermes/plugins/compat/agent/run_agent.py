"""``run_agent.AIAgent``: an agent that a plugin starts, on the host that the plugin belongs to.

The host chooses the model and holds its key; ``hermes_cli.runtime_provider`` says which model that is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hermes.base.errors import PluginError
from hermes.base.scope import Interrupt, current_scope, new_session_id
from hermes.hooks.threads.timed_call import host_work
from hermes.plugins.compat.agent.runtime import service
from hermes.plugins.compat.names import Names, config_of
from hermes.plugins.services import PluginHost

if TYPE_CHECKING:
    from hermes.models.endpoint import Endpoint


class _Agent:
    """One conversation. Its messages, hooks, approvals and costs are those of any session of the host."""

    _host: PluginHost

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        provider: str | None = None,
        model: str = "",
        *,
        session_id: str | None = None,
        platform: str | None = None,
        enabled_toolsets: Sequence[str] | None = None,
        disabled_toolsets: Sequence[str] | None = None,
        ephemeral_system_prompt: str | None = None,
        stream_delta_callback: Callable[[str], Any] | None = None,
        **_others: Any,
    ) -> None:
        endpoint = _endpoint(self._host)
        self.model, self.provider = endpoint.model, endpoint.provider
        self.session_id = session_id or new_session_id()
        self.platform = platform or ""
        self.ephemeral_system_prompt = ephemeral_system_prompt or ""
        self._enabled = None if enabled_toolsets is None else frozenset(enabled_toolsets)
        self._disabled = frozenset(disabled_toolsets or ())
        self._on_text = stream_delta_callback
        self._interrupt = Interrupt()

    def run_conversation(
        self,
        user_message: str | list[dict[str, Any]],
        system_message: str | None = None,
        conversation_history: Sequence[dict[str, Any]] | None = None,
        task_id: str | None = None,
        stream_callback: Callable[[str], Any] | None = None,
        **_others: Any,
    ) -> dict[str, Any]:
        """Answer a message in the session of that id, which is made when there is none yet."""
        scope = current_scope.get()
        if scope is not None and scope.session_id == self.session_id:
            raise PluginError("the session that this code runs in cannot be asked from within")
        session = service(self._host, "agent_session")(self.session_id, self.platform)
        session.offered = [tool for tool in session.offered if self._offers(tool.toolset)]
        said = [*_instructions(system_message, self.ephemeral_system_prompt), *_history(conversation_history, session)]
        self._interrupt = Interrupt()
        on_text = stream_callback or self._on_text
        with host_work():
            result = session.run(
                user_message,
                interrupt=self._interrupt,
                task_id=task_id or "",
                context="\n\n".join(said),
            )
        if on_text is not None and result.answer:
            on_text(result.answer)
        return {
            "final_response": result.answer,
            "messages": session.messages(),
            "api_calls": result.steps,
            "completed": result.status == "completed",
            "failed": result.status == "failed",
            "interrupted": result.status == "interrupted",
            "error": result.error,
            "session_id": self.session_id,
            "model": result.model,
            "provider": result.provider,
            "input_tokens": result.usage.input_tokens,
            "output_tokens": result.usage.output_tokens,
            "total_tokens": result.usage.total_tokens,
            "estimated_cost_usd": result.usage.cost_usd,
        }

    def chat(self, message: str, stream_callback: Callable[[str], Any] | None = None) -> str:
        """The answer to a message."""
        return self.run_conversation(message, stream_callback=stream_callback)["final_response"]

    def interrupt(self, message: str | None = None) -> None:
        """Stop the turn that runs."""
        self._interrupt.cancel(message or "a plugin stopped its agent")

    def close(self) -> None:
        """Stop working; the session stays stored."""
        self._interrupt.cancel("a plugin closed its agent")

    def _offers(self, toolset: str) -> bool:
        return toolset not in self._disabled and (self._enabled is None or toolset in self._enabled)


def run_agent(host: PluginHost) -> Names:
    """``run_agent``."""
    return {"AIAgent": type("AIAgent", (_Agent,), {"_host": host, "__module__": "run_agent"})}


def runtime_provider(host: PluginHost) -> Names:
    """``hermes_cli.runtime_provider``: which model answers, without the key that it is asked with."""

    def resolve_runtime_provider(*, target_model: str | None = None, **_options: Any) -> dict[str, Any]:
        endpoint = _endpoint(host)
        return {
            "provider": endpoint.provider,
            "requested_provider": endpoint.provider,
            "model": endpoint.model,
            "base_url": endpoint.base_url,
            "api_mode": endpoint.api_mode,
            "api_key": None,
            "source": "host",
        }

    def has_named_custom_provider(name: str) -> bool:
        config = config_of(host)
        return config is not None and name in config.providers

    return {
        "has_named_custom_provider": has_named_custom_provider,
        "resolve_runtime_provider": resolve_runtime_provider,
    }


def _endpoint(host: PluginHost) -> Endpoint:
    return service(host, "endpoint")()


def _instructions(*texts: str | None) -> list[str]:
    return [text.strip() for text in texts if text and text.strip()]


def _history(given: Sequence[dict[str, Any]] | None, session: Any) -> list[str]:
    """What was said before, for a session that does not know it itself."""
    if not given or session.messages():
        return []
    said = [f"{one.get('role')}: {one['content']}" for one in given if isinstance(one.get("content"), str)]
    return ["What was said before this message:\n" + "\n".join(said)] if said else []
