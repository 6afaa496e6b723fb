"""``hermes auth``: the stored API keys and sign-ins. Shows only the last characters of a key, nothing of a token."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple

from hermes.agent.llm.models import Models
from hermes.base.config import Config, hermes_home, load_config, load_env_file
from hermes.base.config.schema.sections import ModelConfig, PoolStrategy
from hermes.base.errors import ConfigError, CredentialError
from hermes.base.sanitize import Redactor, redact_text
from hermes.models.credentials.credential import Credential
from hermes.models.credentials.refresh import login_command
from hermes.models.credentials.store import AuthFile
from hermes.models.profiles import CUSTOM, PROFILES
from hermes.models.routing import endpoint_for, name_of, unknown_provider
from hermes.surfaces.cli.arguments import JSON, Action, Argument, CommandSpec, flag
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.terminal import one_line, plain, print_warnings, secret_from_stdin, typed_secret, web_browser

if TYPE_CHECKING:
    from hermes.models.credentials.oauth import DeviceCode, Tokens

_EXAMPLES = """
examples:
  hermes auth add openrouter                         asks for a key without showing it
  hermes auth add openrouter --profile work --key-stdin < key.txt
  hermes auth remove openrouter --profile work
  hermes auth login lab                              with a browser; --device on a machine without one
