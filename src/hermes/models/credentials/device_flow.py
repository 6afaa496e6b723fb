"""Signing in on another device: a code to type in there, and asking here until that has happened."""

from __future__ import annotations

import time
from collections.abc import Callable

from hermes.errors import CredentialError
from hermes.models.credentials.form_post import Refused
from hermes.models.credentials.oauth import AuthorizationServer, DeviceCode, Tokens

#: RFC 8628: what ``slow_down`` adds to the pause between two questions.
_SLOWER_BY = 5.0
#: The pause doubles with each question that gets no answer, up to this.
_LONGEST_PAUSE = 60.0

_ENDINGS = {
    "expired_token": "the code was not used in time; try again",
    "access_denied": "the sign-in was refused",
}


def sign_in_on_another_device(
    server: AuthorizationServer,
    show: Callable[[DeviceCode], None],
    *,
    wait: Callable[[float], None] = time.sleep,
) -> Tokens:
    """Get a code, have it shown, and ask for the tokens until the person has agreed, refused or let it lapse."""
    code = server.begin_device()
    show(code)
    pause, left = code.interval, code.expires_in
    while left > 0:
        wait(pause)
        left -= pause
        try:
            return server.poll_device(code.device_code)
        except Refused as error:
            if error.code == "slow_down":
                pause += _SLOWER_BY
            elif error.code != "authorization_pending":
                raise CredentialError(_ended(server, error)) from None
        except CredentialError:
            # No answer at all: the person may be signing in at this moment, so only the pause grows.
            pause = min(pause * 2, _LONGEST_PAUSE)
    raise CredentialError(f"{server.provider}: {_ENDINGS['expired_token']}")


def _ended(server: AuthorizationServer, error: Refused) -> str:
    return f"{server.provider}: {_ENDINGS[error.code]}" if error.code in _ENDINGS else str(error)
