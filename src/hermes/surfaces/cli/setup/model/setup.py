"""The model setup of a home: the endpoints that its settings select, and the origin of each choice and key.

It opens ``Models`` without a host. A key itself is never shown.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar, cast

import msgspec
from msgspec.structs import replace

from hermes.agent.llm.models import Models
from hermes.base.config import Config, apply_env, env_path, hermes_home, load_config, load_env_file
from hermes.base.config.files import TimedCache
from hermes.base.config.schema.sections import ModelConfig, ModelProviderConfig
from hermes.base.config.secrets import home_secrets
from hermes.base.errors import ConfigError, ProviderError
from hermes.base.sanitize import Redactor
from hermes.models.endpoint import Endpoint, Timeouts
from hermes.models.local.endpoint import LOCAL, is_local
from hermes.models.profiles import CUSTOM, PROFILES, Profile
from hermes.models.routing import endpoint_for, name_of, unknown_provider
from hermes.surfaces.cli.setup.model.server_models import cache_key, list_models
from hermes.surfaces.cli.terminal import print_warnings

T = TypeVar("T")


class Origins(NamedTuple):
    """What the settings of a home were read from."""

    home: Path
    config: Config
    #: The document as it is written in the file.
    raw: Mapping[str, Any]
    #: What ``.env`` holds, and the whole environment with it.
    env_file: Mapping[str, str]
    env: Mapping[str, str]
    profiles: Mapping[str, Profile] = PROFILES

    def of_choice(self, provider: str) -> str:
        """Why this provider is the one, in the order in which the choice is made."""
        own = self.config.model
        if own.provider not in ("", "auto"):
            return "chosen by model.provider in config.yaml"
        if own.base_url:
            return "chosen by model.base_url in config.yaml"
        if self.env.get("CUSTOM_BASE_URL"):
            return f"chosen by {self.variable('CUSTOM_BASE_URL')}"
        if provider == LOCAL:
            return "nothing else is set up"
        names = self.profiles[provider].key_env if provider in self.profiles else ()
        set_ = next((name for name in names if self.env.get(name)), "")
        return f"chosen by its key, {self.variable(set_)}" if set_ else "chosen by its key, stored by 'hermes auth'"

    def key_names(self, provider: str, own: ModelConfig) -> list[str]:
        """The variables that may hold the key of a provider; the first is the one to put a new key into."""
        profile = self.profiles.get(provider)
        named = self.config.providers.get(provider) or ModelProviderConfig()
        return [name for name in (own.key_env, named.key_env, *(profile.key_env if profile else ())) if name]

    def of_key(self, endpoint: Endpoint, own: ModelConfig) -> str:
        """The setting or variable whose value the key is; empty when there is none."""
        if not endpoint.api_key:
            return ""
        named = self.config.providers.get(endpoint.provider) or ModelProviderConfig()
        if endpoint.api_key == own.api_key:
            section: Any = self.raw.get("model")
            written: Any = cast("dict[str, Any]", section).get("api_key") if isinstance(section, dict) else None
            if isinstance(written, str) and written.startswith("${"):
                return f"{written[2:].partition('}')[0]}, which api_key in config.yaml names"
            return "api_key in config.yaml"
        if endpoint.api_key == named.api_key:
            return f"providers.{endpoint.provider}.api_key in config.yaml"
        names = self.key_names(endpoint.provider, own)
        return next((self.variable(name) for name in names if self.env.get(name) == endpoint.api_key), "config.yaml")

    def variable(self, name: str) -> str:
        """A variable and who set it."""
        return f"{name} in {env_path(self.home)}" if name in self.env_file else f"{name} in the environment"


LIST_TIMEOUTS = Timeouts(connect=4.0, first_byte=8.0, between_chunks=4.0, total=15.0)
#: For a server that is on this machine or not there at all.
LOCAL_TIMEOUTS = Timeouts(connect=0.5, first_byte=1.5, between_chunks=1.0, total=2.0)


def open_setup(home: Path | None = None, *, show_warnings: bool = True) -> ModelSetup:
    """A setup with the settings of a home as they are now."""
    home = home or hermes_home()
    warnings: list[str] = []
    env_file = load_env_file(home, warnings=warnings)
    apply_env(env_file)
    loaded = load_config(home)
    setup = ModelSetup(Origins(home, loaded.config, loaded.raw, env_file, os.environ))
    if show_warnings:
        print_warnings((*warnings, *loaded.warnings, *setup.keys.notices), setup.redactor.redact)
    return setup


class ModelSetup:
    """The models of a home. Use it as a context manager."""

    def __init__(self, origins: Origins, redactor: Redactor | None = None, *, loads_plugins: bool = True) -> None:
        self.home = origins.home
        self.origins = origins
        self._loads_plugins = loads_plugins
        self.redactor = redactor or Redactor(home_secrets(origins.home, origins.config, origins.env))
        #: Selects like the host of a conversation, without the fallbacks, which are checked by themselves.
        alone = msgspec.structs.replace(self.config, fallback_providers=[])
        self.models = Models(self.home, alone, origins.env, self.redactor)
        self.driver, self.keys, self.local = self.models.driver, self.models.keys, self.models.local
        self._listed = TimedCache(self.home, "models.json", list[str])

    def __enter__(self) -> Self:
        self.load_provider(self.config.model.provider)
        if self.config.plugins.enabled and (not self.models.is_set_up() or self.models.uses_embedded_default):
            self._load_plugins("")  # one of them may bring a provider whose key is there
        return self

    def __exit__(self, *_: object) -> None:
        self.models.close()

    @property
    def config(self) -> Config:
        """The configuration."""
        return self.origins.config

    @property
    def profiles(self) -> dict[str, Profile]:
        """The providers that are known by name."""
        return self.models.profiles

    def current(self) -> Endpoint:
        """The model in use. Raises ``ConfigError`` when none is set up, or it cannot be used."""
        return self.models.chosen()[0]

    def current_provider(self) -> str:
        """The provider in use; empty when none is."""
        try:
            return self.current().provider
        except ConfigError:
            own = name_of(self.config, self.config.model.provider, self.profiles)
            return "" if own == "auto" else own

    def endpoint(self, provider: str, model: str) -> Endpoint:
        """A model of a provider, with the settings that hold for it."""
        if model and provider == self.current_provider():
            return self.models.chosen(provider=provider, model=model)[0]
        return self.local.settled([self._unused_endpoint(provider, model)])[0]

    def provider_endpoint(self, provider: str) -> Endpoint:
        """A provider's address and key, when no model matters."""
        if provider != LOCAL and provider == self.current_provider():
            return self.models.chosen(provider=provider, model=self.config.model.default or "any")[0]
        return self._unused_endpoint(provider, "any")

    def own_settings(self, provider: str) -> ModelConfig:
        """What the ``model`` section says about a provider; nothing when it is about another one."""
        return self.config.model if provider == self.current_provider() else ModelConfig()

    def key_from(self, endpoint: Endpoint) -> str:
        """Where the key of an endpoint comes from; empty when it has none."""
        from hermes.models.credentials.store import AuthFile

        for stored in AuthFile(self.home).credentials(endpoint.provider) if self.keys.has(endpoint.provider) else ():
            if stored.secret == endpoint.api_key:
                return f"{stored.label!r} of hermes auth"
        return self.origins.of_key(endpoint, self.own_settings(endpoint.provider))

    def stored_key(self, provider: str) -> str:
        """Where a stored key of a provider is that is not the next one to be used; empty when there is none."""
        return "stored by hermes auth" if self.keys.has(provider) else ""

    def has_key(self, endpoint: Endpoint) -> bool:
        """Whether there is any key to send to an endpoint."""
        return bool(endpoint.api_key) or self.keys.has(endpoint.provider)

    def key_name(self, provider: str) -> str:
        """The variable to keep the key of a provider in; empty when the provider names none."""
        names = self.origins.key_names(provider, self.own_settings(provider))
        return names[0] if names else ""

    def list_models_at(
        self, endpoint: Endpoint, *, refresh: bool = False, timeouts: Timeouts = LIST_TIMEOUTS
    ) -> list[str] | None:
        """The models that a server lists, from the cache if it is fresh; ``None`` when it has no list."""
        if is_local(endpoint):
            return [one.model for one in self.local.settled([endpoint])]
        lent = self.keys.take(endpoint)
        if lent is None:
            raise ProviderError(self.keys.explain(endpoint), reason="rate_limit")
        outcome: ProviderError | None = ProviderError("the request was given up", reason="connection")
        try:
            known = None if refresh else self._listed.get(cache_key(lent))
            models = list_models(self.driver, replace(lent, timeouts=timeouts)) if known is None else known
            outcome = None
        except ProviderError as error:
            outcome = error
            raise
        finally:
            self.keys.report(lent, outcome)
        if models is not None and known is None:
            self._listed.keep(cache_key(lent), models)
        return models

    def named(self, words: Sequence[str]) -> tuple[str, str]:
        """Provider and model, from the words of a command line."""
        if len(words) > 2:
            raise ConfigError("give a model, PROVIDER:MODEL, or a provider and a model")
        if len(words) == 2:
            self.load_provider(words[0])
        return provider_and_model(words, self.current_provider(), self.config, self.profiles)

    def load_provider(self, provider: str) -> None:
        """Load the plugins when only one of them can add a provider of that name."""
        known = {*self.profiles, *self.config.providers, CUSTOM, "", "auto"}
        if name_of(self.config, provider, self.profiles) not in known:
            self._load_plugins(provider)

    def _load_plugins(self, provider: str) -> None:
        if not self._loads_plugins:
            return
        self.models.load_plugins(provider)
        self.origins = self.origins._replace(profiles=self.profiles)

    def _unused_endpoint(self, provider: str, model: str) -> Endpoint:
        """A model of a provider that is not in use, so that the ``model`` section says nothing about it."""
        named = self.config.providers.get(provider)
        model = model or (named.model if named else "")
        endpoint = endpoint_for(self.config, self.origins.env, provider, model, ModelConfig(), self.profiles)
        self.redactor.add_secret(endpoint.api_key)
        return endpoint


