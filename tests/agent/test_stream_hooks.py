"""The hooks of an answer while it streams: a start, its pieces without secrets, one end on every path."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from hermes.base.config.schema.sections import PluginsConfig
from hermes.base.scope import Interrupt
from hermes.host import Host
from hermes.testing import EventRecorder, ScriptedProvider, hanging, reasoning, text, tool_calls
from support import HostFactory

SECRET = "correct-horse-battery-staple"


def pieces(recorder: EventRecorder, kind: str = "text") -> str:
    return "".join(one["delta"] for one in recorder.of("on_stream_delta") if one["kind"] == kind)


def test_the_pieces_make_the_answer_between_a_start_and_an_end(make_host: HostFactory) -> None:
    with ScriptedProvider([text("One, two, three.")]) as provider:
        host = make_host(provider)
        recorder = EventRecorder().attach(host.hooks)
        result = host.new_session().run("go")
    assert pieces(recorder) == result.answer
    [started], [ended] = recorder.of("on_stream_start"), recorder.of("on_stream_end")
    [attempt] = recorder.of("pre_api_request")
    assert (ended["final_text"], ended["finished"], ended["error"]) == (result.answer, True, None)
    assert started["iteration"] == attempt["api_call_count"] and started["surface"] == "cli"
    assert started["api_request_id"] == ended["api_request_id"] == attempt["api_request_id"]
    streamed = [name for name in recorder.names(streams=True) if name.startswith("on_stream")]
    assert streamed[0] == "on_stream_start" and streamed[-1] == "on_stream_end"
    assert recorder.contract_violations() == []


def test_secrets_are_masked_also_across_pieces(make_host: HostFactory) -> None:
    with ScriptedProvider([text(f"It is {SECRET}.", chunks=7)]) as provider:
        host = make_host(provider)
        host.redactor.add_secret(SECRET)
        recorder = EventRecorder().attach(host.hooks)
        host.new_session().run("go")
    [ended] = recorder.of("on_stream_end")
    assert SECRET not in pieces(recorder) and pieces(recorder) == ended["final_text"]
    assert ended["final_text"].startswith("It is ")


@pytest.mark.parametrize("is_wanted", [True, False])
def test_reasoning_is_for_those_who_switched_it_on(make_host: HostFactory, is_wanted: bool) -> None:
    with ScriptedProvider([reasoning("Two and two.", "Four.")]) as provider:
        host = make_host(provider, limits=PluginsConfig(stream_reasoning_deltas=is_wanted))
        recorder = EventRecorder().attach(host.hooks)
        host.new_session().run("go")
    assert pieces(recorder) == "Four."
    assert pieces(recorder, "reasoning") == ("Two and two." if is_wanted else "")


def test_words_beside_a_tool_call_are_interim(make_host: HostFactory) -> None:
    script = [tool_calls([("todo", {})], content="I look."), text("Done.")]
    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        recorder = EventRecorder().attach(host.hooks)
        host.new_session().run("go", listener=lambda _event: None)
    [said] = recorder.of("on_interim_message")
    assert (said["text"], said["iteration"]) == ("I look.", 1)
    # Text that a plugin may still replace is not shown while it streams.
    assert said["already_streamed"] is False


def test_a_stream_that_breaks_off_has_its_end(make_host: HostFactory) -> None:
    with ScriptedProvider([text("Half of an answer.", chunks=4, truncate_after=400), text("Whole.")]) as provider:
        host = make_host(provider, retries=1)
        recorder = EventRecorder().attach(host.hooks)
        host.new_session().run("go")
    first, second = recorder.of("on_stream_end")
    assert (first["finished"], second["finished"], second["final_text"]) == (False, True, "Whole.")
    assert first["error"] and "Half of an answer.".startswith(first["final_text"])
    assert recorder.pairs_unbalanced() == []


def test_a_turn_without_a_stream_tells_of_none(make_host: HostFactory) -> None:
    interrupt = Interrupt()

    def stop(**_: Any) -> None:
        threading.Timer(0.1, interrupt.cancel).start()

    with ScriptedProvider([hanging()]) as provider:
        host = make_host(provider)
        recorder = EventRecorder().attach(host.hooks)
        host.hooks.subscribe("pre_api_request", "stopper", stop)
        host.new_session().run("go", interrupt=interrupt)
    assert recorder.of("on_stream_start") == recorder.of("on_stream_end") == []


def test_a_stuck_callback_holds_up_nothing(make_host: HostFactory) -> None:
    go_on = threading.Event()

    def stuck(**_: Any) -> None:
        go_on.wait(60)

    with ScriptedProvider([text("Here.")]) as provider:
        host = make_host(provider)
        for hook in ("on_stream_start", "on_stream_delta", "on_stream_end", "on_interim_message"):
            host.hooks.subscribe(hook, "stuck", stuck)
        assert host.new_session().run("go").answer == "Here."
        assert not go_on.is_set()
        go_on.set()


def test_without_a_subscriber_nothing_is_imported_or_built(
    make_host: HostFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hermes.agent.pipelines.model_call import ConversationAttempt

    asked: list[object] = []
    monkeypatch.setattr(ConversationAttempt, "_report_stream", asked.append)
    monkeypatch.setattr(ConversationAttempt, "_stream_fields", asked.append)
    with ScriptedProvider([tool_calls([("todo", {})], content="I look."), text("ok")]) as provider:
        host: Host = make_host(provider)
        host.new_session().run("go")
    assert asked == []
