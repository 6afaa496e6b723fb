"""What ``hermes model`` works on: the settings of a home, its keys, and a way to ask servers."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Self

import msgspec

from hermes.agent.llm.models import Models
from hermes.cli.model.listed import ListedModels
from hermes.cli.model.origin import Origins
from hermes.cli.model.server_list import list_models
from hermes.cli.plugins.providers import profiles_with_plugins
from hermes.cli.terminal import plain
from hermes.config import Config, apply_env, hermes_home, load_config, load_env_file
from hermes.config.sections import ModelConfig
from hermes.errors import ConfigError, ProviderError
from hermes.local.endpoint import LOCAL, is_local
from hermes.models.endpoint import Endpoint, Timeouts
from hermes.models.profiles import CUSTOM, Profile
from hermes.models.routing import endpoint_for, name_of
from hermes.sanitize import Redactor, is_secret_key

PATIENCE = Timeouts(connect=4.0, first_byte=8.0, between_chunks=4.0, total=15.0)
#: For a server that is on this machine or not there at all.
SHORT_PATIENCE = Timeouts(connect=0.5, first_byte=1.5, between_chunks=1.0, total=2.0)


def open_desk(home: Path | None = None, *, tell_warnings: bool = True) -> Desk:
    """A desk with the settings of a home as they are now."""
    home = home or hermes_home()
    warnings: list[str] = []
    env_file = load_env_file(home, warnings=warnings)
    apply_env(env_file)
    loaded = load_config(home)
    desk = Desk(Origins(home, loaded.config, loaded.raw, env_file, os.environ))
    for warning in (*warnings, *loaded.warnings, *desk.keys.notices) if tell_warnings else ():
        print(f"Warning: {plain(desk.redactor.redact(warning))}", file=sys.stderr)
    return desk


class Desk:
    """The models of a home. Use it as a context manager."""

    def __init__(self, origins: Origins, redactor: Redactor | None = None, *, loads_plugins: bool = True) -> None:
        secrets = tuple(value for name, value in origins.env.items() if is_secret_key(name))
        self.home = origins.home
        self.origins = origins
        self._loads_plugins = loads_plugins
        self.redactor = redactor or Redactor(secrets)
        #: Selects like the host of a conversation, without the fallbacks, which are checked by themselves.
        alone = msgspec.structs.replace(self.config, fallback_providers=[])
        self.models = Models(self.home, alone, origins.env, self.redactor)
        self.driver, self.keys, self.local = self.models.driver, self.models.keys, self.models.local
        self._listed = ListedModels(self.home)

    def __enter__(self) -> Self:
        self.learn(self.config.model.provider)
        if self.config.plugins.enabled and (not self.models.is_set_up() or self.models.uses_embedded_default):
            self._ask_plugins("")  # one of them may bring a provider whose key is there
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
        return self.local.settled([self._elsewhere(provider, model)])[0]

    def somewhere_at(self, provider: str) -> Endpoint:
        """A provider's address and key, when no model matters."""
        if provider != LOCAL and provider == self.current_provider():
            return self.models.chosen(provider=provider, model=self.config.model.default or "any")[0]
        return self._elsewhere(provider, "any")

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

    def has_key(self, endpoint: Endpoint) -> bool:
        """Whether there is any key to send to an endpoint."""
        return bool(endpoint.api_key) or self.keys.has(endpoint.provider)

    def key_name(self, provider: str) -> str:
        """The variable to keep the key of a provider in; empty when the provider names none."""
        names = self.origins.key_names(provider, self.own_settings(provider))
        return names[0] if names else ""

    def models_at(
        self, endpoint: Endpoint, *, refresh: bool = False, patience: Timeouts = PATIENCE
    ) -> list[str] | None:
        """The models that a server lists, as known for a few minutes; ``None`` when it does not tell."""
        if is_local(endpoint):
            return [one.model for one in self.local.settled([endpoint])]
        lent = self.keys.take(endpoint)
        if lent is None:
            raise ProviderError(self.keys.explain(endpoint), reason="rate_limit")
        outcome: ProviderError | None = ProviderError("the request was given up", reason="connection")
        try:
            known = None if refresh else self._listed.get(lent)
            models = list_models(self.driver, replace(lent, timeouts=patience)) if known is None else known
            outcome = None
        except ProviderError as error:
            outcome = error
            raise
        finally:
            self.keys.report(lent, outcome)
        if models is not None and known is None:
            self._listed.keep(lent, models)
        return models

    def learn(self, provider: str) -> None:
        """Have the plugins loaded when only one of them can know a provider of that name."""
        known = {*self.profiles, *self.config.providers, CUSTOM, "", "auto"}
        if name_of(self.config, provider, self.profiles) not in known:
            self._ask_plugins(provider)

    def _ask_plugins(self, provider: str) -> None:
        if not self._loads_plugins:
            return
        self.profiles.update(profiles_with_plugins(self.home, self.config, provider, self.redactor))
        self.origins = self.origins._replace(profiles=self.profiles)

    def _elsewhere(self, provider: str, model: str) -> Endpoint:
        """A model of a provider that is not in use, so that the ``model`` section says nothing about it."""
        named = self.config.providers.get(provider)
        model = model or (named.model if named else "")
        endpoint = endpoint_for(self.config, self.origins.env, provider, model, ModelConfig(), self.profiles)
        self.redactor.add_secret(endpoint.api_key)
        return endpoint
