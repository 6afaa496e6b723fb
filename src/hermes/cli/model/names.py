"""The names of models: how a person gives one, and which one a server may have meant by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hermes.config import Config
from hermes.errors import ConfigError
from hermes.models.profiles import CUSTOM, Profile
from hermes.models.routing import name_of


def is_among(model: str, models: Sequence[str]) -> bool:
    """Whether a server that has these models has this one: some put a folder in front of the name, or a tag behind."""
    return any(name in (model, f"{model}:latest") or name.endswith(f"/{model}") for name in models)


def nearest_model(model: str, models: Sequence[str]) -> str:
    """The name that is most like the one given; empty when none is."""
    from difflib import get_close_matches

    wanted = model.lower()
    by_lower = {name.lower(): name for name in models}
    close = get_close_matches(wanted, by_lower, n=1, cutoff=0.5)
    if close:
        return by_lower[close[0]]
    return next((name for lower, name in by_lower.items() if wanted in lower), "")


def provider_and_model(
    words: Sequence[str], current: str, config: Config, profiles: Mapping[str, Profile]
) -> tuple[str, str]:
    """Provider and model, from ``MODEL``, ``PROVIDER:MODEL``, ``PROVIDER MODEL`` or a ``PROVIDER`` with a model.

    A model's name may have a colon too, so what stands before one is a provider only if there is such a provider.
    ``current`` is the provider of a name that comes alone; empty when there is none.
    """
    if len(words) == 2:
        return known_provider(words[0], config, profiles), words[1]
    provider, colon, model = words[0].partition(":")
    if _is_known(provider, config, profiles) and (colon or not _is_model_of(words[0], current, config)):
        return name_of(config, provider, profiles), model
    if not current:
        raise ConfigError(
            f"{words[0]!r} names no provider, and none is set up: give both, such as openrouter:{words[0]}"
        )
    return current, words[0]


def known_provider(name: str, config: Config, profiles: Mapping[str, Profile]) -> str:
    """The name a provider goes by. Raises ``ConfigError`` for one that nobody knows."""
    if _is_known(name, config, profiles):
        return name_of(config, name, profiles)
    from difflib import get_close_matches

    known = sorted({*profiles, *config.providers, CUSTOM})
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}."
    raise ConfigError(f"unknown provider {name!r}; {hint} 'providers.{name}' in config.yaml adds one")


def _is_known(name: str, config: Config, profiles: Mapping[str, Profile]) -> bool:
    return name_of(config, name, profiles) in {*profiles, *config.providers, CUSTOM}


def _is_model_of(name: str, current: str, config: Config) -> bool:
    """Whether the configuration says that the provider in use has a model of that very name."""
    named = config.providers.get(current)
    return named is not None and name in (named.model, *named.models)
