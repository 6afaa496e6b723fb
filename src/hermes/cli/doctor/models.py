"""Checks of the models in use: which one is chosen and why, where its key comes from, and whether it answers."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

from hermes.cli.doctor.embedded import check_embedded
from hermes.cli.doctor.finding import Finding, broken, ok, skipped, warning
from hermes.cli.doctor.patient import Patient
from hermes.cli.doctor.plugins import plugins_may_bring
from hermes.cli.doctor.reach import probe
from hermes.cli.model.desk import Desk
from hermes.cli.model.origin import Origins
from hermes.cli.model.problems import told
from hermes.commands.wording import plural
from hermes.config import env_path
from hermes.config.sections import Fallback, Model
from hermes.errors import ConfigError, NotConfigured
from hermes.local.endpoint import is_local
from hermes.models.credentials.auth_file import AuthFile
from hermes.models.endpoint import Endpoint
from hermes.models.routing import fallback_for


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
    with _desk(patient) as desk:
        for choice in _choices(desk, patient):
            if isinstance(choice, Finding):
                yield choice
                continue
            endpoint = choice.endpoint
            yield ok(choice.role, f"{endpoint.model} at {endpoint.provider}, {choice.why}")
            if choice.key_from:
                yield ok("key", f"of {endpoint.provider}: {choice.key_from}")
            elif choice.key_name:
                report = broken if choice.role == "model" else warning
                yield report("key", f"none for {endpoint.provider}", f"set {choice.key_name} in {env_path(desk.home)}")
            else:
                yield ok("key", f"none is sent to {endpoint.provider}")
        yield from _stored_keys(desk)


def check_reach(patient: Patient) -> Iterator[Finding]:
    """One small request to each model, all at the same time."""
    with _desk(patient) as desk:
        choices = [choice for choice in _choices(desk, patient) if isinstance(choice, Choice)]
        far = [choice for choice in choices if not is_local(choice.endpoint)]
        yield from (check_embedded(desk, one.role) for one in choices if is_local(one.endpoint))
        if patient.offline:
            yield skipped("provider", "not asked (--offline)")
        elif far:
            yield from _answers(desk, far)
        elif not choices:
            yield skipped("provider", "not asked: no model is set up")


def _answers(desk: Desk, choices: list[Choice]) -> Iterator[Finding]:
    answers: dict[int, Finding] = {}

    def ask(number: int, choice: Choice) -> None:
        answers[number] = probe(desk, choice.endpoint, choice.role)

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


def _desk(patient: Patient) -> Desk:
    config, raw = patient.settings(), patient.loaded.raw if patient.loaded else {}
    origins = Origins(patient.home, config, raw, patient.env_file, os.environ)
    return Desk(origins, patient.redactor, loads_plugins=patient.load)


def _choices(desk: Desk, patient: Patient) -> Iterator[Choice | Finding]:
    """The model and its fallbacks; for one that cannot be used, what is wrong with it."""
    first: Endpoint | None = None
    try:
        first = desk.current()
        yield _choice(desk, "model", first, desk.origins.of_choice(first.provider), desk.config.model)
    except ConfigError as error:
        yield _unheard("model", desk.config.model.provider, desk, patient) or _not_usable(error)
    for number, entry in enumerate(desk.config.fallback_providers, 1):
        desk.learn(entry.provider)
        try:
            found = fallback_for(desk.config, desk.origins.env, entry, first, desk.profiles)
            [endpoint] = desk.local.settled([found])
            why = f"used when those before it fail (fallback_providers[{number - 1}])"
            yield _choice(desk, f"fallback {number}", endpoint, why, _settings_of(entry))
        except ConfigError as error:
            role = f"fallback {number}"
            yield _unheard(role, entry.provider, desk, patient) or warning(role, *told(error))


def _choice(desk: Desk, role: str, endpoint: Endpoint, why: str, own: Model) -> Choice:
    desk.redactor.add_secret(endpoint.api_key)
    names = desk.origins.key_names(endpoint.provider, own)
    key_from = desk.origins.of_key(endpoint, own)
    if not key_from and desk.keys.has(endpoint.provider):
        key_from = "stored by hermes auth"
    return Choice(role, endpoint, why, key_from, names[0] if names else "")


def _not_usable(error: ConfigError) -> Finding:
    if isinstance(error, NotConfigured):
        advice = "choose one, or get a small one that needs no key: hermes local install"
        return broken("model", "no model is set up", advice, command="hermes model")
    return broken("model", *told(error))


def _unheard(role: str, provider: str, desk: Desk, patient: Patient) -> Finding | None:
    """What to say of a model that only a plugin can know, while none of their code is run."""
    if patient.load or not plugins_may_bring(provider, desk.profiles, patient):
        return None
    whose = f"{provider!r} is no provider of the runtime itself" if provider else "no model is set up"
    return skipped(role, f"{whose}, and the plugins, which may bring one, were not loaded (--load does)")


def _stored_keys(desk: Desk) -> Iterator[Finding]:
    """What ``hermes auth`` keeps, and whether it can be read."""
    for notice in desk.keys.notices:
        yield warning("stored keys", notice, "store the keys again: hermes auth add PROVIDER")
    file, now = AuthFile(desk.home), time.time()
    stored = [one for provider in file.providers() for one in file.credentials(provider)]
    if not stored:
        return
    resting = sum(one.is_resting(now) for one in stored)
    detail = f"{plural(len(stored), 'credential')} for {', '.join(file.providers())}"
    if resting:
        yield warning("stored keys", f"{detail}; {resting} failed and rest for now", command="hermes auth list")
    else:
        yield ok("stored keys", detail)


def _settings_of(entry: Fallback) -> Model:
    return Model(base_url=entry.base_url, api_key=entry.api_key, key_env=entry.key_env, api_mode=entry.api_mode)
