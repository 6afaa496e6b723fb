"""The settings of side jobs: what is configured, over what the plugin that has the job wants."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.base.config.schema.sections import AuxiliaryConfig, AuxiliaryTaskConfig, Config, ModelConfig, PluginsConfig
from hermes.base.scope import Scope
from hermes.host import Host
from hermes.testing import ScriptedProvider, text
from support.configured import write_plugin

JUDGE = """
def register(ctx):
    ctx.register_auxiliary_task("judge", display_name="Judge", description="judges", defaults={defaults})
"""


def host_with(home: Path, workdir: Path, url: str, auxiliary: AuxiliaryConfig, defaults: str) -> Host:
    write_plugin(home, "court", JUDGE.format(defaults=defaults))
    model = ModelConfig(provider="custom", default="main", base_url=url)
    config = Config(model=model, auxiliary=auxiliary, plugins=PluginsConfig(enabled=["court"]))
    return Host(home, config, cwd=workdir, env={})


@pytest.mark.parametrize(
    ("auxiliary", "model", "timeout"),
    [
        (AuxiliaryConfig(), "small", 7),
        (AuxiliaryConfig(timeout=9), "small", 9),
        (AuxiliaryConfig(tasks={"judge": AuxiliaryTaskConfig(timeout=3)}), "small", 3),
        (AuxiliaryConfig(tasks={"judge": AuxiliaryTaskConfig(model="mine")}), "mine", 7),
    ],
    ids=["nothing configured", "a timeout for all", "a timeout for it", "a model for it"],
)
def test_the_defaults_of_a_plugin_give_way_to_what_is_configured(
    home: Path, workdir: Path, auxiliary: AuxiliaryConfig, model: str, timeout: float
) -> None:
    with (
        ScriptedProvider(text("guilty")) as provider,
        host_with(home, workdir, provider.base_url, auxiliary, '{"model": "small", "timeout": 7}') as host,
    ):
        main = host.models.conversation().endpoints
        host.side.ask("judge", [{"role": "user", "content": "?"}], scope=Scope(), main=main)
        assert (host.models.task("judge").model, host.models.task_timeout("judge")) == (model, timeout)
        assert host.models.task("vision") == AuxiliaryTaskConfig() and host.models.task_timeout("vision") == (
            auxiliary.timeout or 120
        )
    assert provider.requests[0].body["model"] == model


def test_defaults_that_make_no_sense_are_left_out(home: Path, workdir: Path, caplog: pytest.LogCaptureFixture) -> None:
    with host_with(home, workdir, "http://127.0.0.1:1/v1", AuxiliaryConfig(), '{"timeout": "soon"}') as host:
        assert host.models.task("judge") == AuxiliaryTaskConfig()
    assert "plugin 'court': the defaults of side job 'judge' are not used" in caplog.text
