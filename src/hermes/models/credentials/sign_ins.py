"""Keeps the tokens of sign-ins good: renews them before they end, and once when they are refused before their time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol

from hermes.errors import CredentialError, HermesError
from hermes.models.credentials.credential import Credential, Record, dead_fields
from hermes.models.credentials.ledger import Ledger

log = logging.getLogger("hermes.credentials")

#: A sign-in that could not be renewed just now is tried again after this.
_PAUSE = 60.0


class SignInEnded(CredentialError):
    """The provider will not renew this sign-in any more; the person has to sign in again."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class Renewal(Protocol):
    """Gets a new token for a sign-in."""

    def renew(self, credential: Credential, ledger: Ledger) -> Credential:
        """The credential with a token that is good. Raises ``SignInEnded`` or another ``CredentialError``."""
        ...


class SignIns:
    """Decides whether a credential can be used as it is, needs a new token first, or is of no use."""

    def __init__(self, ledger: Ledger, renewal: Renewal | None, clock: Callable[[], float] = time.time) -> None:
        self._ledger = ledger
        self._renewal = renewal
        self._clock = clock
        #: The token of each sign-in that was refused although it had not ended.
        self._refused: dict[str, str] = {}
        self._problems: dict[str, str] = {}

    def ready(self, credential: Credential) -> Credential | None:
        """The credential, with a new token when it needs one; ``None`` when it cannot be used."""
        now = self._clock()
        was_refused = self._refused.get(credential.id) == credential.secret
        if not was_refused and not credential.needs_renewal(now):
            return self._unless_ended(credential, now)
        if self._renewal is None:
            return self._unless_ended(credential, now)
        try:
            return self._renewal.renew(credential, self._ledger)
        except SignInEnded as error:
            self.note_problem(credential, error)
            self._ledger.note(credential, dead_fields(now, error.code), urgent=True)
        except CredentialError as error:
            if not was_refused and not credential.has_ended(now):
                log.info("%s", error)
                return credential  # there is time for another try
            self.note_problem(credential, error)
            pause: Record = {"last_status": "exhausted", "last_status_at": now, "last_error_reason": "renewal"}
            self._ledger.note(credential, pause | {"last_error_reset_at": now + _PAUSE})
        return None

    def renew_after_refusal(self, credential: Credential) -> bool:
        """A token may be withdrawn before its time: whether a new one will be asked for, which happens once."""
        if not credential.refresh_token or self._renewal is None:
            return False
        if self._refused.pop(credential.id, None) is not None:
            return False
        self._refused[credential.id] = credential.secret
        return True

    def worked(self, credential: Credential) -> bool:
        """The token was good; whether it was in doubt before."""
        return self._refused.pop(credential.id, None) is not None

    def problem(self, credential: Credential) -> str:
        """Why the credential could not be used, when that is known."""
        return self._problems.get(credential.id, "")

    def note_problem(self, credential: Credential, error: HermesError) -> None:
        """Remember why a credential could not be used, and say it once."""
        if self._problems.get(credential.id) != str(error):
            log.warning("%s", error)
        self._problems[credential.id] = str(error)

    def _unless_ended(self, credential: Credential, now: float) -> Credential | None:
        if not credential.has_ended(now):
            return credential
        error = f"{credential.provider}: the sign-in {credential.label!r} has ended and cannot be renewed"
        self.note_problem(credential, CredentialError(f"{error}; run: {login_command(credential)}"))
        return None


def login_command(credential: Credential) -> str:
    """What to type to sign in again."""
    return f"hermes auth login {credential.provider} --profile {credential.label}"
