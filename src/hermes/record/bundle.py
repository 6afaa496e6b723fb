"""Bundles: a recorded session in one file, which another machine can replay, compare and verify.

A bundle is text: a line that says what it is, a line for each row, and a line with the digest of all lines before.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec

from hermes.base.errors import HermesError, JournalError
from hermes.base.version import __version__
from hermes.journal.history.copies import SessionRows, check_size, read_sessions, write_rows
from hermes.journal.history.rows import family_ids
from hermes.journal.sessions import Sessions
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store, open_store
from hermes.journal.store.schema import MIGRATIONS

#: The values that a row of a journal can have, beside bytes.
_PlainRow = dict[str, Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | float | str | bool | None]
#: Raised when a reader of today could not understand the file.
BUNDLE_VERSION = 1
_MARK = "hermes_bundle"


def write_bundle(store: Store, session_id: str) -> str:
    """A session with its children as the text of a bundle. Secrets are masked, as they are in the journal."""
    row = Sessions(store).get(session_id)
    check_size(store, row.id)

    def read(connection: JournalConnection) -> SessionRows:
        return read_sessions(connection, family_ids(connection, row.id))

    lines = list(_lines(row.id, store.read(read)))
    text = "".join(f"{line}\n" for line in lines)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f'{text}{{"sha256":"{digest}"}}\n'


def _lines(session_id: str, rows: SessionRows) -> Iterator[str]:
    yield _encode({_MARK: BUNDLE_VERSION, "schema": len(MIGRATIONS), "hermes": __version__, "session": session_id})
    for digest, data in sorted(rows.blobs.items()):
        yield _encode({"blob": digest, "data": data})
    for table, found in rows.tables.items():
        for row in found:
            plain = {name: value for name, value in row.items() if not isinstance(value, bytes)}
            raw = {name: value.hex() for name, value in row.items() if isinstance(value, bytes)}
            yield _encode({"table": table, "row": plain, **({"hex": raw} if raw else {})})
    for used_by, digest in sorted(rows.uses):
        yield _encode({"use": digest, "session": used_by})


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()


def is_bundle(path: Path) -> bool:
    """Whether a file begins like a bundle."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MARK) + 2).startswith(f'{{"{_MARK}'.encode())
    except OSError:
        return False


def read_bundle(path: Path) -> tuple[str, SessionRows]:
    """The session's id and its rows. Raises ``HermesError`` when the file is no whole bundle that can be read here."""
    try:
        text = path.read_bytes().replace(b"\r\n", b"\n").decode()
    except (OSError, UnicodeDecodeError) as error:
        raise HermesError(f"{path} cannot be read: {error}") from None
    lines = text.splitlines()
    head = _decode(path, 1, lines[0]) if lines else {}
    if _MARK not in head:
        raise HermesError(f"{path} is not a bundle; 'hermes sessions export ID --bundle FILE' writes one")
    version, schema, session_id = (head.get(name) for name in (_MARK, "schema", "session"))
    if not isinstance(version, int) or not isinstance(schema, int) or not isinstance(session_id, str):
        raise _no_part(path, 1)
    if version > BUNDLE_VERSION or schema > len(MIGRATIONS):
        raise HermesError(
            f"{path} was written by hermes {head.get('hermes', '')}, which is newer than this one "
            f"(schema {schema}, this one knows {len(MIGRATIONS)}); upgrade hermes"
        )
    end = _decode(path, len(lines), lines[-1])
    digest = hashlib.sha256("".join(f"{line}\n" for line in lines[:-1]).encode()).hexdigest()
    if end.get("sha256") != digest:
        raise HermesError(f"{path} is cut off or was changed: its last line does not fit the lines before it")
    rows = SessionRows()
    for number, line in enumerate(lines[1:-1], start=2):
        found = _decode(path, number, line)
        try:
            _add(rows, found)
        except (LookupError, TypeError, ValueError, AttributeError):
            raise _no_part(path, number) from None
    if not any(row.get("id") == session_id for row in rows.tables["sessions"]):
        raise HermesError(f"{path} does not have the session {session_id} that it names; export it again")
    return session_id, rows


def _decode(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        found: Any = msgspec.json.decode(line)
    except msgspec.DecodeError:
        found = None
    if not isinstance(found, dict):
        raise _no_part(path, number)
    return cast("dict[str, Any]", found)


def _no_part(path: Path, number: int) -> HermesError:
    return HermesError(f"{path}, line {number}: this is not part of a bundle")


def _add(rows: SessionRows, line: dict[str, Any]) -> None:
    """Add what a line has. Raises one of several errors when it has something else."""
    if "blob" in line:
        data: str = line["data"]
        if hashlib.sha256(data.encode()).hexdigest() != line["blob"]:
            raise ValueError("another text")
        rows.blobs[line["blob"]] = data
    elif "use" in line:
        rows.uses.add(msgspec.convert((line["session"], line["use"]), tuple[str, str]))
    else:
        raw = {name: bytes.fromhex(value) for name, value in line.get("hex", {}).items()}
        rows.tables[line["table"]].append({**msgspec.convert(line["row"], _PlainRow), **raw})


@contextlib.contextmanager
def open_bundle(path: Path) -> Generator[tuple[Store, str]]:
    """A bundle as a journal of its own, for as long as the block runs, and the id of its session."""
    session_id, rows = read_bundle(path)
    with (
        tempfile.TemporaryDirectory(prefix="hermes-bundle-") as folder,
        contextlib.closing(open_store(Path(folder))) as store,
    ):
        try:
            store.write(lambda connection: write_rows(connection, rows))
        except JournalError as error:
            if isinstance(error.__cause__, sqlite3.OperationalError):
                raise  # about the folder for temporary files, not about the bundle
            raise HermesError(f"{path} has rows that do not fit each other: {error.__cause__ or error}") from None
        yield store, session_id
