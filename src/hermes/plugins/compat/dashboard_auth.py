"""``hermes_cli.dashboard_auth``: the base class of ways to sign in to a dashboard."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes.plugins.compat.host import Names
    from hermes.plugins.context import Parts


class ProviderError(Exception):
    """The identity provider cannot be reached."""


class InvalidCodeError(Exception):
    """The code or state that came back from the identity provider is not valid."""


class InvalidCredentialsError(Exception):
    """The user name or the password is wrong."""


class RefreshExpiredError(Exception):
    """The session cannot be renewed any more."""


@dataclass(frozen=True)
class Session:
    """A person who has signed in."""

    user_id: str
    email: str
    display_name: str
    org_id: str
    provider: str
    #: Seconds since the epoch.
    expires_at: int
    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)


@dataclass(frozen=True)
class TokenPrincipal:
    """A program that has shown a token."""

    principal: str
    provider: str
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoginStart:
    """Where the browser goes to sign in, and the cookies it takes along."""

    redirect_url: str
    cookie_payload: dict[str, str] = field(repr=False)


class DashboardAuthProvider:
    """Signs people in. Subclasses set ``name`` and ``display_name`` and implement what they support."""

    name: str = ""
    display_name: str = ""
    supports_password: bool = False
    supports_token: bool = False
    supports_session: bool = True

    def start_login(self, *, redirect_uri: str) -> LoginStart:
        """Send a browser off."""
        raise NotImplementedError(f"{self.name} does not start a sign-in")

    def complete_login(self, *, code: str, state: str, code_verifier: str, redirect_uri: str) -> Session:
        """Receive it back."""
        raise NotImplementedError(f"{self.name} does not complete a sign-in")

    def verify_session(self, *, access_token: str) -> Session | None:
        """Whose token it is; ``None`` when it has expired or is not known."""
        raise NotImplementedError(f"{self.name} does not verify sessions")

    def refresh_session(self, *, refresh_token: str) -> Session:
        """Renew a session."""
        raise NotImplementedError(f"{self.name} does not renew sessions")

    def revoke_session(self, *, refresh_token: str) -> None:
        """End a session, as well as that can be done."""

    def complete_password_login(self, *, username: str, password: str) -> Session:
        """Sign in with a password, where ``supports_password`` says so."""
        raise NotImplementedError(f"{self.name} does not take passwords")

    def verify_token(self, *, token: str) -> TokenPrincipal | None:
        """Whose token a program has shown, where ``supports_token`` says so."""
        raise NotImplementedError(f"{self.name} does not take tokens")


def names(_parts: Parts) -> Names:
    """The class, what it answers with and how it fails."""
    return {
        kind.__name__: kind
        for kind in (
            DashboardAuthProvider,
            InvalidCodeError,
            InvalidCredentialsError,
            LoginStart,
            ProviderError,
            RefreshExpiredError,
            Session,
            TokenPrincipal,
        )
    }
