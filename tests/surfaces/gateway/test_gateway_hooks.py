"""Gateway hooks: folders with ``HOOK.yaml`` and ``handler.py`` are told what happens in the chats of a real gateway."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config.schema.sections import PluginsConfig
from hermes.contract.gateway_events import ANY_COMMAND, GATEWAY_EVENTS, gateway_event
from hermes.testing import failure, tool_call
from support import run_hermes
from support.configured import configured_host
from support.doctor_rig import examine, write_private_config
from support.gateway_rig import GatewayRig, RunningGateway, answer_itself
from support.waiting import wait_until

NOTING = """
import json
from pathlib import Path

FILE = Path(__file__).with_name("told.jsonl")

{function} handle(what, details):
    with FILE.open("a") as file:
        file.write(json.dumps([what, details]) + "\\n")
    {then}
"""


def write(
    home: Path, name: str, events: list[str], *, function: str = "async def", then: str = "", code: str | None = None
) -> Path:
    folder = home / "hooks" / name
    folder.mkdir(parents=True)
    about = {"name": name, "description": "Notes what happens.", "events": events}
    (folder / "HOOK.yaml").write_text(json.dumps(about))
    (folder / "handler.py").write_text(NOTING.format(function=function, then=then) if code is None else code)
    return folder


def told(folder: Path, count: int = 0) -> list[tuple[str, dict[str, Any]]]:
    """What the handler was told, once it was so much."""

    def lines() -> list[str]:
        file = folder / "told.jsonl"
        return file.read_text().splitlines() if file.exists() else []

    wait_until(lambda: len(lines()) >= count, f"{count} events, not {lines()}")
    return [(event, context) for event, context in map(json.loads, lines())]


def start(rig: GatewayRig, *enabled: str, **options: Any) -> RunningGateway:
    return rig.start(sections={"plugins": PluginsConfig(enabled=list(enabled))}, **options)


def test_every_event_is_told_in_order_with_the_keys_of_the_contract(rig: GatewayRig) -> None:
    folder = write(rig.home, "notes", [*GATEWAY_EVENTS])

    def script(request: Any) -> Any:
        if request.last_user_text == "use a tool" and not request.step:
            return tool_call("todo", {})
        return answer_itself(request)

    rig.provider.script = script  # pyright: ignore[reportAttributeAccessIssue]
    start(rig, "hooks/notes")
    client = rig.client()
    assert client.ask("use a tool", user="alice") == "Answer to use a tool"
    told(folder, 6)
    client.ask("/new now", user="alice")
    client.ask("hello " + "x" * 600, user="alice")
    events = told(folder, 13)
    assert [event for event, _ in events] == [
        "gateway:startup",
        *("session:start", "agent:start", "agent:step", "agent:step", "agent:end"),
        *("command:new", "session:end", "session:reset"),
        *("session:start", "agent:start", "agent:step", "agent:end"),
    ]
    for event, context in events:
        described = gateway_event(event)
        assert described is not None and set(context) == set(described.context), event
    contexts = [context for _, context in events]
    assert contexts[0] == {"platforms": ["line"]}
    first, key = contexts[1]["session_id"], contexts[1]["session_key"]
    assert contexts[1] == {"platform": "line", "user_id": "alice", "session_id": first, "session_key": key} and key
    assert contexts[2] == {
        **contexts[1],
        "chat_id": "alice",
        "thread_id": "",
        "chat_type": "dm",
        "message": "use a tool",
    }
    assert [(one["iteration"], one["tool_names"]) for one in contexts[3:5]] == [(1, ["todo"]), (2, [])]
    assert contexts[5] == {**contexts[2], "response": "Answer to use a tool", "model": "scripted"}
    assert (contexts[6]["command"], contexts[6]["args"], contexts[6]["session_id"]) == ("new", "now", first)
    second = contexts[8]["session_id"]
    assert (contexts[7]["session_id"], contexts[9]["session_id"]) == (first, second) and first != second
    assert {context["session_key"] for context in contexts[1:]} == {key}
    assert len(contexts[10]["message"]) == len(contexts[12]["response"]) == 500


def test_one_command_may_be_named_and_a_plain_function_handles_it(rig: GatewayRig) -> None:
    named = write(rig.home, "named", ["command:status"], function="def")
    both = write(rig.home, "both", ["command:status", ANY_COMMAND], function="def")
    start(rig, "named", "both")  # by their names, too
    client = rig.client()
    client.ask("hello")
    client.ask("/help")
    client.ask("/status")
    assert [event for event, _ in told(both, 2)] == ["command:help", "command:status"]
    assert [event for event, _ in told(named, 1)] == ["command:status"]


def test_the_sender_is_that_of_the_message_in_a_chat_of_many(rig: GatewayRig) -> None:
    folder = write(rig.home, "notes", ["agent:start", "agent:end"])
    start(rig, "hooks/notes", group_sessions_per_user=False)
    client = rig.client()
    for user in ("alice", "bob"):
        client.ask("hello", "#room", type="group", user=user)
    contexts = [context for _, context in told(folder, 4)]
    assert [(one["user_id"], one["chat_id"], one["chat_type"]) for one in contexts] == [
        *[("alice", "#room", "group")] * 2,
        *[("bob", "#room", "group")] * 2,
    ]


def test_a_turn_that_fails_has_its_end_without_an_answer(rig: GatewayRig) -> None:
    folder = write(rig.home, "notes", ["agent:end"])

    def script(_request: Any) -> Any:
        return failure(400, "no")

    rig.provider.script = script  # pyright: ignore[reportAttributeAccessIssue]
    start(rig, "hooks/notes")
    rig.client().ask("hello")
    [(event, context)] = told(folder, 1)
    assert (event, context["message"], context["response"]) == ("agent:end", "hello", "")


def test_a_chat_that_was_idle_for_too_long_has_a_new_session(rig: GatewayRig) -> None:
    folder = write(rig.home, "notes", ["session:start", "session:end", "session:reset"])
    running = start(rig, "hooks/notes", idle_timeout=3600)
    client = rig.client()
    client.ask("hello")
    wait_until(lambda: not running.gateway._chats, "the chat to have nothing to do")  # pyright: ignore[reportPrivateUsage]
    running.gateway.config.idle_timeout = 0.000001
    # The gateway looks for idle chats now and then itself.
    wait_until(lambda: running.gateway.expire_idle() or len(told(folder)) > 1, "the end of the session")
    running.gateway.config.idle_timeout = 3600
    client.ask("hello again")
    events = told(folder, 4)
    assert [event for event, _ in events] == ["session:start", "session:end", "session:reset", "session:start"]
    first, ended, reset, second = (context["session_id"] for _, context in events)
    assert (first, reset) == (ended, second) and first != second
    assert {context["user_id"] for _, context in events} == {"alice"}


def test_a_handler_that_fails_costs_no_turn_and_is_named(rig: GatewayRig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    folder = write(rig.home, "broken", ["gateway:startup", "agent:start"], then="raise ValueError(what)")
    other = write(rig.home, "other", ["agent:start"])
    running = start(rig, "hooks/broken", "hooks/other")
    assert rig.client().ask("hello") == "Answer to hello"
    told(folder, 2)
    told(other, 1)
    running.host.hooks.flush()
    assert "plugin 'hooks/broken': gateway:startup failed: ValueError: gateway:startup" in caplog.text
    assert "plugin 'hooks/broken': pre_llm_call callback failed: ValueError: agent:start" in caplog.text
    counters = running.host.plugins.counters()["hooks/broken"]
    assert (counters.calls, counters.failures) == (1, 1)


@pytest.mark.parametrize(
    ("code", "events", "error"),
    [
        ("", ["agent:start"], "handler.py has no function handle(event_type, context)"),
        ("1 / 0", ["agent:start"], "ZeroDivisionError"),
        ("", [], "it has no events"),
    ],
)
def test_a_hook_that_cannot_be_loaded_is_shown_with_its_name(
    rig: GatewayRig, code: str, events: list[str], error: str
) -> None:
    write(rig.home, "broken", events, code=code)
    running = start(rig, "hooks/broken")
    assert running.host.plugins.plugins["hooks/broken"].status == "failed"
    assert error in running.host.plugins.plugins["hooks/broken"].error
    assert any("plugin hooks/broken is enabled and did not load" in notice for notice in running.host.notices)


def test_an_event_that_there_is_not_is_shown_and_the_others_are_told(rig: GatewayRig) -> None:
    folder = write(rig.home, "notes", ["agent:begin", "agent:start"])
    running = start(rig, "hooks/notes")
    rig.client().ask("hello")
    assert [event for event, _ in told(folder, 1)] == ["agent:start"]
    assert any("there is no gateway event 'agent:begin'" in notice for notice in running.host.notices)


def test_one_that_is_not_enabled_is_not_imported(rig: GatewayRig) -> None:
    folder = write(rig.home, "notes", ["agent:start"])
    start(rig)
    rig.client().ask("hello")
    assert told(folder) == []


def test_it_is_not_loaded_outside_of_the_gateway(home: Path, workdir: Path, rig: GatewayRig) -> None:
    write(rig.home, "notes", ["agent:start"], code="raise RuntimeError('not here')")
    config = PluginsConfig(enabled=["hooks/notes"])
    with configured_host(home, workdir, rig.provider, plugins=config) as host:
        assert host.plugins.plugins["hooks/notes"].status == "waiting"
        assert not any("hooks/notes" in notice for notice in host.notices)
        assert host.new_session().run("hello").answer == "Answer to hello"


# -- on the command line ---------------------------------------------------------------------------------------------


def hermes(home: Path, cwd: Path, *arguments: str, code: int = 0) -> str:
    done = run_hermes(*arguments, home=home, cwd=cwd)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_it_is_listed_enabled_and_checked_like_a_plugin(home: Path, workdir: Path) -> None:
    folder = write(home, "notes", ["agent:start"])
    write(home, "odd", ["agent:begin"], code="def handle(event_type): pass")
    (home / "hooks" / "script").mkdir()  # scripts of hook commands may be there, too
    enabled = hermes(home, workdir, "plugins", "enable", "notes")
    assert "Enabled plugin hooks/notes." in enabled
    listed = json.loads(hermes(home, workdir, "plugins", "list", "--json", "--no-bundled"))
    rows = {row["key"]: (row["status"], row["hooks"]) for row in listed}
    assert rows == {"hooks/notes": ("enabled", ["pre_llm_call"]), "hooks/odd": ("not enabled", [])}
    assert "Hooks" in hermes(home, workdir, "plugins", "info", "hooks/notes", "--load")
    hermes(home, workdir, "plugins", "check", "hooks/notes")
    found = hermes(home, workdir, "plugins", "check", "hooks/odd", code=1)
    assert "handle takes 1 argument; it is called as handle(event_type, context)" in found
    assert "there is no gateway event 'agent:begin'" in found
    assert hermes(home, workdir, "plugins", "remove", "hooks/notes", "--yes") and not folder.exists()


def test_the_doctor_says_what_is_wrong_with_it(home: Path, workdir: Path) -> None:
    folder = write(home, "notes", ["agent:start"])
    write_private_config(home, "plugins: {enabled: [hooks/notes]}\n")
    assert [found["status"] for found in examine(home, workdir, "plugins").about("hooks/notes")] == ["ok"]
    (folder / "handler.py").unlink()
    [found] = examine(home, workdir, "plugins").about("hooks/notes")
    assert "there is no handler.py, so there is nothing to load" in found["detail"]
