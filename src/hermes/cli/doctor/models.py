"""Checks of the models in use: which one is chosen and why, where its key comes from, and whether it answers."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from hermes.cli.doctor.finding import Finding, broken, ok, skipped, told, warning
from hermes.cli.doctor.patient import Patient
from hermes.cli.doctor.reach import probe
from hermes.config import Config, env_path
from hermes.config.sections import Fallback, Model, Provider
from hermes.errors import ConfigError
from hermes.providers.endpoint import Endpoint
from hermes.providers.profiles import PROFILES
from hermes.providers.routing import NOT_CONFIGURED, endpoints_for, fallback_for


class Choice(NamedTuple):
    """A model that a conversation may use."""

    #: ``model``, or ``fallback 1`` and so on.
    role: str
    endpoint: Endpoint
    #: Why this one is used.
    why: str
    #: Where its key comes from; empty when it has none.
    key_from: str
    #: The variable to put a key into; empty when none is asked for.
    key_name: str


def check_keys(patient: Patient) -> Iterator[Finding]:
    """Which model answers and why, and where the keys come from. The keys themselves are never shown."""
    for choice in _choices(patient):
        if isinstance(choice, Finding):
            yield choice
            continue
        endpoint = choice.endpoint
        yield ok(choice.role, f"{endpoint.model} at {endpoint.provider}, {choice.why}")
        if choice.key_from:
            yield ok("key", f"of {endpoint.provider}: {choice.key_from}")
        elif choice.key_name:
            report = broken if choice.role == "model" else warning
            yield report("key", f"none for {endpoint.provider}", f"set {choice.key_name} in {env_path(patient.home)}")
        else:
            yield ok("key", f"none is sent to {endpoint.provider}")


def check_reach(patient: Patient) -> Iterator[Finding]:
    """One small request to each model, all at the same time."""
    choices = [choice for choice in _choices(patient) if isinstance(choice, Choice)]
    if patient.offline:
        yield skipped("provider", "not asked (--offline)")
        return
    if not choices:
        yield skipped("provider", "not asked: no model is set up")
        return
    answers: dict[int, Finding] = {}

    def ask(number: int, choice: Choice) -> None:
        answers[number] = probe(choice.endpoint, choice.role, choice.key_from)

    threads = [
        threading.Thread(target=ask, args=(number, choice), name=f"doctor {choice.role}", daemon=True)
        for number, choice in enumerate(choices)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, choice in enumerate(choices):
        yield answers.get(number) or broken(choice.role, "the request failed in an unexpected way")


def _choices(patient: Patient) -> Iterator[Choice | Finding]:
    """The model and its fallbacks; for one that cannot be used, what is wrong with it."""
    config = patient.settings()
    env = os.environ
    first: Endpoint | None = None
    try:
        first = endpoints_for(_without_fallbacks(config), env)[0]
        yield _choice("model", first, _why(config, patient, first.provider), config, config.model, patient)
    except ConfigError as error:
        yield _not_usable(error, patient)
    for number, entry in enumerate(config.fallback_providers, 1):
        own = _settings_of(entry)
        try:
            endpoint = fallback_for(config, env, entry, first)
            why = f"used when those before it fail (fallback_providers[{number - 1}])"
            yield _choice(f"fallback {number}", endpoint, why, config, own, patient)
        except ConfigError as error:
            yield warning(f"fallback {number}", *told(error))


def _choice(role: str, endpoint: Endpoint, why: str, config: Config, own: Model, patient: Patient) -> Choice:
    patient.redactor.add_secret(endpoint.api_key)
    profile = PROFILES.get(endpoint.provider)
    named = config.providers.get(endpoint.provider) or Provider()
    names = [name for name in (own.key_env, named.key_env, *(profile.key_env if profile else ())) if name]
    key_from = _key_source(endpoint, own, named, names, patient) if endpoint.api_key else ""
    return Choice(role, endpoint, why, key_from, names[0] if names else "")


def _key_source(endpoint: Endpoint, own: Model, named: Provider, names: list[str], patient: Patient) -> str:
    """The setting or variable whose value the key is."""
    document = patient.loaded.raw if patient.loaded else {}
    if endpoint.api_key == own.api_key:
        return _written_as("api_key", document.get("model"), "config.yaml")
    if endpoint.api_key == named.api_key:
        return f"providers.{endpoint.provider}.api_key in config.yaml"
    return next((_variable(name, patient) for name in names if os.environ.get(name) == endpoint.api_key), "config.yaml")


def _written_as(setting: str, section: object, file: str) -> str:
    """A setting of the file, with the variable it refers to when it does."""
    value: Any = cast("dict[str, Any]", section).get(setting) if isinstance(section, dict) else None
    if isinstance(value, str) and value.startswith("${"):
        return f"{value[2:].partition('}')[0]}, which {setting} in {file} names"
    return f"{setting} in {file}"


def _variable(name: str, patient: Patient) -> str:
    return f"{name} in {env_path(patient.home)}" if name in patient.env_file else f"{name} in the environment"


def _why(config: Config, patient: Patient, provider: str) -> str:
    """Why this provider is the one, in the order in which the choice is made."""
    own = config.model
    if own.provider not in ("", "auto"):
        return "chosen by model.provider in config.yaml"
    if own.base_url:
        return "chosen by model.base_url in config.yaml"
    if os.environ.get("CUSTOM_BASE_URL"):
        return f"chosen by {_variable('CUSTOM_BASE_URL', patient)}"
    names = PROFILES[provider].key_env if provider in PROFILES else ()
    variable = next((name for name in names if os.environ.get(name)), "")
    return f"chosen by its key, {_variable(variable, patient)}"


def _not_usable(error: ConfigError, patient: Patient) -> Finding:
    detail, advice = told(error)
    if str(error) != NOT_CONFIGURED.format(providers=", ".join([*PROFILES, "custom"])):
        return broken("model", detail, advice)
    advice = f"set the key of a provider, such as OPENROUTER_API_KEY, in {env_path(patient.home)}, or name a server"
    return broken("model", detail, advice, command="hermes config set model.base_url URL")


def _without_fallbacks(config: Config) -> Config:
    import msgspec

    return msgspec.structs.replace(config, fallback_providers=[])


def _settings_of(entry: Fallback) -> Model:
    return Model(base_url=entry.base_url, api_key=entry.api_key, key_env=entry.key_env, api_mode=entry.api_mode)
