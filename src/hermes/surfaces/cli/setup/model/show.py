"""``hermes model``: the model in use, the known providers and their state, and a test that asks a model."""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec.structs import astuple, replace

from hermes.agent.pipelines.attempt import Attempt
from hermes.base.errors import ConfigError, HermesError, NotConfigured, ProviderError
from hermes.base.scope import Interrupt
from hermes.models.endpoint import Endpoint, Timeouts
from hermes.models.local.endpoint import is_local
from hermes.models.local.install.parts import DOWNLOAD_SIZE
from hermes.models.profiles import CUSTOM
from hermes.models.reply import Reply
from hermes.models.retry import Failure, Send, attempts, retry
from hermes.models.wires.wire import ModelRequest
from hermes.surfaces.cli.arguments import JSON, Action, Argument, CommandSpec, flag
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.setup.model.problems import ModelProblem, address_of, explain, split_advice
from hermes.surfaces.cli.setup.model.select import Selection, ask, choose, pick_model, save, say
from hermes.surfaces.cli.setup.model.setup import (
    LIST_TIMEOUTS,
    LOCAL_TIMEOUTS,
    ModelSetup,
    all_at_once,
    known_provider,
    open_setup,
)
from hermes.surfaces.cli.terminal import is_interactive, one_line, print_lines, short_duration
from hermes.surfaces.commands.text import plural

_EXAMPLES = """
examples:
  hermes model                                       show the model in use; on a terminal, pick another
  hermes model list                                  list the known providers, and which can be used
  hermes model list groq                             list the models of one of them
  hermes model set groq:openai/gpt-oss-120b          asks for a missing key without showing it
  hermes model set openrouter qwen/qwen3-8b --key-stdin < key.txt
  hermes model set custom my-model --base-url http://127.0.0.1:8000/v1
  hermes model test                                  send one small request; exit code 0 when it is answered
"""


#: A model may have to be loaded before it can answer.
_FIRST_ANSWER = Timeouts(connect=10.0, first_byte=60.0, between_chunks=30.0, total=90.0)
#: Enough for a word. A model that thinks first may use them up without one, which is an answer too.
_FEW_TOKENS = 16


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
            count = "without a list of models" if self.models is None else plural(self.models, "model")
            return f"answers, {count}" if self.answers else "does not answer"
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
            row.missing = ""
            try:
                setup.local.settled([endpoint])
            except ConfigError as error:
                row.missing = str(error)
        elif not (row.key_name or row.key_from):
            unasked.append((row, endpoint))

    def look(asked: tuple[ProviderRow, Endpoint]) -> None:
        row, endpoint = asked
        try:
            models = setup.list_models_at(endpoint, refresh=refresh, timeouts=LOCAL_TIMEOUTS)
            row.answers, row.models = True, None if models is None else len(models)
        except HermesError:
            row.answers = False

    all_at_once(look, unasked)
    return rows


def _provider_row(setup: ModelSetup, name: str, endpoint: Endpoint, *, is_current: bool) -> ProviderRow:
    profile, named = setup.profiles.get(name), setup.config.providers.get(name)
    default = (named.model if named else "") or (profile.default_model if profile else "")
    return ProviderRow(
        name=name,
        address=address_of(endpoint),
        api_mode=endpoint.api_mode,
        default_model=(setup.config.model.default or default) if is_current else default,
        aliases=list(profile.aliases) if profile else [],
        current=is_current,
        key_from=setup.key_from(endpoint) or setup.stored_key(name),
        key_name=setup.key_name(name),
    )


def _show_current(_args: argparse.Namespace, setup: ModelSetup) -> None:
    """Show the model in use; on a terminal, offer to pick another."""
    try:
        lines = list(_current_lines(setup))
    except ConfigError as error:
        if not is_interactive():
            raise
        lines = ["No model is set up yet." if isinstance(error, NotConfigured) else str(error)]
    print_lines(lines)
    if not is_interactive():
        return
    print(flush=True)
    say("Pick another? The providers:")
    provider = pick_provider(provider_rows(setup))
    chosen = None if provider is None else pick_model(setup, provider)
    if chosen is None:
        say("Nothing was changed.")
    else:
        print_lines(save(setup, chosen))


