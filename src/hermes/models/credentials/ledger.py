"""What happened to the credentials since the file was written: seen at once here, written now and then."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from hermes.errors import HermesError
from hermes.models.credentials.auth_file import AuthFile, Pool, records_of
from hermes.models.credentials.credential import Credential, Record, apply_fields, read_credential

log = logging.getLogger("hermes.credentials")

#: Counts are worth a write to the disk once in this time, and at the end.
WRITE_EVERY_SECONDS = 5.0
#: Ids of credentials that are not in the file begin with this.
NOT_STORED = "configured-"


class _Change:
    """What is new about one credential."""

    __slots__ = ("fields", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self.fields: Record = {}


class Ledger:
    """The credentials of ``auth.json`` with what was noted about them since.

    A home that cannot be written loses nothing but the counts: what was noted stays in effect in this process.
    """

    def __init__(self, file: AuthFile, clock: Callable[[], float] = time.time) -> None:
        self.file = file
        self._clock = clock
        self._changes: dict[tuple[str, str], _Change] = {}
        self._lock = threading.Lock()
        self._written_at = clock()
        self._warned = False

    def credentials(self, provider: str) -> list[Credential]:
        """The stored credentials of a provider as they stand now, those to be preferred first."""
        records = records_of(self.file.pool(), provider)
        with self._lock:
            found = [read_credential(provider, self._current(provider, record)) for record in records]
        return sorted((one for one in found if one is not None), key=lambda one: one.priority)

    def configured(self, provider: str, key: str) -> Credential:
        """The key that the configuration or the environment gives, which comes before the stored ones."""
        record: Record = {"id": f"{NOT_STORED}{hash(key):x}", "access_token": key, "label": "configured"}
        with self._lock:
            found = read_credential(provider, self._current(provider, record | {"priority": -1e9}))
        assert found is not None
        return found

    def note(self, credential: Credential, fields: Record, *, requests: int = 0, urgent: bool = False) -> None:
        """Remember a change. An urgent one, which others should know of, is written at once."""
        with self._lock:
            change = self._changes.setdefault((credential.provider, credential.id), _Change())
            change.requests += requests
            change.fields.update(fields)
            due = self._clock() - self._written_at > WRITE_EVERY_SECONDS
        if urgent or due:
            self.write()

    def write(self) -> None:
        """Bring the file up to date. Failing is not fatal: it is said once, and tried again later."""
        with self._lock:
            stored = {key: change for key, change in self._changes.items() if not key[1].startswith(NOT_STORED)}
            if not stored:
                return
            self._written_at = self._clock()
            try:
                self.file.edit(lambda pool: _apply(pool, stored))
            except HermesError as error:
                if not self._warned:
                    log.warning("the state of the credentials is not kept: %s", error)
                self._warned = True
                return
            for key in stored:
                del self._changes[key]
            self._warned = False

    def _current(self, provider: str, record: Record) -> Record:
        change = self._changes.get((provider, str(record.get("id"))))
        if change is None:
            return record
        current = dict(record)
        _apply_change(current, change)
        return current


def _apply(pool: Pool, changes: dict[tuple[str, str], _Change]) -> None:
    for (provider, identity), change in changes.items():
        # One that was removed meanwhile stays removed.
        for record in records_of(pool, provider):
            if record.get("id") == identity:
                _apply_change(record, change)


def _apply_change(record: Record, change: _Change) -> None:
    apply_fields(record, change.fields)
    count = record.get("request_count")
    record["request_count"] = (count if isinstance(count, int) else 0) + change.requests
