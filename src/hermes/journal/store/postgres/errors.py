"""Errors of PostgreSQL, explained for the user who sees them. No message holds a password."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import errors

from hermes.base.errors import JournalError, JournalUnavailable
from hermes.journal.store.postgres.dialect import ConnectionCut

#: Another transaction got in between: the same work finds another state when it is run again.
CONFLICTS = (
    errors.UniqueViolation,
    errors.ForeignKeyViolation,
    errors.SerializationFailure,
    errors.DeadlockDetected,
)
#: The server is stopping, starting, has closed the connection, or has no connection or disk space left at the moment.
_AWAY = ("57P01", "57P02", "57P03", "53300", "53100")
_SETTING = "check journal.url"


def location_of(url: str) -> str:
    """An address without the password in it, and without parameters."""
    try:
        parts = urlsplit(url)
        login = f"{parts.username}@" if parts.username else ""
        port = f":{parts.port}" if parts.port else ""
        return urlunsplit((parts.scheme, f"{login}{parts.hostname or ''}{port}", parts.path, "", ""))
    except ValueError:
        return "the address in journal.url"


def is_connection_lost(error: BaseException) -> bool:
    """Whether the server is away or full, so that the same work may succeed later on another connection."""
    if isinstance(error, ConnectionCut):
        return True
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    state = error.sqlstate or ""
    if state:
        return state.startswith("08") or state in _AWAY
    return not _is_refusal(str(error))


def _is_refusal(text: str) -> bool:
    """Whether the server answered, and said no: it would again."""
    refused = ("authentication failed", "no password supplied", "does not exist", "SSL", "certificate", "pg_hba.conf")
    return any(word in text for word in refused) and "starting up" not in text


def explain(error: Exception, url: str) -> Exception:
    """The journal error that says what an error of the driver means; any other error as it is."""
    if not isinstance(error, psycopg.Error):
        return error
    explained = _explained(error, location_of(url), _password(url))
    explained.__cause__ = error
    return explained


def _password(url: str) -> str:
    try:
        return urlsplit(url).password or ""
    except ValueError:
        return ""


#: What an SQLSTATE means to the user.
_BY_STATE: dict[str, tuple[type[JournalError], str]] = {
    "42501": (JournalError, "{where}: the user may not do that ({text}); grant it the rights, or " + _SETTING),
    "25006": (
        JournalError,
        "{where} is read-only, perhaps a replica; " + _SETTING + " so that it names the primary server",
    ),
    "53100": (JournalUnavailable, "{where}: no space left on the disk of the server; free some and try again"),
    "53300": (JournalUnavailable, "{where} has no connection left ({text}); raise its max_connections"),
}


def _first_line(error: psycopg.Error, password: str) -> str:
    """What the server says, without the password."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    text = lines[0].strip().rstrip(".")
    return text.replace(password, "***") if password else text


def _says(text: str, *phrases: str) -> bool:
    return any(phrase in text for phrase in phrases)


def _explained(error: psycopg.Error, where: str, password: str) -> JournalError:
    text = _first_line(error, password)
    state = error.sqlstate or ""
    if state.startswith("28") or _says(text, "authentication failed", "no password supplied"):
        return JournalError(f"{where} refuses the user or the password; {_SETTING}")
    if state == "3D000" or ("database" in text and "does not exist" in text):
        return JournalError(f"{where}: there is no such database; create it, or {_SETTING}")
    if _says(text, "SSL", "certificate", "pg_hba.conf"):
        return JournalError(f"{where}: no encrypted connection as it is demanded ({text}); {_SETTING} (sslmode=…)")
    if state in _BY_STATE:
        kind, message = _BY_STATE[state]
        return kind(message.format(where=where, text=text))
    if isinstance(error, psycopg.ProgrammingError) and not state:
        return JournalError(f"journal.url cannot be read as an address ({text.partition(':')[0]})")
    if is_connection_lost(error):
        return JournalUnavailable(f"{where} cannot be reached ({text}); is the server running?")
    return JournalError(f"the journal at {where} failed: {text}")
