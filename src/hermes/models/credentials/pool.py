"""Credential pool: leases the keys of a provider by strategy, and lets a key that failed cool down."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from hermes.base.config.schema.sections import PoolStrategy
from hermes.base.errors import ConfigError, CredentialError, HermesError, ProviderError
from hermes.base.sanitize import Redactor
from hermes.models.credentials.credential import (
    COOLDOWNS,
    Credential,
    StoredFields,
    apply_fields,
    failed_fields,
    read_credential,
    recovered_fields,
)
from hermes.models.credentials.refresh import RefreshToken, TokenRefresher
from hermes.models.credentials.store import AuthFile, StoredRecords, records_of
from hermes.models.endpoint import Endpoint

log = logging.getLogger("hermes.credentials")

_LONGEST_MESSAGE = 300
#: Counts are written once in this time, and at the end.
WRITE_EVERY_SECONDS = 5.0
#: Ids of credentials that are not in the file begin with this.
NOT_STORED = "configured-"


class CredentialState:
    """The credentials of ``auth.json`` with the changes since: visible here at once, written to the file now and then.

    A home that cannot be written loses only the counts: the changes stay in effect in this process.
    """

    def __init__(self, file: AuthFile, clock: Callable[[], float] = time.time) -> None:
        self.file = file
        self._clock = clock
        #: The unwritten changes of each credential: its fields, and the requests to add to its count.
        self._changes: dict[tuple[str, str], tuple[StoredFields, int]] = {}
        self._lock = threading.Lock()
        self._written_at = clock()
        self._warned = False

    def credentials(self, provider: str) -> list[Credential]:
        """The stored credentials of a provider with their current state, in order of preference."""
        records = records_of(self.file.pool(), provider)
        with self._lock:
            found = [read_credential(provider, self._current(provider, record)) for record in records]
        return sorted((one for one in found if one is not None), key=lambda one: one.priority)

    def configured(self, provider: str, key: str) -> Credential:
        """The key of the configuration or the environment, which comes before the stored ones."""
        record: StoredFields = {"id": f"{NOT_STORED}{hash(key):x}", "access_token": key, "label": "configured"}
        with self._lock:
            found = read_credential(provider, self._current(provider, record | {"priority": -1e9}))
        assert found is not None
        return found

    def note(self, credential: Credential, fields: StoredFields, *, requests: int = 0, urgent: bool = False) -> None:
        """Add a change. An urgent one, for other processes, is written at once."""
        with self._lock:
            key = (credential.provider, credential.id)
            changed, counted = self._changes.get(key, ({}, 0))
            self._changes[key] = {**changed, **fields}, counted + requests
            due = self._clock() - self._written_at > WRITE_EVERY_SECONDS
        if urgent or due:
            self.write()

    def write(self) -> None:
        """Write the changes to the file. A failure is not fatal: it is logged once, and retried later."""
        with self._lock:
            stored = [key for key in self._changes if not key[1].startswith(NOT_STORED)]
            if not stored:
                return
            self._written_at = self._clock()
            try:
                self.file.edit(lambda pool: self._apply(pool, stored))
            except HermesError as error:
                if not self._warned:
                    log.warning("the state of the credentials is not kept: %s", error)
                self._warned = True
                return
            for key in stored:
                del self._changes[key]
            self._warned = False

    def _current(self, provider: str, record: StoredFields) -> StoredFields:
        if (provider, record.get("id")) not in self._changes:
            return record
        current = dict(record)
        self._change(provider, current)
        return current

    def _apply(self, pool: StoredRecords, changed: list[tuple[str, str]]) -> None:
        for provider, identity in changed:
            # One that was removed meanwhile stays removed.
            for record in records_of(pool, provider):
                if record.get("id") == identity:
                    self._change(provider, record)

    def _change(self, provider: str, record: StoredFields) -> None:
        fields, requests = self._changes[provider, record["id"]]
        apply_fields(record, fields)
        count = record.get("request_count")
        record["request_count"] = (count if isinstance(count, int) else 0) + requests


class _Lease:
    """A leased credential and the number of its holders."""

    __slots__ = ("credential", "holders")

    def __init__(self, credential: Credential) -> None:
        self.credential = credential
        self.holders = 0


class CredentialPool:
    """Leases the stored credentials of a provider, and before them the key that is configured for it. Thread-safe.

    For a provider without stored credentials the endpoint is returned as it is, and nothing is recorded.
    """

    def __init__(
        self,
        file: AuthFile,
        *,
        strategies: Mapping[str, PoolStrategy] | None = None,
        refresh: RefreshToken | None = None,
        redactor: Redactor | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.file = file
        self._state = CredentialState(file, clock)
        self._tokens = TokenRefresher(self._state, refresh, clock)
        self._strategies = strategies or {}
        self._redactor = redactor or Redactor()
        self._clock = clock
        self._lock = threading.Lock()
        #: By provider and key: a token may be refreshed while an older one is still leased.
        self._leases: dict[tuple[str, str], _Lease] = {}
        self._in_use: Counter[str] = Counter()
        self._known_secrets: set[str] = set()

    # -- keys ---------------------------------------------------------------------------------------------------

    def take(self, endpoint: Endpoint, before_waiting: Callable[[], object] | None = None) -> Endpoint | None:
        """The endpoint with a key to use now, which ``report`` returns; ``None`` when all of its keys are cooling down.

        A provider's only key is leased even during its cooldown. An endpoint that names a credential gets that one or
        none; ``CredentialError`` when it is not stored. ``before_waiting`` is called before a token is refreshed.
        """
        if endpoint.credential:
            return self._lease(endpoint, [self.find(endpoint.provider, endpoint.credential)], before_waiting)
        stored = self._state.credentials(endpoint.provider)
        if not stored:
            return endpoint
        candidates = stored
        if endpoint.api_key and all(one.secret != endpoint.api_key for one in stored):
            candidates = [self._state.configured(endpoint.provider, endpoint.api_key), *stored]
        return self._lease(endpoint, candidates, before_waiting)

    def report(self, endpoint: Endpoint, error: ProviderError | None) -> None:
        """Return the key of an endpoint with the outcome of its request."""
        credential = self._return(endpoint)
        if credential is None:
            return
        now = self._clock()
        used: StoredFields = {"last_used_at": now}
        if error is not None and error.reason in COOLDOWNS:
            if error.reason == "auth" and self._tokens.refresh_after_refusal(credential):
                self._state.note(credential, used, requests=1)
                return
            message = self._redactor.redact(" ".join(str(error).split()))[:_LONGEST_MESSAGE]
            self._state.note(credential, used | failed_fields(error, now, message), requests=1, urgent=True)
        elif error is None and (self._tokens.worked(credential) or credential.status != "ok"):
            self._state.note(credential, used | recovered_fields(now), requests=1, urgent=True)
        elif error is None or error.status_code is not None:  # a request without an answer is not counted
            self._state.note(credential, used, requests=1)

    # -- queries -----------------------------------------------------------------------------------------------

    def has(self, provider: str) -> bool:
        """Whether anything is stored for a provider."""
        return bool(self._state.credentials(provider))

    def find(self, provider: str, profile: str) -> Credential:
        """The stored credential of that name or id. Raises when there is none: no other one takes its place."""
        stored = self._state.credentials(provider)
        for one in stored:
            if profile in (one.label, one.id):
                return one
        names = ", ".join(repr(one.label) for one in stored) or "none"
        raise CredentialError(
            f"no credential {profile!r} is stored for {provider} (stored: {names}); "
            f"add it with 'hermes auth add {provider} --profile {profile}'"
        )

    def comes_back(self, endpoint: Endpoint) -> bool:
        """Whether valid keys are only cooling down."""
        return bool(self._cooldowns(endpoint))

    def explain(self, endpoint: Endpoint) -> str:
        """Why ``take`` returned ``None``, and what to do, in one line."""
        provider = endpoint.provider
        waits = self._cooldowns(endpoint)
        if waits:
            minutes = min(waits) / 60
            when = f"{minutes:.0f} min" if minutes >= 1 else "less than a minute"
            return (
                f"{provider}: all keys are cooling down, the first is back in {when}; "
                f"'hermes auth list' shows them, 'hermes auth add {provider}' adds one"
            )
        stored = self._state.credentials(provider)
        problems = [problem for one in stored if (problem := self._tokens.problem(one))]
        return problems[0] if problems else f"{provider}: no sign-in is valid; run: hermes auth login {provider}"

    def _cooldowns(self, endpoint: Endpoint) -> list[float]:
        """Remaining cooldowns of the valid keys, in seconds."""
        now, stored = self._clock(), self._state.credentials(endpoint.provider)
        return [
            one.cooldown_until - now for one in stored if one.is_cooling_down(now) and not self._tokens.problem(one)
        ]

    def close(self) -> None:
        """Write the pending changes."""
        self._state.write()

    # -- leases -------------------------------------------------------------------------------------------------

    def _lease(
        self, endpoint: Endpoint, candidates: list[Credential], before_waiting: Callable[[], object] | None
    ) -> Endpoint | None:
        strategy = self._strategies.get(endpoint.provider, "fill_first")
        self._register_secrets(candidates)
        while options := usable(candidates, self._clock()):
            with self._lock:
                chosen = choose(options, strategy, self._in_use)
                self._in_use[chosen.id] += 1
            leased = None
            try:
                leased = self._ready(endpoint, chosen, before_waiting)
            finally:
                if leased is None:
                    with self._lock:
                        self._in_use[chosen.id] -= 1
            if leased is not None:
                return leased
            candidates = [one for one in candidates if one.id != chosen.id]
        return None

    def _ready(
        self, endpoint: Endpoint, chosen: Credential, before_waiting: Callable[[], object] | None
    ) -> Endpoint | None:
        credential = self._tokens.ready(chosen, before_waiting)
        if credential is None:
            return None
        self._register_secrets([credential])
        try:
            leased = replace(endpoint, api_key=credential.secret, base_url=credential.base_url or endpoint.base_url)
        except ConfigError as error:  # edited into the file by hand
            self._tokens.note_problem(credential, error)
            return None
        with self._lock:
            lease = self._leases.setdefault((leased.provider, leased.api_key), _Lease(credential))
            lease.credential = credential
            lease.holders += 1
        return leased

    def _return(self, endpoint: Endpoint) -> Credential | None:
        with self._lock:
            lease = self._leases.get((endpoint.provider, endpoint.api_key))
            if lease is None:
                return None
            lease.holders -= 1
            self._in_use[lease.credential.id] -= 1
            if lease.holders == 0:
                del self._leases[endpoint.provider, endpoint.api_key]
            return lease.credential

    def _register_secrets(self, credentials: list[Credential]) -> None:
        """Have the keys redacted wherever text leaves the process."""
        for one in credentials:
            for secret in (one.secret, one.refresh_token):
                if secret and secret not in self._known_secrets:
                    self._known_secrets.add(secret)
                    self._redactor.add_secret(secret)


def usable(credentials: Sequence[Credential], now: float) -> list[Credential]:
    """Those that may be used now.

    The only remaining one is used even during its cooldown: there is no other, and the retry policy decides how long to
    wait.
    """
    alive = [one for one in credentials if one.status != "dead"]
    return alive if len(alive) == 1 else [one for one in alive if not one.is_cooling_down(now)]


def choose(credentials: Sequence[Credential], strategy: PoolStrategy, in_use: Mapping[str, int]) -> Credential:
    """One of them by strategy, among the least busy, so that parallel requests spread over the keys."""
    fewest = min(in_use.get(one.id, 0) for one in credentials)
    free = [one for one in credentials if in_use.get(one.id, 0) == fewest]
    match strategy:
        case "fill_first":
            return free[0]
        case "round_robin":
            return min(free, key=lambda one: one.last_used_at)
        case "least_used":
            return min(free, key=lambda one: one.request_count)
        case "random":
            return random.choice(free)
