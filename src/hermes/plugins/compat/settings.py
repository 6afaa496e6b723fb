"""``hermes_cli.config``: the configuration, read-only and without secrets. ``hermes_constants``: paths of the home."""

from __future__ import annotations

import os
from contextvars import Token
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn, cast

import msgspec

from hermes.base.errors import ConfigError, PluginError
from hermes.base.sanitize import Redactor, is_secret_key
from hermes.models.profiles import PROFILES
from hermes.plugins.compat.names import Names, config_of, home_of, home_override
from hermes.plugins.services import PluginHost

#: Maps whose values may be secrets under any name.
_HEADERS = ("extra_headers", "headers")


def names(host: PluginHost) -> Names:
    """Functions that read; those that write refuse, because a person changes the configuration."""

    def load_config() -> dict[str, Any]:
        return _settings(host)

    def get_config_value(key: str, default: Any = None) -> Any:
        return _lookup(_settings(host), *key.split("."), default=default)

    def get_env_value(key: str) -> str | None:
        return os.environ.get(key) or env_file(host).get(key)

    def get_env_value_prefer_dotenv(key: str) -> str | None:
        return env_file(host).get(key) or os.environ.get(key)

    return {
        "cfg_get": _lookup,
        "get_config_path": lambda: home_of(host) / "config.yaml",
        "get_config_value": get_config_value,
        "get_env_path": lambda: home_of(host) / ".env",
        "get_env_value": get_env_value,
        "get_env_value_prefer_dotenv": get_env_value_prefer_dotenv,
        "get_hermes_home": lambda: home_of(host),
        "load_config": load_config,
        "load_config_readonly": load_config,
        "load_env": lambda: env_file(host),
        "read_raw_config": lambda: _without_secrets(_written(host), _redactor(host)),
        "remove_env_value": _refuse,
        "save_config": _refuse,
        "save_env_value": _refuse,
        "save_env_value_secure": _refuse,
        "set_config_value": _refuse,
        "write_platform_config_field": _refuse,
    }


def setup(host: PluginHost) -> Names:
    """``hermes_cli.setup``: what of the configuration it passes on."""
    passed_on = ("get_env_path", "get_env_value", "load_config", "save_config", "save_env_value")
    return {name: value for name, value in names(host).items() if name in passed_on}


def constants(host: PluginHost) -> Names:
    """``hermes_constants``: the home and the paths in it."""

    def get_hermes_home() -> Path:
        return home_of(host)

    def hermes_home_key(home: str | Path | None = None) -> str:
        """A short name for a home that stays the same."""
        return sha256(str(Path(home or home_of(host)).expanduser().resolve()).encode()).hexdigest()[:16]

    def set_hermes_home_override(path: str | Path | None) -> Token[Path | None]:
        """Work for another home in this context: what these names say, no more."""
        return home_override.set(None if path is None else Path(path))

    def get_hermes_home_override() -> str | None:
        override = home_override.get()
        return None if override is None else str(override)

    def display_hermes_home() -> str:
        home = home_of(host)
        try:
            return f"~/{home.relative_to(Path.home())}"
        except (ValueError, RuntimeError):
            return str(home)

    def get_hermes_dir(new_subpath: str, old_name: str) -> Path:
        old = home_of(host) / old_name
        return old if old.is_dir() and any(old.iterdir()) else home_of(host) / new_subpath

    return {
        "OPENROUTER_BASE_URL": PROFILES["openrouter"].base_url,
        "display_hermes_home": display_hermes_home,
        "get_config_path": lambda: home_of(host) / "config.yaml",
        "get_default_hermes_root": get_hermes_home,
        "get_env_path": lambda: home_of(host) / ".env",
        "get_hermes_dir": get_hermes_dir,
        "get_hermes_home": get_hermes_home,
        "get_hermes_home_override": get_hermes_home_override,
        "get_skills_dir": lambda: home_of(host) / "skills",
        "hermes_home_key": hermes_home_key,
        "reset_hermes_home_override": home_override.reset,
        "set_hermes_home_override": set_hermes_home_override,
    }


def _settings(host: PluginHost) -> dict[str, Any]:
    """Every setting in effect, and what the file has beyond those; a new dict each time, so changes go nowhere."""
    written = _written(host)
    config = config_of(host)
    if config is None:
        from hermes.base.config import load_config

        config = load_config(home_of(host)).config
    known: dict[str, Any] = msgspec.to_builtins(config)
    return _without_secrets(_merged(written, known), _redactor(host))


def _merged(written: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """The known settings, and what the file has beside them, in sections too: plugins keep their own there."""
    merged = {**written, **known}
    for key, value in known.items():
        beside = written.get(key)
        if isinstance(value, dict) and isinstance(beside, dict):
            merged[key] = _merged(cast("dict[str, Any]", beside), cast("dict[str, Any]", value))
    return merged


def _written(host: PluginHost) -> dict[str, Any]:
    """The file as it is written: ``${NAME}`` stays a reference. Nothing when it cannot be read."""
    from hermes.base.config import load_config

    try:
        return load_config(home_of(host)).raw
    except ConfigError:
        return {}


def env_file(host: PluginHost) -> dict[str, str]:
    """The variables of the home's ``.env``."""
    from hermes.base.config import load_env_file

    try:
        return load_env_file(home_of(host))
    except ConfigError:
        return {}


def _redactor(host: PluginHost) -> Redactor:
    known: object = getattr(host.services, "redactor", None)
    return known if isinstance(known, Redactor) else Redactor()


def _without_secrets(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, dict):
        kept: dict[str, Any] = {}
        for key, item in cast("dict[Any, Any]", value).items():
            name = str(key)
            if not is_secret_key(name) and name not in _HEADERS:
                kept[name] = _without_secrets(item, redactor)
        return kept
    if isinstance(value, list):
        return [_without_secrets(item, redactor) for item in cast("list[Any]", value)]
    return redactor.redact(value) if isinstance(value, str) else value


def _lookup(config: Any, *keys: str, default: Any = None) -> Any:
    for key in keys:
        if not isinstance(config, dict) or key not in config:
            return default
        config = cast("dict[str, Any]", config)[key]
    return config


def _refuse(*_args: Any, **_kwargs: Any) -> NoReturn:
    raise PluginError("plugins cannot change the configuration; ask the person to use 'hermes config set KEY VALUE'")
