"""Two callers and the owner of the home: what belongs to one of them is out of reach of the others."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.agent.session import Session
from hermes.base.config import A2AConfig, PrincipalConfig
from hermes.base.config.principals import default_workspace, principal_home
from hermes.base.config.schema.sections import (
    ApprovalsConfig,
    AuxiliaryConfig,
    AuxiliaryTaskConfig,
    HooksConfig,
    OutputSpillConfig,
)
from hermes.base.errors import ConfigError
from hermes.surfaces.a2a.server.store.takeover import take_over
from hermes.testing import RecordedRequest, ScriptedProvider, text, tool_call
from support import HostFactory
from support.a2a_old_file import write_old_file
from support.a2a_rig import Served, served, wire_message
from support.approval_rig import RISKY
from support.configured import configured_host

ALICE, BOB = (f"the-token-of-{name}-0123456789" for name in ("alice", "bob"))
ENV = {"ALICE_TOKEN": ALICE, "BOB_TOKEN": BOB}
CALLERS = {
    "alice": PrincipalConfig(token_env="ALICE_TOKEN"),
    "bob": PrincipalConfig(token_env="BOB_TOKEN"),
}
SECRET = "the owner's cat is called Hieronymus"


def does(request: RecordedRequest) -> Any:
    """A model that makes the call a message spells (``tool {json}``), and answers with what the tool said."""
    last = request.messages[-1]
    name, _, args = request.last_user_text.partition(" ")
    if last["role"] == "tool":
        return text(last["content"])
    return tool_call(name, msgspec.json.decode(args)) if args.startswith("{") else text("fine")


class Callers:
    """The served agent, as alice, bob and the owner use it."""

    def __init__(self, agent: Served, provider: ScriptedProvider) -> None:
        self.agent = agent
        self.provider = provider

    def call(self, token: str, tool: str, **args: Any) -> dict[str, Any]:
        """What a tool tells the caller with that token."""
        words = f"{tool} {msgspec.json.encode(args).decode()}"
        headers = {"Authorization": f"Bearer {token}"}
        task = self.agent.rpc("SendMessage", wire_message(words), headers=headers)["result"]["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
        return msgspec.json.decode(task["artifacts"][-1]["parts"][0]["text"])

    def own(self, tool: str, **args: Any) -> dict[str, Any]:
        """What a tool tells the owner."""
        session = self.agent.host.new_session()
        return msgspec.json.decode(session.run(f"{tool} {msgspec.json.encode(args).decode()}").answer)


@pytest.fixture
def callers(home: Path, workdir: Path) -> Generator[Callers]:
    with (
        ScriptedProvider(does) as provider,
        served(home, workdir, provider, A2AConfig(principals=CALLERS), env=ENV) as agent,
    ):
        yield Callers(agent, provider)


def test_session_search_finds_only_the_sessions_of_the_same_principal(callers: Callers) -> None:
    owned = callers.agent.host.new_session()
    owned.run(SECRET)
    headers = {"Authorization": f"Bearer {ALICE}"}
    callers.agent.rpc("SendMessage", wire_message("alice likes Hieronymus"), headers=headers)
    for args in ({"query": "Hieronymus"}, {}, {"session_id": owned.id}, {"query": "cat", "session_id": owned.id}):
        found = callers.call(BOB, "session_search", **args)
        shown = [row["title"] for row in found.get("results", [])]
        assert all(title.startswith("session_search") for title in shown) and SECRET not in str(found), args
    [own] = callers.call(ALICE, "session_search", query="Hieronymus")["results"]
    assert "alice likes" in own["title"]
    [own] = callers.own("session_search", query="Hieronymus")["results"]
    assert own["session_id"] == owned.id
    assert callers.call(BOB, "session_search", session_id=owned.id[:6])["error"].startswith("no session")


def test_memory_is_kept_for_each_principal(callers: Callers, home: Path) -> None:
    note = {"target": "user", "action": "add"}
    assert callers.call(BOB, "memory", content="bob drinks tea", **note)["success"]
    assert callers.own("memory", content="the owner drinks milk", **note)["success"]
    shown: list[str] = []
    for token in (ALICE, BOB):
        callers.agent.rpc("SendMessage", wire_message("hi"), headers={"Authorization": f"Bearer {token}"})
        shown.append(callers.provider.requests[-1].messages[0]["content"])
    callers.agent.host.new_session().run("hi")
    shown.append(callers.provider.requests[-1].messages[0]["content"])
    drinks = [("drinks tea" in prompt, "drinks milk" in prompt) for prompt in shown]
    assert drinks == [(False, False), (True, False), (False, True)]
    assert (home / "principals" / "bob" / "memories" / "USER.md").stat().st_mode & 0o077 == 0


def test_the_file_tools_of_a_caller_do_not_leave_its_workspace(callers: Callers, home: Path, workdir: Path) -> None:
    (workdir / "private.txt").write_text(SECRET)
    written = callers.call(ALICE, "write_file", path="notes.txt", content="mine")
    place = default_workspace(home, "alice")
    assert written["resolved_path"] == str(place / "notes.txt") and place.stat().st_mode & 0o777 == 0o700
    (place / "link").symlink_to(workdir)
    outside = [str(workdir / "private.txt"), str(workdir / "missing.txt"), "link/private.txt", "../memories/USER.md"]
    outside += [str(home / ".env"), "/etc/hostname", str(default_workspace(home, "bob") / "notes.txt"), "~/.profile"]
    for path in outside:
        for tool, more in (
            ("read_file", {}),
            ("write_file", {"content": "x"}),
            ("search_files", {"pattern": "cat"}),
            ("patch", {"mode": "replace", "old_string": "owner", "new_string": "x"}),
        ):
            told = callers.call(ALICE, tool, path=path, **{"pattern": "x", **more} if tool == "search_files" else more)
            assert "outside of the workspace" in told["error"] and SECRET not in str(told), (tool, path, told)
            assert not told.get("similar_files")
    assert "outside of the workspace" in callers.call(ALICE, "terminal", command="pwd", workdir=str(workdir))["error"]
    assert (workdir / "private.txt").read_text() == SECRET and sorted(p.name for p in workdir.iterdir()) == [
        "private.txt"
    ]
    assert "mine" in callers.call(ALICE, "read_file", path="notes.txt")["content"]
    # The owner is not confined.
    assert SECRET in callers.own("read_file", path=str(workdir / "private.txt"))["content"]


def test_background_processes_are_seen_by_those_who_started_them(callers: Callers) -> None:
    sleep: dict[str, Any] = {"command": "sleep 300", "background": True}
    started = {
        "alice": callers.call(ALICE, "terminal", **sleep)["session_id"],
        "owner": callers.own("terminal", **sleep)["session_id"],
    }
    assert callers.call(BOB, "process", action="list")["processes"] == []
    for process in started.values():
        for action in ("poll", "log", "kill", "write"):
            assert callers.call(BOB, "process", action=action, session_id=process)["status"] == "not_found"
    listed = {
        "alice": callers.call(ALICE, "process", action="list")["processes"],
        "owner": callers.own("process", action="list")["processes"],
    }
    assert {who: [row["session_id"] for row in rows] for who, rows in listed.items()} == {
        who: [process] for who, process in started.items()
    }
    assert callers.call(ALICE, "process", action="kill", session_id=started["alice"])["status"] == "killed"


def test_a_caller_looks_at_no_image_outside_of_its_workspace(home: Path, workdir: Path) -> None:
    (workdir / "private.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    place = default_workspace(home, "alice")
    place.mkdir(parents=True)
    seer = AuxiliaryConfig(tasks={"vision": AuxiliaryTaskConfig(model="seer")})
    with (
        ScriptedProvider(does) as provider,
        configured_host(home, workdir, provider, auxiliary=seer) as host,
    ):
        for path in (workdir / "private.png", workdir / "missing.png"):
            call = f'vision_analyze {{"image_url": "{path}", "question": "What is it?"}}'
            told = host.new_session(principal="alice", cwd=place).run(call).answer
            assert "outside of the workspace" in told, told


def test_task_lists_belong_to_one_conversation_of_one_principal(callers: Callers) -> None:
    mine = [{"id": "1", "content": SECRET, "status": "pending"}]
    assert callers.call(ALICE, "todo", todos=mine)["summary"]["total"] == 1
    assert callers.own("todo", todos=mine)["summary"]["total"] == 1
    for found in (callers.call(BOB, "todo", merge=True), callers.call(ALICE, "todo", merge=True)):
        assert found["todos"] == [], "a new conversation has a list of its own"
    assert callers.own("todo", merge=True)["todos"] == []


def test_spilled_texts_are_read_by_their_own_principal_alone(home: Path, workdir: Path) -> None:
    """A long text that a plugin adds goes to a file, which the model of that principal can read."""

    def add(session_id: str, **_: Any) -> dict[str, str]:
        return {"context": f"about {session_id} " * 2_000}

    def reply(request: RecordedRequest) -> Any:
        # What the plugin adds follows the message.
        last = request.messages[-1]
        if last["role"] == "tool":
            return text(last["content"])
        path = request.last_user_text.partition("\n")[0].removeprefix("read ")
        return tool_call("read_file", {"path": path, "limit": 1}) if path.startswith("/") else text("fine")

    spill = HooksConfig(output_spill=OutputSpillConfig(max_chars=1_000))
    with ScriptedProvider(reply) as provider, configured_host(home, workdir, provider, hooks=spill) as host:
        host.hooks.subscribe("pre_llm_call", "test", add)
        places: dict[str, Path] = {}
        sessions: dict[str, Session] = {}
        for who in ("", "alice", "bob"):
            cwd = default_workspace(home, who) if who else workdir
            cwd.mkdir(parents=True, exist_ok=True)
            sessions[who] = host.new_session(principal=who, cwd=cwd)
            sessions[who].run("hi")
            [places[who]] = (principal_home(home, who) / "spill").iterdir()
        seen = {
            (reader, writer): sessions[reader].run(f"read {path}").answer
            for reader in ("alice", "bob")
            for writer, path in places.items()
        }
    assert len(set(places.values())) == 3 and all(path.stat().st_mode & 0o077 == 0 for path in places.values())
    for (reader, writer), answer in seen.items():
        assert (f"about {sessions[writer].id}" in answer) == (reader == writer), (reader, writer, answer)
        assert ("outside of the workspace" in answer) == (reader != writer)


def test_a_configured_workspace_is_shared_and_checked(home: Path, workdir: Path) -> None:
    principals = {"alice": PrincipalConfig(token_env="ALICE_TOKEN", workspace=str(workdir))}
    (workdir / "plan.txt").write_text("the plan")
    settings = A2AConfig(principals=principals)
    with ScriptedProvider(does) as provider, served(home, workdir, provider, settings, env=ENV) as agent:
        assert "the plan" in Callers(agent, provider).call(ALICE, "read_file", path="plan.txt")["content"]
    gone = A2AConfig(principals={"alice": PrincipalConfig(token_env="ALICE_TOKEN", workspace="not-there")})
    with (
        ScriptedProvider(does) as provider,
        pytest.raises(ConfigError, match=r"alice\.workspace: .*not-there is not a folder"),
        served(home, workdir, provider, gone, env=ENV),
    ):
        pass


@pytest.mark.parametrize(
    "settings", [{"command_allowlist": ["*"]}, {"approvals": ApprovalsConfig(permission_mode="yolo")}]
)
def test_what_the_owner_runs_without_asking_is_asked_about_for_callers(
    home: Path, workdir: Path, settings: dict[str, Any]
) -> None:
    call = f'terminal {{"command": "{RISKY}"}}'
    with ScriptedProvider(does) as provider, configured_host(home, workdir, provider, **settings) as host:
        assert "needs approval" not in host.new_session().run(call).answer
        assert "needs approval" in host.new_session(principal="bob", cwd=workdir).run(call).answer


def test_sessions_of_older_versions_are_given_to_their_callers(make_host: HostFactory, home: Path) -> None:
    with ScriptedProvider(
        [tool_call("delegate_task", {"goal": "look"}), text("child"), text("parent"), "own"]
    ) as model:
        host = make_host(model)
        old, own = host.new_session(), host.new_session()
        old.run("from alice")
        own.run("from the owner")
        assert len(host.search.search("alice")) == 1
        write_old_file(home, contexts=[("alice", "context", old.id)])
        take_over(host)
        found = {row.id: row.principal for row in host.sessions.list(children=True)}
        assert found.pop(own.id) == "" and set(found.values()) == {"alice"} and len(found) == 2
        assert host.search.search("alice") == [] and len(host.search.search("alice", principal="alice")) == 1
        latest = host.sessions.latest()
        assert latest is not None and latest.id == own.id


@pytest.mark.parametrize("name", ["bob", "..", ".", ".ssh", "a/b", "a/../..", "é", "tele:1", "x\0y"])
def test_the_folder_of_a_principal_is_always_one_below_the_home(name: str, home: Path) -> None:
    folder = principal_home(home, name)
    assert folder.parent == home / "principals" and folder.resolve().parent == folder.parent.resolve()


def test_folders_of_principals_differ() -> None:
    names = ["a/b", "a%2Fb", "..", "%2E.", "a", "A"]
    assert len({principal_home(Path("/h"), name) for name in names}) == len(names)
