"""Which models a host talks to: for a conversation, for its children, and for side jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hermes.agent.model_call import ModelRuntime, Transport
from hermes.config.sections import Config, Model
from hermes.hooks.table import Hooks
from hermes.providers.chat_completions import ChatCompletions
from hermes.providers.endpoint import Endpoint
from hermes.providers.routing import endpoint_for, endpoints_for
from hermes.providers.wire import Wire
from hermes.sanitize import Redactor, is_secret_key

_CHAT_COMPLETIONS = ChatCompletions()


class ModelSource:
    """Turns the configuration into endpoints, and keeps their keys secret."""

    def __init__(
        self, config: Config, env: Mapping[str, str], *, hooks: Hooks, transport: Transport, redactor: Redactor
    ) -> None:
        self.config = config
        self.transport = transport
        self.redactor = redactor
        self._env = env
        self._hooks = hooks

    def conversation(self, *, provider: str = "", model: str = "") -> ModelRuntime:
        """The models of a conversation: the one asked for, or the configured one, then the fallbacks."""
        config = self.config
        return ModelRuntime(
            hooks=self._hooks,
            transport=self.transport,
            wire_for=self.wire_for,
            endpoints=self._guarded(endpoints_for(config, self._env, provider=provider, model=model)),
            redactor=self.redactor,
            max_retries=config.agent.api_max_retries,
            max_tokens=config.model.max_tokens,
            temperature=config.model.temperature,
            reasoning_effort=config.agent.reasoning_effort,
        )

    def children(self, parent: ModelRuntime) -> ModelRuntime:
        """The models of a child agent: what ``delegation`` names, the parent's for what it leaves open."""
        wanted = self.config.delegation
        if wanted.reasoning_effort:
            parent = replace(parent, reasoning_effort=wanted.reasoning_effort)
        if not (wanted.model or wanted.provider or wanted.base_url):
            return parent
        first = parent.endpoints[0]
        provider = wanted.provider or ("custom" if wanted.base_url else first.provider)
        # Another provider has other model names; only the same one may inherit the name.
        model = wanted.model or (first.model if provider == first.provider else "")
        own = Model(base_url=wanted.base_url, api_key=wanted.api_key, api_mode=wanted.api_mode)
        if provider == first.provider and not wanted.base_url:
            endpoint = replace(first, model=model)
        else:
            endpoint = endpoint_for(self.config, self._env, provider, model, own)
        return replace(parent, endpoints=self._guarded([endpoint, *parent.endpoints[1:]]))

    def side_job(self, task: str, main: Sequence[Endpoint]) -> Sequence[Endpoint]:
        """Where a side job such as ``compression`` is done: at the endpoint it names, else at the conversation's."""
        wanted = self.config.auxiliary.task(task)
        named = wanted.provider if wanted.provider not in ("", "auto", "main") else ""
        if not (wanted.model or named or wanted.base_url):
            return main
        first = main[0]
        if not named and not wanted.base_url:
            return [replace(first, model=wanted.model), *main]
        provider = named or "custom"
        model = wanted.model or (first.model if provider == first.provider else "")
        own = Model(
            base_url=wanted.base_url,
            api_key=wanted.api_key,
            key_env=wanted.key_env,
            api_mode=wanted.api_mode,
            extra_body=wanted.extra_body,
        )
        return self._guarded([endpoint_for(self.config, self._env, provider, model, own), *main])

    def wire_for(self, _endpoint: Endpoint) -> Wire:
        """The request format of an endpoint."""
        return _CHAT_COMPLETIONS

    def _guarded(self, endpoints: list[Endpoint]) -> list[Endpoint]:
        for endpoint in endpoints:
            self.redactor.add_secret(endpoint.api_key)
            for name, value in endpoint.extra_headers.items():
                if is_secret_key(name):
                    self.redactor.add_secret(value)
        return endpoints
