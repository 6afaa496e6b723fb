"""``hermes model`` and ``hermes model list``: the model in use, the known providers and their state."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Sequence

import msgspec

from hermes.base.errors import ConfigError, HermesError, NotConfigured
from hermes.models.endpoint import Endpoint
from hermes.models.local.endpoint import is_local
from hermes.models.profiles import CUSTOM
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.setup.model.problems import address_of, explain
from hermes.surfaces.cli.setup.model.select import choose, pick_model, save, say
from hermes.surfaces.cli.setup.model.setup import LOCAL_TIMEOUTS, ModelSetup, known_provider
from hermes.surfaces.cli.terminal import is_interactive, print_lines


class ProviderRow(msgspec.Struct):
    """A provider and its state."""

    name: str
    address: str
    api_mode: str
    default_model: str
    aliases: list[str]
    #: Whether it is the one in use.
    current: bool
    #: Where its key comes from; empty when there is none.
    key_from: str
    #: The variable for its key; empty when it asks for none.
    key_name: str
    #: Whether it answered; None when it was not asked, as those are not that are far away.
    answers: bool | None = None
    #: How many models it lists, if it was asked.
    models: int | None = None
    #: Why the model that runs here cannot; None for one that is elsewhere.
    missing: str | None = None

    @property
    def state(self) -> str:
        """In a few words."""
        if self.missing is not None:
            return self.missing or "installed; small, needs no key"
        if self.answers is not None:
            return f"answers, {_count(self.models)}" if self.answers else "does not answer"
        if self.key_from:
            return f"key: {self.key_from}"
        return f"no key (set {self.key_name})" if self.key_name else "no key is sent"


def provider_rows(setup: ModelSetup, *, refresh: bool = False) -> list[ProviderRow]:
    """Every provider; those that want no key are asked, all at the same time and with short timeouts."""
    current = setup.current_provider()
    names = [*setup.profiles, *(name for name in setup.config.providers if name not in setup.profiles)]
    if current == CUSTOM and CUSTOM not in names:
        names.append(CUSTOM)
    rows: list[ProviderRow] = []
    unasked: list[tuple[ProviderRow, Endpoint]] = []
    for name in names:
        try:
            endpoint = setup.provider_endpoint(name)
        except ConfigError:
            continue  # switched off, or without an address
        row = _provider_row(setup, name, endpoint, is_current=name == current)
        rows.append(row)
        if is_local(endpoint):
            row.missing = _missing(setup, endpoint)
        elif not (row.key_name or row.key_from):
            unasked.append((row, endpoint))
    _ask(setup, unasked, refresh=refresh)
    return rows


def _provider_row(setup: ModelSetup, name: str, endpoint: Endpoint, *, is_current: bool) -> ProviderRow:
    profile, named = setup.profiles.get(name), setup.config.providers.get(name)
    key_from = setup.key_from(endpoint)
    if not key_from and setup.keys.has(name):
        key_from = "stored by hermes auth"
    default = (named.model if named else "") or (profile.default_model if profile else "")
    return ProviderRow(
        name=name,
        address=address_of(endpoint),
        api_mode=endpoint.api_mode,
        default_model=(setup.config.model.default or default) if is_current else default,
        aliases=list(profile.aliases) if profile else [],
        current=is_current,
        key_from=key_from,
        key_name=setup.key_name(name),
    )


def _missing(setup: ModelSetup, endpoint: Endpoint) -> str:
    try:
        setup.local.settled([endpoint])
    except ConfigError as error:
        return str(error)
    return ""


def _ask(setup: ModelSetup, rows: Sequence[tuple[ProviderRow, Endpoint]], *, refresh: bool) -> None:
    def look(row: ProviderRow, endpoint: Endpoint) -> None:
        try:
            models = setup.list_models_at(endpoint, refresh=refresh, timeouts=LOCAL_TIMEOUTS)
            row.answers, row.models = True, None if models is None else len(models)
        except HermesError:
            row.answers = False

    threads = [threading.Thread(target=look, args=pair, name="hermes-model", daemon=True) for pair in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _count(models: int | None) -> str:
    if models is None:
        return "without a list of models"
    return "1 model" if models == 1 else f"{models} models"


def show_current(_args: argparse.Namespace, setup: ModelSetup) -> None:
    """Show the model in use; on a terminal, offer to pick another."""
    try:
        lines = list(_current_lines(setup))
    except ConfigError as error:
        if not is_interactive():
            raise
        lines = ["No model is set up yet." if isinstance(error, NotConfigured) else str(error)]
    print_lines(lines)
    if is_interactive():
        print(flush=True)
        _offer(setup)


def run_list(args: argparse.Namespace, setup: ModelSetup) -> Report:
    """The providers that are known, or the models of one."""
    if args.provider:
        return _models_of(args.provider, setup, refresh=args.refresh)
    rows = provider_rows(setup, refresh=args.refresh)
    cells = [(f"{'*' if row.current else ' '} {row.name}", row.default_model or "-", row.state) for row in rows]
    return Report({"providers": rows}, heads=("  PROVIDER", "MODEL", "STATE"), rows=cells)


def _models_of(name: str, setup: ModelSetup, *, refresh: bool) -> Report:
    setup.load_provider(name)
    provider = known_provider(name, setup.config, setup.profiles)
    endpoint = setup.provider_endpoint(provider)
    try:
        models = setup.list_models_at(endpoint, refresh=refresh)
    except HermesError as error:
        raise HermesError(setup.redactor.redact(explain(error, endpoint, setup.key_from(endpoint)).line)) from None
    if models is None:
        raise HermesError(f"{address_of(endpoint)} has no list of models; see what its documentation calls them")
    return Report({"provider": provider, "address": address_of(endpoint), "models": models}, models)


def pick_provider(rows: list[ProviderRow]) -> str | None:
    """Have the person pick a provider; None when they leave."""
    width = max(len(row.name) for row in rows)
    index = choose([f"{row.name:<{width}}  {row.state}" for row in rows], [row.name for row in rows])
    return None if index is None else rows[index].name


def _current_lines(setup: ModelSetup) -> list[str]:
    endpoint = setup.current()
    name = setup.key_name(endpoint.provider)
    key = setup.key_from(endpoint) or ("stored by hermes auth" if setup.keys.has(endpoint.provider) else "")
    if not key:
        key = f"none; set {name}, or run: hermes model set {endpoint.provider}:{endpoint.model}" if name else "none"
    fallbacks = ", ".join(f"{one.model or 'the same'} ({one.provider})" for one in setup.config.fallback_providers)
    return [
        f"Model: {endpoint.model} at {endpoint.provider} ({address_of(endpoint)})",
        f"Why:   {setup.origins.of_choice(endpoint.provider)}",
        f"Key:   {key}",
        *([f"When it fails: {fallbacks}"] if fallbacks else []),
    ]


def _offer(setup: ModelSetup) -> None:
    say("Pick another? The providers:")
    provider = pick_provider(provider_rows(setup))
    chosen = None if provider is None else pick_model(setup, provider)
    if chosen is None:
        say("Nothing was changed.")
        return
    print_lines(save(setup, chosen))
