"""Model providers of plugins: the profile a plugin registers, converted for routing."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from hermes.base.errors import PluginError, did_you_mean
from hermes.models.endpoint import Endpoint, Quirks
from hermes.models.profiles import Profile

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
#: The ``fixed_temperature`` of a profile whose server takes none.
OMIT_TEMPERATURE = object()
_MODES = {"": "", "responses": "codex_responses"}


class ProviderProfile:
    """A model provider as a plugin describes it, with keywords or with attributes of a subclass.

    Only the name and the address are needed. Fields that are not listed here are kept and not used.
    """

    name: str = ""
    base_url: str = ""
    #: ``chat_completions``, ``anthropic_messages`` or ``codex_responses``; empty goes by the address.
    api_mode: str = ""
    #: Environment variables that may hold the key, in order.
    env_vars: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    default_model: str = ""
    #: The first of them is the default model where none is given.
    fallback_models: tuple[str, ...] = ()
    #: How the names of models that take images begin.
    vision_models: tuple[str, ...] = ()
    default_headers: Mapping[str, str] = {}
    extra_body: Mapping[str, Any] = {}
    #: Fields of ``providers.<name>.quirks`` with their values.
    quirks: Mapping[str, Any] = {}
    context_length: int | None = None
    #: ``OMIT_TEMPERATURE`` where the server takes none.
    fixed_temperature: Any = None
    #: The program that the provider's own client runs, its arguments, and the variables that name another one.
    process_command: str = ""
    process_args: tuple[str, ...] = ()
    process_command_env_vars: tuple[str, ...] = ()

    def __init__(self, name: str = "", **fields: Any) -> None:
        for field, value in {"name": name or type(self).name, **fields}.items():
            setattr(self, field, value)

    def create_client(self, **options: Any) -> Any:
        """The provider's own client, with ``chat.completions.create``; ``None`` has the host send the requests.

        Called for each request with ``api_key``, ``base_url``, ``default_headers`` and ``timeout``, and with
        ``command`` and ``args`` where ``process_command`` is given. ``close()`` is called afterwards.
        """
        return None


def read_profile(value: object) -> tuple[str, Profile]:
    """The name and the profile of what a plugin registered: a ``ProviderProfile`` or a mapping of its fields."""
    if isinstance(value, Mapping):
        value = ProviderProfile(**{str(name): field for name, field in cast("Mapping[Any, Any]", value).items()})
    if not isinstance(value, ProviderProfile):
        found = type(value).__name__
        raise PluginError(f"register_model_provider needs a ProviderProfile or a mapping of its fields, got {found}")
    name = value.name.strip().lower() if isinstance(value.name, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]
    if not _NAME.fullmatch(name):
        raise PluginError(f"model provider {value.name!r}: a name has letters, digits, '.', '_' and '-'")
    try:
        profile = _profile(value)
        # Says what is wrong with the address.
        Endpoint(profile.base_url, "any", name, make_client=profile.make_client)
    except Exception as error:
        raise PluginError(f"model provider {name!r} cannot be used: {error}") from error
    return name, profile


def _profile(given: ProviderProfile) -> Profile:
    from hermes.models.routing import guess_api_mode

    make_client = _client_maker(given)
    mode = _MODES.get(given.api_mode, given.api_mode) or guess_api_mode(given.base_url)
    if make_client is not None:
        mode = "chat_completions"  # the format that clients take
    fields: dict[str, Any] = {
        "base_url": given.base_url,
        "key_env": tuple(given.env_vars),
        "api_mode": mode,
        "aliases": tuple(alias.lower() for alias in given.aliases),
        "default_model": given.default_model or next(iter(given.fallback_models), ""),
        "vision_models": tuple(begin.lower() for begin in given.vision_models),
        "extra_headers": dict(given.default_headers),
        "extra_body": dict(given.extra_body),
        "context_length": given.context_length,
        "quirks": {**({"temperature": False} if given.fixed_temperature is OMIT_TEMPERATURE else {}), **given.quirks},
    }
    unknown = sorted(given.quirks.keys() - set(Quirks.__struct_fields__))
    if unknown:
        raise ValueError(f"there is no quirk {unknown[0]!r}{did_you_mean(unknown[0], Quirks.__struct_fields__)}")
    return replace(msgspec.convert(fields, Profile), make_client=make_client)


def _client_maker(given: ProviderProfile) -> Callable[..., Any] | None:
    own: Any = given.create_client
    if not callable(own) or getattr(own, "__func__", None) is ProviderProfile.create_client:
        return None

    def make(**options: Any) -> Any:
        command = next(filter(None, map(os.environ.get, given.process_command_env_vars)), given.process_command)
        if command:
            options |= {"command": command, "args": list(given.process_args)}
        return own(**options)

    return make
