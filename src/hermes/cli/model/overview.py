"""The providers that are known: which have a key, which of those on this machine answer, and which is in use."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import msgspec

from hermes.cli.model.desk import SHORT_PATIENCE, Desk
from hermes.cli.model.problems import place
from hermes.errors import ConfigError, HermesError
from hermes.local.endpoint import is_local
from hermes.models.endpoint import Endpoint
from hermes.models.profiles import CUSTOM


class ProviderRow(msgspec.Struct):
    """A provider as it stands."""

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


def provider_rows(desk: Desk, *, refresh: bool = False) -> list[ProviderRow]:
    """Every provider; those that want no key are asked, all at the same time and with little patience."""
    current = desk.current_provider()
    names = [*desk.profiles, *(name for name in desk.config.providers if name not in desk.profiles)]
    if current == CUSTOM and CUSTOM not in names:
        names.append(CUSTOM)
    rows: list[ProviderRow] = []
    unasked: list[tuple[ProviderRow, Endpoint]] = []
    for name in names:
        try:
            endpoint = desk.somewhere_at(name)
        except ConfigError:
            continue  # switched off, or without an address
        row = _row(desk, name, endpoint, is_current=name == current)
        rows.append(row)
        if is_local(endpoint):
            row.missing = _missing(desk, endpoint)
        elif not (row.key_name or row.key_from):
            unasked.append((row, endpoint))
    _ask(desk, unasked, refresh=refresh)
    return rows


def row_lines(rows: Sequence[ProviderRow]) -> Iterator[str]:
    """A table, a line each; the provider in use has a star."""
    cells = [("  PROVIDER", "MODEL", "STATE")]
    cells += [(f"{'*' if row.current else ' '} {row.name}", row.default_model or "-", row.state) for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(2)]
    for name, model, state in cells:
        yield f"{name:<{widths[0]}}  {model:<{widths[1]}}  {state}"


def _row(desk: Desk, name: str, endpoint: Endpoint, *, is_current: bool) -> ProviderRow:
    profile, named = desk.profiles.get(name), desk.config.providers.get(name)
    key_from = desk.key_from(endpoint)
    if not key_from and desk.keys.has(name):
        key_from = "stored by hermes auth"
    default = (named.model if named else "") or (profile.default_model if profile else "")
    return ProviderRow(
        name=name,
        address=place(endpoint),
        api_mode=endpoint.api_mode,
        default_model=(desk.config.model.default or default) if is_current else default,
        aliases=list(profile.aliases) if profile else [],
        current=is_current,
        key_from=key_from,
        key_name=desk.key_name(name),
    )


def _missing(desk: Desk, endpoint: Endpoint) -> str:
    try:
        desk.local.settled([endpoint])
    except ConfigError as error:
        return str(error)
    return ""


def _ask(desk: Desk, rows: Sequence[tuple[ProviderRow, Endpoint]], *, refresh: bool) -> None:
    def look(row: ProviderRow, endpoint: Endpoint) -> None:
        try:
            models = desk.models_at(endpoint, refresh=refresh, patience=SHORT_PATIENCE)
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
