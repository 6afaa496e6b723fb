"""Checks of the models in use: which one is chosen and why, where its key comes from, and whether it answers."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import NamedTuple

from hermes.cli.doctor.finding import Finding, broken, ok, skipped, warning
from hermes.cli.doctor.patient import Patient
from hermes.cli.doctor.reach import probe
from hermes.cli.model.origin import Origins
from hermes.cli.model.problems import told
from hermes.config import Config, env_path
from hermes.config.sections import Fallback, Model
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
    raw = patient.loaded.raw if patient.loaded else {}
    origins = Origins(patient.home, config, raw, patient.env_file, env)
    first: Endpoint | None = None
    try:
        first = endpoints_for(_without_fallbacks(config), env)[0]
        yield _choice("model", first, origins.of_choice(first.provider), origins, config.model, patient)
    except ConfigError as error:
        yield _not_usable(error, patient)
    for number, entry in enumerate(config.fallback_providers, 1):
        own = _settings_of(entry)
        try:
            endpoint = fallback_for(config, env, entry, first)
            why = f"used when those before it fail (fallback_providers[{number - 1}])"
            yield _choice(f"fallback {number}", endpoint, why, origins, own, patient)
        except ConfigError as error:
            yield warning(f"fallback {number}", *told(error))


def _choice(role: str, endpoint: Endpoint, why: str, origins: Origins, own: Model, patient: Patient) -> Choice:
    patient.redactor.add_secret(endpoint.api_key)
    names = origins.key_names(endpoint.provider, own)
    return Choice(role, endpoint, why, origins.of_key(endpoint, own), names[0] if names else "")


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
