"""``Models``: the models of a home for conversations, child agents and side jobs. It can be opened without a host."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
from msgspec.structs import replace

from hermes.agent.llm.model_runtime import ModelRuntime
from hermes.base.config.schema.sections import AuxiliaryTaskConfig, Config, ModelConfig
from hermes.base.errors import ConfigError, CredentialError, HermesError, NotConfigured
from hermes.base.sanitize import Redactor, is_secret_key
from hermes.hooks.table import Hooks
from hermes.models.credentials.home_keys import HomeKeys
from hermes.models.driver import Driver
from hermes.models.endpoint import Endpoint
from hermes.models.health import Health
from hermes.models.local.endpoint import LOCAL, is_embedded, is_local
from hermes.models.local.service import LocalService
from hermes.models.profiles import CUSTOM, PROFILES, Profile
from hermes.models.retry import Attempts, attempts
from hermes.models.routing import another_model, endpoint_for, endpoints_for, name_of
from hermes.models.wires.wire import Transport, Wire
from hermes.plugins.registry import PluginSet

if TYPE_CHECKING:
    from hermes.agent.llm.budgets import Budgets
    from hermes.plugins.http import PluginHttp

log = logging.getLogger("hermes.model")


class Models:
    """Turns the configuration into endpoints, with their keys, wires and transports. Close it when done."""

    def __init__(
        self, home: Path, config: Config, env: Mapping[str, str], redactor: Redactor, hooks: Hooks | None = None
    ) -> None:
        self.home = home
        self.config = config
        self.redactor = redactor
        self.driver = Driver()
        self.keys = HomeKeys(home, config, self.driver.http, redactor)
        self.local = LocalService(self.driver, home, config.local, env)
        #: Whether the embedded model answers because no model is set up.
        self.uses_embedded_default = False
        #: The circuit breaker of endpoints, for all conversations of the process; ``None`` asks whatever has failed.
        self.health: Health | None = Health()
        #: What may be spent; ``None`` when nothing is limited.
        self.budgets: Budgets | None = None
        #: Answers instead of every provider, without keys.
        self.stand_in: Transport | None = None
        #: The providers that are known by name; plugins may add some.
        self.profiles: dict[str, Profile] = dict(PROFILES)
        #: Settings that plugins suggest for their own side jobs.
        self._task_defaults: dict[str, AuxiliaryTaskConfig] = {}
        self._env = env
        self.hooks = hooks or Hooks()

    def __enter__(self) -> Models:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Write the state of the keys, stop using the local model server, close idle connections."""
        self.keys.close()
        self.local.close()
        self.driver.close()

    def names_for_plugins(self, provider: str = "") -> list[str]:
        """The providers that the configuration names, or one run asks for, and that only a plugin can know."""
        config = self.config
        named = [provider, config.model.provider, config.delegation.provider]
        named += [entry.provider for entry in (*config.fallback_providers, *config.auxiliary.tasks.values())]
        named += [agent.provider for agent in config.agents.values()]
        known = {"", "auto", "main", CUSTOM, *self.profiles, *config.providers}
        return sorted({name for name in named if name_of(config, name, self.profiles) not in known})

    def use_plugins(self, plugins: PluginSet) -> None:
        """Take the providers and the side jobs of plugins. A provider that is known already stays what it is."""
        for entry in plugins.waiting("model_provider"):
            if entry.name in self.profiles or entry.name == CUSTOM:
                log.warning("model provider %r of a plugin is not used: the runtime has one of that name", entry.name)
                continue
            plugins.take("model_provider", entry.name)
            self.profiles[entry.name] = entry.value
        for task in plugins.auxiliary_tasks.values():
            try:
                self._task_defaults[task.key] = msgspec.convert(dict(task.defaults), AuxiliaryTaskConfig)
            except msgspec.ValidationError as error:
                log.warning("plugin %r: the defaults of side job %r are not used: %s", task.plugin, task.key, error)

    def load_plugins(self, provider: str = "") -> None:
        """Load the enabled plugins for the providers they add, and any that adds ``provider``. No host is opened."""
        from hermes.plugins.loading.loader import load_plugins
        from hermes.tools.registry import ToolRegistry

        hooks, self.profiles = Hooks(), dict(PROFILES)
        try:
            plugins = load_plugins(
                home=self.home,
                plugins_config=self.config.plugins,
                tools=ToolRegistry(()),
                hooks=hooks,
                services=_NoServices(self),
                selected=self.names_for_plugins(provider),
                cwd=Path.cwd(),
            )
            self.use_plugins(plugins)
            plugins.close()
        finally:
            hooks.close()

    def task(self, name: str) -> AuxiliaryTaskConfig:
        """The settings of a side job: what is configured, over what the plugin that has it wants."""
        configured, default = self.config.auxiliary.task(name), self._task_defaults.get(name)
        if default is None:
            return configured
        plain = msgspec.structs.asdict(AuxiliaryTaskConfig())
        changed = {field: value for field, value in msgspec.structs.asdict(configured).items() if value != plain[field]}
        return msgspec.structs.replace(default, **changed)

    def has_task(self, name: str) -> bool:
        """Whether a side job of that name is set up, in the configuration or by a plugin."""
        return name in self.config.auxiliary.tasks or name in self._task_defaults

    def task_timeout(self, name: str) -> float:
        """Seconds that a side job may take."""
        section, default = self.config.auxiliary, self._task_defaults.get(name)
        if default is None or not default.timeout or section.task(name).timeout or section.timeout:
            return section.task_timeout(name)
        return default.timeout

    def conversation(self, *, provider: str = "", model: str = "") -> ModelRuntime:
        """The models of a conversation: the one asked for, or the configured one, then the fallbacks."""
        config = self.config
        return ModelRuntime(
            self,
            self._guarded(self._chain(provider, model)),
            max_retries=config.agent.api_max_retries,
            max_tokens=config.model.max_tokens,
            temperature=config.model.temperature,
            reasoning_effort=config.agent.reasoning_effort,
        )

    def is_set_up(self, provider: str = "", model: str = "") -> bool:
        """Whether there is a model to ask, be it one that cannot be used."""
        try:
            self._chain(provider, model)
        except NotConfigured:
            return False
        except HermesError:
            return True  # the error shows when it is used
        return True

    def chosen(
        self, *, provider: str = "", model: str = "", profile: str = "", main: Sequence[Endpoint] = ()
    ) -> list[Endpoint]:
        """Where work goes that names its own provider, model or stored credential, by the ``profile`` it has.

        What it leaves open is as in the conversation that is held at ``main``, or as configured. A credential is that
        of one provider, so an endpoint that has one gets no fallbacks. Raises
        ``ConfigError`` for a provider or a profile that does not exist.
        """
        named = name_of(self.config, provider, self.profiles)
        if main and named in ("", main[0].provider):
            first = another_model(self.config, main[0], model, self.profiles) if model else main[0]
            endpoints = [first, *main[1:]]
        else:
            endpoints = self._chain(named, model)
        if profile:
            endpoints = [self._with_credential(endpoints[0], profile)]
        return self._guarded(endpoints)

    def children(self, parent: ModelRuntime) -> ModelRuntime:
        """The models of a child agent: what ``delegation`` names, the parent's for what it leaves open."""
        wanted = self.config.delegation
        if wanted.reasoning_effort:
            parent = replace(parent, reasoning_effort=wanted.reasoning_effort)
        if not (wanted.model or wanted.provider or wanted.base_url):
            return parent
        first = parent.endpoints[0]
        named = name_of(self.config, wanted.provider, self.profiles)
        provider = named or (CUSTOM if wanted.base_url else first.provider)
        # Another provider has other model names; only the same one may inherit the name.
        model = wanted.model or (first.model if provider == first.provider else "")
        own = ModelConfig(base_url=wanted.base_url, api_key=wanted.api_key, api_mode=wanted.api_mode)
        if provider == first.provider and not wanted.base_url:
            endpoint = another_model(self.config, first, model, self.profiles)
        else:
            endpoint = endpoint_for(self.config, self._env, provider, model, own, self.profiles)
        return replace(parent, endpoints=self._guarded([endpoint, *parent.endpoints[1:]]))

    def side_job(self, task: str, main: Sequence[Endpoint]) -> Sequence[Endpoint]:
        """Where a side job such as ``compression`` is done: at the endpoint it names, else at the conversation's."""
        wanted = self.task(task)
        named = wanted.provider if wanted.provider not in ("", "auto", "main") else ""
        named = name_of(self.config, named, self.profiles)
        if not (wanted.model or named or wanted.base_url):
            return main
        first = main[0]
        if not named and not wanted.base_url:
            return [another_model(self.config, first, wanted.model, self.profiles), *main]
        provider = named or CUSTOM
        model = wanted.model or (first.model if provider == first.provider else "")
        own = ModelConfig(
            base_url=wanted.base_url,
            api_key=wanted.api_key,
            key_env=wanted.key_env,
            api_mode=wanted.api_mode,
            extra_body=wanted.extra_body,
        )
        return self._guarded([endpoint_for(self.config, self._env, provider, model, own, self.profiles), *main])

    def attempts(
        self, endpoints: Sequence[Endpoint], max_retries: int, before_waiting: Callable[[], object] | None = None
    ) -> Attempts:
        """The attempts of one model call. ``before_waiting`` is called before a server is asked for a new token."""
        keys = self.keys if self.stand_in is None else None
        return attempts(endpoints, max_retries, keys=keys, health=self.health, before_waiting=before_waiting)

    def wire_for(self, endpoint: Endpoint) -> Wire:
        """The request format of an endpoint."""
        from hermes.models.wires.choice import wire_for

        return self.local.embedded_wire() if is_embedded(endpoint) else wire_for(endpoint)

    def transport_for(self, endpoint: Endpoint) -> Transport:
        """What sends requests to an endpoint."""
        return self.stand_in or (self.local if is_local(endpoint) else self.driver)

    def _with_credential(self, endpoint: Endpoint, name: str) -> Endpoint:
        try:
            self.keys.require(endpoint.provider, name)
        except CredentialError as error:
            raise ConfigError(str(error)) from error
        return replace(endpoint, api_key="", credential=name)

    def _chain(self, provider: str, model: str) -> list[Endpoint]:
        try:
            return endpoints_for(
                self.config, self._env, provider=provider, model=model, profiles=self.profiles, has_key=self.keys.has
            )
        except NotConfigured:
            if provider or model or self.config.fallback_providers:
                raise
            if not self.local.is_usable():
                raise
        self.uses_embedded_default = True
        return [endpoint_for(self.config, self._env, LOCAL, "", ModelConfig(), self.profiles)]

    def _guarded(self, endpoints: list[Endpoint]) -> list[Endpoint]:
        endpoints = self.local.settled(endpoints)
        for endpoint in endpoints:
            self.redactor.add_secret(endpoint.api_key)
            for name, value in endpoint.extra_headers.items():
                if is_secret_key(name):
                    self.redactor.add_secret(value)
        return endpoints


class _NoServices:
    """The services of a host for plugins that are loaded without one: there is no conversation and no model access."""

    profile_name = "custom"

    def __init__(self, models: Models) -> None:
        self.home, self.config, self.redactor = models.home, models.config, models.redactor
        self._client = models.driver.http

    @property
    def http(self) -> PluginHttp:
        """HTTP requests over the client of the models."""
        from hermes.plugins.http import PluginHttp

        return PluginHttp(self._client, allow_private=self.config.security.allow_private_urls)

    def dispatch_tool(self, name: str, args: dict[str, Any], **_kwargs: Any) -> str:
        """Not available."""
        raise HermesError(f"tool {name!r} cannot run: this command only looks for model providers")

    def inject_message(self, content: str, role: str) -> bool:
        """Not available."""
        return False

    def llm(self, plugin_id: str) -> NoReturn:
        """Not available."""
        raise HermesError(f"plugin {plugin_id!r} may ask no model now: this command only looks for model providers")
