"""The first run: nothing is set up, a person sits at the terminal, and so they are offered a choice of models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hermes.errors import ConfigError

if TYPE_CHECKING:
    from hermes.cli.model.desk import Desk
    from hermes.cli.model.overview import ProviderRow
    from hermes.cli.model.saving import Selection


class Way(NamedTuple):
    """One way to get a model."""

    text: str
    #: Asks for the rest; None when the person leaves.
    choose: Callable[[], Selection | None]


def set_up(home: Path) -> bool:
    """Offer the ways to get a model, and write down what is chosen; whether anything was."""
    from hermes.cli.model.asking import choose, say
    from hermes.cli.model.desk import open_desk
    from hermes.cli.model.saving import save

    with open_desk(home, tell_warnings=False) as desk:  # they have just been told
        say("No model is set up yet. Which one should answer?")
        ways = _ways(desk)
        index = choose([way.text for way in ways])
        chosen = None if index is None else ways[index].choose()
        if chosen is None:
            say("Nothing was set up.")
            return False
        for line in save(desk, chosen):
            say(line)
    say("'hermes model' shows and changes it; 'hermes model test' tries it.")
    say()
    return True


def _ways(desk: Desk) -> list[Way]:
    from hermes.cli.model.overview import provider_rows
    from hermes.cli.model.selecting import pick_model

    rows = provider_rows(desk)
    here = [row for row in rows if row.answers]
    hosted = [row for row in rows if row.key_name]
    ways = [
        Way(f"{row.name} at {row.address}, which {row.state}", lambda name=row.name: pick_model(desk, name))
        for row in here
    ]
    ways.append(Way("a provider you have a key for", lambda: _with_key(desk, hosted)))
    ways.append(Way("another server that speaks the OpenAI format", lambda: _at_address(desk)))
    ways += [
        Way(_embedded_text(row), lambda name=row.name: pick_model(desk, name))
        for row in rows
        if row.missing is not None
    ]
    return ways


def _embedded_text(row: ProviderRow) -> str:
    from hermes.local.install.parts import DOWNLOAD_SIZE

    size = f", {DOWNLOAD_SIZE // 1_000_000} MB to download" if row.missing else ""
    return f"the embedded model: small, needs no key{size}"


def _with_key(desk: Desk, rows: list[ProviderRow]) -> Selection | None:
    from hermes.cli.model.asking import say
    from hermes.cli.model.current import pick_provider
    from hermes.cli.model.selecting import pick_model

    say("Which provider?")
    provider = pick_provider(rows)
    return None if provider is None else pick_model(desk, provider)


def _at_address(desk: Desk) -> Selection | None:
    from hermes.cli.model.asking import ask, say
    from hermes.cli.model.selecting import pick_model
    from hermes.models.profiles import CUSTOM

    while True:
        address = ask("Its address, such as http://127.0.0.1:8000/v1 (Enter alone leaves it): ")
        if not address:
            return None
        try:
            return pick_model(desk, CUSTOM, base_url=address)
        except ConfigError as error:
            say(str(error))
