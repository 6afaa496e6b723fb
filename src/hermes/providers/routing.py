"""From configuration to endpoints: which model answers, and which ones stand in for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
        endpoint_for(
            config,
            env,
            entry.provider,
            entry.model,
            Model(base_url=entry.base_url, api_key=entry.api_key, key_env=entry.key_env, api_mode=entry.api_mode),
        )
        for entry in config.fallback_providers
    ]
    return [first, *rest]


def _primary(config: Config, env: Mapping[str, str], provider: str, model: str) -> Endpoint:
    own = config.model
    configured = own.provider
    if configured in ("", "auto"):
        has_address = own.base_url or env.get("CUSTOM_BASE_URL")
        configured = "custom" if has_address or provider == "custom" else ""
    chosen = provider or configured or _provider_with_key(env)
    # The address, key and headers of the configured provider are for that provider alone.
    settings = own if chosen == configured else Model(timeout=own.timeout)
    return endpoint_for(config, env, chosen, model or own.default, settings)


def _provider_with_key(env: Mapping[str, str]) -> str:
    for name, profile in PROFILES.items():
        if any(env.get(variable) for variable in profile.key_env):
            return name
    raise ConfigError(NOT_CONFIGURED.format(providers=", ".join([*PROFILES, "custom"])))


def endpoint_for(config: Config, env: Mapping[str, str], provider: str, model: str, own: Model) -> Endpoint:
    """The endpoint of one provider. ``own`` are settings for it that win over those under ``providers``."""
    named = config.providers.get(provider) or Provider()
    profile = PROFILES.get(provider)
    if profile is None and provider not in config.providers and provider != "custom":
        raise ConfigError(_unknown(provider, config))
    if not named.enabled:
        raise ConfigError(f"provider {provider!r} is disabled (providers.{provider}.enabled in config.yaml)")
    api_mode = own.api_mode or named.api_mode or "chat_completions"
    if api_mode != "chat_completions":
        raise ConfigError(
            f"provider {provider!r} is set to api_mode {api_mode!r}; this version speaks 'chat_completions' only"
        )
    url = own.base_url or named.base_url or (env.get("CUSTOM_BASE_URL", "") if provider == "custom" else "")
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
    names = (own.key_env, named.key_env, *(profile.key_env if profile else ()))
    return Endpoint(
        base_url=url,
        model=model,
        provider=provider,
        api_key=own.api_key or named.api_key or _key_from(env, names),
        extra_headers={**named.extra_headers, **own.extra_headers},
        extra_body={**named.extra_body, **own.extra_body},
        timeouts=_timeouts(named.timeout or own.timeout),
    )


def _key_from(env: Mapping[str, str], names: Iterable[str]) -> str:
    return next((env[name] for name in names if name and env.get(name)), "")


def _timeouts(seconds: float | None) -> Timeouts:
    return Timeouts() if seconds is None else Timeouts(first_byte=seconds, between_chunks=seconds)


def _unknown(provider: str, config: Config) -> str:
    import difflib

    known = sorted({*PROFILES, *config.providers, "custom"})
    near = difflib.get_close_matches(provider, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return (
        f"unknown provider {provider!r}{hint} Known: {', '.join(known)}. 'providers.{provider}' in config.yaml adds one"
    )
