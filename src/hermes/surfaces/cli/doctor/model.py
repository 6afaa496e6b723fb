"""Checks of the models in use: the selection, the source of its key, and one small request to each."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from hermes.base.config import env_path
from hermes.base.config.schema.sections import ModelConfig
from hermes.base.errors import ConfigError, FailureReason, HermesError, NotConfigured, ProviderError
from hermes.base.scope import Interrupt
from hermes.models.credentials.store import AuthFile
from hermes.models.driver import Driver
from hermes.models.endpoint import Endpoint, Timeouts
from hermes.models.local.endpoint import is_local
from hermes.models.local.install.install import inspect
from hermes.models.local.install.parts import RUNTIME
from hermes.models.local.install.weights import find_model
from hermes.models.routing import fallback_for
from hermes.models.wires.choice import wire_for
from hermes.models.wires.wire import ModelRequest
from hermes.surfaces.cli.doctor.check import CheckResult, Installation, broken, ok, skipped, warning
from hermes.surfaces.cli.doctor.plugins import plugins_may_bring
from hermes.surfaces.cli.setup.model.problems import address_of, explain, is_among, not_listed, split_advice
from hermes.surfaces.cli.setup.model.server_models import list_models
from hermes.surfaces.cli.setup.model.setup import ModelSetup, Origins, all_at_once
from hermes.surfaces.cli.terminal import short_duration
from hermes.surfaces.commands.text import plural


class ModelChoice(NamedTuple):
    """A model that a conversation may use."""

    #: ``model``, or ``fallback 1`` and so on.
    role: str
    endpoint: Endpoint
    #: Why this one is used.
    why: str
    #: Source of its key; empty when it has none.
    key_from: str
    #: The variable for its key; empty when it needs none.
    key_name: str


def check_keys(installation: Installation) -> Iterator[CheckResult]:
    """The selected model, the reason, and the source of the keys. The keys themselves are never shown."""
    with _setup(installation) as setup:
        for choice in _choices(setup, installation):
            if isinstance(choice, CheckResult):
                yield choice
                continue
            endpoint = choice.endpoint
            yield ok(choice.role, f"{endpoint.model} at {endpoint.provider}, {choice.why}")
            if choice.key_from:
                yield ok("key", f"of {endpoint.provider}: {choice.key_from}")
            elif choice.key_name:
                report = broken if choice.role == "model" else warning
                yield report("key", f"none for {endpoint.provider}", f"set {choice.key_name} in {env_path(setup.home)}")
            else:
                yield ok("key", f"none needed for {endpoint.provider}")
        yield from _stored_keys(setup)


def check_reach(installation: Installation) -> Iterator[CheckResult]:
    """One small request to each model, all at the same time."""
    with _setup(installation) as setup:
        choices = [choice for choice in _choices(setup, installation) if isinstance(choice, ModelChoice)]
        far = [choice for choice in choices if not is_local(choice.endpoint)]
        yield from (check_embedded(setup, one.role) for one in choices if is_local(one.endpoint))
        if installation.offline:
            yield skipped("provider", "skipped (--offline)")
        elif far:
            yield from _answers(setup, far)
        elif not choices:
            yield skipped("provider", "skipped: no model is set up")


def _answers(setup: ModelSetup, choices: list[ModelChoice]) -> Iterator[CheckResult]:
    answers: dict[str, CheckResult] = {}

    def ask(choice: ModelChoice) -> None:
        answers[choice.role] = probe(setup, choice.endpoint, choice.role)

    all_at_once(ask, choices)
    for choice in choices:
        yield answers.get(choice.role) or broken(choice.role, "the request failed unexpectedly")


def _setup(installation: Installation) -> ModelSetup:
    config, raw = installation.settings(), installation.loaded.raw if installation.loaded else {}
    origins = Origins(installation.home, config, raw, installation.env_file, os.environ)
    return ModelSetup(origins, installation.redactor, loads_plugins=installation.load)


def _choices(setup: ModelSetup, installation: Installation) -> Iterator[ModelChoice | CheckResult]:
    """The model and its fallbacks; for an unusable one, the problem."""
    first: Endpoint | None = None
    try:
        first = setup.current()
        yield _choice(setup, "model", first, setup.origins.of_choice(first.provider), setup.config.model)
    except ConfigError as error:
        yield _needs_plugins("model", setup.config.model.provider, setup, installation) or _not_usable(error)
    for number, entry in enumerate(setup.config.fallback_providers, 1):
        setup.load_provider(entry.provider)
        try:
            found = fallback_for(setup.config, setup.origins.env, entry, first, setup.profiles)
            [endpoint] = setup.local.settled([found])
            why = f"used when the ones before it fail (fallback_providers[{number - 1}])"
            settings = {name: getattr(entry, name) for name in ("base_url", "api_key", "key_env", "api_mode")}
            yield _choice(setup, f"fallback {number}", endpoint, why, ModelConfig(**settings))
        except ConfigError as error:
            role = f"fallback {number}"
            yield _needs_plugins(role, entry.provider, setup, installation) or warning(role, *split_advice(error))


def _choice(setup: ModelSetup, role: str, endpoint: Endpoint, why: str, own: ModelConfig) -> ModelChoice:
    setup.redactor.add_secret(endpoint.api_key)
    names = setup.origins.key_names(endpoint.provider, own)
    key_from = setup.origins.of_key(endpoint, own) or setup.stored_key(endpoint.provider)
    return ModelChoice(role, endpoint, why, key_from, names[0] if names else "")


def _not_usable(error: ConfigError) -> CheckResult:
    if isinstance(error, NotConfigured):
        advice = "choose one, or install a small one that needs no key: hermes local install"
        return broken("model", "no model is set up", advice, command="hermes model")
    return broken("model", *split_advice(error))


def _needs_plugins(role: str, provider: str, setup: ModelSetup, installation: Installation) -> CheckResult | None:
    """The result for a model whose provider only a plugin can add, while plugins are not loaded."""
    if installation.load or not plugins_may_bring(provider, setup.profiles, installation):
        return None
    reason = f"{provider!r} is not a built-in provider" if provider else "no model is set up"
    return skipped(role, f"skipped: {reason}, and plugins were not loaded (use --load)")


def _stored_keys(setup: ModelSetup) -> Iterator[CheckResult]:
    """The credentials stored by ``hermes auth``."""
    for notice in setup.keys.notices:
        yield warning("stored keys", notice, "store the keys again: hermes auth add PROVIDER")
    file, now = AuthFile(setup.home), time.time()
    stored = [one for provider in file.providers() for one in file.credentials(provider)]
    if not stored:
        return
    paused = sum(one.is_cooling_down(now) for one in stored)
    detail = f"{plural(len(stored), 'credential')} for {', '.join(file.providers())}"
    if paused:
        yield warning("stored keys", f"{detail}; {paused} failed and paused for now", command="hermes auth list")
    else:
        yield ok("stored keys", detail)


_INSTALL = "hermes local install"


def check_embedded(setup: ModelSetup, role: str) -> CheckResult:
    """Whether the embedded model's runtime and weights are installed and intact. Does not start it."""
    # A failing fallback does not stop the first model from working.
    report = broken if role == "model" else warning
    parts = inspect(setup.home)
    try:
        weights = find_model(setup.config.local, setup.origins.env, setup.home)
    except ConfigError as error:
        return report(role, str(error))
    if weights.is_embedded and not parts.is_intact:
        return report(role, f"{weights.path} is damaged", command=_INSTALL)
    if parts.runtime is None or not parts.runtime.is_known:
        version = parts.runtime.version if parts.runtime else "none"
        return warning(role, f"{RUNTIME} {version} is not a supported version", command=_INSTALL)
    what = f"{weights.path} and {RUNTIME} {parts.runtime.version} are installed"
    if setup.models.uses_embedded_default and weights.is_embedded:
        return warning(role, f"{what}; it is a toy, used while no other model is set up", command="hermes model")
    return ok(role, what)