def all_at_once(work: Callable[[T], object], items: Sequence[T]) -> None:
    """Call a function for all items at the same time; threads that hang do not keep the process."""
    threads = [threading.Thread(target=work, args=(one,), name="hermes-model", daemon=True) for one in items]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def provider_and_model(
    words: Sequence[str], current: str, config: Config, profiles: Mapping[str, Profile]
) -> tuple[str, str]:
    """Provider and model, from ``MODEL``, ``PROVIDER:MODEL``, ``PROVIDER MODEL`` or a ``PROVIDER`` with a model.

    A model's name may have a colon too, so the part before one is a provider only if there is such a provider.
    ``current`` is the provider of a name that comes alone; empty when there is none.
    """
    if len(words) == 2:
        return known_provider(words[0], config, profiles), words[1]
    provider, colon, model = words[0].partition(":")
    named = config.providers.get(current)
    is_model = named is not None and words[0] in (named.model, *named.models)
    if _is_known(provider, config, profiles) and (colon or not is_model):
        return name_of(config, provider, profiles), model
    if not current:
        raise ConfigError(
            f"{words[0]!r} names no provider, and none is set up: give both, such as openrouter:{words[0]}"
        )
    return current, words[0]


def known_provider(name: str, config: Config, profiles: Mapping[str, Profile]) -> str:
    """The canonical name of a provider. Raises ``ConfigError`` for an unknown one."""
    if _is_known(name, config, profiles):
        return name_of(config, name, profiles)
    raise ConfigError(unknown_provider(name, config, profiles))


def _is_known(name: str, config: Config, profiles: Mapping[str, Profile]) -> bool:
    return name_of(config, name, profiles) in {*profiles, *config.providers, CUSTOM}
