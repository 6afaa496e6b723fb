"""``auth.json``: read when it changed, edited under a lock and replaced whole, kept aside when it is damaged."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec

from hermes.errors import ConfigError, CredentialError
from hermes.models.credentials.credential import Credential, Record, read_credential

log = logging.getLogger("hermes.credentials")

VERSION = 1
#: Far more than all the keys anybody has.
_MAX_BYTES = 4_000_000

#: The records of each provider, in the order in which they were added.
Pool = dict[str, list[Record]]
Document = dict[str, Any]


def auth_path(home: Path) -> Path:
    """The credentials of a home."""
    return home / "auth.json"


def records_of(pool: Pool, provider: str) -> Iterator[Record]:
    """The records of one provider; those of a named endpoint may stand under ``custom:<name>`` too."""
    for name in (provider, f"custom:{provider}"):
        yield from (record for record in pool.get(name, ()) if isinstance(record, dict))  # pyright: ignore[reportUnnecessaryIsInstance]


class AuthFile:
    """The stored credentials of a home. Reading again costs one ``stat`` as long as the file is the same."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.path = auth_path(home)
        #: What the person should know about the file, one line each.
        self.notices: list[str] = []
        self._seen: tuple[int, ...] | None = None
        self._pool: Pool = {}
        self._lock = threading.Lock()

    def pool(self) -> Pool:
        """The records as they stand in the file now. They must not be changed: use ``edit``."""
        with self._lock:
            seen = self._signature()
            if seen != self._seen:
                self._pool = {} if seen is None else _pool_of(self._read())
                self._seen = seen
            return self._pool

    def credentials(self, provider: str) -> list[Credential]:
        """The usable credentials of a provider, those to be preferred first."""
        found = (read_credential(provider, record) for record in records_of(self.pool(), provider))
        return sorted((one for one in found if one is not None), key=lambda one: one.priority)

    def providers(self) -> list[str]:
        """The providers that have a usable credential."""
        names = dict.fromkeys(name.removeprefix("custom:") for name in self.pool())
        return [name for name in names if self.credentials(name)]

    def edit(self, change: Callable[[Pool], None]) -> None:
        """Change the records. Others wait for their turn, and nobody ever sees half of it."""
        from hermes.config.files import locked, write_atomically  # what only reads can do without

        with locked(self.home):
            data = self._bytes()
            document, problem = _parse(data)
            if problem:
                # What cannot be read would be lost by the write, so it must be safe elsewhere first.
                self._report(problem, self._keep_aside(data))
            pool: Pool = document.setdefault("credential_pool", {})
            change(pool)
            document["version"] = VERSION
            document["updated_at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            self._make_room()
            write_atomically(self.path, msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n")
            self._seen = None  # two writes of one instant may look alike

    # -- reading ------------------------------------------------------------------------------------------------

    def _signature(self) -> tuple[int, ...] | None:
        try:
            found = os.stat(self.path)  # noqa: PTH116  (half the cost, and paid before every request)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unreadable(self.path, error) from None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _read(self) -> Document:
        document, problem = _parse(self._bytes())
        if not problem:
            return document
        from hermes.config.files import locked

        try:
            with locked(self.home):
                data = self._bytes()
                document, problem = _parse(data)  # a writer may have replaced it meanwhile
                if problem:
                    self._report(problem, self._keep_aside(data))
        except ConfigError as error:
            self._report(problem, None, f"it could not be copied: {error}")
        return document

    def _bytes(self) -> bytes:
        try:
            with self.path.open("rb") as file:
                data = file.read(_MAX_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return b""
        except OSError as error:
            raise _unreadable(self.path, error) from None
        if len(data) > _MAX_BYTES:
            raise CredentialError(f"{self.path}: larger than {_MAX_BYTES // 1_000_000} MB; move it away")
        return data

    # -- damage -------------------------------------------------------------------------------------------------

    def _keep_aside(self, data: bytes) -> Path:
        """Copy what the file held to a name of its own. The same damage is copied once only."""
        for number in range(1, 1000):
            copy = self.path.with_name(f"{self.path.name}.corrupt" + (f"-{number}" if number > 1 else ""))
            try:
                fd = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileExistsError:
                if copy.read_bytes() == data:
                    return copy
                continue
            except OSError as error:
                raise ConfigError(f"{copy}: cannot be written: {error.strerror}") from None
            try:
                with os.fdopen(fd, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(fd)
            except OSError as error:
                copy.unlink(missing_ok=True)
                raise ConfigError(f"{copy}: cannot be written: {error.strerror}") from None
            return copy
        raise ConfigError(f"{self.path}: damaged a thousand times; remove the copies named {self.path.name}.corrupt-*")

    def _report(self, problem: str, copy: Path | None, trouble: str = "") -> None:
        kept = f"it was copied to {copy.name}" if copy else trouble
        notice = f"{self.path} is damaged ({problem}) and its credentials are not used; {kept}"
        if notice not in self.notices:
            self.notices.append(notice)
            log.warning("%s", notice)

    def _make_room(self) -> None:
        """Close the file to others, since a write keeps its mode, and remove what a killed writer left beside it."""
        target = Path(os.path.realpath(self.path))
        try:
            if target.exists():
                target.chmod(0o600)
            for left in target.parent.glob(f".{target.name}.*.tmp"):
                left.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be written: {error.strerror}; the file is unchanged") from None


def _unreadable(path: Path, error: OSError) -> CredentialError:
    return CredentialError(f"{path}: cannot be read: {error.strerror}; check what it is and who may read it")


def _parse(data: bytes) -> tuple[Document, str]:
    """The document, and what is wrong with it; a damaged one counts as empty."""
    if not data.strip():
        return {}, ""
    try:
        document: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # The library's message may quote the text, which is made of keys.
        return {}, "it is not JSON"
    if not isinstance(document, dict):
        return {}, "it is not an object"
    fields = cast("Document", document)
    version = fields.get("version", VERSION)
    if isinstance(version, int) and version > VERSION:
        raise CredentialError(
            f"auth.json was written by a newer version of hermes (version {version}, this one knows {VERSION}); "
            f"upgrade hermes, or set HERMES_HOME to another folder. The file was not changed."
        )
    pool = fields.get("credential_pool", {})
    lists = cast("dict[str, Any]", pool).values() if isinstance(pool, dict) else [None]
    if not all(isinstance(records, list) for records in lists):
        return {}, "credential_pool is not a list of credentials for each provider"
    return fields, ""


def _pool_of(document: Document) -> Pool:
    return document.get("credential_pool", {})
