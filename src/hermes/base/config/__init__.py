"""Configuration of a home: its settings and reading them. Editing, which needs another YAML library, is in ``edit``."""

from __future__ import annotations

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
    "env_path",
    "hermes_home",
    "load_config",
    "load_env_file",
]
