"""Routing: turns the configuration into the endpoint of the selected model and its fallbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from hermes.base.config.schema.sections import (
    Config,
    FallbackConfig,
    ModelConfig,
    ModelProviderConfig,
    PhaseTimeoutsConfig,
)
from hermes.base.errors import ConfigError, NotConfigured, did_you_mean
from hermes.models.endpoint import ApiMode, Endpoint, Quirks, Timeouts, split_url
from hermes.models.profiles import CUSTOM, PROFILES, UNKNOWN_SERVER, Profile, canonical

NOT_CONFIGURED = (
    "no model is set up: run 'hermes model' to choose one, or 'hermes local install' to get a small one that needs "
    "no key; --provider and --model name one for a single run, hermes.Agent(provider=..., model=...) one for a program "
    "(providers: {providers})"
)

Profiles = Mapping[str, Profile]
#: Whether a key is stored for a provider.
HasKey = Callable[[str], bool]


def endpoints_for(
    config: Config,
    env: Mapping[str, str],
    *,
    provider: str = "",
    model: str = "",
    profiles: Profiles = PROFILES,
    has_key: HasKey | None = None,
) -> list[Endpoint]:
    """The endpoint to ask first, then the fallbacks in their order. ``provider`` and ``model`` override the config."""
    first = _primary(config, env, provider, model, profiles, has_key)
    return [first, *(fallback_for(config, env, entry, first, profiles) for entry in config.fallback_providers)]


def _primary(
    config: Config, env: Mapping[str, str], provider: str, model: str, profiles: Profiles, has_key: HasKey | None
) -> Endpoint:
    own = config.model
    configured, wanted = (name_of(config, name, profiles) for name in (own.provider, provider))
    if configured in ("", "auto"):
        has_address = own.base_url or env.get("CUSTOM_BASE_URL")
        configured = CUSTOM if has_address or wanted == CUSTOM else ""
    chosen = wanted or configured or _provider_with_key(env, profiles, has_key)
    if chosen != configured:
        # The address, key and headers of the configured provider are for that provider alone.
        named = config.providers.get(chosen) or ModelProviderConfig()
        model = model or named.model_map.get(own.default, "") or _default_model(named, profiles.get(chosen), "")
        return endpoint_for(config, env, chosen, model or own.default, ModelConfig(timeout=own.timeout), profiles)
    if model and model != own.default:
        own = msgspec.structs.replace(own, supports_vision=None, context_length=None)
    return endpoint_for(config, env, chosen, model or own.default, own, profiles)


def fallback_for(
    config: Config, env: Mapping[str, str], entry: FallbackConfig, first: Endpoint | None, profiles: Profiles = PROFILES
) -> Endpoint:
    """The endpoint of one entry of ``fallback_providers``, a fallback for ``first``."""
    provider = name_of(config, entry.provider, profiles)
    named = config.providers.get(provider) or ModelProviderConfig()
    # Another provider has other names; only where they are written down does a name mean the same model.
    model = entry.model
    if not model and first is not None:
        model = named.model_map.get(first.model, first.model if provider == first.provider else "")
    own = ModelConfig(base_url=entry.base_url, api_key=entry.api_key, key_env=entry.key_env, api_mode=entry.api_mode)
    return endpoint_for(config, env, provider, model, own, profiles)


def name_of(config: Config, name: str, profiles: Profiles = PROFILES) -> str:
    """The name a provider goes by. A name that the configuration defines is never an alias."""
    return name if not name or name in config.providers else canonical(name, profiles)


def _provider_with_key(env: Mapping[str, str], profiles: Profiles, has_key: HasKey | None) -> str:
    for name, profile in profiles.items():
        if any(env.get(variable) for variable in profile.key_env):
            return name
    for name in profiles if has_key is not None else ():
        if has_key is not None and has_key(name):
            return name
    raise NotConfigured(NOT_CONFIGURED.format(providers=", ".join([*profiles, CUSTOM])))


def _named(config: Config, provider: str, profiles: Profiles) -> ModelProviderConfig:
    """The settings under ``providers``. Raises ConfigError for a provider that is unknown or disabled."""
    if provider not in config.providers and provider not in profiles and provider != CUSTOM:
        raise ConfigError(unknown_provider(provider, config, profiles))
    named = config.providers.get(provider) or ModelProviderConfig()
    if not named.enabled:
        raise ConfigError(f"provider {provider!r} is disabled (providers.{provider}.enabled in config.yaml)")
    return named


def endpoint_for(
    config: Config, env: Mapping[str, str], provider: str, model: str, own: ModelConfig, profiles: Profiles = PROFILES
) -> Endpoint:
    """The endpoint of one provider. ``own`` are settings for it that win over those under ``providers``."""
    provider = name_of(config, provider, profiles)
    named, profile = _named(config, provider, profiles), profiles.get(provider)
    usual = profile or Profile("")
    by_variable = env.get("CUSTOM_BASE_URL", "") if provider == CUSTOM else ""
    url, spoken = _without_operation(own.base_url or named.base_url or by_variable or usual.base_url)
    if not url:
        raise ConfigError(
            f"provider {provider!r} has no address: run 'hermes config set model.base_url URL', "
            f"for example http://127.0.0.1:11434/v1"
        )
    model = named.model_map.get(model, model) or _default_model(named, profile, own.base_url)
    if not model:
        raise ConfigError(
            f"no model is chosen for provider {provider!r}: pass --model or run 'hermes config set model.default MODEL'"
        )
    names = (own.key_env, named.key_env, *usual.key_env)
    # A client may find its key elsewhere, as a server at another address or on this machine may want none.
    wants_key = url == usual.base_url and url.startswith("https://") and usual.make_client is None
    return Endpoint(
        base_url=url,
        model=model,
        provider=provider,
        api_key=own.api_key or named.api_key or _key_from(env, names),
        api_mode=_api_mode(own, named, profile, url, spoken),
        extra_headers={**usual.extra_headers, **named.extra_headers, **own.extra_headers},
        extra_body={**usual.extra_body_of(model), **named.extra_body, **own.extra_body},
        timeouts=_timeouts(own, named),
        ca_bundle=own.ca_bundle or named.ca_bundle,
        quirks=_quirks(named, profile, model),
        sees_images=_first(own.supports_vision, _sees_images(named, profile, model)),
        context_length=own.context_length or _context_length(named, profile, model),
        max_tokens=named.max_tokens,
        key_variables=tuple(filter(None, names)) if wants_key else (),
        max_response_bytes=own.max_response_bytes,
        make_client=usual.make_client,
    )


#: The end of the address of one operation, which people paste, and the format it belongs to.
_OPERATIONS: dict[str, ApiMode] = {
    "/chat/completions": "chat_completions",
    "/responses": "codex_responses",
    "/messages": "anthropic_messages",
}


def _without_operation(url: str) -> tuple[str, ApiMode | None]:
    """An address without the operation at its end, and the format that the operation belongs to."""
    for operation, mode in _OPERATIONS.items():
        if url.rstrip("/").endswith(operation):
            return url.rstrip("/").removesuffix(operation), mode
    return url, None


def another_model(config: Config, endpoint: Endpoint, model: str, profiles: Profiles = PROFILES) -> Endpoint:
    """The same place with another model, about which other things are known."""
    named, profile = config.providers.get(endpoint.provider) or ModelProviderConfig(), profiles.get(endpoint.provider)
    model = named.model_map.get(model, model)
    if model == endpoint.model:
        return endpoint
    body = dict(endpoint.extra_body)
    if profile is not None:
        before = profile.extra_body_of(endpoint.model)
        body = {name: value for name, value in body.items() if before.get(name) != value}
        body = {**profile.extra_body_of(model), **body}
    return replace(
        endpoint,
        model=model,
        extra_body=body,
        quirks=_quirks(named, profile, model),
        sees_images=_sees_images(named, profile, model),
        context_length=_context_length(named, profile, model),
    )


def guess_api_mode(base_url: str) -> ApiMode:
    """The request format of a server, guessed from its address."""
    parts = split_url(base_url)
    host, path = (parts.hostname or "").lower(), parts.path.rstrip("/").lower()
    if host == "api.anthropic.com" or path.removesuffix("/v1").endswith("/anthropic"):
        return "anthropic_messages"
    return "codex_responses" if host == "api.openai.com" else "chat_completions"


def _api_mode(
    own: ModelConfig, named: ModelProviderConfig, profile: Profile | None, url: str, spoken: ApiMode | None
) -> ApiMode:
    set_ = own.api_mode or named.api_mode or spoken
    if set_:
        return set_
    # A provider behind another address is most often a server that imitates the common format; only the one
    # format that is never imitated stays.
    if profile is not None and (url == profile.base_url or profile.api_mode == "anthropic_messages"):
        return profile.api_mode
    return guess_api_mode(url)


def _default_model(named: ModelProviderConfig, profile: Profile | None, own_url: str) -> str:
    """The model when none is named. At another address than the known one there may be any model."""
    if named.model or profile is None or named.base_url or own_url:
        return named.model
    return profile.default_model


def _quirks(named: ModelProviderConfig, profile: Profile | None, model: str) -> Quirks:
    quirks = (profile or UNKNOWN_SERVER).quirks_of(model)
    if named.quirks is None:
        return quirks
    settings = msgspec.structs.asdict(named.quirks)
    return msgspec.structs.replace(quirks, **{name: value for name, value in settings.items() if value is not None})


def _sees_images(named: ModelProviderConfig, profile: Profile | None, model: str) -> bool | None:
    configured = _model_setting(named, model, "supports_vision")
    known = configured if isinstance(configured, bool) else named.supports_vision
    return _first(known, profile.sees_images(model) if profile is not None else None)


def _context_length(named: ModelProviderConfig, profile: Profile | None, model: str) -> int | None:
    length = _model_setting(named, model, "context_length")
    if isinstance(length, int) and length > 0:
        return length
    return named.context_length or (profile.context_length if profile is not None else None)


def _model_setting(named: ModelProviderConfig, model: str, name: str) -> object:
    """What ``providers.<name>.models.<model>`` says, where models are written with settings."""
    settings: Any = named.models.get(model) if isinstance(named.models, dict) else None
    return cast("dict[str, Any]", settings).get(name) if isinstance(settings, dict) else None


def _first(one: bool | None, other: bool | None) -> bool | None:
    return other if one is None else one


def _key_from(env: Mapping[str, str], names: Iterable[str]) -> str:
    return next((env[name] for name in names if name and env.get(name)), "")


def _timeouts(own: ModelConfig, named: ModelProviderConfig) -> Timeouts:
    silence = named.timeout or own.timeout
    limits: dict[str, float] = {} if silence is None else {"first_byte": silence, "between_chunks": silence}
    for phases in (named.timeouts, own.timeouts):
        settings: dict[str, float | None] = msgspec.structs.asdict(phases or PhaseTimeoutsConfig())
        limits.update((name, seconds) for name, seconds in settings.items() if seconds is not None)
    return Timeouts(**limits)


def unknown_provider(provider: str, config: Config, profiles: Iterable[str]) -> str:
    """What to say about a provider that neither the program nor the configuration knows."""
    known = sorted({*profiles, *config.providers, CUSTOM})
    hint = did_you_mean(provider, known, then=f"'providers.{provider}' in config.yaml adds one")
    return f"unknown provider {provider!r}{hint}"
