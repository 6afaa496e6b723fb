"""Principals as users of the SDK."""

from __future__ import annotations

from a2a.auth.user import User

from hermes.base.http_server.principals import Principal


class PrincipalUser(User):
    """A principal as the user of the SDK: its name is the owner of tasks."""

    def __init__(self, principal: Principal) -> None:
        self.principal = principal

    @property
    def is_authenticated(self) -> bool:
        return self.principal.is_authenticated

    @property
    def user_name(self) -> str:
        return self.principal.name
