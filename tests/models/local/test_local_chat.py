"""The embedded model in a host: when it answers, when it must not, and that its commands are always asked about."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.events import TurnResult
from hermes.base.config import Config
from hermes.base.config.schema.sections import ApprovalsConfig, FallbackConfig, LocalConfig, ModelConfig
from hermes.base.errors import ConfigError
from hermes.host import Host, HostOptions
from hermes.models.local.endpoint import ADDRESS, EMBEDDED, LOCAL, NOTICE
from hermes.models.local.prompt.calls import CandidateCall, call_text
from hermes.models.local.running import running_states
from hermes.models.profiles import PROFILES
from hermes.testing import ScriptedResponder
from support import run_hermes
from support.approval_rig import says
from support.local_rig import write_gguf

NewHost = Callable[..., Host]
RUN = f"Please run `touch ran` say:{call_text(CandidateCall('terminal', 'touch ran'))}"


@pytest.fixture
def new_host(installed: Path, workdir: Path) -> Generator[NewHost]:
    """Builds hosts of a home in which only the local model is installed."""
    with ExitStack() as stack:

        def build(config: Config | None = None, **options: object) -> Host:
            chosen = HostOptions(**options)  # pyright: ignore[reportArgumentType]
            return stack.enter_context(Host(installed, config or Config(), chosen, cwd=workdir, env={}))

        yield build


def ask(host: Host, text: str) -> TurnResult:
    return host.new_session().run(text)


def test_the_profile_is_the_one_that_is_recognised() -> None:
    assert (PROFILES[LOCAL].base_url, PROFILES[LOCAL].default_model) == (ADDRESS, EMBEDDED)


# -- who answers ----------------------------------------------------------------------------------------------------


def test_it_answers_when_nothing_is_set_up_and_says_so_once(new_host: NewHost) -> None:
    host = new_host()
    for _ in range(2):
        result = ask(host, "Hello! say:Hello there")
        assert (result.answer, result.provider, result.model) == ("Hello there", "local", "smollm2-135m")
    assert host.notices.count(NOTICE) == 1


def test_it_is_gone_with_its_host(new_host: NewHost, installed: Path) -> None:
    host = new_host()
    ask(host, "Hello!")
    assert len(running_states(installed)) == 1
    host.close()
    assert not running_states(installed)


def test_it_may_be_asked_for(new_host: NewHost) -> None:
    for host in (new_host(provider="local"), new_host(Config(model=ModelConfig(provider="local")))):
        assert ask(host, "say:Yes").provider == "local"
        assert NOTICE not in host.notices


def test_a_file_of_ones_own_is_asked_like_any_other_model(new_host: NewHost, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "own.gguf")
    result = ask(new_host(Config(local=LocalConfig(model_path=str(path))), provider="local"), "Hello!")
    assert result.model == "own.gguf"
    assert json.loads(result.answer)["n_ctx"] == "4096"


@pytest.mark.parametrize(
    ("config", "options"),
    [
        (Config(local=LocalConfig(enabled=False)), {}),
        (Config(), {"model": "some-model"}),
        (Config(fallback_providers=[FallbackConfig(provider="ollama", model="m")]), {}),
    ],
)
def test_it_does_not_push_itself_forward(new_host: NewHost, config: Config, options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="no model is set up"):
        new_host(config, **options).new_session()


def test_it_is_no_silent_fallback(new_host: NewHost, installed: Path) -> None:
    config = Config(model=ModelConfig(provider="custom", default="m", base_url="http://127.0.0.1:9/v1"))
    config.agent.api_max_retries = 0
    result = ask(new_host(config), "Hello!")
    assert result.status == "failed"
    assert result.provider == "custom"
    assert not running_states(installed)


def test_at_the_command_line(installed: Path, workdir: Path) -> None:
    ran = run_hermes("chat", "--quiet", "--query", "Hello! say:Hello there", home=installed, cwd=workdir)
    assert ran.stdout == "Hello there\n"
    assert ran.stderr.count(NOTICE) == 1


# -- commands -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"reviewer": "model"}, {"permission_mode": "yolo"}])
def test_commands_are_refused_where_nobody_can_be_asked(
    new_host: NewHost, workdir: Path, settings: dict[str, Any]
) -> None:
    approvals = ApprovalsConfig(**settings, headless="allow", tools={"terminal": "allow"})
    config = Config(approvals=approvals, command_allowlist=["embedded-model"])
    result = ask(new_host(config, allow_everything=True), RUN)
    assert [call.status for call in result.tool_calls] == ["blocked"]
    assert "always need a user's approval" in str(result.tool_calls[0].error_message)
    assert not (workdir / "ran").exists()


def test_a_person_is_asked_each_time(new_host: NewHost, workdir: Path) -> None:
    host = new_host(allow_everything=True)
    session = host.new_session()
    person = ScriptedResponder(says("session"), says("deny"))
    host.responders.attach(session.id, person)
    assert [call.status for call in session.run(RUN).tool_calls] == ["ok"]
    assert (workdir / "ran").exists()
    assert [call.status for call in session.run(RUN).tool_calls] == ["blocked"]
    assert [request.rules for request in person.requests] == [("embedded-model",)] * 2


def test_a_better_model_follows_the_settings(new_host: NewHost, workdir: Path, tmp_path: Path) -> None:
    config = Config(local=LocalConfig(model_path=str(write_gguf(tmp_path / "own.gguf"))))
    assert [call.status for call in ask(new_host(config, provider="local"), RUN).tool_calls] == ["ok"]
    assert (workdir / "ran").exists()
