"""The methods of Slack's Web API that the adapter uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.gateway.platform_api import PlatformApi, PlatformApiError

if TYPE_CHECKING:
    from hermes.gateway.adapter import PluginHttp

    from .settings import SlackSettings

#: Errors that say that the token is no good.
_NO_ACCESS = frozenset(
    ("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "not_allowed_token_type")
)
_KINDS = {
    "channel_not_found": "not_found",
    "message_not_found": "not_found",
    "user_not_found": "not_found",
    "is_archived": "forbidden",
    "not_in_channel": "forbidden",
    "restricted_action": "forbidden",
    "msg_too_long": "too_long",
    "ratelimited": "rate_limited",
    "rate_limited": "rate_limited",
}
#: Errors of Slack itself: it may have done what was asked.
_UNCLEAR = frozenset(("internal_error", "fatal_error", "service_unavailable", "request_timeout"))


class SlackApi:
    """The Web API with one of the app's tokens."""

    def __init__(self, http: PluginHttp, settings: SlackSettings, token: str) -> None:
        self._api = PlatformApi(
            http, settings.base_url, {"authorization": f"Bearer {token}"}, allow_private=settings.has_own_server
        )

    async def call(self, method: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call a method; its answer. Parameters that are ``None`` are left out. Raises ``PlatformApiError``."""
        given = {name: value for name, value in (parameters or {}).items() if value is not None}
        status, answer = await self._api.call("POST", f"/{method}", json=given, timeout=30)
        if answer.get("ok") is True:
            return answer
        error = str(answer.get("error") or f"status {status}")[:200]
        raise PlatformApiError(
            f"{method}: {error}",
            kind="unknown" if error in _UNCLEAR or status >= 500 else _KINDS.get(error, "bad_format"),
            status=401 if error in _NO_ACCESS else status,
            may_repeat=_KINDS.get(error) == "rate_limited",
        )
