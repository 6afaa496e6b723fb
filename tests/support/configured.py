"""A host with a scripted model and whatever sections of the configuration a test is about."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from hermes.base.config import Config
from hermes.base.config.schema.sections import AgentConfig, ModelConfig
from hermes.host import Host, HostOptions
from hermes.journal.sessions import Sessions
from hermes.testing import ScriptedProvider


def configured_host(home: Path, cwd: Path, provider: ScriptedProvider, **sections: Any) -> Host:
    """A host that the caller closes. ``options`` among the sections are the host's options."""
    options: dict[str, Any] = sections.pop("options", {})
    model: dict[str, Any] = {"default": "scripted", **sections.pop("model", {})}
    config = Config(
        model=ModelConfig(provider="custom", base_url=provider.base_url, api_key="test-key", **model),
        agent=AgentConfig(api_max_retries=0),
        **sections,
    )
    return Host(home, config, HostOptions(**options), cwd=cwd, env={})


def tool_answers(host: Host, session_id: str) -> list[dict[str, Any]]:
    """What the tools of a session answered, in order."""
    messages = Sessions(host.store).messages(session_id)
    return [decode_result(message["content"]) for message in messages if message["role"] == "tool"]


def decode_result(content: str) -> dict[str, Any]:
    """The result that the content of a tool's message has, without the marks of untrusted text."""
    return msgspec.json.decode(re.sub(r"\A<untrusted (\w+)>\n(.*)\n</untrusted \1>", r"\2", content, flags=re.DOTALL))


def write_plugin(home: Path, name: str, source: str, manifest: str = "") -> None:
    """Put a plugin into the home."""
    folder = home / "plugins" / name
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text(manifest or f"name: {name}\n")
    (folder / "__init__.py").write_text(source)
