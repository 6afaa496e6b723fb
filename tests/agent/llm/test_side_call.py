"""Questions beside the conversation: their own model and patience, no hooks, on record with what they took."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes.base.config import Config
from hermes.base.config.schema.sections import (
    AgentConfig,
    AuxiliaryConfig,
    AuxiliaryTaskConfig,
    DelegationConfig,
    ModelConfig,
    ModelProviderConfig,
)
from hermes.base.errors import Interrupted, ProviderError
from hermes.base.scope import Interrupt, Scope
from hermes.host import Host
from hermes.testing import EventRecorder, ScriptedProvider, failure, hanging, text

QUESTION = [{"role": "user", "content": "Is this safe?"}]


def _config(base_url: str, **sections: Any) -> Config:
    model = ModelConfig(provider="custom", default="main-model", base_url=base_url, api_key="test-key")
    return Config(model=model, agent=AgentConfig(api_max_retries=0), **sections)


def test_a_side_job_uses_the_conversations_model_and_only_its_own_hooks_hear_of_it(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider([text("hi"), text("yes", usage={"prompt_tokens": 7, "completion_tokens": 1})]) as provider,
        Host(home, _config(provider.base_url), cwd=workdir, env={}) as host,
    ):
        session = host.new_session()
        session.run("hello")
        recorder = EventRecorder()
        recorder.attach(host.hooks)
        scope = Scope(session_id=session.id)
        reply = host.side.ask("approval", QUESTION, scope=scope, main=session.models.endpoints, max_tokens=5)

        assert reply.content == "yes"
        assert provider.requests[1].body["model"] == "main-model"
        assert "tools" not in provider.requests[1].body
        assert recorder.names(middleware=True) == ["pre_auxiliary_call", "post_auxiliary_call"]
        row = host.sessions.model_calls(session.id)[-1]
        assert (row["key"], row["status"], row["input_tokens"], row["output_tokens"]) == ("side:approval", "ok", 7, 1)


def test_a_side_job_has_the_model_that_the_configuration_gives_it(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("a"), text("b")]) as provider, ScriptedProvider([text("c")]) as other:
        tasks = {
            "vision": AuxiliaryTaskConfig(model="seeing-model"),
            "compression": AuxiliaryTaskConfig(provider="other", model="small"),
        }
        config = _config(
            provider.base_url,
            auxiliary=AuxiliaryConfig(tasks=tasks),
            providers={"other": ModelProviderConfig(base_url=other.base_url, api_key="other-key")},
        )
        with Host(home, config, cwd=workdir, env={}) as host:
            main = host.models.conversation().endpoints
            for task in ("vision", "title_generation", "compression"):
                host.side.ask(task, QUESTION, scope=Scope(), main=main)
    assert [request.body["model"] for request in provider.requests] == ["seeing-model", "main-model"]
    [request] = other.requests
    assert (request.body["model"], request.headers["authorization"]) == ("small", "Bearer other-key")


def test_a_passing_failure_is_tried_again_and_every_attempt_is_on_record(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider([text("hi"), failure(503, "busy", headers={"retry-after": "0"}), text("yes")]) as provider,
        Host(home, _config(provider.base_url), cwd=workdir, env={}) as host,
    ):
        session = host.new_session()
        session.run("hello")
        scope = Scope(session_id=session.id)
        assert host.side.ask("approval", QUESTION, scope=scope, main=session.models.endpoints).content == "yes"
        rows = [row for row in host.sessions.model_calls(session.id) if row["key"] == "side:approval"]
        assert [row["status"] for row in rows] == ["error", "ok"]
        assert "test-key" not in str(rows)


def test_a_side_job_gives_up_in_its_own_time(home: Path, workdir: Path) -> None:
    with ScriptedProvider([hanging()]) as provider:
        config = _config(provider.base_url, auxiliary=AuxiliaryConfig(timeout=0.2, transient_retries=0))
        with (
            Host(home, config, cwd=workdir, env={}) as host,
            pytest.raises(ProviderError) as caught,
        ):
            host.side.ask("approval", QUESTION, scope=Scope(), main=host.models.conversation().endpoints)
    assert caught.value.reason == "timeout"


def test_a_side_job_ends_with_the_work_it_belongs_to(home: Path, workdir: Path) -> None:
    interrupt = Interrupt()
    interrupt.cancel("stop")
    with (
        ScriptedProvider([]) as provider,
        Host(home, _config(provider.base_url), cwd=workdir, env={}) as host,
        pytest.raises(Interrupted),
    ):
        main = host.models.conversation().endpoints
        host.side.ask("approval", QUESTION, scope=Scope(interrupt=interrupt), main=main)
    assert provider.requests == []


def test_a_side_job_inside_a_turn_does_not_shift_the_numbers_of_the_turns_own_attempts(
    home: Path, workdir: Path
) -> None:
    with (
        ScriptedProvider([failure(500, "no"), text("aside"), text("answer")]) as provider,
        Host(home, _config(provider.base_url), cwd=workdir, env={}) as host,
    ):
        session = host.new_session()
        turn_id = session.run("hello").turn_id
        scope = Scope(session_id=session.id, turn_id=turn_id)
        host.side.ask("approval", QUESTION, scope=scope, main=session.models.endpoints)
        session.finish_open_turn()
        attempts = [row["api_request_id"] for row in host.sessions.model_calls(session.id)]
    assert [name.removeprefix(turn_id) for name in attempts if ":side:" not in name] == [":api:1", ":api:2"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (DelegationConfig(), ("custom", "main-model", "test-key")),
        (DelegationConfig(model="child-model"), ("custom", "child-model", "test-key")),
        (DelegationConfig(provider="other", model="small"), ("other", "small", "other-key")),
        (DelegationConfig(base_url="http://127.0.0.1:9/v1", model="m", api_key="k"), ("custom", "m", "k")),
    ],
)
def test_children_inherit_what_delegation_leaves_open(
    home: Path, workdir: Path, settings: DelegationConfig, expected: tuple[str, str, str]
) -> None:
    other = ModelProviderConfig(base_url="http://127.0.0.1:9/v1", api_key="other-key")
    config = _config("http://127.0.0.1:9/v1", delegation=settings, providers={"other": other})
    with Host(home, config, cwd=workdir, env={}) as host:
        first = host.models.children(host.models.conversation()).endpoints[0]
    assert (first.provider, first.model, first.api_key) == expected
