"""The running host under the names that published plugins import: model calls, approvals, jobs, sessions."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from hermes.base.config.schema.modes import UNASKED_MODE
from hermes.base.errors import PluginError
from hermes.base.scope import current_scope
from hermes.contract.llm import PluginLlmCompleteResult
from hermes.contract.response import Record, chat_response
from hermes.hooks.threads.timed_call import current_call, host_work, refuse_late_calls
from hermes.plugins.compat.names import Names, config_of
from hermes.plugins.loading.modules import root_module
from hermes.plugins.services import PluginHost

_THINKING = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
#: How far up the stack the plugin that calls is looked for.
_MOST_FRAMES = 20


# -- agent.auxiliary_client ------------------------------------------------------------------------------------------


def auxiliary_client(host: PluginHost) -> Names:
    """``agent.auxiliary_client``: side calls, made by the host with the calling plugin's permissions and budget."""

    def call_llm(task: str | None = None, *, messages: Sequence[dict[str, Any]], **options: Any) -> Record:
        """The answer of the model of ``auxiliary.<task>`` as a chat completion. What ``ctx.llm`` refuses is refused."""
        access = host.services.llm(_calling_plugin(host))
        with host_work():
            return _completion(access.complete(messages=messages, **_llm_options(task, options)))

    async def async_call_llm(task: str | None = None, *, messages: Sequence[dict[str, Any]], **options: Any) -> Record:
        """``call_llm`` for a running event loop."""
        access = host.services.llm(_calling_plugin(host))
        with host_work():
            return _completion(await access.acomplete(messages=messages, **_llm_options(task, options)))

    return {"async_call_llm": async_call_llm, "call_llm": call_llm}


def _llm_options(task: str | None, options: dict[str, Any]) -> dict[str, Any]:
    for name in ("base_url", "api_key", "tools", "stream"):
        if options.get(name):
            raise PluginError(
                f"call_llm({name}=...) is not offered: the host chooses the endpoint and returns one whole answer; "
                "set up the model under auxiliary in config.yaml"
            )
    kept = ("provider", "model", "temperature", "max_tokens", "timeout")
    chosen = {name: options.get(name) for name in kept}
    if chosen["provider"] in ("auto", "main"):
        chosen["provider"] = None
    return {**chosen, "agent_id": None, "profile": None, "purpose": task or "call_llm", "task": task}


