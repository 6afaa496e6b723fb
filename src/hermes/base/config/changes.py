"""A configuration as it is recorded: its digest, and the settings that differ from the defaults, without secrets."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from hermes.base.config.schema.sections import Config
from hermes.base.sanitize import is_secret_key


def changed_settings(config: Config) -> dict[str, Any]:
    """The settings that are not at their default, nested as in ``config.yaml``; keys and tokens are left out."""
    return _changed(msgspec.to_builtins(config), msgspec.to_builtins(Config()))


def config_digest(config: Config) -> str:
    """The SHA-256 of all settings in hex."""
    from hashlib import sha256  # loads OpenSSL, which only a turn needs

    return sha256(msgspec.json.encode(config, order="deterministic")).hexdigest()


def _changed(value: dict[str, Any], default: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, item in value.items():
        if isinstance(item, str) and (is_secret_key(name) or _has_login(item)):
            continue
        usual: Any = default.get(name)
        if isinstance(item, dict):
            fields = cast("dict[str, Any]", item)
            inner = _changed(fields, cast("dict[str, Any]", usual) if isinstance(usual, dict) else {})
            if inner or (fields and usual is None):
                found[name] = inner
        elif item != usual:
            found[name] = [_without_secrets(one) for one in cast("list[Any]", item)] if isinstance(item, list) else item
    return found


def _without_secrets(value: Any) -> Any:
    return _changed(cast("dict[str, Any]", value), {}) if isinstance(value, dict) else value


def _has_login(value: str) -> bool:
    """Whether a value is an address with a name or password in it."""
    return "@" in value.partition("://")[2].partition("/")[0]
