"""Selection of a model: the prompts at a terminal, ``hermes model set``, and saving the choice.

Prompts are written to stderr and read from stdin. A choice is checked before it is saved: the key goes to ``.env``, the
rest to ``config.yaml``.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from msgspec.structs import replace

from hermes.base.config import config_path, env_path
from hermes.base.config.schema.sections import ModelConfig
from hermes.base.errors import ConfigError, CredentialError, HermesError, ProviderError, did_you_mean, nearest
from hermes.models.credentials.store import check_key
from hermes.models.endpoint import Endpoint
from hermes.models.local.endpoint import LOCAL, is_local
from hermes.models.local.install.weights import NotInstalled
from hermes.models.profiles import CUSTOM
from hermes.models.routing import endpoint_for, name_of
from hermes.surfaces.cli.setup.auth import key_from_terminal
from hermes.surfaces.cli.setup.model.problems import address_of, explain, is_among, not_listed
from hermes.surfaces.cli.setup.model.server_models import list_models
from hermes.surfaces.cli.setup.model.setup import LIST_TIMEOUTS, ModelSetup, known_provider
from hermes.surfaces.cli.terminal import (
    can_prompt,
    column_wrapped,
    one_line,
    plain,
    print_lines,
    print_note,
    secret_from_stdin,
)

#: More than this do not fit on a screen.
_MOST_SHOWN = 20


#: Words that end a question without an answer, as an empty line does.
_LEAVE = ("q", "quit", "exit")


def say(text: str = "") -> None:
    """A line for the person."""
    print_note(plain(text), wrap=column_wrapped)


def ask(label: str) -> str:
    """What the person types, without blanks around it; empty when they have nothing to say."""
    print(plain(label), end="", file=sys.stderr, flush=True)
    try:
        line = sys.stdin.readline()
    except KeyboardInterrupt:
        print(file=sys.stderr)  # the cursor is still behind the question
        raise
    if not line.endswith("\n"):
        print(file=sys.stderr)
    return line.strip()


def choose(options: Sequence[str], names: Sequence[str] = ()) -> int | None:
    """Which of the options, by number or name, the person picks; None when they leave."""
    _show_numbered(options)
    while True:
        typed = ask("Number or name (Enter to cancel): " if names else "Number (Enter to cancel): ")
        if not typed or typed.lower().lstrip("/") in _LEAVE:
            return None
        if typed.isdecimal() and 1 <= int(typed) <= len(options):
            return int(typed) - 1
        if typed in names:
            return names.index(typed)
        say(f"{one_line(typed, 60)!r} is not a choice; type a number from 1 to {len(options)}, or q to cancel.")


def choose_model(models: Sequence[str], default: str = "") -> str | None:
    """Which model the person wants; None when they leave. A part of a name shows those that have it."""
    shown: Sequence[str] = models if len(models) <= _MOST_SHOWN else ()
    _show_models(shown, len(models))
    insisted = ""
    takes = f"Enter for {default}" if default else "Enter to cancel"
    while True:
        typed = ask(f"Model: a number, a name or a part of one ({takes}): " if models else f"Model ({takes}): ")
        if not typed:
            return default or None
        if typed.isdecimal() and 1 <= int(typed) <= len(shown):
            return shown[int(typed) - 1]
        if not models or is_among(typed, models) or typed == insisted:
            return typed
        found = [name for name in models if typed.lower() in name.lower()]
        if found:
            shown = found[:_MOST_SHOWN]
            _show_models(shown, len(found))
            continue
        insisted = typed
        hint = did_you_mean(typed, models, otherwise="", then="Type it again to use it anyway.")
        say(f"{one_line(typed, 80)} is not listed{hint}")


def _show_numbered(options: Sequence[str]) -> None:
    width = len(str(len(options)))
    for number, option in enumerate(options, 1):
        say(f"  {number:>{width}}. {option}")


def _show_models(shown: Sequence[str], count: int) -> None:
    _show_numbered(shown)
    if count > len(shown):
        say(f"  ({count} models{', these are the first' if shown else ''}; a part of a name narrows them down)")


#: Settings of the ``model`` section that are about the provider, and would be wrong for another one.
_OF_PROVIDER = ("base_url", "api_key", "key_env", "api_mode", "extra_headers", "extra_body", "ca_bundle")
#: Settings that are about the model itself.
_OF_MODEL = ("context_length", "supports_vision")
#: Other spellings, outside the section.
_ELSEWHERE = {"base_url": ("base_url", "api_base"), "provider": ("provider",)}


@dataclass(slots=True)
class Selection:
    """What was chosen."""

    provider: str
    model: str
    #: A new key; empty keeps the one there is.
    key: str = field(default="", repr=False)
    #: A new address; empty keeps the one there is.
    base_url: str = ""


def save(setup: ModelSetup, chosen: Selection) -> list[str]:
    """Write a choice; what was done, one line each. The key goes first: a model without its key is of no use."""
    from hermes.base.config.edit import edit_together
    from hermes.base.config.environment import save_env

    raw = setup.origins.raw
    put: dict[str, Any] = {}
    remove = list(_ELSEWHERE["provider"])
    said: list[str] = []
    if chosen.provider != _owner(setup):
        _put_aside(_owner(setup), raw, put, remove, said)
    if (chosen.provider, chosen.model) != (setup.current_provider(), setup.config.model.default):
        for name in _OF_MODEL:
            if _written(raw, name) is not None:
                remove.append(f"model.{name}")
                said.append(f"model.{name} was for another model and is removed")
    put |= {"model.provider": chosen.provider, "model.default": chosen.model}
    if chosen.base_url:
        remove += _ELSEWHERE["base_url"]
        put["model.base_url"] = chosen.base_url
    if chosen.key:
        name = _name_for_key(setup, chosen.provider, put, remove)
        save_env(setup.home, {name: chosen.key})
        said.append(f"the key is stored as {name} in {env_path(setup.home)}")
    edit_together(setup.home, put, remove=remove)
    return [f"Now using {chosen.model} at {chosen.provider} ({config_path(setup.home)})", *said]


def _owner(setup: ModelSetup) -> str:
    """Whom the address and the key of the ``model`` section belong to."""
    own = name_of(setup.config, setup.config.model.provider, setup.profiles)
    return CUSTOM if own in ("", "auto") else own


def _put_aside(owner: str, raw: Mapping[str, Any], put: dict[str, Any], remove: list[str], said: list[str]) -> None:
    """Move what is about one provider to where it keeps until that one is chosen again."""
    moved = {name: value for name in _OF_PROVIDER if (value := _written(raw, name)) is not None}
    if not moved:
        return
    for name, value in moved.items():
        put[_key_of(owner, name)] = value
        remove.append(f"model.{name}")
    remove += _ELSEWHERE["base_url"]
    said.append(f"{', '.join(moved)} of the model section moved to providers.{owner}")


def _name_for_key(setup: ModelSetup, provider: str, put: dict[str, Any], remove: list[str]) -> str:
    """The variable for a new key. What the file says about another key would win, so it goes."""
    aside = _key_of(provider, "api_key")
    put.pop(aside, None)
    remove.append(aside)
    if provider == _owner(setup):
        remove.append("model.api_key")
    name = setup.key_name(provider)
    if not name:
        name = f"{re.sub(r'[^A-Z0-9]+', '_', provider.upper()).strip('_') or 'MODEL'}_API_KEY"
        put["model.key_env"] = name
    return name


def _key_of(provider: str, name: str) -> str:
    """A setting of a named provider; the name may have dots."""
    return f'providers."{provider}".{name}'


def _written(raw: Mapping[str, Any], name: str) -> Any:
    """A setting of the ``model`` section as the file has it, under any of its spellings."""
    section: Any = raw.get("model")
    fields = cast("dict[str, Any]", section) if isinstance(section, dict) else {}
    for spelling in (name, "api_base") if name == "base_url" else (name,):
        if fields.get(spelling) is not None:
            return fields[spelling]
    return next((raw[other] for other in _ELSEWHERE.get(name, ()) if raw.get(other)), None)


def run_set(args: argparse.Namespace, setup: ModelSetup) -> int:
    """Set the model that the words of a command line name."""
    provider, model = setup.named(args.words)
    chosen = Selection(provider, model, base_url=args.base_url)
    chosen.model = _endpoint(setup, chosen).model  # the provider's usual one when none is named
    if args.key_stdin:
        chosen.key = secret_from_stdin()
        check_key(chosen.key)
    if not args.no_check and not _checked(setup, chosen):
        return 1
    print_lines(save(setup, chosen))
    return 0


def pick_model(setup: ModelSetup, provider: str, base_url: str = "") -> Selection | None:
    """Have a person pick a model of a provider, with a key if it wants one; None when they leave."""
    chosen = Selection(provider, "any", base_url=base_url)
    if not base_url and is_local(setup.provider_endpoint(provider)):
        return _local_model(setup)
    endpoint = _endpoint(setup, chosen)
    if setup.key_name(provider) and not setup.has_key(endpoint) and not _asked_for_key(chosen):
        return None
    models = _models_of_server(setup, chosen)
    if models is None:
        return None
    named, profile = setup.config.providers.get(provider), setup.profiles.get(provider)
    default = (named.model if named else "") or (profile.default_model if profile else "")
    if models and not is_among(default, models):
        default = ""
    model = choose_model(models, default)
    if model is None:
        return None
    chosen.model = model
    return chosen


def _models_of_server(setup: ModelSetup, chosen: Selection) -> Sequence[str] | None:
    """The models that the server lists, none when it lists none; None when its key is refused and no other is given."""
    while True:
        endpoint = _endpoint(setup, chosen)
        try:
            return _listed(setup, endpoint, chosen.key) or ()
        except HermesError as error:
            say(explain(error, endpoint, _key_from(setup, endpoint, chosen.key)).line)
            if not isinstance(error, ProviderError) or error.reason != "auth":
                return ()
        if not _asked_for_key(chosen):
            return None


def _local_model(setup: ModelSetup) -> Selection:
    """The one model that runs on this machine; what it needs is got now if it is not here."""
    from hermes.surfaces.cli.setup.local import get_model

    try:
        endpoint = setup.endpoint(LOCAL, "")
    except NotInstalled:
        get_model(setup.home)
        endpoint = setup.endpoint(LOCAL, "")
    return Selection(LOCAL, endpoint.model)


def _endpoint(setup: ModelSetup, chosen: Selection) -> Endpoint:
    if not chosen.base_url:
        endpoint = setup.endpoint(chosen.provider, chosen.model)
    else:
        provider = known_provider(chosen.provider, setup.config, setup.profiles)
        own = ModelConfig(base_url=chosen.base_url)
        endpoint = endpoint_for(setup.config, os.environ, provider, chosen.model, own, setup.profiles)
    if chosen.key:
        setup.redactor.add_secret(chosen.key)
        endpoint = replace(endpoint, api_key=chosen.key)
    return endpoint


def _checked(setup: ModelSetup, chosen: Selection) -> bool:
    """Whether the choice is valid. At a terminal it can be corrected; a failed check is only a warning."""
    endpoint = _endpoint(setup, chosen)
    if setup.key_name(chosen.provider) and not setup.has_key(endpoint):
        if not can_prompt():
            raise CredentialError(
                f"{chosen.provider} wants a key, and there is none: give it on standard input with --key-stdin, or set "
                f"{setup.key_name(chosen.provider)} (--no-check sets the model anyway)"
            )
        if not _asked_for_key(chosen):
            return False
        endpoint = _endpoint(setup, chosen)
    while True:
        try:
            models = _listed(setup, endpoint, chosen.key)
            break
        except HermesError as error:
            problem = explain(error, endpoint, _key_from(setup, endpoint, chosen.key))
            if problem.kind != "key":
                say(f"Warning: not checked, {problem.line}")
                return True
            if not can_prompt():
                raise CredentialError(f"{problem.line}. Nothing was changed (--no-check sets it anyway)") from None
            say(problem.detail)
            if not _asked_for_key(chosen):
                return False
            endpoint = _endpoint(setup, chosen)
    if not models:
        say(f"Warning: not checked, {address_of(endpoint)} has no list of models")
        return True
    return is_among(chosen.model, models) or _corrected(setup, chosen, endpoint, models)


def _corrected(setup: ModelSetup, chosen: Selection, endpoint: Endpoint, models: Sequence[str]) -> bool:
    """What to do about a name that the server does not list."""
    # The cached list may be outdated.
    models = _listed(setup, endpoint, chosen.key, refresh=True) or ()
    if is_among(chosen.model, models):
        return True
    problem, near = not_listed(endpoint, models), nearest(chosen.model, models)
    if not can_prompt():
        hint = problem.fix.partition(" The setting")[0]
        raise ConfigError(f"{problem.detail}; {hint} Nothing was changed (--no-check sets it anyway)")
    say(problem.detail)
    if near:
        typed = ask(f"Use {near} instead? [Y]es, [k]eep {chosen.model}, [n]either: ").lower()
        if typed in ("", "y", "yes"):
            chosen.model = near
            return True
    else:
        typed = ask(f"Use {chosen.model} anyway? [y/N] ").lower()
    return typed in ("k", "keep") or (not near and typed in ("y", "yes"))


def _listed(setup: ModelSetup, endpoint: Endpoint, key: str, *, refresh: bool = False) -> list[str] | None:
    if key:  # a new key is tried itself, whatever others are stored
        return list_models(setup.driver, replace(endpoint, timeouts=LIST_TIMEOUTS))
    return setup.list_models_at(endpoint, refresh=refresh)


def _key_from(setup: ModelSetup, endpoint: Endpoint, key: str) -> str:
    return "the one just given" if key else setup.key_from(endpoint)


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
