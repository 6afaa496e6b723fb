"""Forks: the recorded beginning of a session, live from a turn or a step on."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from hermes.base.errors import HermesError
from hermes.host import Host
from hermes.journal.history.inspection import inspect_session
from hermes.journal.sessions import Sessions
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.record.fork import ForkChanges, ForkPlace, fork_session
from hermes.record.recording import load_recording
from hermes.surfaces.cli.main import main
from hermes.testing import ScriptedProvider, ScriptedReply, text, tool_call
from hermes.trace.verify.session import verify
from support import HostFactory, write_config
from support.configured import write_plugin

NOTHING = ForkChanges()


@pytest.fixture
def provider() -> Generator[ScriptedProvider]:
    script = [
        text("Hello."),
        tool_call("terminal", {"command": "echo x >> ran"}),
        tool_call("terminal", {"command": "echo y >> ran"}),
        text("Done."),
        text("From the fork."),
        text("From the fork."),
    ]
    with ScriptedProvider(script) as provider:
        yield provider


@pytest.fixture
def host(make_host: HostFactory, provider: ScriptedProvider) -> Host:
    return make_host(provider)


@pytest.fixture
def origin(host: Host, provider: ScriptedProvider) -> str:
    session = host.new_session()
    session.run("hi")
    session.run("go")
    provider.requests.clear()
    return session.id


def forked(host: Host, origin: str, place: str, changes: ForkChanges = NOTHING) -> tuple[str, str | None]:
    new_id = f"fork_{place}"
    return new_id, fork_session(host.store, host.runner, origin, new_id, ForkPlace.parse(place), changes)


def test_a_fork_at_a_step_runs_nothing_before_it(
    host: Host, origin: str, provider: ScriptedProvider, workdir: Path
) -> None:
    new_id, message = forked(host, origin, "2.3")
    assert message is None
    result = host.resume_session(new_id).finish_open_turn()
    assert result is not None and (result.answer, result.status) == ("From the fork.", "completed")
    assert (workdir / "ran").read_text() == "x\ny\n", "a tool of the prefix ran again"
    [request] = provider.requests
    assert [message["role"] for message in request.messages[1:]] == [
        *("user", "assistant", "user", "assistant", "tool", "assistant", "tool")
    ]
    assert list(verify(inspect_session(host.store, new_id))) == []
    row = Sessions(host.store).get(new_id)
    assert row.branched_from == origin and row.input_tokens < Sessions(host.store).get(origin).input_tokens
    # The prefix is the same, and the origin is as it was.
    before, after = (load_recording(host.store, one).turns[1] for one in (origin, new_id))
    assert after.steps["tool:2.0"].result == before.steps["tool:2.0"].result
    assert before.answer == "Done."


def test_a_fork_at_a_turn_sends_its_message_again(host: Host, origin: str, provider: ScriptedProvider) -> None:
    new_id, message = forked(host, origin, "2")
    assert message == "go"
    assert host.resume_session(new_id).run(message).answer == "From the fork."
    assert [one["content"] for one in provider.requests[0].messages[1:]] == ["hi", "Hello.", "go"]
    assert [turn.answer for turn in load_recording(host.store, new_id).turns] == ["Hello.", "From the fork."]


def test_other_prompts_and_messages(host: Host, origin: str, provider: ScriptedProvider) -> None:
    new_id, _ = forked(host, origin, "2.1", ForkChanges("Be a pirate.", "Stop."))
    assert host.resume_session(new_id).finish_open_turn()
    messages = provider.requests[0].messages
    assert messages[0]["content"] == "Be a pirate." and messages[-1]["content"] == "Stop."
    new_id, _ = forked(host, origin, "2.2", ForkChanges(message="Take care."))
    assert host.resume_session(new_id).finish_open_turn()
    assert [one["content"] for one in provider.requests[1].messages if one["role"] == "user"] == [
        "hi",
        "go",
        "Take care.",
    ]
    assert list(verify(inspect_session(host.store, new_id))) == []


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("3", "has no turn 3; it has turns 1 to 2"),
        ("2.4", "model steps 1 to 3; there is nothing to run from step 4 on"),
        ("x", "such as 2 or 2.3"),
        ("0", "such as 2 or 2.3"),
        ("1.0", "such as 2 or 2.3"),
    ],
)
def test_places_that_do_not_exist(host: Host, origin: str, place: str, problem: str) -> None:
    with pytest.raises(HermesError, match=problem):
        forked(host, origin, place)


def test_the_command_makes_several(
    home: Path, origin: str, host: Host, provider: ScriptedProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    host.close()
    write_config(home, provider.base_url)
    assert main(["fork", origin, "--at", "2.3", "--model", "other", "-n", "2"]) == 0
    printed = capsys.readouterr()
    assert printed.out.count("From the fork.") == 2 and "Files are not rewound" in printed.err
    assert {request.body["model"] for request in provider.requests} == {"other"}
    with closing(SqliteStore(home / "state.db")) as store:
        assert len(Sessions(store).list()) == 3


def test_the_command_only_makes_the_session(
    home: Path, origin: str, host: Host, provider: ScriptedProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    host.close()
    write_config(home, provider.base_url)
    assert main(["fork", origin, "--at", "2.3", "--no-run"]) == 0
    new_id = capsys.readouterr().out.strip().removeprefix("session_id: ")
    assert provider.requests == []
    assert main(["chat", "-Q", "--resume", new_id, "-q", "Go on."]) == 0
    assert "From the fork." in capsys.readouterr().out
    # A fork at a turn is only its message, which would be lost.
    assert main(["fork", origin, "--at", "2", "--no-run"]) == 1
    assert "give a step, such as --at 2.1" in capsys.readouterr().err


def test_the_command_names_the_checkpoint_of_the_turn(
    home: Path, workdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workdir)
    script: list[ScriptedReply] = [text("Hello.")]
    for content in ("one", "two"):
        script += [tool_call("write_file", {"path": "a", "content": content}), text("Written.")]
    with ScriptedProvider([*script, text("From the fork."), text("From the fork.")]) as provider:
        write_config(home, provider.base_url)
        assert main(["chat", "-Q", "-q", "hi"]) == 0
        for message in ("write", "again"):
            assert main(["chat", "-Q", "--continue", "-q", message]) == 0
        with closing(SqliteStore(home / "state.db")) as store:
            [origin] = [row.id for row in Sessions(store).list()]
        capsys.readouterr()
        assert main(["fork", origin, "--at", "3.1"]) == 0
        line = capsys.readouterr().err
        assert main(["fork", origin[:-1], "--at", "1"]) == 0
        first = capsys.readouterr().err
    assert (workdir / "a").read_text() == "two"
    command = re.search(r"'hermes (checkpoints restore \d+)' restores them as they were before turn 3", line)
    assert command is not None, line
    assert main([*command[1].split(), "--yes"]) == 0
    assert (workdir / "a").read_text() == "one"
    command = re.search(r"'hermes (checkpoints restore \d+)' restores them as they were before turn 1", first)
    assert command is not None, first
    assert main([*command[1].split(), "--force"]) == 0
    assert not (workdir / "a").exists()


def test_the_command_says_that_there_is_no_checkpoint(
    home: Path, workdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workdir)
    with ScriptedProvider([text("Hello."), text("From the fork.")]) as provider:
        write_config(home, provider.base_url)
        assert main(["chat", "-Q", "-q", "hi"]) == 0
        with closing(SqliteStore(home / "state.db")) as store:
            [origin] = [row.id for row in Sessions(store).list()]
        capsys.readouterr()
        assert main(["fork", origin, "--at", "1"]) == 0
    assert (
        "Files are not rewound: they are as they are now. There is no checkpoint from turn 1 on"
        in capsys.readouterr().err
    )


def test_the_command_asks_another_provider(home: Path, origin: str, host: Host, provider: ScriptedProvider) -> None:
    host.close()
    with ScriptedProvider(text("From another one.")) as other:
        write_config(home, provider.base_url, f"providers:\n  other: {{base_url: {other.base_url}, api_key: k}}\n")
        assert main(["fork", origin, "--at", "2.3", "--provider", "other", "--model", "second"]) == 0
        assert [request.body["model"] for request in other.requests] == ["second"]
    assert provider.requests == []


def test_the_command_leaves_a_plugin_out(
    home: Path, workdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
def register(ctx):
    schema = {"name": "look_at_clock", "description": "Says what time it is.", "parameters": {"type": "object"}}
    ctx.register_tool("look_at_clock", "clock", schema, lambda args, **_: "noon")
"""
    write_plugin(home, "clock", source)
    monkeypatch.chdir(workdir)
    with ScriptedProvider([tool_call("look_at_clock", {}), text("Noon."), text("I cannot know.")]) as provider:
        write_config(home, provider.base_url, "plugins:\n  enabled: [clock]\n")
        assert main(["chat", "-Q", "-q", "What time is it?"]) == 0
        with closing(SqliteStore(home / "state.db")) as store:
            [origin] = [row.id for row in Sessions(store).list()]
        assert main(["fork", origin, "--at", "1.1", "--disable", "clock"]) == 0
        offered = [{tool["function"]["name"] for tool in request.body["tools"]} for request in provider.requests]
    assert "look_at_clock" in offered[0] and offered[2] == offered[0] - {"look_at_clock"}
    assert "I cannot know." in capsys.readouterr().out
