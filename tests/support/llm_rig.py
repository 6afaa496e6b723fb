"""A host with a scripted model that is configured in a file, and a plugin's ``ctx.llm``."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import Any

import msgspec

from hermes.base.config import load_config
from hermes.base.scope import Scope, current_scope
from hermes.host import Host
from hermes.plugins.llm.access import PluginLlm
from hermes.testing import ScriptedProvider

KEY = "sk-sentinel-0123456789abcdef"
PING = [{"role": "user", "content": "ping"}]


def write_settings(home: Path, base_url: str, **sections: Any) -> None:
    """The configuration of a home. JSON is YAML too."""
    home.mkdir(parents=True, exist_ok=True)
    model = {"provider": "custom", "default": "scripted", "base_url": base_url, "api_key": KEY}
    document = {"agent": {"api_max_retries": 0}, **sections, "model": {**model, **sections.get("model", {})}}
    fresh = home / "config.yaml.new"
    fresh.write_bytes(msgspec.json.encode(document))
    fresh.replace(home / "config.yaml")


def granted(**settings: Any) -> dict[str, Any]:
    """The ``plugins`` section that gives plugin ``p`` these settings for models."""
    return {"entries": {"p": {"llm": settings}}}


@contextlib.contextmanager
def llm_host(home: Path, cwd: Path, provider: ScriptedProvider, **sections: Any) -> Generator[tuple[Host, PluginLlm]]:
    """A host and the model access of its plugin ``p``."""
    write_settings(home, provider.base_url, **sections)
    with Host(home, load_config(home, environ={}).config, cwd=cwd, env={}) as host:
        yield host, PluginLlm("p", host.services.llm)


@contextlib.contextmanager
def working_in(scope: Scope) -> Generator[None]:
    """As code of a plugin that is called during a turn."""
    token = current_scope.set(scope)
    try:
        yield
    finally:
        current_scope.reset(token)


def recorded(host: Host) -> list[dict[str, Any]]:
    """Every call of plugins that is on record, in order."""
    models = host.services._models  # pyright: ignore[reportPrivateUsage]
    assert models is not None
    models.flush()
    names = ("session_id", "turn_id", "key", "provider", "model", "status", "purpose", "input_tokens", "cost_usd")
    query = f"SELECT {', '.join(names)} FROM all_calls WHERE key LIKE 'plugin:%' ORDER BY started_at"
    rows = host.store.read(lambda connection: connection.execute(query).fetchall())
    return [dict(zip(names, row, strict=True)) for row in rows]
