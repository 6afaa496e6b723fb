"""The first run: nothing is set up, a person sits at the terminal, and so they are offered a choice of models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hermes.errors import ConfigError

if TYPE_CHECKING:
    from hermes.cli.model.select import Selection
    from hermes.cli.model.setup import ModelSetup
    from hermes.cli.model.show import ProviderRow


class Way(NamedTuple):
    """One way to get a model."""

    text: str
    #: Asks for the rest; None when the person leaves.
    choose: Callable[[], Selection | None]


def set_up(home: Path) -> bool:
    """Offer the ways to get a model, and write down what is chosen; whether anything was."""
    from hermes.cli.model.select import choose, save, say
    from hermes.cli.model.setup import open_setup

    with open_setup(home, show_warnings=False) as setup:  # they have just been told
        say("No model is set up yet. Which one should answer?")
        ways = _ways(setup)
        index = choose([way.text for way in ways])
        chosen = None if index is None else ways[index].choose()
        if chosen is None:
            say("Nothing was set up.")
            return False
        for line in save(setup, chosen):
            say(line)
    say("'hermes model' shows and changes it; 'hermes model test' tries it.")
    say()
    return True


def _ways(setup: ModelSetup) -> list[Way]:
    from hermes.cli.model.select import pick_model
    from hermes.cli.model.show import provider_rows

    rows = provider_rows(setup)
    here = [row for row in rows if row.answers]
    hosted = [row for row in rows if row.key_name]
    ways = [
        Way(f"{row.name} at {row.address}, which {row.state}", lambda name=row.name: pick_model(setup, name))
        for row in here
    ]
    ways.append(Way("a provider you have a key for", lambda: _with_key(setup, hosted)))
    ways.append(Way("another server that speaks the OpenAI format", lambda: _at_address(setup)))
    ways += [
        Way(_embedded_text(row), lambda name=row.name: pick_model(setup, name))
        for row in rows
        if row.missing is not None
    ]
    return ways


def _embedded_text(row: ProviderRow) -> str:
    from hermes.local.install.parts import DOWNLOAD_SIZE

    size = f", {DOWNLOAD_SIZE // 1_000_000} MB to download" if row.missing else ""
    return f"the embedded model: small, needs no key{size}"


def _with_key(setup: ModelSetup, rows: list[ProviderRow]) -> Selection | None:
    from hermes.cli.model.select import pick_model, say
    from hermes.cli.model.show import pick_provider

    say("Which provider?")
    provider = pick_provider(rows)
    return None if provider is None else pick_model(setup, provider)


def _at_address(setup: ModelSetup) -> Selection | None:
    from hermes.cli.model.select import ask, pick_model, say
    from hermes.models.profiles import CUSTOM

    while True:
        address = ask("Its address, such as http://127.0.0.1:8000/v1 (Enter to cancel): ")
        if not address:
            return None
        try:
            return pick_model(setup, CUSTOM, base_url=address)
        except ConfigError as error:
            say(str(error))
