"""Token refresh for sign-ins, under a lock for all processes: before expiry, and once when a token is refused."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.base.config.files import file_lock
from hermes.base.config.schema.sections import OAuthConfig
from hermes.base.errors import ConfigError, CredentialError, HermesError
from hermes.models.credentials.credential import Credential, StoredFields, dead_fields

if TYPE_CHECKING:
    from hermes.base.http.client import HttpClient
    from hermes.models.credentials.pool import CredentialState

log = logging.getLogger("hermes.credentials")

#: The pause after a refresh that failed and may be retried.
_PAUSE = 60.0
#: Refusals that only a new sign-in can change.
_FINAL = frozenset({"invalid_grant", "access_denied", "login_required", "interaction_required", "consent_required"})
#: Longer than a refresh may take, so that waiting processes get its result.
_TIMEOUT_SECONDS = 45.0


#: Gives a sign-in a valid token. Raises ``SignInEnded`` or another ``CredentialError``.
RefreshToken = Callable[[Credential, "CredentialState"], Credential]


class SignInEnded(CredentialError):
    """The provider does not refresh this sign-in any more; the user has to sign in again."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class TokenRefresher:
    """Decides whether a credential can be used as it is, needs a new token first, or cannot be used."""

    def __init__(
        self, state: CredentialState, refresh: RefreshToken | None, clock: Callable[[], float] = time.time
    ) -> None:
        self._state = state
        self._refresh = refresh
        self._clock = clock
        #: The token of each sign-in that was refused although it had not expired.
        self._refused: dict[str, str] = {}
        self._problems: dict[str, str] = {}

    def ready(self, credential: Credential, before_waiting: Callable[[], object] | None = None) -> Credential | None:
        """The credential, with a new token when it needs one; ``None`` when it cannot be used.

        ``before_waiting`` is called before the token is refreshed: the server may take its time.
        """
        now = self._clock()
        was_refused = self._refused.get(credential.id) == credential.secret
        if not was_refused and not credential.needs_refresh(now):
            return self._unless_expired(credential, now)
        if self._refresh is None:
            return self._unless_expired(credential, now)
        if before_waiting is not None:
            before_waiting()
        try:
            return self._refresh(credential, self._state)
        except SignInEnded as error:
            self.note_problem(credential, error)
            self._state.note(credential, dead_fields(now, error.code), urgent=True)
        except CredentialError as error:
            if not was_refused and not credential.has_expired(now):
                log.info("%s", error)
                return credential  # there is time for a retry
            self.note_problem(credential, error)
            pause: StoredFields = {"last_status": "exhausted", "last_status_at": now, "last_error_reason": "renewal"}
            self._state.note(credential, pause | {"last_error_reset_at": now + _PAUSE})
        return None

    def refresh_after_refusal(self, credential: Credential) -> bool:
        """A token may be revoked early: whether it will be refreshed, which happens once."""
        if not credential.refresh_token or self._refresh is None:
            return False
        if self._refused.pop(credential.id, None) is not None:
            return False
        self._refused[credential.id] = credential.secret
        return True

    def worked(self, credential: Credential) -> bool:
        """The token was accepted; whether it had been refused before."""
        return self._refused.pop(credential.id, None) is not None

    def problem(self, credential: Credential) -> str:
        """Why the credential could not be used, if known."""
        return self._problems.get(credential.id, "")

    def note_problem(self, credential: Credential, error: HermesError) -> None:
        """Remember why a credential could not be used, and log it once."""
        if self._problems.get(credential.id) != str(error):
            log.warning("%s", error)
        self._problems[credential.id] = str(error)

    def _unless_expired(self, credential: Credential, now: float) -> Credential | None:
        if not credential.has_expired(now):
            return credential
        error = f"{credential.provider}: the sign-in {credential.label!r} has ended and cannot be renewed"
        self.note_problem(credential, CredentialError(f"{error}; run: {login_command(credential)}"))
        return None


def login_command(credential: Credential) -> str:
    """The command to sign in again."""
    return f"hermes auth login {credential.provider} --profile {credential.label}"


def refresh_sign_in(
    credential: Credential, state: CredentialState, configured: Mapping[str, OAuthConfig], http: HttpClient
) -> Credential:
    """The credential with a valid token: a new one, or the one that another process got meanwhile."""
    from hermes.models.credentials.oauth import OAuthRefused, authorization_server  # few homes have sign-ins

    server, home = authorization_server(credential.provider, configured, http), state.file.home
    # Not the lock of ``auth.json``, which a slow server must not hold up.
    with file_lock(home / ".auth-renewal.lock", partial(_not_locked, home), seconds=_TIMEOUT_SECONDS):
        current = _find(state, credential)
        if current.secret != credential.secret and not current.needs_refresh(time.time()):
            return current
        _check_writable(state, credential)
        try:
            tokens = server.refresh(current.refresh_token)
        except OAuthRefused as error:
            if error.code in _FINAL:
                raise SignInEnded(f"{error}; run: {login_command(credential)}", error.code) from None
            raise
        state.note(current, tokens.as_fields(), urgent=True)
        return _find(state, credential)


def _check_writable(state: CredentialState, credential: Credential) -> None:
    """A server may revoke the old refresh token with its answer; with a full disk the sign-in would be lost."""
    try:
        state.file.edit(lambda _pool: None)
    except ConfigError as error:
        raise CredentialError(
            f"{credential.provider}: the sign-in {credential.label!r} is not renewed, since the result could not be "
            f"kept: {error}"
        ) from None


def _find(state: CredentialState, credential: Credential) -> Credential:
    for one in state.credentials(credential.provider):
        if one.id == credential.id:
            return one
    raise CredentialError(f"{credential.provider}: the credential {credential.label!r} was removed meanwhile")


def _not_locked(home: Path, error: OSError) -> CredentialError:
    if isinstance(error, TimeoutError):
        return CredentialError("another process has been renewing a sign-in for too long")
    return CredentialError(f"{home}: cannot be written, so no sign-in is renewed: {error.strerror}")
