"""The keys of each provider as a pool: the next one is lent out, and one that fails rests."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from hermes.config.sections import PoolStrategy
from hermes.errors import ConfigError, CredentialError, ProviderError
from hermes.models.credentials.auth_file import AuthFile
from hermes.models.credentials.credential import COOL_DOWNS, Credential, Record, failed_fields, recovered_fields
from hermes.models.credentials.ledger import Ledger
from hermes.models.credentials.selection import choose, usable
from hermes.models.credentials.sign_ins import Renewal, SignIns
from hermes.models.endpoint import Endpoint
from hermes.sanitize import Redactor

_LONGEST_MESSAGE = 300


class _Lease:
    """A credential that is lent out, and how often."""

    __slots__ = ("credential", "holders")

    def __init__(self, credential: Credential) -> None:
        self.credential = credential
        self.holders = 0


class CredentialPool:
    """Lends out the stored credentials of a provider, and before them the key that is configured for it.

    A provider without stored credentials is left alone: its endpoint comes back as it is, and nothing is kept.
    Safe to use from many threads.
    """

    def __init__(
        self,
        file: AuthFile,
        *,
        strategies: Mapping[str, PoolStrategy] | None = None,
        renewal: Renewal | None = None,
        redactor: Redactor | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.file = file
        self._ledger = Ledger(file, clock)
        self._sign_ins = SignIns(self._ledger, renewal, clock)
        self._strategies = strategies or {}
        self._redactor = redactor or Redactor()
        self._clock = clock
        self._lock = threading.Lock()
        #: Who has which key, by provider and key: a token may be renewed while an older one is still out.
        self._leases: dict[tuple[str, str], _Lease] = {}
        self._in_use: Counter[str] = Counter()
        self._guarded: set[str] = set()

    # -- keys ---------------------------------------------------------------------------------------------------

    def take(self, endpoint: Endpoint) -> Endpoint | None:
        """The endpoint with a key to use now, which ``report`` gives back; ``None`` when all of its keys rest.

        A key that is the only one is lent out even while it should rest. An endpoint that names a credential gets
        that one or none; ``CredentialError`` when it is not there.
        """
        if endpoint.credential:
            return self._lend(endpoint, [self.find(endpoint.provider, endpoint.credential)])
        stored = self._ledger.credentials(endpoint.provider)
        if not stored:
            return endpoint
        candidates = stored
        if endpoint.api_key and all(one.secret != endpoint.api_key for one in stored):
            candidates = [self._ledger.configured(endpoint.provider, endpoint.api_key), *stored]
        return self._lend(endpoint, candidates)

    def report(self, endpoint: Endpoint, error: ProviderError | None) -> None:
        """Give the key of a lent endpoint back, with what became of the request."""
        credential = self._give_back(endpoint)
        if credential is None:
            return
        now = self._clock()
        used: Record = {"last_used_at": now}
        if error is not None and error.reason in COOL_DOWNS:
            if error.reason == "auth" and self._sign_ins.renew_after_refusal(credential):
                self._ledger.note(credential, used, requests=1)
                return
            message = self._redactor.redact(" ".join(str(error).split()))[:_LONGEST_MESSAGE]
            self._ledger.note(credential, used | failed_fields(error, now, message), requests=1, urgent=True)
        elif error is None and (self._sign_ins.worked(credential) or credential.status != "ok"):
            self._ledger.note(credential, used | recovered_fields(now), requests=1, urgent=True)
        elif error is None or error.status_code is not None:  # what was never answered counts for nothing
            self._ledger.note(credential, used, requests=1)

    # -- questions ----------------------------------------------------------------------------------------------

    def has(self, provider: str) -> bool:
        """Whether anything is stored for a provider."""
        return bool(self._ledger.credentials(provider))

    def find(self, provider: str, profile: str) -> Credential:
        """The stored credential of that name or id. Raises when there is none: another one is never meant."""
        stored = self._ledger.credentials(provider)
        for one in stored:
            if profile in (one.label, one.id):
                return one
        names = ", ".join(repr(one.label) for one in stored) or "none"
        raise CredentialError(
            f"no credential {profile!r} is stored for {provider} (stored: {names}); "
            f"add it with 'hermes auth add {provider} --profile {profile}'"
        )

    def comes_back(self, endpoint: Endpoint) -> bool:
        """Whether keys rest that are good."""
        return bool(self._waits(endpoint))

    def explain(self, endpoint: Endpoint) -> str:
        """Why ``take`` had nothing to give, and what to do, in one line."""
        provider = endpoint.provider
        waits = self._waits(endpoint)
        if waits:
            minutes = min(waits) / 60
            when = f"{minutes:.0f} min" if minutes >= 1 else "less than a minute"
            return (
                f"{provider}: all keys are cooling down, the first is back in {when}; "
                f"'hermes auth list' shows them, 'hermes auth add {provider}' adds one"
            )
        stored = self._ledger.credentials(provider)
        problems = [problem for one in stored if (problem := self._sign_ins.problem(one))]
        return problems[0] if problems else f"{provider}: no sign-in is valid; run: hermes auth login {provider}"

    def _waits(self, endpoint: Endpoint) -> list[float]:
        """Seconds until each key is back that rests and is good."""
        now, stored = self._clock(), self._ledger.credentials(endpoint.provider)
        return [one.rests_until - now for one in stored if one.is_resting(now) and not self._sign_ins.problem(one)]

    def close(self) -> None:
        """Write what is not written yet."""
        self._ledger.write()

    # -- lending ------------------------------------------------------------------------------------------------

    def _lend(self, endpoint: Endpoint, candidates: list[Credential]) -> Endpoint | None:
        strategy = self._strategies.get(endpoint.provider, "fill_first")
        self._guard(candidates)
        while options := usable(candidates, self._clock()):
            with self._lock:
                chosen = choose(options, strategy, self._in_use)
                self._in_use[chosen.id] += 1
            lent = None
            try:
                lent = self._ready(endpoint, chosen)
            finally:
                if lent is None:
                    with self._lock:
                        self._in_use[chosen.id] -= 1
            if lent is not None:
                return lent
            candidates = [one for one in candidates if one.id != chosen.id]
        return None

    def _ready(self, endpoint: Endpoint, chosen: Credential) -> Endpoint | None:
        credential = self._sign_ins.ready(chosen)
        if credential is None:
            return None
        self._guard([credential])
        try:
            lent = replace(endpoint, api_key=credential.secret, base_url=credential.base_url or endpoint.base_url)
        except ConfigError as error:  # somebody wrote it into the file by hand
            self._sign_ins.note_problem(credential, error)
            return None
        with self._lock:
            lease = self._leases.setdefault((lent.provider, lent.api_key), _Lease(credential))
            lease.credential = credential
            lease.holders += 1
        return lent

    def _give_back(self, endpoint: Endpoint) -> Credential | None:
        with self._lock:
            lease = self._leases.get((endpoint.provider, endpoint.api_key))
            if lease is None:
                return None
            lease.holders -= 1
            self._in_use[lease.credential.id] -= 1
            if lease.holders == 0:
                del self._leases[endpoint.provider, endpoint.api_key]
            return lease.credential

    def _guard(self, credentials: list[Credential]) -> None:
        """Have the keys masked wherever text leaves the process."""
        for one in credentials:
            for secret in (one.secret, one.refresh_token):
                if secret and secret not in self._guarded:
                    self._guarded.add(secret)
                    self._redactor.add_secret(secret)
