"""From configuration to endpoints: which model answers, and which ones stand in for it."""

from __future__ import annotations

from collections.abc import Mapping

from hermes.config.sections import Config, Model, Provider
from hermes.errors import ConfigError
from hermes.providers.endpoint import Endpoint, Timeouts
from hermes.providers.profiles import PROFILES

NOT_CONFIGURED = (
    "no model is set up: run 'hermes config set model.base_url URL' and 'hermes config set model.default MODEL' for "
    "any OpenAI-compatible server, or pass --provider and --model (providers: {providers})"
)


def endpoints_for(config: Config, env: Mapping[str, str], *, provider: str = "", model: str = "") -> list[Endpoint]:
    """The endpoint to ask first, then the fallbacks in their order. ``provider`` and ``model`` override the config."""
    first = _primary(config, env, provider, model)
    rest = [
        _endpoint(config, env, entry.provider, entry.model, entry.base_url, entry.api_key or env.get(entry.key_env, ""))
        for entry in config.fallback_providers
    ]
    return [first, *rest]


def _primary(config: Config, env: Mapping[str, str], provider: str, model: str) -> Endpoint:
    section = config.model
    chosen = provider or section.provider
    name = model or section.default
    if chosen in ("", "auto"):
        chosen = "custom" if section.base_url or env.get("CUSTOM_BASE_URL") else _provider_with_key(env)
    same_provider = not provider or provider == section.provider or provider == "custom"
    base_url = section.base_url if same_provider else ""
    api_key = (section.api_key or env.get(section.key_env, "")) if same_provider else ""
    return _endpoint(config, env, chosen, name, base_url, api_key)


def _provider_with_key(env: Mapping[str, str]) -> str:
    for name, profile in PROFILES.items():
        if any(env.get(variable) for variable in profile.key_env):
            return name
    raise ConfigError(NOT_CONFIGURED.format(providers=", ".join([*PROFILES, "custom"])))


def _endpoint(
    config: Config, env: Mapping[str, str], provider: str, model: str, base_url: str, api_key: str
) -> Endpoint:
    named = config.providers.get(provider) or Provider()
    profile = PROFILES.get(provider)
    if profile is None and provider not in config.providers and provider != "custom":
        raise ConfigError(_unknown(provider, config))
    if not named.enabled:
        raise ConfigError(f"provider {provider!r} is disabled (providers.{provider}.enabled in config.yaml)")
    url = base_url or named.base_url or (env.get("CUSTOM_BASE_URL", "") if provider == "custom" else "")
    url = url or (profile.base_url if profile else "")
    if not url:
        raise ConfigError(
            f"provider {provider!r} has no address: run 'hermes config set model.base_url URL', "
            f"for example http://127.0.0.1:11434/v1"
        )
    model = model or named.model
    if not model:
        raise ConfigError(
            f"no model is chosen for provider {provider!r}: pass --model or run 'hermes config set model.default MODEL'"
        )
    return Endpoint(
        base_url=url,
        model=model,
        provider=provider,
        api_key=api_key or named.api_key or _key_from(env, named.key_env, profile.key_env if profile else ()),
        extra_headers={**named.extra_headers, **config.model.extra_headers},
        extra_body={**named.extra_body, **config.model.extra_body},
        timeouts=_timeouts(named, config.model),
    )


def _key_from(env: Mapping[str, str], own: str, known: tuple[str, ...]) -> str:
    return next((env[name] for name in (own, *known) if name and env.get(name)), "")


def _timeouts(named: Provider, model: Model) -> Timeouts:
    seconds = named.timeout or model.timeout
    return Timeouts() if seconds is None else Timeouts(first_byte=seconds, between_chunks=seconds)


def _unknown(provider: str, config: Config) -> str:
    import difflib

    known = sorted({*PROFILES, *config.providers, "custom"})
    near = difflib.get_close_matches(provider, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return (
        f"unknown provider {provider!r}{hint} Known: {', '.join(known)}. 'providers.{provider}' in config.yaml adds one"
    )