PROBE_TIMEOUTS = Timeouts(connect=4.0, first_byte=7.0, between_chunks=3.0, total=10.0)

#: Reported for a borrowed key: a check does not change its state.
_CANCELLED = ProviderError("the request was cancelled", reason="connection")
#: Temporary: the server and the key work.
_TEMPORARY: frozenset[FailureReason] = frozenset({"rate_limit", "overloaded"})


def probe(setup: ModelSetup, endpoint: Endpoint, role: str) -> CheckResult:
    """Whether the model answers, and if not, why."""
    # A failing fallback does not stop the first model from working.
    report = broken if role == "model" else warning
    endpoint = replace(endpoint, timeouts=PROBE_TIMEOUTS)
    try:
        lent = setup.keys.take(endpoint)
    except HermesError as error:
        return report(role, *split_advice(error))
    if lent is None:
        return warning(role, *split_advice(setup.keys.explain(endpoint)))
    driver = Driver()
    started = time.monotonic()
    models: list[str] = []
    try:
        models = list_models(driver, lent) or []
        if is_among(lent.model, models):
            return ok(role, f"{address_of(lent)} answers ({_ms(started)}) and has {lent.model}")
        # Not listed, or no list: some servers accept other names too, so send a request.
        wire = wire_for(lent)
        question = ModelRequest([{"role": "user", "content": "Hi"}], stream=False, max_tokens=1)
        driver.send(lent, wire, wire.kwargs(lent, question), interrupt=Interrupt())
        return ok(role, f"{address_of(lent)} answers ({_ms(started)}) as {lent.model}")
    except HermesError as error:
        problem = explain(error, lent, setup.key_from(lent))
        if isinstance(error, ProviderError) and error.reason in _TEMPORARY:
            return warning(role, problem.detail, problem.fix)
        if models and isinstance(error, ProviderError) and error.reason not in ("auth", "billing"):
            problem = not_listed(lent, models)
        return report(role, problem.detail, problem.fix)
    finally:
        driver.close()
        setup.keys.report(lent, _CANCELLED)


def _ms(started: float) -> str:
    return short_duration(time.monotonic() - started)