"""


class AuthHome(NamedTuple):
    """The stored credentials, the configuration and the environment of a home."""

    file: AuthFile
    config: Config
    env: dict[str, str]


@contextlib.contextmanager
def _opened_auth(_args: argparse.Namespace) -> Generator[AuthHome]:
    # The notices are printed below; without a handler, logging would print them too.
    logging.getLogger("hermes").addHandler(logging.NullHandler())
    home = hermes_home()
    env = {**os.environ, **load_env_file(home)}
    auth = AuthHome(AuthFile(home), load_config(home, environ=env).config, env)
    try:
        yield auth
    finally:
        print_warnings(auth.file.notices)


def _add(args: argparse.Namespace, auth: AuthHome) -> None:
    from hermes.models.credentials.store import add_key

    provider = _known(args.provider, auth)
    auth.file.pool()  # fail on an unreadable file before asking for a key
    key = secret_from_stdin() if args.key_stdin else key_from_terminal(provider)
    stored = add_key(auth.file, provider, key, args.profile)
    print(f"{plain(provider)}: key {stored.masked} stored as {plain(stored.label)!r}")


def _remove(args: argparse.Namespace, auth: AuthHome) -> None:
    from hermes.models.credentials.store import remove

    if args.id and args.profile:
        raise CredentialError("give the id or --profile, not both")
    gone = remove(auth.file, args.provider, args.id or args.profile)
    print(f"{plain(gone.provider)}: {plain(gone.label)!r} removed")


def _known(provider: str, auth: AuthHome) -> str:
    """The name of a known provider: a key stored under a misspelt name would never be used."""
    name = name_of(auth.config, provider)
    if name in {*PROFILES, *auth.config.providers, CUSTOM} or name in auth.file.providers():
        return name
    with Models(auth.file.home, auth.config, os.environ, Redactor()) as models:
        models.load_plugins(provider)
        profiles = models.profiles
    name = name_of(auth.config, provider, profiles)
    if name in {*profiles, *auth.config.providers, CUSTOM}:
        return name
    raise CredentialError(unknown_provider(provider, auth.config, profiles))


def _login(args: argparse.Namespace, auth: AuthHome) -> None:
    from hermes.models.credentials.store import add_sign_in

    auth.file.edit(lambda _pool: None)  # fail on a read-only home before the sign-in
    tokens = _sign_in(args.provider, auth.config, on_device=args.device, open_browser=not args.no_browser)
    stored = add_sign_in(auth.file, args.provider, tokens, args.profile)
    until = "" if stored.refresh_token or stored.expires_at is None else "; it cannot be renewed when it expires"
    print(f"{plain(args.provider)}: signed in, stored as {plain(stored.label)!r}{until}")


def _sign_in(provider: str, config: Config, *, on_device: bool, open_browser: bool) -> Tokens:
    """Run the sign-in, which shows the URL to open, and return the tokens."""
    from hermes.base.http.client import HttpClient
    from hermes.models.credentials.home_keys import sign_in_settings
    from hermes.models.credentials.oauth import authorization_server
    from hermes.models.credentials.sign_in import sign_in_on_another_device, sign_in_with_browser

    with contextlib.closing(HttpClient()) as http:
        server = authorization_server(provider, sign_in_settings(config), http)
        ways = {"--device": server.settings.device_url, "": server.settings.authorization_url}
        way = "--device" if on_device or not ways[""] else ""
        if not ways[way]:
            name = "device_url" if way else "authorization_url"
            raise CredentialError(f"{provider}: providers.{provider}.oauth.{name} is not set in config.yaml")
        opener = web_browser() if open_browser else None
        if way:
            return sign_in_on_another_device(server, lambda code: _show_code(code, opener))
        return sign_in_with_browser(server, lambda address: _show_address(address, opener, ways["--device"]))


def _show_address(address: str, opener: Callable[[str], object] | None, device_url: str) -> None:
    print("Open this URL in a browser on this machine and sign in:")
    print(f"\n  {plain(address)}\n")
    if device_url:
        print("(If the browser is on another machine, press Ctrl-C and use --device.)")
    print("Waiting ...", flush=True)
    if opener is not None:
        opener(address)


def _show_code(code: DeviceCode, opener: Callable[[str], object] | None) -> None:
    print("Open this URL in any browser and enter the code:")
    print(f"\n  {one_line(code.address)}\n  {one_line(code.user_code)}\n")
    print("Waiting ...", flush=True)
    address = code.direct_address or code.address
    from hermes.models.credentials.oauth import is_confidential_url

    # Only open web pages, not files or other URLs the server may name.
    if opener is not None and is_confidential_url(address):
        opener(address)


def _list(_args: argparse.Namespace, auth: AuthHome) -> Report:
    found = [one for provider in auth.file.providers() for one in auth.file.credentials(provider)]
    everything = sorted([*_configured(auth), *found], key=lambda one: one.provider)
    strategies = auth.config.credential_pool_strategies
    rows = [credential_row(one, strategies.get(one.provider, "fill_first")) for one in everything]
    return Report(
        {"path": str(auth.file.path), "credentials": rows},
        heads=("PROVIDER", "ID", "PROFILE", "KEY", "REQUESTS", "STATE"),
        rows=map(_cells, everything),
        left=6,
        empty="No credentials. 'hermes auth add PROVIDER' stores a key; 'hermes auth login PROVIDER' signs in.",
    )


def _configured(auth: AuthHome) -> list[Credential]:
    """The keys from the configuration and the environment; they are used before the stored ones."""
    config = auth.config
    main = config.model.provider
    if main in ("", "auto"):
        main = CUSTOM  # the provider of a base_url without one
    found: list[Credential] = []
    for provider in sorted({*PROFILES, *config.providers, main}):
        own = config.model if provider == main else ModelConfig()
        try:
            key = endpoint_for(config, auth.env, provider, "any", own).api_key
        except ConfigError:
            continue  # an unusable provider has no key
        if key:
            found.append(Credential(provider, "", "", key, source="configured"))
    return found


def key_from_terminal(provider: str) -> str:
    """The key typed at the terminal; empty for none."""
    return typed_secret(f"Key for {plain(provider)} (not shown):  ", "give the key on standard input with --key-stdin")


def credential_row(one: Credential, strategy: PoolStrategy) -> dict[str, Any]:
    """A credential as data."""
    now = time.time()
    return {
        "provider": one.provider,
        "id": one.id,
        "profile": one.label,
        "type": one.auth_type,
        "key": one.masked,
        "source": one.source,
        "strategy": strategy,
        "status": _status(one, now),
        "back_in_seconds": round(one.cooldown_until - now) if one.is_cooling_down(now) else None,
        "last_error_code": one.error_code,
        "last_error_reason": one.error_reason or None,
        "last_error_message": redact_text(one.error_message) or None,
        "requests": one.request_count,
        "last_used_at": one.last_used_at or None,
        "expires_at": one.expires_at,
    }


def _cells(one: Credential) -> tuple[str, ...]:
    stored = one.source != "configured"
    return (
        plain(one.provider),
        plain(one.id) or "-",
        plain(one.label) or "-",
        "sign-in" if one.auth_type == "oauth" else one.masked,
        str(one.request_count) if stored else "-",
        _state(one) if stored else "from the configuration or the environment, used first",
    )


def _state(one: Credential) -> str:
    now = time.time()
    why = ", ".join(filter(None, (plain(one.error_reason), f"HTTP {one.error_code}" if one.error_code else "")))
    match _status(one, now):
        case "dead":
            return f"ended ({why or 'refused'}); run: {plain(login_command(one))}"
        case "cooling_down":
            return f"cooling down, back in {_duration(one.cooldown_until - now)} ({why})"
        case "expired":
            return f"expired; run: {plain(login_command(one))}"
        case _:
            return f"ready, after a failure ({why})" if one.status == "exhausted" else "ready"


def _status(one: Credential, now: float) -> str:
    if one.status == "dead":
        return "dead"
    if one.is_cooling_down(now):
        return "cooling_down"
    return "expired" if one.has_expired(now) and not one.refresh_token else "ready"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3_600:.0f} h"


_PROVIDER = Argument("provider PROVIDER", "as 'hermes model list' shows it")
_PROFILE = Argument("--profile NAME", "the name to store it under", default="")

COMMAND = CommandSpec(
    default="list",
    opened=_opened_auth,
    epilog=_EXAMPLES,
    actions=(
        Action("add", _add, "store a key").takes(
            flag("--key-stdin", "read the key from standard input"), _PROVIDER, _PROFILE
        ),
        Action("list", _list, "list stored credentials and their state (the default)").takes(JSON),
        Action("remove", _remove, "remove a key or a sign-in").takes(
            _PROVIDER,
            Argument("id ID", "as 'hermes auth list' shows it", nargs="?", default=""),
            Argument("--profile NAME", "the name it is stored under", default=""),
        ),
        Action("login", _login, "sign in with OAuth instead of a key").takes(
            flag("--device", "sign in on another device, with a code"),
            flag("--no-browser", "only print the URL to open"),
            _PROVIDER,
            _PROFILE,
        ),
    ),
)
