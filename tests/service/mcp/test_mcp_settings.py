"""Entries of ``mcp_servers``: what is accepted, and what an error says."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.base.config.load import load_text
from hermes.base.config.schema.mcp import McpServerConfig
from hermes.service.mcp.errors import McpError
from hermes.service.mcp.settings import check_entry, entry_digest, resolve_entry


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (McpServerConfig(), "neither command nor url"),
        (McpServerConfig(command="x", url="http://h/mcp"), "command and url"),
        (McpServerConfig(command="x", transport="sse"), "found sse beside a command"),
        (McpServerConfig(url="http://h/mcp", transport="stdio"), "found stdio beside a url"),
        (McpServerConfig(url="example.org/mcp"), "http:// or https://"),
        (McpServerConfig(url="https://h/mcp", client_key="k.pem"), "client_cert"),
    ],
)
def test_an_entry_that_cannot_work_says_what_was_found_and_what_is_allowed(entry: McpServerConfig, words: str) -> None:
    with pytest.raises(McpError, match=words) as caught:
        check_entry("docs", entry)
    assert "mcp_servers.docs" in str(caught.value)


def test_references_are_filled_in_both_spellings_and_a_missing_one_is_named() -> None:
    entry = McpServerConfig(command="run", args=["--user", "${WHO}"], env={"TOKEN": "${env:SECRET}"})
    settings = resolve_entry("s", entry, {"WHO": "ann", "SECRET": "value-of-secret"})
    assert settings.command == ("run", "--user", "ann")
    assert settings.env == {"TOKEN": "value-of-secret"}
    assert settings.secrets() == {"mcp.s.env.TOKEN": "value-of-secret"}
    with pytest.raises(McpError, match=r"env\.TOKEN refers to \$\{SECRET\}, which is not set"):
        resolve_entry("s", entry, {"WHO": "ann"})


def test_the_loader_leaves_references_of_servers_alone(tmp_path: Path) -> None:
    text = "mcp_servers:\n  web:\n    url: https://${HOST}/mcp\n    headers: {Authorization: 'Bearer ${TOKEN}'}\n"
    loaded = load_text(text, tmp_path / "config.yaml", {})
    assert loaded.warnings == []
    assert loaded.config.mcp_servers["web"].url == "https://${HOST}/mcp"


def test_an_unknown_key_warns_with_a_suggestion(tmp_path: Path) -> None:
    loaded = load_text("mcp_servers: {web: {comand: x}}\n", tmp_path / "config.yaml", {})
    assert any("comand" in warning and "command" in warning for warning in loaded.warnings)


def test_the_keys_of_upstream_are_known(tmp_path: Path) -> None:
    text = """\
mcp_servers:
  all:
    command: npx
    args: [-y, pkg]
    env: {A: b}
    enabled: true
    timeout: 120
    connect_timeout: 30
    keepalive_interval: 60
    idle_timeout_seconds: 600
    lifecycle: {max_lifetime_seconds: 3600}
    supports_parallel_tool_calls: true
    skip_preflight: true
    tools: {include: [a], exclude: [b], resources: false, prompts: false}
    sampling: {enabled: true, model: m, max_tokens_cap: 100, timeout: 5, max_rpm: 3, allowed_models: [m],
      max_tool_rounds: 2, log_level: debug}
    elicitation: {enabled: false}
  web: {url: "https://h/mcp", headers: {a: b}, auth: oauth, oauth: {scope: s}, ssl_verify: false, client_cert: c.pem}
mcp_discovery_timeout: 2
mcp: {auto_reload_on_config_change: false}
tools: {tool_search: {enabled: "on", threshold_pct: 5, search_default_limit: 3, max_search_limit: 9}}
"""
    loaded = load_text(text, tmp_path / "config.yaml", {})
    assert loaded.warnings == []
    assert loaded.config.mcp_servers["all"].tools.include == ["a"]


def test_a_digest_changes_with_the_server_and_not_with_what_is_offered_of_it() -> None:
    entry = McpServerConfig(command="a")
    assert entry_digest(entry) != entry_digest(McpServerConfig(command="a", args=["x"]))
    assert entry_digest(entry) == entry_digest(McpServerConfig(command="a", timeout=5))
