"""First-run setup: offers a choice of models at the terminal when none is set up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hermes.base.errors import ConfigError
from hermes.models.local.install.parts import DOWNLOAD_SIZE
from hermes.models.profiles import CUSTOM
from hermes.surfaces.cli.setup.model.select import Selection, ask, choose, pick_model, save, say
from hermes.surfaces.cli.setup.model.setup import ModelSetup, open_setup
from hermes.surfaces.cli.setup.model.show import ProviderRow, pick_provider, provider_rows

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