def _list(args: argparse.Namespace, setup: ModelSetup) -> Report:
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
    key = setup.key_from(endpoint) or setup.stored_key(endpoint.provider)
    if not key:
        key = f"none; set {name}, or run: hermes model set {endpoint.provider}:{endpoint.model}" if name else "none"
    fallbacks = ", ".join(f"{one.model or 'the same'} ({one.provider})" for one in setup.config.fallback_providers)
    return [
        f"Model: {endpoint.model} at {endpoint.provider} ({address_of(endpoint)})",
        f"Why:   {setup.origins.of_choice(endpoint.provider)}",
        f"Key:   {key}",
        *([f"When it fails: {fallbacks}"] if fallbacks else []),
    ]


class ProbeResult(msgspec.Struct):
    """The result of the request."""

    ok: bool
    provider: str = ""
    model: str = ""
    address: str = ""
    api_mode: str = ""
    #: The model that says it answered, which may be another name for the same.
    answered_as: str = ""
    latency_ms: int | None = None
    #: The kind of problem: key, model, url, tls, proxy, dns, connection, timeout, billing and so on.
    problem: str = ""
    detail: str = ""
    fix: str = ""


def _test(args: argparse.Namespace, setup: ModelSetup) -> Report:
    outcome = _outcome(setup, args.words)
    if outcome.ok:
        known_as = f", which calls itself {outcome.answered_as}" if outcome.answered_as != outcome.model else ""
        took = short_duration((outcome.latency_ms or 0) / 1000)
        return Report(outcome, [f"{outcome.model} at {outcome.provider} works: it answered in {took}{known_as}"])
    problem = ModelProblem("other", outcome.detail, outcome.fix).line
    line = one_line(setup.redactor.redact(f"{outcome.problem}: {problem}"))
    return Report(outcome, notes=[f"Error: {line}"], code=1)


def _outcome(setup: ModelSetup, words: list[str]) -> ProbeResult:
    try:
        endpoint = setup.endpoint(*setup.named(words)) if words else setup.current()
    except ConfigError as error:
        detail, fix = split_advice(error)
        return ProbeResult(ok=False, problem="setup", detail=detail, fix=fix)
    outcome = ProbeResult(
        ok=False,
        provider=endpoint.provider,
        model=endpoint.model,
        address=address_of(endpoint),
        api_mode=endpoint.api_mode,
    )
    used = [endpoint]
    started = time.monotonic()
    try:
        answer = _ask_once(setup, endpoint, used)
    except HermesError as error:
        problem = _explained(setup, error, used[-1])
        outcome.problem, outcome.detail, outcome.fix = problem.kind, setup.redactor.redact(problem.detail), problem.fix
        return outcome
    outcome.ok, outcome.latency_ms = True, round((time.monotonic() - started) * 1000)
    outcome.answered_as = answer.model or endpoint.model
    return outcome


def _ask_once(setup: ModelSetup, endpoint: Endpoint, used: list[Endpoint]) -> Reply:
    """The answer, with any of the provider's keys; each endpoint that is tried is added to ``used``."""
    interrupt = Interrupt()
    question = ModelRequest([{"role": "user", "content": "Hello."}], max_tokens=_FEW_TOKENS)

    def attempt(send: Send) -> Reply | Failure:
        used.append(send.endpoint)
        try:
            return Attempt(setup.models, send.endpoint, question, interrupt).run()
        except ProviderError as error:
            return Failure(error)

    # The endpoint's limits where they are shorter than those of a test.
    limits = zip(astuple(endpoint.timeouts), astuple(_FIRST_ANSWER), strict=True)
    limited = replace(endpoint, timeouts=Timeouts(*(min(own or usual, usual) for own, usual in limits)))
    return retry(attempts([limited], 0, keys=setup.keys), interrupt, attempt)


