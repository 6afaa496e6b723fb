"""The methods of Slack's Web API that the adapter uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hermes.surfaces.gateway.platforms.api import PlatformApi, PlatformApiError

if TYPE_CHECKING:
    from hermes.surfaces.gateway.adapter import PluginHttp

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
        self._http = http
        self._settings = settings
        self._headers = {"authorization": f"Bearer {token}"}
        self._api = PlatformApi(http, settings.base_url, self._headers, allow_private=settings.has_own_server)

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

    async def download(self, url: str, limit: int) -> bytes:
        """The content of a file. The token goes to Slack only. Raises ``PlatformApiError``."""
        place, own = urlsplit(url), urlsplit(self._settings.base_url)
        is_slack = place.scheme == "https" and place.netloc.endswith(".slack.com")
        is_own = self._settings.has_own_server and (place.scheme, place.netloc) == (own.scheme, own.netloc)
        if not (is_slack or is_own):
            raise PlatformApiError("the address of a file is not one of Slack's")
        origin = f"{place.scheme}://{place.netloc}"
        files = PlatformApi(self._http, origin, self._headers, allow_private=self._settings.has_own_server)
        path = f"{place.path}?{place.query}" if place.query else place.path
        return await files.download(path, limit)
