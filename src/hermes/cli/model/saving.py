"""Writes the choice of a model to a home: the key to ``.env``, the rest to ``config.yaml``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from hermes.cli.model.desk import Desk
from hermes.config import config_path, env_path
from hermes.models.profiles import CUSTOM
from hermes.models.routing import name_of

#: Settings of the ``model`` section that are about the provider, and would be wrong for another one.
_OF_PROVIDER = ("base_url", "api_key", "key_env", "api_mode", "extra_headers", "extra_body", "ca_bundle")
#: Settings that are about the model itself.
_OF_MODEL = ("context_length", "supports_vision")
#: Other spellings, outside the section.
_ELSEWHERE = {"base_url": ("base_url", "api_base"), "provider": ("provider",)}


@dataclass(slots=True)
class Selection:
    """What was chosen."""

    provider: str
    model: str
    #: A new key; empty keeps the one there is.
    key: str = field(default="", repr=False)
    #: A new address; empty keeps the one there is.
    base_url: str = ""


def save(desk: Desk, chosen: Selection) -> list[str]:
    """Write a choice; what was done, one line each. The key goes first: a model without its key is of no use."""
    from hermes.config.edit import edit_together
    from hermes.config.env_edit import save_env

    raw = desk.origins.raw
    put: dict[str, Any] = {}
    remove = list(_ELSEWHERE["provider"])
    said: list[str] = []
    if chosen.provider != _owner(desk):
        _put_aside(_owner(desk), raw, put, remove, said)
    if (chosen.provider, chosen.model) != (desk.current_provider(), desk.config.model.default):
        for name in _OF_MODEL:
            if _written(raw, name) is not None:
                remove.append(f"model.{name}")
                said.append(f"model.{name} was for another model and is removed")
    put |= {"model.provider": chosen.provider, "model.default": chosen.model}
    if chosen.base_url:
        remove += _ELSEWHERE["base_url"]
        put["model.base_url"] = chosen.base_url
    if chosen.key:
        name = _name_for_key(desk, chosen.provider, put, remove)
        save_env(desk.home, {name: chosen.key})
        said.append(f"the key is kept as {name} in {env_path(desk.home)}")
    edit_together(desk.home, put, remove=remove)
    return [f"{chosen.model} at {chosen.provider} is the model from now on ({config_path(desk.home)})", *said]


def _owner(desk: Desk) -> str:
    """Whom the address and the key of the ``model`` section belong to."""
    own = name_of(desk.config, desk.config.model.provider, desk.profiles)
    return CUSTOM if own in ("", "auto") else own


def _put_aside(owner: str, raw: Mapping[str, Any], put: dict[str, Any], remove: list[str], said: list[str]) -> None:
    """Move what is about one provider to where it keeps until that one is chosen again."""
    moved = {name: value for name in _OF_PROVIDER if (value := _written(raw, name)) is not None}
    if not moved:
        return
    for name, value in moved.items():
        put[_key_of(owner, name)] = value
        remove.append(f"model.{name}")
    remove += _ELSEWHERE["base_url"]
    said.append(f"{', '.join(moved)} of the model section moved to providers.{owner}")


def _name_for_key(desk: Desk, provider: str, put: dict[str, Any], remove: list[str]) -> str:
    """The variable for a new key. What the file says about another key would win, so it goes."""
    aside = _key_of(provider, "api_key")
    put.pop(aside, None)
    remove.append(aside)
    if provider == _owner(desk):
        remove.append("model.api_key")
    name = desk.key_name(provider)
    if not name:
        name = f"{re.sub(r'[^A-Z0-9]+', '_', provider.upper()).strip('_') or 'MODEL'}_API_KEY"
        put["model.key_env"] = name
    return name


def _key_of(provider: str, name: str) -> str:
    """A setting of a named provider; the name may have dots."""
    return f'providers."{provider}".{name}'


def _written(raw: Mapping[str, Any], name: str) -> Any:
    """A setting of the ``model`` section as the file has it, under any of its spellings."""
    section: Any = raw.get("model")
    fields = cast("dict[str, Any]", section) if isinstance(section, dict) else {}
    for spelling in (name, "api_base") if name == "base_url" else (name,):
        if fields.get(spelling) is not None:
            return fields[spelling]
    return next((raw[other] for other in _ELSEWHERE.get(name, ()) if raw.get(other)), None)
