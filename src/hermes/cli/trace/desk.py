"""What the actions share: the journal of the home, the session that is meant, and how figures are written."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator
from pathlib import Path

import msgspec

from hermes.cli.text.terminal import cells, plain
from hermes.config import hermes_home
from hermes.errors import CredentialError, SessionNotFound
from hermes.journal.sessions import Sessions
from hermes.journal.store import Store
from hermes.sanitize import Redactor

_NARROWEST = 24
#: Below this there is no room for everything.
NARROW = 60
_WIDTH_WITHOUT_TERMINAL = 100
#: How many sessions are looked through for an id like one that does not exist.
_LOOKED_THROUGH = 1_000


@contextlib.contextmanager
def open_store() -> Generator[Store]:
    """The journal of the home."""
    with contextlib.closing(Store(hermes_home() / "state.db")) as store:
        yield store


def guard() -> Redactor:
    """Masks the very keys of this home and of the environment, whatever they look like."""
    from hermes.cli.doctor.installation import Installation
    from hermes.models.credentials.auth_file import AuthFile

    home = hermes_home()
    redactor = Installation(home, Path.cwd()).redactor
    # A file that cannot be read holds no key that anybody used.
    with contextlib.suppress(CredentialError):
        file = AuthFile(home)
        for stored in (one for provider in file.providers() for one in file.credentials(provider)):
            redactor.add_secret(stored.secret)
            redactor.add_secret(stored.refresh_token)
    return redactor


def session_named(store: Store, name: str | None) -> str:
    """The id of the session with that id or beginning of one; of the one used last when there is no name."""
    sessions = Sessions(store)
    if not name:
        latest = sessions.latest()
        if latest is None:
            raise SessionNotFound("no session is on record yet; start one with: hermes chat --query TEXT")
        return latest.id
    try:
        return sessions.get(name).id
    except SessionNotFound as error:
        near = _near(sessions, name) if str(error).startswith("no session") else []
        if not near:
            raise
        found = " or ".join(near)
        raise SessionNotFound(
            f"no session {name!r}; did you mean {found}? 'hermes trace list' shows those there are"
        ) from None


def _near(sessions: Sessions, name: str) -> list[str]:
    import difflib

    ids = [row.id for row in sessions.list(limit=_LOOKED_THROUGH, children=True)]
    return difflib.get_close_matches(name, ids, n=3, cutoff=0.6)


# -- writing --------------------------------------------------------------------------------------------------------


def print_json(value: object) -> None:
    """One document, for a program."""
    text = msgspec.json.format(msgspec.json.encode(value)).decode()
    print(plain(text) if sys.stdout.isatty() else text)


def width() -> int:
    """How many columns there are; what is not read on a terminal has a fixed number."""
    try:
        found = int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        try:
            found = os.get_terminal_size(sys.stdout.fileno()).columns
        except (OSError, ValueError):
            found = _WIDTH_WITHOUT_TERMINAL
    return max(found, _NARROWEST)


def duration(seconds: float | None) -> str:
    """A duration in few characters; a dash when it is not known."""
    if seconds is None:
        return "-"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def cost(usd: float | None) -> str:
    """An amount; a dash when no price is known."""
    if usd is None:
        return "-"
    # Small sums would be nothing with two places.
    return f"${usd:,.2f}" if usd >= 1 else f"${usd:.4f}"


def count(number: int, noun: str) -> str:
    """How many of something, in words."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def table(rows: list[tuple[str, ...]], left: int = 1) -> list[str]:
    """Rows under one another; the first columns start at the left, the others end at the right."""
    widths = [max(cells(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines: list[str] = []
    for row in rows:
        padded = (
            cell + " " * (size - cells(cell)) if column < left else " " * (size - cells(cell)) + cell
            for column, (cell, size) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(padded).rstrip())
    return lines
