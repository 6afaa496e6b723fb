"""The model hears of skills when there are some, loads them with a tool, and ``/name`` runs one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hermes.base.config.schema.sections import PluginsConfig
from hermes.testing import ScriptedProvider, text, tool_call
from support import HostFactory
from support.configured import configured_host, write_plugin
from support.surfaces import Prompt


def write_skill(folder: Path, name: str, more: str = "") -> None:
    place = folder / name
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Counts sheep.\n{more}---\nCount to three.\n")


def offered(provider: ScriptedProvider, number: int = 0) -> set[str]:
    return {tool["function"]["name"] for tool in provider.requests[number].body.get("tools", ())}


def system(provider: ScriptedProvider, number: int = 0) -> str:
    return str(provider.requests[number].messages[0]["content"])


def result(provider: ScriptedProvider, number: int) -> dict[str, Any]:
    return json.loads(provider.requests[number].messages[-1]["content"])


def test_without_a_skill_the_request_has_nothing_of_them(make_host: HostFactory) -> None:
    with ScriptedProvider([text("hello")]) as provider:
        make_host(provider).new_session().run("hi")
    assert not {"skills_list", "skill_view"} & offered(provider)
    assert "Skills are" not in system(provider)


def test_a_skill_is_listed_loaded_and_read(make_host: HostFactory, workdir: Path) -> None:
    write_skill(workdir / ".agents/skills", "sheep")
    script = [
        tool_call("skills_list", {}),
        tool_call("skill_view", {"name": "sheep"}),
        tool_call("skill_view", {"name": "shep"}),
        text("1, 2, 3"),
    ]
    with ScriptedProvider(script) as provider:
        make_host(provider).new_session().run("count sheep")
    assert {"skills_list", "skill_view"} <= offered(provider)
    assert "- sheep: Counts sheep." in system(provider)
    assert result(provider, 1) == {
        "success": True,
        "skills": [{"name": "sheep", "description": "Counts sheep."}],
        "count": 1,
    }
    assert result(provider, 2)["content"] == "Count to three."
    assert "did you mean 'sheep'" in result(provider, 3)["error"]


def test_the_schemas_of_both_tools_are_small(make_host: HostFactory) -> None:
    with ScriptedProvider([]) as provider:
        tools = make_host(provider).tools
    for name in ("skills_list", "skill_view"):
        tool = tools.get(name)
        assert tool is not None
        assert len(json.dumps(tool.definition())) <= 400


def test_a_child_has_the_skills_of_its_parent(make_host: HostFactory, workdir: Path) -> None:
    write_skill(workdir / ".hermes/skills", "sheep")
    script = [tool_call("delegate_task", {"goal": "count"}), text("three"), text("done")]
    with ScriptedProvider(script) as provider:
        make_host(provider).new_session().run("go")
    assert "skill_view" in offered(provider, 1)
    assert "- sheep: Counts sheep." in system(provider, 1)


def test_a_skill_is_a_command(make_host: HostFactory, home: Path) -> None:
    write_skill(home / "skills", "sheep")
    write_skill(home / "skills", "status")
    with ScriptedProvider([text("counted")]) as provider:
        prompt = Prompt(make_host(provider))
        assert "/sheep" in prompt.type("/help")
        assert "Counts sheep." in prompt.type("/skills")
        assert prompt.type("/sheep black ones only") == ""
        [message] = prompt.surface.asked
        assert "Count to three." in str(message)
        assert str(message).startswith("/sheep black ones only\n")
        assert "Session" in prompt.type("/status"), "a skill does not replace a command of the runtime"
        assert "did you mean 'sheep'" in prompt.refused("/shep")
        prompt.surface.is_working = True
        assert "has to wait" in prompt.refused("/sheep")


def test_a_skill_narrows_the_tools_of_its_turn_and_of_no_other(make_host: HostFactory, workdir: Path) -> None:
    write_skill(workdir / ".hermes/skills", "reader", "allowed-tools: Read, Grep, WebFetch, no_such_tool\n")
    script = [tool_call("terminal", {"command": "echo hi"}), text("ok"), text("again")]
    with ScriptedProvider(script) as provider:
        prompt = Prompt(make_host(provider))
        prompt.type("/reader")
        prompt.session.run("and now?")
    own = {"skills_list", "skill_view", "clarify", "todo"}
    assert offered(provider, 0) == {"read_file", "search_files", "web_fetch", *own}
    assert "Unknown tool" in result(provider, 1)["error"]
    assert {"terminal", "patch"} <= offered(provider, 2)


def test_naming_a_tool_that_is_not_offered_does_not_add_it(make_host: HostFactory, workdir: Path) -> None:
    write_skill(workdir / ".hermes/skills", "writer", "allowed-tools: write_file, read_file\n")
    with ScriptedProvider([text("ok")]) as provider:
        prompt = Prompt(make_host(provider, allowed_tools=["read_file", "skill_view"]))
        prompt.type("/writer")
    assert offered(provider) == {"read_file", "skill_view"}


def test_a_skill_of_a_plugin_is_listed_loaded_and_run(home: Path, workdir: Path) -> None:
    write_plugin(
        home,
        "kit",
        "from pathlib import Path\n"
        "def register(ctx):\n"
        "    ctx.register_skill('pack', Path(__file__).with_name('packing.md'), 'Packs a suitcase.')\n",
    )
    (home / "plugins/kit/packing.md").write_text("Socks first.\n")
    script = [tool_call("skill_view", {"name": "kit:pack"}), text("packed"), text("again")]
    with (
        ScriptedProvider(script) as provider,
        configured_host(home, workdir, provider, plugins=PluginsConfig(enabled=["kit"])) as host,
    ):
        prompt = Prompt(host)
        prompt.session.run("pack")
        prompt.type("/kit:pack for two days")
    assert "- kit:pack: Packs a suitcase." in system(provider)
    assert result(provider, 1)["content"] == "Socks first."
    assert "Socks first." in str(provider.requests[2].messages[-1]["content"])


def test_a_skill_gives_out_no_file_of_secrets(make_host: HostFactory, workdir: Path) -> None:
    """A project's own skill may lie where the project's keys are."""
    write_skill(workdir / ".hermes" / "skills", "sheep")
    place = workdir / ".hermes" / "skills" / "sheep"
    (place / ".env").write_text("TOKEN=very-secret")
    (place / "notes.md").symlink_to(".env")
    (place / ".env.example").write_text("TOKEN=")
    asked = (".env", "notes.md", ".env.example")
    script = [*(tool_call("skill_view", {"name": "sheep", "file_path": path}) for path in asked), text("done")]
    with ScriptedProvider(script) as provider:
        make_host(provider).new_session().run("go")
    answers = [result(provider, number) for number in (1, 2, 3)]
    assert ["read_file asks the user" in answer.get("error", "") for answer in answers] == [True, True, False]
    assert answers[2]["content"] == "TOKEN="
    assert "very-secret" not in str([request.body for request in provider.requests])


def test_a_main_file_that_is_a_link_to_secrets_is_no_skill(make_host: HostFactory, workdir: Path) -> None:
    (workdir / ".env").write_text("TOKEN=very-secret")
    place = workdir / ".hermes" / "skills" / "sheep"
    place.mkdir(parents=True)
    (place / "SKILL.md").symlink_to(workdir / ".env")
    with ScriptedProvider([tool_call("skill_view", {"name": "sheep"}), text("done")]) as provider:
        make_host(provider).new_session().run("go")
    assert "very-secret" not in str([request.body for request in provider.requests])
