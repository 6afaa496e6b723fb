"""Web search by the Brave Search API."""

# The host offers these names to plugins alone, so a type checker cannot find them.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUntypedBaseClass=false

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from agent.web_search_provider import WebSearchProvider, get_provider_env

DEFAULT_BASE_URL = "https://api.search.brave.com"
_TIMEOUT = 20.0
_MOST = 20


class Brave(WebSearchProvider):
    """Asks ``/res/v1/web/search`` with a key."""

    name = "brave"

    def __init__(self, ctx: Any) -> None:
        self._ctx = ctx

    def is_available(self) -> bool:
        return bool(get_provider_env("BRAVE_SEARCH_API_KEY"))

    def search(self, query: str, limit: int = 5) -> dict[str, Any]:
        key = get_provider_env("BRAVE_SEARCH_API_KEY")
        if not key:
            return {"success": False, "error": "BRAVE_SEARCH_API_KEY is not set"}
        own = str(self._ctx.settings.get("base_url") or "").rstrip("/")
        url = f"{own or DEFAULT_BASE_URL}/res/v1/web/search?{urlencode({'q': query, 'count': min(limit, _MOST)})}"
        headers = {"accept": "application/json", "x-subscription-token": key}
        response = self._ctx.http.request("GET", url, headers=headers, timeout=_TIMEOUT, allow_private=bool(own))
        if response.status in (401, 403, 422):
            return {"success": False, "error": f"the key was refused (status {response.status})"}
        if response.status == 429:
            return {"success": False, "error": "the limit of searches is reached; try again later"}
        if not response.is_success:
            return {"success": False, "error": f"the server answered with status {response.status}"}
        rows: list[dict[str, Any]] = (response.json().get("web") or {"results": []})["results"]
        found = [
            {
                "title": row.get("title"),
                "url": row.get("url"),
                "description": row.get("description"),
                "position": position,
            }
            for position, row in enumerate(rows[:limit], 1)
        ]
        return {"success": True, "data": {"web": found}}


def register(ctx: Any) -> None:
    """Register the provider."""
    ctx.register_web_search_provider(Brave(ctx))
