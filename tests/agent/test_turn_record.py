"""What the journal holds of a turn beside its messages: the requests as sent, its environment, what plugins did."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes import __version__
from hermes.host import Host
from hermes.plugins.context import PluginContext
from hermes.testing import ScriptedProvider, failure, text, tool_call
from support import HostFactory

#: What a turn may add to ``state.db``: a question, an answer, and everything that is recorded about them.
MOST_BYTES_PER_TURN = 3_000
#: What a session adds beside its turns.
MOST_BYTES_PER_SESSION = 500
#: What the digests, chains and references of an event may add to it, on average.
MOST_BYTES_PER_EVENT = 150


def steps(host: Host, session_id: str) -> dict[str, dict[str, Any]]:
    return {event["key"]: event["body"] for event in host.sessions.events(session_id) if event["key"]}


def size_of(host: Host) -> int:
    """The bytes that rows take, whatever the file keeps in reserve."""
    host.store.write(lambda connection: connection.execute("SELECT 1").fetchall())
    with closing(sqlite3.connect(host.store.location)) as connection:
        pages, free, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size


@pytest.mark.parametrize("one_session", [True, False])
def test_a_plain_turn_takes_little_room(make_host: HostFactory, one_session: bool) -> None:
    turns = 60
    with ScriptedProvider([text("The capital of France is Paris.")] * (turns + 1)) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("What is the capital of France?")
        before = size_of(host)
        for _ in range(turns):
            session = session if one_session else host.new_session()
            session.run("What is the capital of France?")
        allowed = MOST_BYTES_PER_TURN + (0 if one_session else MOST_BYTES_PER_SESSION)
        assert (size_of(host) - before) / turns <= allowed


def test_what_is_recorded_for_replay_costs_little(make_host: HostFactory) -> None:
    with ScriptedProvider([tool_call("read_file", {"path": "none"}), text("There is none.")]) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("Read it.")
        with closing(sqlite3.connect(host.store.location)) as connection:
            rows = connection.execute("SELECT body, chain FROM events").fetchall()
    added = 0
    for body, chain in rows:
        fields = msgspec.json.decode(body)
        extra = {name: fields[name] for name in ("request_sha256", "decisions", "$shared") if name in fields}
        added += len(chain) + 2 + len(msgspec.json.encode(extra))
    assert added / len(rows) <= MOST_BYTES_PER_EVENT


def test_a_model_step_holds_the_digest_and_the_parameters_of_its_request(make_host: HostFactory) -> None:
    with ScriptedProvider([failure(500), text("Hello.")]) as provider:
        host = make_host(provider, retries=1)
        session = host.new_session()
        assert session.run("Hi").answer == "Hello."
    sent = [hashlib.sha256(msgspec.json.encode(request.body)).hexdigest() for request in provider.requests]
    events = host.sessions.events(session.id)
    failed, answered = (event["body"] for event in events if event["key"] == "model:1")
    assert [failed["request_sha256"], answered["request_sha256"]] == sent
    assert answered["parameters"] == failed["parameters"]
    assert answered["parameters"]["model"] == "scripted" and answered["parameters"]["stream"] is True
    assert not {"messages", "tools", "input"} & set(answered["parameters"])


def test_parameters_hold_no_secrets(make_host: HostFactory) -> None:
    def with_header(request: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {"request": {**request, "extra_headers": {"authorization": "Bearer abcdefghijklmnop"}}}

    with ScriptedProvider([text("Hello.")]) as provider:
        host = make_host(provider)
        host.hooks.add_middleware("llm_request", "router", with_header)
        session = host.new_session()
        session.run("Hi")
    body = steps(host, session.id)["model:1"]
    assert "abcdefghijklmnop" not in str(body) and "extra_headers" in body["parameters"]
    assert body["decisions"] == [{"plugin": "router", "site": "llm_request", "did": "changed"}]


def test_the_record_of_a_turn_says_what_it_ran_with(make_host: HostFactory, workdir: Path) -> None:
    def say(**_: Any) -> dict[str, str]:
        return {"context": "It is raining."}

    class Observer:
        name = "observer"

        def register(self, ctx: PluginContext) -> None:
            ctx.register_hook("pre_llm_call", say)

    with ScriptedProvider([text("one"), text("two")]) as provider:
        host = make_host(provider, plugin_objects=[Observer()])
        session = host.new_session()
        session.run("Hi")
        session.run("And now?")
    setups = [event["body"] for event in host.sessions.events(session.id) if event["key"] == "setup"]
    environment = setups[0]["environment"]
    assert environment["hermes"] == __version__ and len(environment["plugins"]) == 1
    assert len(environment["config_sha256"]) == 64 and setups[1]["environment"] == environment
    setup = steps(host, session.id)["setup"]
    assert [decision["did"] for decision in setup["decisions"]] == ["added"]
    assert setup["decisions"][0]["plugin"] in environment["plugins"]
    with closing(sqlite3.connect(host.store.location)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM blobs").fetchone()
    assert count == 7, "prompt, tools, facts, parameters and environment, each of them once, and two lists of these"


def test_what_plugins_do_to_a_tool_call_is_on_record(make_host: HostFactory, workdir: Path) -> None:
    (workdir / "other.txt").write_text("other\n")
    calls = [tool_call("read_file", {"path": "a.txt"}), tool_call("read_file", {"path": "b.txt"}), text("Done.")]

    def rewrite(args: dict[str, Any], **_: Any) -> dict[str, Any] | None:
        return {"args": {**args, "path": "other.txt"}} if args["path"] == "a.txt" else None

    def block(args: dict[str, Any], **_: Any) -> dict[str, Any] | None:
        return {"action": "block", "message": "not that one"} if args["path"] == "b.txt" else None

    def thank(**_: Any) -> str:
        return "Done, thank you."

    def answer(args: dict[str, Any], next_call: Any, **_: Any) -> Any:
        return next_call(args)

    with ScriptedProvider(calls) as provider:
        host = make_host(provider)
        host.hooks.add_middleware("tool_request", "rewriter", rewrite)
        host.hooks.add_middleware("tool_execution", "passer", answer)
        host.hooks.subscribe("pre_tool_call", "guard", block)
        host.hooks.subscribe("transform_llm_output", "polite", thank)
        session = host.new_session()
        assert session.run("Go").answer == "Done, thank you."
    found = steps(host, session.id)
    assert found["tool:1.0"]["decisions"] == [{"plugin": "rewriter", "site": "tool_request", "did": "changed"}]
    assert found["tool:2.0"]["decisions"] == [{"plugin": "guard", "site": "pre_tool_call", "did": "blocked"}]
    assert found["final"]["decisions"] == [{"plugin": "polite", "site": "transform_llm_output", "did": "changed"}]


def test_execution_middleware_that_answers_or_changes_is_on_record(make_host: HostFactory, workdir: Path) -> None:
    (workdir / "other.txt").write_text("other\n")
    calls = [tool_call("read_file", {"path": "a.txt"}), tool_call("read_file", {"path": "b.txt"}), text("Done.")]

    def wrap(args: dict[str, Any], next_call: Any, **_: Any) -> Any:
        return next_call({**args, "path": "other.txt"}) if args["path"] == "a.txt" else '{"content":"from a cache"}'

    with ScriptedProvider(calls) as provider:
        host = make_host(provider)
        host.hooks.add_middleware("tool_execution", "cache", wrap)
        session = host.new_session()
        session.run("Go")
    found = steps(host, session.id)
    assert found["tool:1.0"]["decisions"] == [{"plugin": "cache", "site": "tool_execution", "did": "changed"}]
    assert found["tool:2.0"]["decisions"] == [{"plugin": "cache", "site": "tool_execution", "did": "answered"}]


def test_changed_results_and_verification_are_on_record(make_host: HostFactory, workdir: Path) -> None:
    write = tool_call("write_file", {"path": "a.py", "content": "x = 1\n"})
    calls = [write, tool_call("terminal", {"command": "echo secret plan"}), text("Done."), text("Tested.")]

    def shorten(tool_name: str, **_: Any) -> str | None:
        return '{"output":"short"}' if tool_name == "terminal" else None

    def hide(output: str, **_: Any) -> str:
        return output.replace("secret", "public")

    def insist(attempt: int, **_: Any) -> dict[str, Any] | None:
        return {"action": "continue", "message": "Run the tests."} if attempt == 0 else None

    with ScriptedProvider(calls) as provider:
        host = make_host(provider)
        host.hooks.subscribe("transform_tool_result", "shortener", shorten)
        host.hooks.subscribe("transform_terminal_output", "hider", hide)
        host.hooks.subscribe("pre_verify", "tester", insist)
        session = host.new_session()
        assert session.run("Go").answer == "Tested."
    events = host.sessions.events(session.id)
    done = {event["key"]: event["body"] for event in events if event["kind"] == "step_done"}
    assert "decisions" not in done["tool:1.0"]
    assert done["tool:2.0"]["decisions"] == [{"plugin": "hider", "site": "transform_terminal_output", "did": "changed"}]
    assert [(event["key"], event["body"]) for event in events if event["kind"] == "result_changed"] == [
        ("tool:2.0", {"decisions": [{"plugin": "shortener", "site": "transform_tool_result", "did": "changed"}]})
    ]
    assert done["verify:3"]["decisions"] == [{"plugin": "tester", "site": "pre_verify", "did": "added"}]
    assert "decisions" not in done["verify:4"]


def test_the_surface_of_a_message_and_the_principal_of_a_question_are_stored(make_host: HostFactory) -> None:
    from hermes.journal.questions import QuestionRow, Questions

    with ScriptedProvider([text("Hello.")]) as provider:
        host = make_host(provider, platform="a2a")
        session = host.new_session(principal="alice")
        turn_id = session.run("Hi").turn_id
    questions = Questions(host.store)
    questions.ask(QuestionRow("q1", session.id, turn_id, "tool:1.0", "terminal", "d", "ls"))
    question = questions.get("q1")
    assert question is not None and question.principal == "alice"
    with closing(sqlite3.connect(host.store.location)) as connection:
        assert connection.execute("SELECT source FROM turns").fetchall() == [("a2a",)]
