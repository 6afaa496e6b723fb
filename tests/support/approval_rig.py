"""Hosts with settings about approvals, and commands that need one."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hermes.agent.approvals.responder import ApprovalAnswer
from hermes.base.config import Config
from hermes.base.config.schema.sections import AgentConfig, ApprovalsConfig, AuxiliaryTaskConfig, ModelConfig
from hermes.host import Host, HostOptions
from hermes.testing import ScriptedProvider

#: Harmless when it runs: it leaves a mark and deletes what is not there. The rule it breaks is below.
RISKY = "touch ran && rm -rf ./no-such-folder"
RULE = "recursive-delete"
#: Fails when it runs, for want of such a device.
NEVER = "touch ran; mkfs.ext4 ./no-such-device"


def says(choice: Any, reason: str = "") -> ApprovalAnswer:
    """An answer."""
    return ApprovalAnswer(choice, reason)


def approval_config(
    provider: ScriptedProvider, *, allowlist: Sequence[str] = (), auxiliary: str = "", **approvals: Any
) -> Config:
    """A configuration with these settings under ``approvals``."""
    config = Config(
        model=ModelConfig(provider="custom", default="scripted", base_url=provider.base_url, api_key="test-key"),
        agent=AgentConfig(api_max_retries=0),
        approvals=ApprovalsConfig(**approvals),
        command_allowlist=list(allowlist),
    )
    if auxiliary:
        config.auxiliary.tasks["approval"] = AuxiliaryTaskConfig(model=auxiliary)
    return config


@contextmanager
def approving_host(
    home: Path, workdir: Path, provider: ScriptedProvider, *, yolo: bool = False, **settings: Any
) -> Generator[Host]:
    """A host with these settings."""
    config = approval_config(provider, **settings)
    with Host(home, config, HostOptions(allow_everything=yolo), cwd=workdir, env={}) as host:
        yield host