def _completion(result: PluginLlmCompleteResult) -> Record:
    usage = result.usage
    return chat_response(
        {
            "model": result.model,
            "choices": [
                {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": result.text}}
            ],
            "usage": {
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "total_tokens": usage.total_tokens,
            },
        }
    )


def extract_content_or_reasoning(response: Any) -> str:
    """The text of an answer without its thinking; the reasoning when there is no other text."""
    message = response.choices[0].message
    text = _THINKING.sub("", getattr(message, "content", None) or "").strip()
    if text:
        return text
    for name in ("reasoning", "reasoning_content"):
        found = getattr(message, name, None)
        if isinstance(found, str) and found.strip():
            return found.strip()
    return ""


def _calling_plugin(host: PluginHost) -> str:
    """The key of the plugin that calls: of the running callback, else of the code that is on the stack."""
    call = current_call.get()
    if call is not None and call.plugin in host.contexts:
        return call.plugin
    roots = {root_module(context.manifest): key for key, context in host.contexts.items()}
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    for _ in range(_MOST_FRAMES):
        name = str(frame.f_globals.get("__name__", ""))
        for root, key in roots.items():
            if name == root or name.startswith(f"{root}."):
                return key
        if frame.f_back is None:
            break
        frame = frame.f_back
    raise PluginError("the host does not know which plugin calls; use the methods of ctx instead")


def providers(host: PluginHost) -> Names:
    """``providers``: register a model provider without ``ctx``."""

    def register_provider(profile: Any) -> None:
        """``ctx.register_model_provider`` of the plugin that is being loaded, later of the one that calls."""
        loading = [context for context in host.contexts.values() if context.loading]
        context = loading[-1] if loading else host.contexts[_calling_plugin(host)]
        context.register_model_provider(profile)

    return {"register_provider": register_provider}


# -- tools.approval, tools.interrupt ---------------------------------------------------------------------------------


def approval(host: PluginHost) -> Names:
    """``tools.approval``: the same judgement, rules and questions as for the model's own commands."""

    def check_dangerous_command(
        command: str, env_type: str, approval_callback: Any = None, has_host_access: bool = False
    ) -> dict[str, Any]:
        """Whether a command may run now. A person may be asked; ``approval_callback`` is not, the surface asks."""
        return _verdict(*service(host, "check_call")("terminal", {"command": command}))

    def request_tool_approval(
        tool_name: str, reason: str, *, rule_key: str = "", approval_callback: Any = None
    ) -> dict[str, Any]:
        """Have a call approved for a reason of the plugin's own."""
        return _verdict(*service(host, "check_call")(tool_name, {}, reason=reason, rule_key=rule_key))

    def get_approval_mode() -> str:
        config = config_of(host)
        if config is None:
            return "manual"
        if config.approvals.permission_mode == UNASKED_MODE:
            return "off"
        return "smart" if config.approvals.reviewer == "model" else "manual"

    return {
        "_get_approval_mode": get_approval_mode,
        "check_dangerous_command": check_dangerous_command,
        "request_tool_approval": request_tool_approval,
    }


def _verdict(approved: bool, message: str) -> dict[str, Any]:
    return {"approved": approved, "message": None if approved else message}


def is_interrupted() -> bool:
    """Whether the turn that this code works for was cancelled."""
    scope = current_scope.get()
    return scope is not None and scope.interrupt.cancelled


# -- cron.jobs -------------------------------------------------------------------------------------------------------


def jobs(host: PluginHost) -> Names:
    """``cron.jobs``: the schedules of the principal that the running work belongs to, as ``PluginJobs`` has them."""

    def call(method: str, *args: Any, **options: Any) -> Any:
        refuse_late_calls()
        with host_work():
            return getattr(cast("Any", host.services).schedules(), method)(*args, **options)

    def list_jobs(include_disabled: bool = False) -> Any:
        return call("list", include_disabled=include_disabled)

    methods = ("create", "get", "update", "pause", "resume", "trigger", "remove")
    named = {f"{method}_job": partial(call, method) for method in methods}
    named |= {"parse_schedule": partial(call, "parse"), "load_jobs": partial(list_jobs, include_disabled=True)}
    return {**named, "list_jobs": list_jobs}


# -- hermes_cli.profiles, agent.secret_scope, agent.delegation_context ---------------------------------


def profiles(host: PluginHost) -> Names:
    """``hermes_cli.profiles``."""
    return {"get_active_profile_name": lambda: host.services.profile_name}


class UnscopedSecretError(RuntimeError):
    """A secret was asked for outside of every scope; here there is always one, so that no one raises it."""


def secret_scope(host: PluginHost) -> Names:
    """``agent.secret_scope``: secrets come from the environment and the home's ``.env``."""
    from hermes.plugins.compat.settings import env_file

    def get_secret(name: str, default: str | None = None) -> str | None:
        return os.environ.get(name) or env_file(host).get(name) or default

    return {"current_secret_scope": lambda: None, "get_secret": get_secret, "is_multiplex_active": lambda: False}


def delegation_context(host: PluginHost) -> Names:
    """``agent.delegation_context``."""

    def is_delegated_child_context() -> bool:
        """Whether this code runs for a child agent."""
        scope = current_scope.get()
        return scope is not None and bool(service(host, "is_child")(scope.session_id))

    return {"is_delegated_child_context": is_delegated_child_context}


def service(host: PluginHost, name: str) -> Any:
    """What the running host offers to this package beyond ``HostServices``."""
    refuse_late_calls()
    found = getattr(host.services, name, None)
    if found is None:
        raise PluginError("this host keeps no sessions and asks no questions")
    return found
