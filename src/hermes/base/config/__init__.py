"""Configuration of a home: its settings, reading them, and editing the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.base.config.environment import apply_env, env_path, load_env_file
from hermes.base.config.files import config_path, hermes_home
from hermes.base.config.load import LoadedConfig, load_config
from hermes.base.config.schema.sections import (
    A2AAgentConfig,
    A2AConfig,
    A2APushConfig,
    Config,
    ContextConfig,
    ModelConfig,
    PluginsConfig,
    PrincipalConfig,
)

if TYPE_CHECKING:
    from hermes.base.config.edit import edit_config, edit_list, unset_config

__all__ = [
    "A2AAgentConfig",
    "A2AConfig",
    "A2APushConfig",
    "Config",
    "ContextConfig",
    "LoadedConfig",
    "ModelConfig",
    "PluginsConfig",
    "PrincipalConfig",
    "apply_env",
    "config_path",
    "edit_config",
    "edit_list",
    "env_path",
    "hermes_home",
    "load_config",
    "load_env_file",
    "unset_config",
]

_EDITING = ("edit_config", "edit_list", "unset_config")


def __getattr__(name: str) -> object:
    # Editing needs a YAML library that keeps comments; only the commands that edit pay for it.
    if name in _EDITING:
        from hermes.base.config import edit

        return getattr(edit, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