def _explained(setup: ModelSetup, error: HermesError, used: Endpoint) -> ModelProblem:
    models: list[str] | None = None
    if isinstance(error, ProviderError) and error.reason in ("model_missing", "bad_request"):
        try:
            models = setup.list_models_at(replace(used, timeouts=LIST_TIMEOUTS), refresh=True)
        except HermesError:
            models = None  # what the model itself was asked matters more
    return explain(error, used, setup.key_from(used), models)


#: The text of one choice of the setup, and what asks for its details; None when the user cancels.
_SetupOption = tuple[str, Callable[[], Selection | None]]


def set_up(home: Path) -> bool:
    """Offer the choices and save the chosen model. Returns whether one was chosen."""
    with open_setup(home, show_warnings=False) as setup:  # already printed
        say("No model is set up yet. Which one do you want to use?")
        options = _options(setup)
        index = choose([text for text, _ in options])
        chosen = None if index is None else options[index][1]()
        if chosen is None:
            say("Cancelled: no model is set up. 'hermes model' sets one up later; 'hermes local install' needs no key.")
            return False
        for line in save(setup, chosen):
            say(line)
    say("'hermes model' shows and changes it; 'hermes model test' tests it.")
    say()
    return True


def _options(setup: ModelSetup) -> list[_SetupOption]:
    rows = provider_rows(setup)
    hosted = [row for row in rows if row.key_name]

    def with_model(row: ProviderRow, text: str) -> _SetupOption:
        return text, lambda: pick_model(setup, row.name)

    return [
        *(with_model(row, f"{row.name} at {row.address}, which {row.state}") for row in rows if row.answers),
        ("a provider you have a key for", lambda: _with_key(setup, hosted)),
        ("another server with an OpenAI-compatible API", lambda: _at_address(setup)),
        *(with_model(row, _embedded_text(row)) for row in rows if row.missing is not None),
    ]


def _embedded_text(row: ProviderRow) -> str:
    size = f", {DOWNLOAD_SIZE // 1_000_000} MB to download" if row.missing else ""
    return f"the embedded model: small, needs no key{size}"


def _with_key(setup: ModelSetup, rows: list[ProviderRow]) -> Selection | None:
    say("Which provider?")
    provider = pick_provider(rows)
    return None if provider is None else pick_model(setup, provider)


def _at_address(setup: ModelSetup) -> Selection | None:
    while True:
        address = ask("Its URL, such as http://127.0.0.1:8000/v1 (Enter to cancel): ")
        if not address:
            return None
        try:
            return pick_model(setup, CUSTOM, base_url=address)
        except ConfigError as error:
            say(str(error))


def _opened_setup(_args: argparse.Namespace) -> ModelSetup:
    # What is worth knowing is said here; the log is for conversations.
    logging.getLogger("hermes").addHandler(logging.NullHandler())
    return open_setup()


COMMAND = CommandSpec(
    run=_show_current,
    opened=_opened_setup,
    epilog=_EXAMPLES,
    actions=(
        Action("list", _list, "list the providers, or the models of one").takes(
            Argument("provider PROVIDER", "the provider to ask for its models", nargs="?", default=""),
            JSON,
            flag("--refresh", "ask again instead of using a recent list"),
        ),
        Action("set", "setup.model.select:run_set", "choose the model to use").takes(
            Argument("words [PROVIDER:]MODEL", "or PROVIDER MODEL", nargs="+"),
            Argument("--base-url URL", "the server's address, for provider custom", default=""),
            flag("--key-stdin", "read the key from standard input"),
            flag("--no-check", "do not ask the server whether it has the model"),
        ),
        Action("test", _test, "send one small request and report any problem").takes(
            Argument("words [PROVIDER:]MODEL", "instead of the model in use", nargs="*"), JSON
        ),
    ),
)
