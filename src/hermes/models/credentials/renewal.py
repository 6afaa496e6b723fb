"""A new token for a sign-in, asked for by one process while the others wait for it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Generator, Mapping
from pathlib import Path

from hermes.config.sections import OAuthConfig
from hermes.errors import ConfigError, CredentialError
from hermes.models.credentials.credential import Credential
from hermes.models.credentials.form_post import Refused
from hermes.models.credentials.ledger import Ledger
from hermes.models.credentials.oauth import authorization_server
from hermes.models.credentials.sign_ins import SignInEnded, login_command
from hermes.models.driver import Driver

#: Refusals that only the person can change.
_FINAL = frozenset({"invalid_grant", "access_denied", "login_required", "interaction_required", "consent_required"})
#: Longer than a renewal takes at most, so that who waits gets its result.
_PATIENCE_SECONDS = 45.0
_TICK = 0.02


class Renewer:
    """Renews sign-ins at the authorization servers that are configured for their providers."""

    def __init__(self, home: Path, configured: Mapping[str, OAuthConfig], driver: Driver) -> None:
        self._home = home
        self._configured = configured
        self._driver = driver

    def renew(self, credential: Credential, ledger: Ledger) -> Credential:
        """The credential with a good token: a new one, or the one that another process got meanwhile."""
        server = authorization_server(credential.provider, self._configured, self._driver)
        with _turn(self._home):
            current = _find(ledger, credential)
            if current.secret != credential.secret and not current.needs_renewal(time.time()):
                return current
            _check_that_the_result_can_be_kept(ledger, credential)
            try:
                tokens = server.refresh(current.refresh_token)
            except Refused as error:
                if error.code in _FINAL:
                    raise SignInEnded(f"{error}; run: {login_command(credential)}", error.code) from None
                raise
            ledger.note(current, tokens.as_fields(), urgent=True)
            return _find(ledger, credential)


def _check_that_the_result_can_be_kept(ledger: Ledger, credential: Credential) -> None:
    """A server may void the old refresh token with the answer; a disk that is full would end the sign-in for good."""
    try:
        ledger.file.edit(lambda _pool: None)
    except ConfigError as error:
        raise CredentialError(
            f"{credential.provider}: the sign-in {credential.label!r} is not renewed, since the result could not be "
            f"kept: {error}"
        ) from None


def _find(ledger: Ledger, credential: Credential) -> Credential:
    for one in ledger.credentials(credential.provider):
        if one.id == credential.id:
            return one
    raise CredentialError(f"{credential.provider}: the credential {credential.label!r} was removed meanwhile")


@contextlib.contextmanager
def _turn(home: Path) -> Generator[None]:
    """One renewal at a time, across processes. A slow server must not keep others from ``auth.json`` meanwhile."""
    import fcntl

    try:
        lock = os.open(home / ".auth-renewal.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CredentialError(f"{home}: cannot be written, so no sign-in is renewed: {error.strerror}") from None
    try:
        give_up_at = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > give_up_at:
                    raise CredentialError("another process has been renewing a sign-in for too long") from None
            time.sleep(_TICK)
        yield
    finally:
        os.close(lock)
