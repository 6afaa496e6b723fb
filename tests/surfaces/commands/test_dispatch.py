"""Which lines are commands, which of them run when, and what becomes of their failures."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.contract.commands import COMMAND_NAMES, RESERVED_COMMANDS, SLASH_COMMANDS
from hermes.host import Host
from hermes.plugins.loading.manifest import PluginManifest
from hermes.plugins.registry import Command, LoadedPlugin
from hermes.surfaces.commands.conversation import Conversation
from hermes.surfaces.commands.dispatch import is_command, run_command
from hermes.surfaces.commands.surface import OneShotSurface
from hermes.surfaces.commands.table import HANDLERS, all_commands, find_command
from hermes.testing import ScriptedProvider
from support import HostFactory
from support.surfaces import Prompt


@pytest.fixture
def host(make_host: HostFactory) -> Any:
    with ScriptedProvider([]) as provider:
        yield make_host(provider)


def add_plugin_command(host: Host, name: str, handler: Any, description: str = "") -> None:
    plugin = LoadedPlugin(PluginManifest(key="p", name="p", source="user"))
    plugin.commands[name] = Command(name, handler, description, "[WHAT]", "p")
    host.plugins.plugins["p"] = plugin


def test_every_command_has_its_handler_and_a_name_of_its_own() -> None:
    names = [name for command in SLASH_COMMANDS for name in (command.name, *command.aliases)]
    assert len(set(names)) == len(names)
    assert {command.name for command in SLASH_COMMANDS} == HANDLERS.keys()
    issue = (
        "help new clear history retry undo title status usage budget model tools toolsets skills plugins compress "
        "resume sessions init branch stop queue steer approve deny reasoning mode yolo config quit reset compact fork "
        "exit children ps todo mcp reload-mcp copy export edit paste"
    )
    assert frozenset(issue.split()) == COMMAND_NAMES
    yielding = {"budget", "children", "copy", "edit", "export", "init", "mode", "paste", "ps", "todo"}
    assert yielding == COMMAND_NAMES - RESERVED_COMMANDS


def test_commands_are_told_from_messages(host: Host) -> None:
    add_plugin_command(host, "tmp", str.upper)  # there is such a folder too
    for line in ("/help", "/HELP", " /title a b", "/frobnicate", "/tmp is mine", "/undo\n3"):
        assert is_command(host, line), line
    for line in ("/etc/hosts has what?", "/usr is full", "hello", "/", "//x", "a /help", "/3", "/path/like/this"):
        assert not is_command(host, line), line


def test_an_unknown_command_is_answered_with_the_nearest_name(host: Host) -> None:
    prompt = Prompt(host)
    assert prompt.refused("/sesions") == "there is no command /sesions; did you mean 'sessions'?"
    assert prompt.refused("/qqqq") == "there is no command /qqqq; /help lists them"
    assert prompt.refused("/help frob").startswith("there is no command /frob")
    assert prompt.refused("no slash").endswith("/help lists them")


def test_plugin_commands_run_sync_and_async_behind_the_built_in_ones(host: Host) -> None:
    async def later(raw: str) -> str:
        return f"later {raw}"

    def fail(raw: str) -> None:
        raise ValueError(f"bad {raw}")

    prompt = Prompt(host)
    add_plugin_command(host, "greet", "hello {}".format, "say hello.")
    assert prompt.type("/greet  you ") == "hello  you"
    assert "/greet [WHAT]" in prompt.type("/help") and "Say hello." in prompt.type("/help greet")
    add_plugin_command(host, "greet", later)
    assert prompt.type("/GREET you") == "later you"
    add_plugin_command(host, "greet", fail)
    assert prompt.refused("/greet you") == "/greet (plugin p): ValueError: bad you"
    add_plugin_command(host, "help", later)  # a plugin loader refuses this; if it did not, ours still wins
    assert prompt.type("/help quit").startswith("/quit")


def test_help_names_every_command_once_and_fits_80_columns(host: Host) -> None:
    text = Prompt(host).type("/help")
    for command in all_commands(host):
        assert sum(line.startswith(f"  /{command.name} ") for line in text.splitlines()) == 1, command.name
    assert max(map(len, text.splitlines())) <= 80
    explained = Prompt(host).type("/help /reset")
    assert explained.splitlines() == [
        "/new",
        "  Start a new session.",
        "  Also: /reset",
        "  Not while the agent works.",
    ]


def test_while_the_agent_works_only_what_is_safe_runs(host: Host) -> None:
    prompt = Prompt(host)
    prompt.surface.is_working = True
    refused = {command.name for command in SLASH_COMMANDS if not command.while_working}
    assert refused == {"new", "clear", "resume", "branch", "retry", "init", "undo", "compress", "reload-mcp"}
    session = prompt.session
    for name in sorted(refused):
        assert prompt.refused(f"/{name}") == f"/{name} has to wait: the agent is working. /stop stops it"
    assert prompt.session is session and not session.closed
    for name in ("help", "status", "usage", "tools", "model", "sessions", "history", "config", "title"):
        prompt.type(f"/{name}")


def test_where_nothing_comes_after_a_command_some_say_that_they_need_a_prompt(host: Host) -> None:
    conversation = Conversation(host, None, OneShotSurface())
    for command in SLASH_COMMANDS:
        answer = run_command(conversation, f"/{command.name}")
        assert ("needs an interactive prompt" in answer.error) == command.at_prompt, command.name
    for line in ("/model other", "/tools disable terminal", "/toolsets disable file"):
        assert "needs an interactive prompt" in run_command(conversation, line).error


def test_commands_that_are_about_no_session_open_none(host: Host) -> None:
    conversation = Conversation(host, None, OneShotSurface())
    for line in ("/help", "/config", "/plugins", "/sessions", "/nonsense"):
        run_command(conversation, line)
    assert conversation.session_id == "" and len(host.open_sessions) == 0
    run_command(conversation, "/status")
    assert conversation.session_id == conversation.session.id != ""


def test_a_failure_inside_a_command_is_an_answer_without_secrets(
    host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> str:
        raise RuntimeError("the key is test-key")

    monkeypatch.setitem(HANDLERS, "status", fail)
    error = Prompt(host).refused("/status")
    assert error.startswith("/status failed: RuntimeError: the key is ") and "test-key" not in error
    assert "command /status failed" in caplog.text


def test_aliases_are_found() -> None:
    found = {alias: command for alias in ("reset", "compact", "fork", "exit") if (command := find_command(alias))}
    assert {alias: command.name for alias, command in found.items()} == {
        "reset": "new",
        "compact": "compress",
        "fork": "branch",
        "exit": "quit",
    }
    assert find_command("nothing") is None


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(sorted(RESERVED_COMMANDS - {"quit", "exit", "retry", "init", "compress", "compact"})),
    arguments=st.text(max_size=20),
)
def test_no_argument_makes_a_command_raise(host: Host, name: str, arguments: str) -> None:
    prompt = Prompt(host)
    answer = run_command(prompt.conversation, f"/{name} {arguments}")
    assert "failed: " not in answer.error
