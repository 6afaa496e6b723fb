"""First-run setup: offers a choice of models at the terminal when none is set up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hermes.base.errors import ConfigError

if TYPE_CHECKING:
    from hermes.surfaces.cli.setup.model.select import Selection
    from hermes.surfaces.cli.setup.model.setup import ModelSetup
    from hermes.surfaces.cli.setup.model.show import ProviderRow


class SetupOption(NamedTuple):
    """One choice of the setup."""

    text: str
    #: Asks for the details; None when the user cancels.
    choose: Callable[[], Selection | None]


def set_up(home: Path) -> bool:
    """Offer the choices and save the chosen model. Returns whether one was chosen."""
    from hermes.surfaces.cli.setup.model.select import choose, save, say
    from hermes.surfaces.cli.setup.model.setup import open_setup

    with open_setup(home, show_warnings=False) as setup:  # already printed
        say("No model is set up yet. Which one do you want to use?")
        options = _options(setup)
        index = choose([option.text for option in options])
        chosen = None if index is None else options[index].choose()
        if chosen is None:
            say("Cancelled: no model is set up. 'hermes model' sets one up later; 'hermes local install' needs no key.")
            return False
        for line in save(setup, chosen):
            say(line)
    say("'hermes model' shows and changes it; 'hermes model test' tests it.")
    say()
    return True


def _options(setup: ModelSetup) -> list[SetupOption]:
    from hermes.surfaces.cli.setup.model.select import pick_model
    from hermes.surfaces.cli.setup.model.show import provider_rows

    rows = provider_rows(setup)
    here = [row for row in rows if row.answers]
    hosted = [row for row in rows if row.key_name]
    options = [
        SetupOption(f"{row.name} at {row.address}, which {row.state}", lambda name=row.name: pick_model(setup, name))
        for row in here
    ]
    options.append(SetupOption("a provider you have a key for", lambda: _with_key(setup, hosted)))
    options.append(SetupOption("another server with an OpenAI-compatible API", lambda: _at_address(setup)))
    options += [
        SetupOption(_embedded_text(row), lambda name=row.name: pick_model(setup, name))
        for row in rows
        if row.missing is not None
    ]
    return options


def _embedded_text(row: ProviderRow) -> str:
    from hermes.models.local.install.parts import DOWNLOAD_SIZE

    size = f", {DOWNLOAD_SIZE // 1_000_000} MB to download" if row.missing else ""
    return f"the embedded model: small, needs no key{size}"


def _with_key(setup: ModelSetup, rows: list[ProviderRow]) -> Selection | None:
    from hermes.surfaces.cli.setup.model.select import pick_model, say
    from hermes.surfaces.cli.setup.model.show import pick_provider

    say("Which provider?")
    provider = pick_provider(rows)
    return None if provider is None else pick_model(setup, provider)


def _at_address(setup: ModelSetup) -> Selection | None:
    from hermes.models.profiles import CUSTOM
    from hermes.surfaces.cli.setup.model.select import ask, pick_model, say

    while True:
        address = ask("Its URL, such as http://127.0.0.1:8000/v1 (Enter to cancel): ")
        if not address:
            return None
        try:
            return pick_model(setup, CUSTOM, base_url=address)
        except ConfigError as error:
            say(str(error))
