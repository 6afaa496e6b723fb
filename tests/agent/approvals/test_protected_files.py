"""Protected files: no tool that takes a path hands one out, whoever made the tool."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from hermes.host import Host
from hermes.testing import ScriptedProvider
from hermes.tools.arguments import fields, text
from hermes.tools.declarations.declaration import UNDECLARED, Declaration, Shown
from hermes.tools.registry import Tool, ToolContext
from hermes.tools.results import tool_error, tool_result
from support import HostFactory

CANARY = "canary-9f2c71"
#: An image, as far as its first bytes tell, so that a tool for images would take it too.
CONTENT = f"GIF89a{CANARY}\nx\n"

PERSONAL = [
    *(".ssh/id_rsa", ".ssh/id_ed25519", ".aws/credentials", ".netrc", ".git-credentials", ".kube/config"),
    *(".docker/config.json", ".config/gh/hosts.yml", ".gnupg/secring.gpg", ".pypirc", ".npmrc"),
]
OF_HERMES = [".env", "config.yaml", "auth.json", "auth.json.corrupt", "state.db", "state.db-wal", "search.db", "a2a.db"]


def run_sample_head(args: dict[str, Any], context: ToolContext) -> str:
    """A tool as docs/architecture.md says to write one."""
    try:
        with context.open(args.get("path")) as file:
            return tool_result(head="".join(islice(file, 10)))
    except (ValueError, OSError) as error:
        return tool_error(str(error))


def run_careless(args: dict[str, Any], context: ToolContext) -> str:
    """A tool whose author knows of no guard."""
    return tool_result(content=(context.cwd / args["path"]).expanduser().read_text(errors="replace"))


PATH = fields(["path"], path=text())
SAMPLE_HEAD = Tool(
    "sample_head",
    "file",
    "Show the first lines of a file.",
    PATH,
    run_sample_head,
    "pure",
    Declaration(reads=("path",), is_guarded=True, shown=Shown(subject=("path",))),
)
CARELESS = Tool("careless", "file", "Read it.", PATH, run_careless, "pure", Declaration(reads=("path",)))
OF_PLUGIN = Tool("slurp", "mine", "Read it.", PATH, run_careless, "pure", plugin="mine")
OF_SILENT_PLUGIN = Tool("gulp", "mine", "Read it.", PATH, run_careless, plugin="mine")
NESTED = Tool(
    "sip",
    "mine",
    "Read it.",
    fields(["what"], what={"type": "object"}),
    lambda args, context: run_careless({"path": args["what"]["uri"].removeprefix("file://")}, context),
    plugin="mine",
)


@pytest.fixture
def host(make_host: HostFactory, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    person = tmp_path / "person"
    monkeypatch.setenv("HOME", str(person))
    skill = home / "skills" / "x" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: x\ndescription: A skill.\n---\nDo it.\n")
    with ScriptedProvider([]) as provider:
        host = make_host(provider)
        host.sessions.list(limit=1)  # the journal is there from now on
        host.tools.add_builtin([SAMPLE_HEAD, CARELESS])
        for tool in (OF_PLUGIN, OF_SILENT_PLUGIN, NESTED):
            host.tools.add(tool)
        for path in [*(person / name for name in PERSONAL), *(home / name for name in OF_HERMES)]:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() and not path.name.startswith(("state.db", "search.db")):
                path.write_text(CONTENT)
        yield host


def calls_with(tool: Tool, path: str) -> Iterator[dict[str, Any]]:
    """Calls in which each argument that is a path names this file."""
    properties: dict[str, Any] = tool.parameters["properties"]
    plain = {name: schema.get("enum", ["x"])[0] for name, schema in properties.items() if schema["type"] == "string"}
    declared = tool.declares or UNDECLARED
    if tool is NESTED:
        yield {"what": {"uri": path}}
        yield {"what": {"uri": f"file://{path}"}}
        return
    for name in (*declared.reads, *declared.writes, *declared.contained) or ("path",):
        yield {**plain, name: path}
    for name in declared.patches:
        patch = f"*** Begin Patch\n*** Update File: {path}\n-x\n+y\n*** End Patch"
        yield {**plain, "path": "", "mode": "patch", name: patch}


def path_tools(host: Host) -> list[Tool]:
    found: list[Tool] = []
    for tool in host.tools.all().values():
        declared = tool.declares
        if declared is None or declared.is_writer or declared.reads or declared.contained:
            found.append(tool)
    return found


def test_every_tool_that_takes_a_path_is_tried(host: Host) -> None:
    assert {tool.name for tool in path_tools(host)} == {
        *("read_file", "search_files", "write_file", "patch", "vision_analyze", "skill_view"),
        *("sample_head", "careless", "slurp", "gulp", "sip"),
    }


@pytest.mark.parametrize("name", [*PERSONAL, *OF_HERMES])
def test_no_tool_hands_out_a_protected_file(host: Host, home: Path, workdir: Path, name: str) -> None:
    file = (home if name in OF_HERMES else Path.home()) / name
    is_database = ".db" in name  # which the host has open: another look at it could harm it
    before = b"" if is_database else file.read_bytes()
    (workdir / "link.txt").symlink_to(file)
    for tool in path_tools(host):
        for path in (str(file), "link.txt"):
            for args in calls_with(tool, path):
                result = host.services.dispatch_tool(tool.name, args)
                assert json.loads(result).get("error"), (tool.name, args, result)
                assert not any(leaked in result for leaked in (CANARY, "SQLite format", "is not a PNG")), result
    assert is_database or file.read_bytes() == before


def test_ordinary_files_are_read(host: Host, workdir: Path) -> None:
    (workdir / "notes.txt").write_text("hello\n")
    for name in ("sample_head", "careless", "slurp", "gulp", "read_file"):
        assert "hello" in host.services.dispatch_tool(name, {"path": "notes.txt"}), name


def test_a_file_is_written_through_the_guard(host: Host, home: Path, workdir: Path) -> None:
    def run(args: dict[str, Any], context: ToolContext) -> str:
        with context.open(args["path"], "w") as file:
            file.write("written")
        with context.open("elsewhere.txt", "w") as file:
            file.write("not what was judged")
        return "{}"

    declared = Declaration(writes=("path",), is_guarded=True)
    host.tools.add_builtin([Tool("put", "file", "Write.", PATH, run, declares=declared)])
    assert "not what was checked" in host.services.dispatch_tool("put", {"path": "new.txt"})
    assert (workdir / "new.txt").read_text() == "written" and not (workdir / "elsewhere.txt").exists()
    assert "holds settings" in host.services.dispatch_tool("put", {"path": str(home / ".env")})
