"""Hooks of model calls beside the conversation: whose call it was, what came of it, and no call twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes.base.errors import ProviderError
from hermes.base.scope import Scope
from hermes.testing import EventRecorder, ScriptedProvider, failure, text
from support import HostFactory
from support.llm_rig import llm_host

PING = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "ping"}]


def test_a_plugins_call_says_whose_it_is(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("pong")]) as provider, llm_host(home, workdir, provider) as (host, llm):
        recorder = EventRecorder().attach(host.hooks)
        llm.complete(PING, purpose="test", max_tokens=7)
    [started], [ended] = recorder.of("pre_auxiliary_call"), recorder.of("post_auxiliary_call")
    assert (started["aux_task"], started["purpose"], started["plugin"]) == ("plugin_llm", "test", ended["plugin"])
    assert started["plugin"] and started["api_request_id"] == ended["api_request_id"]
    assert (started["system_prompt"], started["message_count"], started["max_tokens"]) == ("Be short.", 2, 7)
    assert started["request"]["body"]["messages"] == started["request_messages"] == PING
    assert (ended["error"], ended["finish_reason"], ended["assistant_content_chars"]) == (None, "stop", 4)
    assert ended["response"]["assistant_message"]["content"] == "pong"
    assert recorder.contract_violations() == []


def test_a_failure_is_an_end_without_secrets(make_host: HostFactory) -> None:
    with ScriptedProvider([failure(400, "the key sk-abcdefghijklmnopqrstuvwxyz012345 is odd")]) as provider:
        host = make_host(provider)
        recorder = EventRecorder().attach(host.hooks)
        main = host.new_session().models.endpoints
        with pytest.raises(ProviderError):
            host.side.ask("compression", PING, scope=Scope(), main=main)
    [ended] = recorder.of("post_auxiliary_call")
    assert (ended["aux_task"], ended["error_type"], ended["response"]) == ("compression", "ProviderError", None)
    assert "is odd" in ended["error"] and "sk-abc" not in ended["error"]


def test_what_a_callback_of_these_hooks_asks_is_not_reported(home: Path, workdir: Path) -> None:
    script = [text("one"), text("two"), text("three")]
    with ScriptedProvider(script) as provider, llm_host(home, workdir, provider) as (host, llm):
        recorder = EventRecorder().attach(host.hooks)

        def ask(**_: Any) -> None:
            llm.complete(PING)

        host.hooks.subscribe("pre_auxiliary_call", "curious", ask)
        host.hooks.subscribe("post_auxiliary_call", "curious", ask, background=True)
        llm.complete(PING)
        assert host.hooks.flush(30) == []
    assert len(provider.requests) == 3
    assert recorder.names() == ["pre_auxiliary_call", "post_auxiliary_call"]


def test_without_a_subscriber_nothing_is_built(make_host: HostFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    from hermes.agent.pipelines import auxiliary_call

    built: list[object] = []
    monkeypatch.setattr(auxiliary_call, "AuxiliaryStarted", built.append)
    monkeypatch.setattr(auxiliary_call, "AuxiliaryEnded", built.append)
    with ScriptedProvider([text("one")]) as provider:
        host = make_host(provider)
        host.side.ask("compression", PING, scope=Scope(), main=host.new_session().models.endpoints)
    assert built == []
