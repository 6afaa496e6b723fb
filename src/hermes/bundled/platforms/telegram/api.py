"""The methods of the Telegram Bot API that the adapter uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from hermes.surfaces.gateway.platforms.api import PlatformApi, PlatformApiError, as_object, as_objects

from .updates import Bot

if TYPE_CHECKING:
    from hermes.surfaces.gateway.adapter import PluginHttp

    from .settings import TelegramSettings

_KINDS = {400: "bad_format", 403: "forbidden", 404: "not_found", 429: "rate_limited"}


class BotApi:
    """One bot. Errors have what Telegram says, never the address, which has the token in it."""

    def __init__(self, http: PluginHttp, settings: TelegramSettings) -> None:
        self._files = PlatformApi(
            http, f"{settings.base_url}/file/bot{settings.bot_token}", allow_private=settings.has_own_server
        )
        self._api = PlatformApi(
            http, f"{settings.base_url}/bot{settings.bot_token}", allow_private=settings.has_own_server
        )

    async def call(self, method: str, parameters: dict[str, Any] | None = None, *, seconds: float = 30.0) -> Any:
        """Call a method; its result. Parameters that are ``None`` are left out. Raises ``PlatformApiError``."""
        given = {name: value for name, value in (parameters or {}).items() if value is not None}
        status, answer = await self._api.call("POST", f"/{method}", json=given, timeout=seconds)
        if status == 200 and answer.get("ok") is True:
            return answer.get("result")
        code = answer.get("error_code")
        status = code if isinstance(code, int) else status
        pause = as_object(answer.get("parameters")).get("retry_after")
        raise PlatformApiError(
            f"{method}: {str(answer.get('description'))[:300]} (status {status})",
            kind=_KINDS.get(status, "transient" if status >= 500 else "unknown"),
            # Telegram answers with an error when it did nothing, except when it failed itself.
            may_repeat=status == 429,
            status=status,
            refusals=(401, 404),
            retry_after=float(pause) if isinstance(pause, int | float) else None,
        )

    async def download(self, file_id: str, limit: int) -> bytes:
        """The content of a file. Raises ``PlatformApiError``."""
        found = await self.call("getFile", {"file_id": file_id})
        path = as_object(found).get("file_path")
        # A server of one's own may give a path on its machine, which is none of ours.
        if not isinstance(path, str) or path.startswith("/") or ".." in path.split("/"):
            raise PlatformApiError("getFile: the answer has no path of a file")
        return await self._files.download(f"/{quote(path)}", limit)

    async def get_me(self) -> Bot:
        """Who we are."""
        fields = as_object(await self.call("getMe"))
        if not isinstance(fields.get("id"), int) or not isinstance(fields.get("username"), str):
            raise PlatformApiError("getMe: the answer names no bot")
        return Bot(fields["id"], fields["username"])

    async def get_updates(self, offset: int, seconds: float) -> list[dict[str, Any]]:
        """The updates from ``offset`` on, waiting for one at most so long. Those before it are acknowledged."""
        parameters = {"offset": offset or None, "timeout": int(seconds), "allowed_updates": ["message"]}
        found = await self.call("getUpdates", parameters, seconds=seconds + 20)
        if not isinstance(found, list):
            raise PlatformApiError("getUpdates: the answer is not a list")
        return [one for one in as_objects(cast("object", found)) if isinstance(one.get("update_id"), int)]
