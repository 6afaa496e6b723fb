"""Another model goes on where one fails: who is asked, what is said about it, and when the first is asked again."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from hermes.base.config.schema.sections import AgentConfig, Config, FallbackConfig, ModelConfig, ModelProviderConfig
from hermes.contract.events import AttemptFailed, EndpointSkipped, ModelSwitched, TurnEvent
from hermes.host import Host
from hermes.journal.sessions import Sessions
from hermes.models.credentials.store import AuthFile, add_key
from hermes.models.health import Health
from hermes.testing import EventRecorder, ScriptedProvider, failure, text
from support import run_hermes


class Pair(NamedTuple):
    """A host with two servers: one is asked first, the other stands in for it."""

    host: Host
    first: ScriptedProvider
    second: ScriptedProvider


def config_for(first: ScriptedProvider, second: ScriptedProvider, retries: int = 0) -> Config:
    return Config(
        model=ModelConfig(provider="one", default="large"),
        providers={
            "one": ModelProviderConfig(base_url=first.base_url, api_key="key-of-one"),
            "two": ModelProviderConfig(base_url=second.base_url, api_key="key-of-two", model_map={"large": "scripted"}),
        },
        fallback_providers=[FallbackConfig(provider="two")],
        agent=AgentConfig(api_max_retries=retries),
    )


@pytest.fixture
def pair(home: Path, workdir: Path, request: pytest.FixtureRequest) -> Generator[Pair]:
    """The parameter is what the first server says."""
    with ExitStack() as stack:
        first = stack.enter_context(ScriptedProvider(request.param))
        second = stack.enter_context(ScriptedProvider(text("from the second", model="scripted-2")))
        host = stack.enter_context(Host(home, config_for(first, second), cwd=workdir, env={}))
        yield Pair(host, first, second)


def switches(events: list[TurnEvent]) -> list[ModelSwitched]:
    return [event for event in events if isinstance(event, ModelSwitched)]


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        ([failure(503)], "the server is overloaded"),
        ([failure(500)], "the server failed"),
        ([failure(404)], "model 'large' was not found"),
        ([failure(429)], "the rate limit is reached"),
        ([failure(402)], "the account has no credit or quota left"),
        ([failure(401)], "the key was refused"),
    ],
    indirect=["pair"],
)
def test_the_next_one_answers_and_it_is_said_once(pair: Pair, reason: str) -> None:
    recorder = EventRecorder().attach(pair.host.hooks)
    events: list[TurnEvent] = []
    session = pair.host.new_session()
    result = session.run("go", listener=events.append)
    assert (result.answer, result.provider, result.model) == ("from the second", "two", "scripted-2")
    assert switches(events) == [ModelSwitched("two", "scripted", "one", "large", reason)]
    [failed] = [event for event in events if isinstance(event, AttemptFailed)]
    assert (failed.provider, failed.model) == ("one", "large")
    # Hooks see which attempt was which, and each server its own key and its own name of the model.
    [error] = [event.payload for event in recorder.events if event.name == "api_request_error"]
    [answer] = [event.payload for event in recorder.events if event.name == "post_api_request"]
    assert (error["provider"], error["model"], answer["provider"], answer["model"]) == (
        "one",
        "large",
        "two",
        "scripted",
    )
    [asked], [instead] = pair.first.requests, pair.second.requests
    assert (asked.headers["authorization"], asked.body["model"]) == ("Bearer key-of-one", "large")
    assert (instead.headers["authorization"], instead.body["model"]) == ("Bearer key-of-two", "scripted")
    calls = Sessions(pair.host.store).model_calls(session.id)
    assert [(call["provider"], call["status"]) for call in calls] == [("one", "error"), ("two", "ok")]


@pytest.mark.parametrize("pair", [[failure(400)]], indirect=True)
def test_a_bad_question_is_not_asked_elsewhere(pair: Pair) -> None:
    assert pair.host.new_session().run("go").status == "failed"
    assert pair.second.requests == []


@pytest.mark.parametrize("pair", [[failure(503), text("I am back")]], indirect=True)
def test_the_first_is_asked_again_later(pair: Pair) -> None:
    now = [0.0]
    pair.host.models.health = Health(lambda: now[0])
    session = pair.host.new_session()
    session.run("go")
    events: list[TurnEvent] = []
    # While it rests nobody waits for it, and nothing is said about it again.
    assert session.run("and now?", listener=events.append).answer == "from the second"
    assert len(pair.first.requests) == 1 and switches(events) == []
    now[0] = 61
    assert session.run("and now?", listener=events.append).answer == "I am back"
    assert switches(events) == [ModelSwitched("one", "large", "", "", "")]


@pytest.mark.parametrize("pair", [[failure(503)]], indirect=True)
def test_the_next_conversation_of_the_process_knows(pair: Pair) -> None:
    pair.host.new_session().run("go")
    pair.host.new_session().run("go")
    assert (len(pair.first.requests), len(pair.second.requests)) == (1, 2)


def test_the_keys_of_a_provider_take_over_before_another_provider(home: Path, workdir: Path) -> None:
    for name in ("key-number-two", "key-number-three"):
        add_key(AuthFile(home), "one", name, name)
    script = [failure(429), failure(401), text("with the third key"), text("and again")]
    events: list[TurnEvent] = []
    with (
        ScriptedProvider(script) as first,
        ScriptedProvider(text("no")) as second,
        Host(home, config_for(first, second), cwd=workdir, env={}) as host,
    ):
        session = host.new_session()
        assert session.run("go", listener=events.append).answer == "with the third key"
        assert session.run("go").answer == "and again"
    used = [request.headers["authorization"].removeprefix("Bearer ") for request in first.requests]
    assert used == ["key-of-one", "key-number-two", "key-number-three", "key-number-three"]
    assert second.requests == [] and switches(events) == []


def test_another_provider_follows_when_all_keys_are_spent(home: Path, workdir: Path) -> None:
    add_key(AuthFile(home), "one", "key-number-two", "work")
    with (
        ScriptedProvider([failure(429), failure(429)]) as first,
        ScriptedProvider(text("hello")) as second,
        Host(home, config_for(first, second, retries=3), cwd=workdir, env={}) as host,
    ):
        session = host.new_session()
        assert session.run("go").answer == "hello"
        assert session.run("again").answer == "hello"
    assert len(first.requests) == 2


def test_it_is_said_also_when_the_first_is_not_even_asked(home: Path, workdir: Path) -> None:
    for name in ("stored-key-one", "stored-key-two"):
        add_key(AuthFile(home), "one", name, name)
    with ScriptedProvider([failure(429), failure(429)]) as first, ScriptedProvider(text("hello")) as second:
        config = config_for(first, second)
        config.providers["one"].api_key = ""
        events: list[TurnEvent] = []
        for _process in range(2):
            events.clear()
            with Host(home, config, cwd=workdir, env={}) as host:
                session = host.new_session()
                assert session.run("go", listener=events.append).answer == "hello"
                assert session.run("again", listener=events.append).answer == "hello"
            assert switches(events) == [ModelSwitched("two", "scripted", "one", "large", "the rate limit is reached")]
    [told] = [event.error for event in events if isinstance(event, EndpointSkipped)]
    assert told.startswith("one: all keys are cooling down, the first is back in 60 min")
    assert len(first.requests) == 2  # the second process knows that both keys rest


# -- what a person sees -----------------------------------------------------------------------------------------------


def chat(home: Path, workdir: Path, *options: str, script: Any) -> tuple[str, str, int]:
    with ScriptedProvider(script) as first, ScriptedProvider(text("hello", model="scripted")) as second:
        home.mkdir(exist_ok=True)
        document = {
            "model": {"provider": "one", "default": "large"},
            "providers": {"one": {"base_url": first.base_url}, "two": {"base_url": second.base_url}},
            "fallback_providers": [{"provider": "two", "model": "scripted"}],
            "agent": {"api_max_retries": 0},
        }
        (home / "config.yaml").write_bytes(msgspec.json.encode(document))
        done = run_hermes("chat", "-q", "hi", *options, home=home, cwd=workdir)
    return done.stdout, done.stderr, done.returncode


def test_one_line_says_that_it_switches(home: Path, workdir: Path) -> None:
    out, err, code = chat(home, workdir, script=[failure(401, "bad key")])
    assert (out, code) == ("hello\n", 0)
    assert "! one: the key was refused (HTTP 401): bad key" in err
    assert err.count("→ scripted (two) takes over from large (one): the key was refused") == 1


def test_a_quiet_run_says_who_answered(home: Path, workdir: Path) -> None:
    out, err, code = chat(home, workdir, "-Q", script=[failure(401)])
    assert (out, code) == ("hello\n", 0)
    assert err.splitlines()[1:] == ["large (one) failed: the key was refused; scripted (two) answered"]
    assert len(chat(home, workdir, "-Q", script=text("fine"))[1].splitlines()) == 1


def test_a_stream_of_events_has_it_too(home: Path, workdir: Path) -> None:
    out, _, _ = chat(home, workdir, "--stream-json", script=[failure(503)])
    events = [msgspec.json.decode(line) for line in out.splitlines()]
    [switched] = [event for event in events if event["type"] == "model_switched"]
    assert switched == {
        "type": "model_switched",
        "provider": "two",
        "model": "scripted",
        "from_provider": "one",
        "from_model": "large",
        "reason": "the server is overloaded",
    }
    assert events[-1]["provider"] == "two"
