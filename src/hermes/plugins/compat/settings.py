"""``hermes_cli.config``: the configuration to read, without its secrets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NoReturn, cast

import msgspec

from hermes.errors import ConfigError, PluginError
from hermes.plugins.compat.host import Names, config_of, home_of
from hermes.sanitize import Redactor, is_secret_key

if TYPE_CHECKING:
    from hermes.plugins.context import Parts

#: Maps whose values may be secrets under any name.
_HEADERS = ("extra_headers", "headers")


def names(parts: Parts) -> Names:
    """Functions that read; those that write refuse, because a person changes the configuration."""

    def load_config() -> dict[str, Any]:
        return _settings(parts)

    def get_config_value(key: str, default: Any = None) -> Any:
        return _lookup(_settings(parts), *key.split("."), default=default)

    def get_env_value(key: str) -> str | None:
        return os.environ.get(key) or _env_file(parts).get(key)

    return {
        "cfg_get": _lookup,
        "get_config_path": lambda: home_of(parts) / "config.yaml",
        "get_config_value": get_config_value,
        "get_env_path": lambda: home_of(parts) / ".env",
        "get_env_value": get_env_value,
        "get_hermes_home": lambda: home_of(parts),
        "load_config": load_config,
        "load_config_readonly": load_config,
        "read_raw_config": lambda: _without_secrets(_written(parts), _redactor(parts)),
        "save_config": _refuse,
        "save_env_value": _refuse,
        "set_config_value": _refuse,
    }


def _settings(parts: Parts) -> dict[str, Any]:
    """Every setting in effect, and what the file has beyond those; a new dict each time, so changes go nowhere."""
    written = _written(parts)
    config = config_of(parts)
    if config is None:
        from hermes.config import load_config

        config = load_config(home_of(parts)).config
    known: dict[str, Any] = msgspec.to_builtins(config)
    return _without_secrets({**written, **known}, _redactor(parts))


def _written(parts: Parts) -> dict[str, Any]:
    """The file as it is written: ``${NAME}`` stays a reference. Nothing when it cannot be read."""
    from hermes.config import load_config

    try:
        return load_config(home_of(parts)).raw
    except ConfigError:
        return {}


def _env_file(parts: Parts) -> dict[str, str]:
    from hermes.config import load_env_file

    try:
        return load_env_file(home_of(parts))
    except ConfigError:
        return {}


def _redactor(parts: Parts) -> Redactor:
    known: object = getattr(parts.services, "redactor", None)
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
