"""``hermes auth``: the keys and sign-ins that are stored for providers."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from typing import NamedTuple

from hermes.agent.llm.models import Models
from hermes.cli.auth.key_input import key_from_stdin, key_from_terminal
from hermes.cli.auth.text import credential_lines, credential_row
from hermes.cli.terminal import plain, print_json
from hermes.config import Config, hermes_home, load_config, load_env_file
from hermes.config.sections import ModelConfig
from hermes.errors import ConfigError, CredentialError
from hermes.models.credentials.credential import Credential
from hermes.models.credentials.store import AuthFile
from hermes.models.profiles import CUSTOM, PROFILES
from hermes.models.routing import endpoint_for, name_of
from hermes.sanitize import Redactor

_EXAMPLES = """
examples:
  hermes auth add openrouter                         asks for a key, which is not shown
  hermes auth add openrouter --profile work --key-stdin < key.txt
  hermes auth remove openrouter --profile work
  hermes auth login lab                              with a browser; --device on a machine without one
"""


class Desk(NamedTuple):
    """What the commands work on."""

    file: AuthFile
    config: Config
    env: dict[str, str]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.set_defaults(action=_list, json=False)
    actions = parser.add_subparsers(metavar="ACTION")
    adding = actions.add_parser("add", help="store a key")
    adding.add_argument("--key-stdin", action="store_true", help="read the key from standard input")
    adding.set_defaults(action=_add)
    listing = actions.add_parser("list", help="show what is stored, with its state (the default)")
    listing.add_argument("--json", action="store_true", help="print one JSON document")
    listing.set_defaults(action=_list)
    removing = actions.add_parser("remove", help="take a key or a sign-in out")
    removing.set_defaults(action=_remove)
    login = actions.add_parser("login", help="sign in at a provider instead of giving a key")
    login.add_argument("--device", action="store_true", help="sign in on another device, with a code")
    login.add_argument("--no-browser", action="store_true", help="only print the address to open")
    login.set_defaults(action=_login)
    for made in (adding, removing, login):
        made.add_argument("provider", metavar="PROVIDER")
    removing.add_argument("id", metavar="ID", nargs="?", default="", help="as 'hermes auth list' shows it")
    for made in (adding, removing, login):
        made.add_argument("--profile", metavar="NAME", default="", help="the name it is stored under")


def run(args: argparse.Namespace) -> int:
    """Do what was asked for."""
    # What the credentials have to say is told below; without a handler, logging would say it as well.
    logging.getLogger("hermes").addHandler(logging.NullHandler())
    home = hermes_home()
    env = {**os.environ, **load_env_file(home)}
    desk = Desk(AuthFile(home), load_config(home, environ=env).config, env)
    try:
        return args.action(args, desk)
    finally:
        for notice in desk.file.notices:
            print(f"Warning: {plain(notice)}", file=sys.stderr)


# -- add and remove -------------------------------------------------------------------------------------------------


def _add(args: argparse.Namespace, desk: Desk) -> int:
    from hermes.models.credentials.store import add_key

    provider = _known(args.provider, desk)
    desk.file.pool()  # a file that cannot be read is said before anybody types a key
    key = key_from_stdin() if args.key_stdin else key_from_terminal(provider)
    stored = add_key(desk.file, provider, key, args.profile)
    print(f"{plain(provider)}: key {stored.masked} is stored as {plain(stored.label)!r}")
    return 0


def _remove(args: argparse.Namespace, desk: Desk) -> int:
    from hermes.models.credentials.store import remove

    if args.id and args.profile:
        raise CredentialError("give the id or --profile, not both")
    gone = remove(desk.file, args.provider, args.id or args.profile)
    print(f"{plain(gone.provider)}: {plain(gone.label)!r} is removed")
    return 0


def _known(provider: str, desk: Desk) -> str:
    """The name, if any provider has it; a key stored under a misspelt name would never be used."""
    name = name_of(desk.config, provider)
    if name in {*PROFILES, *desk.config.providers, CUSTOM} or name in desk.file.providers():
        return name
    with Models(desk.file.home, desk.config, os.environ, Redactor()) as models:
        models.load_plugins(provider)
        profiles = models.profiles
    known = sorted({*profiles, *desk.config.providers, CUSTOM})
    name = name_of(desk.config, provider, profiles)
    if name in known:
        return name
    from difflib import get_close_matches

    near = get_close_matches(provider, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}."
    raise CredentialError(f"unknown provider {provider!r}; {hint} 'providers.{provider}' in config.yaml adds one")


# -- login ----------------------------------------------------------------------------------------------------------


def _login(args: argparse.Namespace, desk: Desk) -> int:
    from hermes.cli.auth.login import sign_in
    from hermes.models.credentials.store import add_sign_in

    desk.file.edit(lambda _pool: None)  # a home that cannot keep the result is said before anybody signs in
    tokens = sign_in(args.provider, desk.config, on_device=args.device, open_browser=not args.no_browser)
    stored = add_sign_in(desk.file, args.provider, tokens, args.profile)
    until = "" if stored.refresh_token or stored.expires_at is None else "; it cannot be renewed when it ends"
    print(f"{plain(args.provider)}: signed in, stored as {plain(stored.label)!r}{until}")
    return 0


# -- list -----------------------------------------------------------------------------------------------------------


def _list(args: argparse.Namespace, desk: Desk) -> int:
    found = [one for provider in desk.file.providers() for one in desk.file.credentials(provider)]
    everything = [*_configured(desk), *found]
    everything.sort(key=lambda one: one.provider)
    if args.json:
        strategies = desk.config.credential_pool_strategies
        rows = [credential_row(one, strategies.get(one.provider, "fill_first")) for one in everything]
        document = {"path": str(desk.file.path), "credentials": rows}
        print_json(document)
        return 0
    for line in credential_lines(everything):
        print(line)
    return 0


def _configured(desk: Desk) -> list[Credential]:
    """The keys that the configuration and the environment give; they are used before the stored ones."""
    config = desk.config
    main = config.model.provider
    if main in ("", "auto"):
        main = CUSTOM  # what an address without a provider belongs to
    found: list[Credential] = []
    for provider in sorted({*PROFILES, *config.providers, main}):
        own = config.model if provider == main else ModelConfig()
        try:
            key = endpoint_for(config, desk.env, provider, "any", own).api_key
        except ConfigError:
            continue  # one that cannot be used has no key in use
        if key:
            found.append(Credential(provider, "", "", key, source="configured"))
    return found
