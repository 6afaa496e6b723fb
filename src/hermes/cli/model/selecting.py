"""``hermes model set``, and the picking of a model at a terminal: a choice is checked before it is written."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace

from hermes.cli.auth.key_input import key_from_stdin, key_from_terminal
from hermes.cli.model.asking import ask, choose_model, say
from hermes.cli.model.desk import PATIENCE, Desk, open_desk
from hermes.cli.model.names import is_among, known_provider, nearest_model, provider_and_model
from hermes.cli.model.problems import explain, not_listed, place
from hermes.cli.model.saving import Selection, save
from hermes.cli.model.server_list import list_models
from hermes.cli.terminal import can_prompt, plain
from hermes.config.sections import ModelConfig
from hermes.errors import ConfigError, CredentialError, HermesError, ProviderError
from hermes.local.endpoint import LOCAL, is_local
from hermes.local.install.weights import NotInstalled
from hermes.models.credentials.store import check_key
from hermes.models.endpoint import Endpoint
from hermes.models.routing import endpoint_for


def run_set(args: argparse.Namespace) -> int:
    """Set the model that the words of a command line name."""
    with open_desk() as desk:
        chosen = _read(desk, args.words, args.base_url)
        if args.key_stdin:
            chosen.key = key_from_stdin()
            check_key(chosen.key)
        if not args.no_check and not _checked(desk, chosen):
            return 1
        for line in save(desk, chosen):
            print(plain(line))
    return 0


def pick_model(desk: Desk, provider: str, base_url: str = "") -> Selection | None:
    """Have a person pick a model of a provider, with a key if it wants one; None when they leave."""
    chosen = Selection(provider, "any", base_url=base_url)
    if not base_url and is_local(desk.somewhere_at(provider)):
        return _local_model(desk)
    endpoint = _endpoint(desk, chosen)
    if desk.key_name(provider) and not desk.has_key(endpoint) and not _asked_for_key(chosen):
        return None
    models: Sequence[str] = ()
    while True:
        try:
            models = _listed(desk, _endpoint(desk, chosen), chosen.key) or ()
        except HermesError as error:
            say(explain(error, endpoint, _key_from(desk, endpoint, chosen.key)).line)
            if isinstance(error, ProviderError) and error.reason == "auth":
                if _asked_for_key(chosen):
                    continue
                return None
        break
    named, profile = desk.config.providers.get(provider), desk.profiles.get(provider)
    default = (named.model if named else "") or (profile.default_model if profile else "")
    if models and not is_among(default, models):
        default = ""
    model = choose_model(models, default)
    if model is None:
        return None
    chosen.model = model
    return chosen


def _local_model(desk: Desk) -> Selection:
    """The one model that runs on this machine; what it needs is got now if it is not here."""
    from hermes.cli.local import get_model

    try:
        endpoint = desk.endpoint(LOCAL, "")
    except NotInstalled:
        get_model(desk.home)
        endpoint = desk.endpoint(LOCAL, "")
    return Selection(LOCAL, endpoint.model)


def _read(desk: Desk, words: Sequence[str], base_url: str) -> Selection:
    if len(words) > 2:
        raise ConfigError("give a model, PROVIDER:MODEL, or a provider and a model")
    if len(words) == 2:
        desk.learn(words[0])
    provider, model = provider_and_model(words, desk.current_provider(), desk.config, desk.profiles)
    chosen = Selection(provider, model, base_url=base_url)
    chosen.model = _endpoint(desk, chosen).model  # the provider's usual one when none is named
    return chosen


def _endpoint(desk: Desk, chosen: Selection) -> Endpoint:
    if not chosen.base_url:
        endpoint = desk.endpoint(chosen.provider, chosen.model)
    else:
        provider = known_provider(chosen.provider, desk.config, desk.profiles)
        own = ModelConfig(base_url=chosen.base_url)
        endpoint = endpoint_for(desk.config, os.environ, provider, chosen.model, own, desk.profiles)
    if chosen.key:
        desk.redactor.add_secret(chosen.key)
        endpoint = replace(endpoint, api_key=chosen.key)
    return endpoint


def _checked(desk: Desk, chosen: Selection) -> bool:
    """Whether the choice can stand. A person may correct it; what cannot be checked is only said."""
    endpoint = _endpoint(desk, chosen)
    if desk.key_name(chosen.provider) and not desk.has_key(endpoint):
        if not can_prompt():
            raise CredentialError(
                f"{chosen.provider} wants a key, and there is none: give it on standard input with --key-stdin, or set "
                f"{desk.key_name(chosen.provider)} (--no-check sets the model all the same)"
            )
        if not _asked_for_key(chosen):
            return False
        endpoint = _endpoint(desk, chosen)
    while True:
        try:
            models = _listed(desk, endpoint, chosen.key)
            break
        except HermesError as error:
            problem = explain(error, endpoint, _key_from(desk, endpoint, chosen.key))
            if problem.kind != "key":
                say(f"Warning: not checked, {problem.line}")
                return True
            if not can_prompt():
                raise CredentialError(
                    f"{problem.line}. Nothing was changed (--no-check sets it all the same)"
                ) from None
            say(problem.detail)
            if not _asked_for_key(chosen):
                return False
            endpoint = _endpoint(desk, chosen)
    if not models:
        say(f"Warning: not checked, {place(endpoint)} has no list of models")
        return True
    return is_among(chosen.model, models) or _corrected(desk, chosen, endpoint, models)


def _corrected(desk: Desk, chosen: Selection, endpoint: Endpoint, models: Sequence[str]) -> bool:
    """What to do about a name that the server does not list."""
    # The list may be some minutes old; nobody is sent away because of that.
    models = _listed(desk, endpoint, chosen.key, refresh=True) or ()
    if is_among(chosen.model, models):
        return True
    problem, near = not_listed(endpoint, models), nearest_model(chosen.model, models)
    if not can_prompt():
        hint = problem.fix.partition(" The setting")[0]
        raise ConfigError(f"{problem.detail}; {hint} Nothing was changed (--no-check sets it all the same)")
    say(problem.detail)
    if near:
        typed = ask(f"Take {near} instead? [Y]es, [k]eep {chosen.model}, [n]either: ").lower()
        if typed in ("", "y", "yes"):
            chosen.model = near
            return True
    else:
        typed = ask(f"[k]eep {chosen.model} or [N]ot: ").lower()
    return typed in ("k", "keep")


def _listed(desk: Desk, endpoint: Endpoint, key: str, *, refresh: bool = False) -> list[str] | None:
    if key:  # a new key is tried itself, whatever others are stored
        return list_models(desk.driver, replace(endpoint, timeouts=PATIENCE))
    return desk.models_at(endpoint, refresh=refresh)


def _key_from(desk: Desk, endpoint: Endpoint, key: str) -> str:
    return "the one just given" if key else desk.key_from(endpoint)


def _asked_for_key(chosen: Selection) -> bool:
    """Have the person type a key; whether they gave one."""
    while True:
        typed = key_from_terminal(chosen.provider)
        if not typed:
            return False
        try:
            check_key(typed)
        except CredentialError as error:
            say(str(error))
            continue
        chosen.key = typed
        return True
