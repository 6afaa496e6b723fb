"""Credential store: ``auth.json``, edited under a lock, replaced atomically, backed up when it is damaged."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from hermes.base.errors import ConfigError, CredentialError, did_you_mean
from hermes.models.credentials.credential import Credential, StoredFields, read_credential

if TYPE_CHECKING:
    from hermes.models.credentials.oauth import Tokens

log = logging.getLogger("hermes.credentials")

VERSION = 1
#: Far more than all keys need.
_MAX_BYTES = 4_000_000
_MAX_NAME = 64

#: The records of each provider, in the order in which they were added.
StoredRecords = dict[str, list[StoredFields]]
Document = dict[str, Any]


def records_of(pool: StoredRecords, provider: str) -> Iterator[StoredFields]:
    """The records of one provider; those of a named endpoint may be under ``custom:<name>`` too."""
    for name in (provider, f"custom:{provider}"):
        yield from (record for record in pool.get(name, ()) if isinstance(record, dict))  # pyright: ignore[reportUnnecessaryIsInstance]


class AuthFile:
    """The stored credentials of a home. Reading again costs one ``stat`` as long as the file is the same."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.path = home / "auth.json"
        #: Notices about the file for the user, one line each.
        self.notices: list[str] = []
        self._seen: tuple[int, ...] | None = None
        self._pool: StoredRecords = {}
        self._lock = threading.Lock()

    def pool(self) -> StoredRecords:
        """The current records of the file. They must not be changed: use ``edit``."""
        with self._lock:
            seen = self._signature()
            if seen != self._seen:
                self._pool = {} if seen is None else self._read().get("credential_pool", {})
                self._seen = seen
            return self._pool

    def credentials(self, provider: str) -> list[Credential]:
        """The usable credentials of a provider, in order of preference."""
        found = (read_credential(provider, record) for record in records_of(self.pool(), provider))
        return sorted((one for one in found if one is not None), key=lambda one: one.priority)

    def providers(self) -> list[str]:
        """The providers that have a usable credential."""
        names = dict.fromkeys(name.removeprefix("custom:") for name in self.pool())
        return [name for name in names if self.credentials(name)]

    def edit(self, change: Callable[[StoredRecords], None]) -> None:
        """Change the records under the lock of the home, and replace the file atomically."""
        from hermes.base.config.files import locked, write_atomically  # not needed for reading

        with locked(self.home):
            data = self._bytes()
            document, problem = _parse(data)
            if problem:
                # The write would destroy the unreadable content, so it is backed up first.
                self._report(problem, self._back_up(data))
            pool: StoredRecords = document.setdefault("credential_pool", {})
            change(pool)
            document["version"] = VERSION
            document["updated_at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            self._prepare_write()
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
        from hermes.base.config.files import locked

        try:
            with locked(self.home):
                data = self._bytes()
                document, problem = _parse(data)  # a writer may have replaced it meanwhile
                if problem:
                    self._report(problem, self._back_up(data))
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

    def _back_up(self, data: bytes) -> Path:
        """Copy the damaged content to a new file, under the lock of the home. The same content is copied once only."""
        from hermes.base.config.files import replace_file

        for number in range(1, 1000):
            copy = self.path.with_name(f"{self.path.name}.corrupt" + (f"-{number}" if number > 1 else ""))
            try:
                if not copy.exists():
                    replace_file(copy, data)
                if copy.read_bytes() == data:
                    return copy
            except OSError as error:
                raise ConfigError(f"{copy}: cannot be written: {error.strerror}") from None
        raise ConfigError(f"{self.path}: damaged a thousand times; remove the copies named {self.path.name}.corrupt-*")

    def _report(self, problem: str, copy: Path | None, trouble: str = "") -> None:
        kept = f"it was copied to {copy.name}" if copy else trouble
        notice = f"{self.path} is damaged ({problem}) and its credentials are not used; {kept}"
        if notice not in self.notices:
            self.notices.append(notice)
            log.warning("%s", notice)

    def _prepare_write(self) -> None:
        """Make the file private, since a write keeps its mode, and remove temporary files of killed writers."""
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
    """The document and its damage, if any; a damaged one counts as empty."""
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


# -- adding and removing -------------------------------------------------------------------------------------------


def add_key(file: AuthFile, provider: str, key: str, profile: str = "") -> Credential:
    """Store a key. One that is there already, or a name that is taken, is refused."""
    _check_name(profile)
    check_key(key)
    stored: StoredFields = {"id": _new_id(), "label": profile, "auth_type": "api_key", "access_token": key}

    def change(pool: StoredRecords) -> None:
        known = list(records_of(pool, provider))
        for record in known:
            if record.get("access_token") == key:
                raise CredentialError(f"this key is stored for {provider} already, as {record.get('label')!r}")
        _check_name_free(provider, known, profile)
        stored["label"] = profile or _free_name(known)
        _append(pool, provider, stored)

    file.edit(change)
    return _as_credential(provider, stored)


def check_key(key: str) -> None:
    """Raise ``CredentialError`` for a text that cannot be a key."""
    if not key:
        raise CredentialError("the key is empty; nothing was stored")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise CredentialError(
            "the key has characters that no key has (a blank, a line break or a non-ASCII letter); copy it again"
        )


def add_sign_in(file: AuthFile, provider: str, tokens: Tokens, profile: str = "") -> Credential:
    """Store the tokens of a sign-in. A sign-in of the same name is replaced; a key of that name is not."""
    _check_name(profile)
    label = profile or "login"
    fields = {name: value for name, value in tokens.as_fields().items() if value is not None}
    stored: StoredFields = {"id": _new_id(), "label": label, "auth_type": "oauth", **fields}

    def change(pool: StoredRecords) -> None:
        known = [record for record in records_of(pool, provider) if record.get("label") == label]
        _check_name_free(provider, [one for one in known if one.get("auth_type") != "oauth"], label)
        # A new id, so that pending changes of the old sign-in are not applied to this one.
        _remove_records(pool, provider, {str(record.get("id")) for record in known})
        _append(pool, provider, stored)

    file.edit(change)
    return _as_credential(provider, stored)


def remove(file: AuthFile, provider: str, which: str = "") -> Credential:
    """Remove the credential of that name or id; without one, the only credential."""
    removed: list[Credential] = []

    def change(pool: StoredRecords) -> None:
        known = [one for record in records_of(pool, provider) if (one := read_credential(provider, record))]
        found = [one for one in known if not which or which in (one.label, one.id)]
        if len(found) != 1:
            raise CredentialError(_not_one(provider, which, known, found))
        _remove_records(pool, provider, {found[0].id})
        removed.append(found[0])

    file.edit(change)
    return removed[0]


def _not_one(provider: str, which: str, known: list[Credential], found: list[Credential]) -> str:
    if not known:
        return f"nothing is stored for {provider}; 'hermes auth list' shows what is"
    if not found:
        hint = did_you_mean(which, [one.label for one in known])
        return f"no credential {which!r} is stored for {provider}{hint}"
    names = ", ".join(f"{one.id} ({one.label})" for one in found)
    return f"{provider} has several credentials that could be meant; name one of: {names}"


def _append(pool: StoredRecords, provider: str, record: StoredFields) -> None:
    record.update(source="manual", priority=len(list(records_of(pool, provider))), last_status="ok", request_count=0)
    pool.setdefault(provider, []).append(record)


def _remove_records(pool: StoredRecords, provider: str, identities: set[str]) -> None:
    gone = [record for record in records_of(pool, provider) if str(record.get("id")) in identities]
    for name in (provider, f"custom:{provider}"):
        if name in pool:
            pool[name] = [record for record in pool[name] if record not in gone]
            if not pool[name]:
                del pool[name]


def _check_name(profile: str) -> None:
    if profile and (not profile.isprintable() or profile != profile.strip() or len(profile) > _MAX_NAME):
        raise CredentialError(f"a profile name has at most {_MAX_NAME} characters, and none that cannot be seen")


def _check_name_free(provider: str, known: list[StoredFields], label: str) -> None:
    if label and any(label in (record.get("label"), record.get("id")) for record in known):
        raise CredentialError(
            f"a credential {label!r} is stored for {provider} already; choose another name, or remove it first with "
            f"'hermes auth remove {provider} --profile {label}'"
        )


def _free_name(known: list[StoredFields]) -> str:
    taken = {record.get("label") for record in known}
    return next(name for number in range(1, len(taken) + 2) if (name := f"key-{number}") not in taken)


def _new_id() -> str:
    return os.urandom(3).hex()


def _as_credential(provider: str, record: StoredFields) -> Credential:
    found = read_credential(provider, record)
    assert found is not None
    return found
