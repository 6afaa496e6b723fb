"""Web search by a SearXNG server."""

# The host offers these names to plugins alone, so a type checker cannot find them.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUntypedBaseClass=false

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from agent.web_search_provider import WebSearchProvider, get_provider_env

_TIMEOUT = 20.0


class SearXNG(WebSearchProvider):
    """Asks ``/search?format=json``."""

    name = "searxng"

    def __init__(self, ctx: Any) -> None:
        self._ctx = ctx

    def is_available(self) -> bool:
        return bool(self._address())

    def search(self, query: str, limit: int = 5) -> dict[str, Any]:
        address = self._address()
        if not address:
            return {"success": False, "error": "SEARXNG_URL is not set"}
        url = f"{address}/search?{urlencode({'q': query, 'format': 'json'})}"
        # The user chose the server, so it may be in a private network.
        response = self._ctx.http.get(url, headers={"accept": "application/json"}, timeout=_TIMEOUT, allow_private=True)
        if response.status == 403:
            return {"success": False, "error": "the server refuses the json format; allow it in its settings.yml"}
        if not response.is_success:
            return {"success": False, "error": f"the server answered with status {response.status}"}
        rows = response.json().get("results", [])
        ranked = sorted(rows, key=lambda row: float(row.get("score") or 0), reverse=True)
        found = [
            {"title": row.get("title"), "url": row.get("url"), "description": row.get("content"), "position": position}
            for position, row in enumerate(ranked[:limit], 1)
        ]
        return {"success": True, "data": {"web": found}}

    def _address(self) -> str:
        return str(self._ctx.settings.get("url") or get_provider_env("SEARXNG_URL")).rstrip("/")


def register(ctx: Any) -> None:
    """Register the provider."""
    ctx.register_web_search_provider(SearXNG(ctx))
