"""Where the choice of a model and its key come from, in words. A key itself is never shown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from hermes.config import Config, env_path
from hermes.config.sections import ModelConfig, ProviderConfig
from hermes.local.endpoint import LOCAL
from hermes.models.endpoint import Endpoint
from hermes.models.profiles import PROFILES, Profile


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
        named = self.config.providers.get(provider) or ProviderConfig()
        return [name for name in (own.key_env, named.key_env, *(profile.key_env if profile else ())) if name]

    def of_key(self, endpoint: Endpoint, own: ModelConfig) -> str:
        """The setting or variable whose value the key is; empty when there is none."""
        if not endpoint.api_key:
            return ""
        named = self.config.providers.get(endpoint.provider) or ProviderConfig()
        if endpoint.api_key == own.api_key:
            return _written_as("api_key", self.raw.get("model"), "config.yaml")
        if endpoint.api_key == named.api_key:
            return f"providers.{endpoint.provider}.api_key in config.yaml"
        names = self.key_names(endpoint.provider, own)
        return next((self.variable(name) for name in names if self.env.get(name) == endpoint.api_key), "config.yaml")

    def variable(self, name: str) -> str:
        """A variable and who set it."""
        return f"{name} in {env_path(self.home)}" if name in self.env_file else f"{name} in the environment"


def _written_as(setting: str, section: object, file: str) -> str:
    """A setting of the file, with the variable it refers to when it does."""
    value: Any = cast("dict[str, Any]", section).get(setting) if isinstance(section, dict) else None
    if isinstance(value, str) and value.startswith("${"):
        return f"{value[2:].partition('}')[0]}, which {setting} in {file} names"
    return f"{setting} in {file}"
