"""Commands that choose the model and its reasoning effort: model, reasoning."""

from __future__ import annotations

from msgspec.structs import replace

from hermes.agent.llm.model_runtime import ModelRuntime
from hermes.base.config.schema.sections import Config
from hermes.base.errors import HermesError
from hermes.models.profiles import CUSTOM, canonical
from hermes.surfaces.commands.conversation import Conversation

#: What is asked of the model; ``default`` asks for nothing, and what it then does is its own choice.
_EFFORTS = ("none", "minimal", "low", "medium", "high", "default")


def model(conversation: Conversation, arguments: str) -> str:
    """Show the model and those that are known, or change it for this session."""
    if not arguments:
        return _overview(conversation)
    conversation.need_prompt("changing the model for a conversation (--model is for one run)")
    host, session = conversation.host, conversation.session
    models = model_runtime(conversation, arguments)
    session.models = replace(models, reasoning_effort=session.models.reasoning_effort)
    first = models.endpoints[0]
    if host.sessions.turn_count(session.id):
        host.sessions.set_model(session.id, first.provider, first.model)
    return f"From the next message on: {first.model} ({first.provider})"


def model_runtime(conversation: Conversation, written: str) -> ModelRuntime:
    """The models for ``MODEL``, ``PROVIDER:MODEL`` or ``PROVIDER MODEL``, seen from the session's model."""
    host = conversation.host
    known = {*host.models.profiles, *host.config.providers, CUSTOM}
    provider, name = _read(written, conversation.session.models.endpoints[0].provider, host.config, known)
    return host.models.conversation(provider=provider, model=name)


def _read(arguments: str, current: str, config: Config, known: set[str]) -> tuple[str, str]:
    """Provider and model, from ``MODEL``, ``PROVIDER:MODEL`` or ``PROVIDER MODEL``. Model names may have colons too."""
    parts = arguments.split()
    if len(parts) > 2:
        raise HermesError("/model takes a model, PROVIDER:MODEL, or a provider and a model")
    if len(parts) == 2:
        return parts[0], parts[1]
    provider, colon, name = parts[0].partition(":")
    if colon and name and (provider in known or canonical(provider) in known):
        return provider, name
    if parts[0] in config.providers and config.providers[parts[0]].model:
        return parts[0], config.providers[parts[0]].model
    return current, parts[0]


def _overview(conversation: Conversation) -> str:
    endpoints = conversation.session.models.endpoints
    first = endpoints[0]
    lines = [f"Model: {first.model} ({first.provider})"]
    if len(endpoints) > 1:
        others = ", ".join(f"{one.model} ({one.provider})" for one in endpoints[1:])
        lines.append(f"When it fails: {others}")
    known = known_models(conversation.host.config)
    if known:
        lines += ["", "Known from the configuration:", *(f"  {name}" for name in known)]
    return "\n".join([*lines, "", "Change it: /model MODEL, /model PROVIDER:MODEL"])


def known_models(config: Config) -> list[str]:
    """The models that the configuration names, as ``/model`` takes them."""
    found = [f"{config.model.provider}:{config.model.default}".lstrip(":")] if config.model.default else []
    for name, provider in config.providers.items():
        if provider.enabled:
            found += [f"{name}:{offered}" for offered in filter(None, (provider.model, *provider.models))]
    found += [f"{fallback.provider}:{fallback.model}" for fallback in config.fallback_providers]
    return list(dict.fromkeys(found))


def reasoning(conversation: Conversation, arguments: str) -> str:
    """Show or hide the model's reasoning, or set the effort."""
    surface, session = conversation.surface, conversation.session
    word = arguments.lower()
    if not word:
        shown = "shown" if surface.show_reasoning else "hidden"
        return f"Reasoning is {shown}; effort: {session.models.reasoning_effort or 'the model decides'}"
    if word in ("show", "hide"):
        surface.show_reasoning = word == "show"
        return f"Reasoning is {'shown' if surface.show_reasoning else 'hidden'} from now on."
    if word not in _EFFORTS:
        raise HermesError(f"/reasoning takes show, hide, {', '.join(_EFFORTS[:-1])} or default, not {arguments!r}")
    session.models = replace(session.models, reasoning_effort="" if word == "default" else word)
    return f"Effort from the next message on: {session.models.reasoning_effort or 'the model decides'}"
