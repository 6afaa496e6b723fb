"""``hermes model`` and ``hermes model list``: what is in use, and what else there is."""

from __future__ import annotations

import argparse

from hermes.cli.model.asking import choose, say
from hermes.cli.model.desk import Desk, open_desk
from hermes.cli.model.names import known_provider
from hermes.cli.model.overview import ProviderRow, provider_rows, row_lines
from hermes.cli.model.problems import explain, place
from hermes.cli.model.saving import save
from hermes.cli.model.selecting import pick_model
from hermes.cli.terminal import is_interactive, plain, print_json
from hermes.errors import ConfigError, HermesError, NotConfigured


def show_current() -> int:
    """Show the model in use; on a terminal, offer to pick another."""
    with open_desk() as desk:
        try:
            lines = list(_current_lines(desk))
        except ConfigError as error:
            if not is_interactive():
                raise
            lines = ["No model is set up yet." if isinstance(error, NotConfigured) else str(error)]
        for line in lines:
            print(plain(line))
        if is_interactive():
            print(flush=True)
            _offer(desk)
    return 0


def list_providers(args: argparse.Namespace) -> int:
    """The providers that are known."""
    with open_desk() as desk:
        rows = provider_rows(desk, refresh=args.refresh)
        if args.json:
            print_json({"providers": rows})
        else:
            for line in row_lines(rows):
                print(plain(line))
    return 0


def list_models_of(args: argparse.Namespace) -> int:
    """The models of one provider, a line each."""
    with open_desk() as desk:
        desk.learn(args.provider)
        provider = known_provider(args.provider, desk.config, desk.profiles)
        endpoint = desk.somewhere_at(provider)
        try:
            models = desk.models_at(endpoint, refresh=args.refresh)
        except HermesError as error:
            raise HermesError(desk.redactor.redact(explain(error, endpoint, desk.key_from(endpoint)).line)) from None
        if models is None:
            raise HermesError(f"{place(endpoint)} has no list of models; see what its documentation calls them")
        if args.json:
            print_json({"provider": provider, "address": place(endpoint), "models": models})
        else:
            for name in models:
                print(plain(name))
    return 0


def pick_provider(rows: list[ProviderRow]) -> str | None:
    """Have the person pick a provider; None when they leave."""
    width = max(len(row.name) for row in rows)
    index = choose([f"{row.name:<{width}}  {row.state}" for row in rows], [row.name for row in rows])
    return None if index is None else rows[index].name


def _current_lines(desk: Desk) -> list[str]:
    endpoint = desk.current()
    name = desk.key_name(endpoint.provider)
    key = desk.key_from(endpoint) or ("stored by hermes auth" if desk.keys.has(endpoint.provider) else "")
    if not key:
        key = f"none; set {name}, or run: hermes model set {endpoint.provider}:{endpoint.model}" if name else "none"
    fallbacks = ", ".join(f"{one.model or 'the same'} ({one.provider})" for one in desk.config.fallback_providers)
    return [
        f"Model: {endpoint.model} at {endpoint.provider} ({place(endpoint)})",
        f"Why:   {desk.origins.of_choice(endpoint.provider)}",
        f"Key:   {key}",
        *([f"When it fails: {fallbacks}"] if fallbacks else []),
    ]


def _offer(desk: Desk) -> None:
    say("Pick another? The providers:")
    provider = pick_provider(provider_rows(desk))
    chosen = None if provider is None else pick_model(desk, provider)
    if chosen is None:
        say("Nothing was changed.")
        return
    for line in save(desk, chosen):
        print(plain(line))
