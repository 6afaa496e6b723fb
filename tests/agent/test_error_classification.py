"""Plugins classify failures: retries, other keys, other models and compaction follow the first valid answer."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from hermes.agent.events import TurnResult
from hermes.base.config.schema.sections import FallbackConfig
from hermes.base.scope import Scope
from hermes.testing import EventRecorder, RecordedRequest, ScriptedProvider, ScriptedReply, failure, text
from support import HostFactory

HOOK = "transform_api_error_classification"


def _always(answer: Any) -> Callable[..., Any]:
    def judge(**_: Any) -> Any:
        return answer

    return judge


class Judged:
    """A turn whose failures a plugin classifies."""

    def __init__(self, make_host: HostFactory, script: list[Any], *answers: Any, fallback: bool = False) -> None:
        with ScriptedProvider(script) as provider:
            host = make_host(provider, retries=1)
            if fallback:
                second = FallbackConfig(provider="custom", model="second", base_url=provider.base_url, api_key="k2")
                host.config.fallback_providers.append(second)
            for number, answer in enumerate(answers):
                host.hooks.subscribe(HOOK, f"p{number}", _always(answer))
            self.recorder = EventRecorder().attach(host.hooks)
            self.result: TurnResult = host.new_session().run("go")
        self.models = [request.body["model"] for request in provider.requests]
        self.errors = [(one["reason"], one["retryable"]) for one in self.recorder.of("api_request_error")]


def test_the_fields_say_what_the_server_said(make_host: HostFactory) -> None:
    key = "sk-abcdefghijklmnopqrstuvwxyz012345"
    judged = Judged(make_host, [failure(418, f"I am a teapot {key}", code="teapot")], None)
    [fields] = judged.recorder.of(HOOK)
    assert (fields["provider"], fields["model"], fields["status_code"]) == ("custom", "scripted", 418)
    assert (fields["error_type"], fields["error_code"]) == ("ProviderError", "teapot")
    assert "teapot" in fields["error_message"] and fields["error_body"]["code"] == "teapot"
    assert fields["error"].status_code == 418 and fields["num_messages"] == 2 and fields["approx_tokens"] > 0
    assert key not in f"{fields['error_message']} {fields['error_body']} {fields['error']}"


def test_what_is_final_may_be_repeated(make_host: HostFactory) -> None:
    judged = Judged(make_host, [failure(400), text("ok")], {"reason": "overloaded"})
    assert judged.result.answer == "ok" and judged.errors == [("overloaded", True)]


def test_what_may_pass_may_be_final(make_host: HostFactory) -> None:
    judged = Judged(make_host, [failure(503), text("ok")], {"reason": "format_error", "message": "It is broken."})
    assert judged.models == ["scripted"] and judged.errors == [("bad_request", False)]
    assert judged.result.error == "It is broken."


@pytest.mark.parametrize(("hint", "models"), [(True, ["scripted", "second"]), (False, ["scripted"])])
def test_another_model_takes_over_or_does_not(make_host: HostFactory, hint: bool, models: list[str]) -> None:
    answer = {"reason": "content_policy_blocked", "should_fallback": hint}
    judged = Judged(make_host, [failure(400), text("ok")], answer, fallback=True)
    assert judged.models == models


def test_a_failure_that_asks_for_room_compacts(make_host: HostFactory) -> None:
    failures = [failure(500)]

    def reply(request: RecordedRequest) -> ScriptedReply:
        if request.last_user_text == "go" and failures:
            return failures.pop()
        return text("ok" if request.last_user_text == "go" else "word " * 400)

    def judge(**_: Any) -> dict[str, str]:
        return {"reason": "context_overflow"}

    with ScriptedProvider(reply) as provider:
        host = make_host(provider)
        session = host.new_session()
        for number in range(8):
            session.run(f"message {number}")
        host.hooks.subscribe(HOOK, "p", judge)
        recorder = EventRecorder().attach(host.hooks)
        result = session.run("go")
    assert result.answer == "ok", result.error
    assert [one["reason"] for one in recorder.of("api_request_error")] == ["context_too_long"]
    before, after = (one["message_count"] for one in recorder.of("pre_api_request"))
    assert after < before
    assert {one["aux_task"] for one in recorder.of("pre_auxiliary_call")} == {"compression"}


def test_the_first_valid_answer_counts_and_others_are_told(
    make_host: HostFactory, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    odd: list[Any] = ["overloaded", {"reason": "moonlight"}, {"retryable": True}]
    judged = Judged(make_host, [failure(400), text("ok")], *odd, {"reason": "timeout"}, {"reason": "billing"})
    assert judged.errors == [("timeout", True)]
    assert "'p1' classified a failure with 'moonlight'" in caplog.text
    assert "plugin 'p4' also classified the failure; the answer of 'p3' counts" in caplog.text


def test_a_callback_that_fails_changes_nothing(make_host: HostFactory) -> None:
    with ScriptedProvider([failure(400), text("ok")]) as provider:
        host = make_host(provider)

        def broken(**_: Any) -> None:
            raise ValueError("no")

        host.hooks.subscribe(HOOK, "p", broken)
        assert host.new_session().run("go").status == "failed"


def test_side_jobs_and_callbacks_that_ask_themselves(make_host: HostFactory) -> None:
    with ScriptedProvider([failure(400), failure(400), text("ok")]) as provider:
        host = make_host(provider)
        main = host.new_session().models.endpoints
        question, asked = [{"role": "user", "content": "beside"}], list[str]()
        llm = host.services.llm("p")

        def judge(**_: Any) -> dict[str, Any]:
            asked.append("judge")
            with pytest.raises(Exception, match="scripted failure"):
                llm.complete(question)
            return {"reason": "overloaded"}

        host.hooks.subscribe(HOOK, "p", judge)
        host.config.auxiliary.transient_retries = 1
        assert host.side.ask("compression", question, scope=Scope(), main=main).content == "ok"
    assert asked == ["judge"]
