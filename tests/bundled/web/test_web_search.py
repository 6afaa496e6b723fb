"""Web search by the bundled providers and by plugins written for the published contract, on loopback servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config.schema.sections import ApprovalsConfig, PluginsConfig, WebConfig
from hermes.host import Host
from hermes.testing import ScriptedProvider, text, tool_call
from support.configured import configured_host, write_plugin
from support.web_server import Answer, serving


def search(host: Host, query: str = "tomatoes", **args: Any) -> dict[str, Any]:
    answer = host.services.dispatch_tool("web_search", {"query": query, **args})
    return json.loads(answer[answer.index("{") : answer.rindex("}") + 1])


def offered(host: Host) -> set[str]:
    return {tool.name for tool in host.offered_tools()}


def document(value: object, status: int = 200) -> Answer:
    return status, {"content-type": "application/json"}, json.dumps(value).encode()


def test_searxng_ranks_by_score(home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"title": "Low", "url": "https://low.example", "content": "…", "score": 0.1},
        {"title": "High", "url": "https://high.example", "content": "Best.", "score": 3},
    ]
    with ScriptedProvider([]) as provider, serving(lambda _path: document({"results": rows})) as (url, asked):
        monkeypatch.setenv("SEARXNG_URL", url)
        with configured_host(home, workdir, provider, plugins=PluginsConfig(enabled=["web/searxng"])) as host:
            assert {"web_search", "web_fetch"} <= offered(host), "a provider that works brings the toolset along"
            found = search(host, limit=1)
    assert asked == ["/search?q=tomatoes&format=json"]
    row = {"title": "High", "url": "https://high.example", "description": "Best.", "position": 1}
    assert found == {"success": True, "data": {"web": [row]}}


def test_searxng_that_refuses_json_says_what_to_do(home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedProvider([]) as provider, serving(lambda _path: document({}, 403)) as (url, _):
        monkeypatch.setenv("SEARXNG_URL", url)
        with configured_host(home, workdir, provider, plugins=PluginsConfig(enabled=["web/searxng"])) as host:
            assert "allow it in its settings.yml" in search(host)["error"]


def test_brave_sends_its_key_and_needs_one(home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"title": "T", "url": "https://t.example", "description": "D"}]
    with ScriptedProvider([]) as provider, serving(lambda _path: document({"web": {"results": rows}})) as (url, asked):
        settings = PluginsConfig(enabled=["web/brave"], entries={"web/brave": {"base_url": url}})
        with configured_host(home, workdir, provider, plugins=settings) as host:
            assert "web_search" not in offered(host), "without a key it cannot work"
        monkeypatch.setenv("BRAVE_SEARCH_API_KEY", "key-0123456789")
        with configured_host(home, workdir, provider, plugins=settings) as host:
            assert search(host)["data"]["web"][0]["url"] == "https://t.example"
            assert "contains a secret" in search(host, "what is key-0123456789")["error"]
    assert asked == ["/res/v1/web/search?q=tomatoes&count=5"]


#: As plugins for the published contract are written.
_PUBLISHED = """
from typing import Any, Dict, List

from agent.web_search_provider import WebSearchProvider


class Published(WebSearchProvider):
    @property
    def name(self) -> str:
        return "{name}"

    @property
    def display_name(self) -> str:
        return "Published"

    def is_available(self) -> bool:
        return True

    def supports_extract(self) -> bool:
        return True

    def search(self, query: str, limit: int = 5) -> Dict[str, Any]:
        if query == "fail":
            raise RuntimeError("out of order")
        if query == "empty":
            return {{"success": False, "error": "quota"}}
        return {{"success": True, "data": {{"web": [
            {{"title": query, "url": "https://x.example", "description": "{name}", "position": 1}}]}}}}

    async def extract(self, urls: List[str], **kwargs: Any) -> Any:
        return [{{"url": urls[0], "title": "Page", "content": "text of {name}", "raw_content": ""}}]

    def get_setup_schema(self) -> Dict[str, Any]:
        return {{"name": "Published", "badge": "", "tag": "", "env_vars": []}}


def register(ctx) -> None:
    ctx.register_web_search_provider(Published())
"""


def test_a_published_provider_runs_unmodified(home: Path, workdir: Path) -> None:
    write_plugin(home, "one", _PUBLISHED.format(name="one"), "name: one\nkind: backend\n")
    script = [tool_call("web_search", {"query": "beans"}), text("done")]
    with (
        ScriptedProvider(script) as provider,
        configured_host(home, workdir, provider, plugins=PluginsConfig(enabled=["one"])) as host,
    ):
        host.new_session().run("search")
        assert search(host, "fail") == {"success": False, "error": "one failed: RuntimeError: out of order"}
        assert search(host, "empty") == {"success": False, "error": "quota"}
        tool = host.tools.get("web_search")
        assert tool is not None and len(json.dumps(tool.definition())) <= 400
    content = provider.requests[1].messages[-1]["content"]
    assert "<untrusted" in content and '"title":"beans"' in content


def test_of_several_providers_the_settings_choose(home: Path, workdir: Path) -> None:
    for name in ("one", "two"):
        write_plugin(home, name, _PUBLISHED.format(name=name), f"name: {name}\n")
    plugins = PluginsConfig(enabled=["one", "two"])
    with ScriptedProvider([]) as provider:
        with configured_host(home, workdir, provider, plugins=plugins) as host:
            assert "web_search" not in offered(host)
            host.tools.remove("web_search")
        web = WebConfig(backend="one", search_backend="two", extract_backend="one")
        approvals = ApprovalsConfig(tools={"web_fetch": "allow"})
        with configured_host(home, workdir, provider, plugins=plugins, web=web, approvals=approvals) as host:
            assert search(host)["data"]["web"][0]["description"] == "two"
            page = host.services.dispatch_tool("web_fetch", {"url": "https://a.example"})
            assert "text of one" in page and '"title":"Page"' in page
