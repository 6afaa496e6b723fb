"""A provider that wants a key, and none is set up: nothing is sent, and the message names the variable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes.base.config.schema.sections import AgentConfig, Config, FallbackConfig, ModelConfig, ModelProviderConfig
from hermes.host import Host
from hermes.testing import ScriptedProvider
from support import run_hermes


def test_the_run_ends_before_any_request(home: Path, workdir: Path) -> None:
    done = run_hermes("chat", "-Q", "-q", "hi", "--provider", "openrouter", home=home, cwd=workdir)
    assert done.returncode == 1
    [line] = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert line == (
        f"Error: openrouter: no key is set up; put OPENROUTER_API_KEY into the environment or into {home / '.env'}, "
        "or store one with 'hermes auth add openrouter'"
    )


@pytest.mark.parametrize("model", [{"api_key": "k"}, {"extra_headers": {"Authorization": "Bearer k"}}])
def test_another_address_or_a_header_of_ones_own_needs_no_variable(
    home: Path, workdir: Path, model: dict[str, Any]
) -> None:
    with ScriptedProvider("hello") as server:
        own = ModelConfig(provider="openrouter", default="m", base_url=server.base_url, **model)
        with Host(home, Config(model=own), cwd=workdir, env={}) as host:
            assert host.new_session().run("hi").answer == "hello"


def test_a_fallback_is_asked_instead(home: Path, workdir: Path) -> None:
    with ScriptedProvider("from the second") as server:
        config = Config(
            model=ModelConfig(provider="openrouter", default="m"),
            providers={"two": ModelProviderConfig(base_url=server.base_url, model="scripted")},
            fallback_providers=[FallbackConfig(provider="two")],
            agent=AgentConfig(api_max_retries=0),
        )
        with Host(home, config, cwd=workdir, env={}) as host:
            assert host.new_session().run("hi").answer == "from the second"
