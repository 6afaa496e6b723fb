from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.base.errors import Interrupted
from hermes.tools.arguments import check_args
from hermes.tools.builtin import builtin_tools
from hermes.tools.registry import Tool, ToolContext

TOOLS = {tool.name: tool for tool in builtin_tools()}


def test_the_definitions_are_short() -> None:
    encoded = msgspec.json.encode([tool.definition() for tool in TOOLS.values()])
    assert len(encoded) <= 2_800


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_definitions_are_what_the_wire_expects(tool: Tool) -> None:
    definition = tool.definition()
    assert definition["type"] == "function"
    assert definition["function"]["name"] == tool.name
    assert definition["function"]["description"].endswith(".")
    parameters = tool.parameters
    assert parameters["type"] == "object" and set(parameters.get("required", ())) <= set(parameters["properties"])
    for name, schema in parameters["properties"].items():
        assert schema["type"] in ("string", "integer", "boolean"), name
        if "default" in schema:
            assert check_args({name: schema["default"]}, {"properties": {name: schema}}) is None


def test_what_each_tool_may_do_to_the_world() -> None:
    assert {name: (tool.effect, tool.parallel, tool.quick, tool.parallel_by_file) for name, tool in TOOLS.items()} == {
        "terminal": ("unsafe", False, False, False),
        "process": ("unsafe", False, False, False),
        "read_file": ("pure", True, True, False),
        "write_file": ("unsafe", False, False, True),
        "patch": ("unsafe", False, False, True),
        "search_files": ("pure", True, False, False),
    }
    assert [tool.toolset for tool in TOOLS.values()] == ["terminal", "terminal", "file", "file", "file", "file"]


def test_a_tool_that_shows_files_says_which_of_them_strangers_may_have_written() -> None:
    shows = [tool for tool in TOOLS.values() if tool.declares and tool.declares.reads and not tool.declares.writes]
    assert shows
    assert [tool.name for tool in shows if not tool.untrusted] == []


def test_tools_name_the_files_they_write(context: ToolContext, workdir: Path) -> None:
    for name, args in (("write_file", {"path": "a"}), ("patch", {"mode": "replace", "path": "a"})):
        declared = TOOLS[name].declares
        assert declared is not None
        assert declared.written_paths(args, context.cwd) == [workdir / "a"]


def test_loading_the_tools_imports_nothing_costly() -> None:
    program = (
        "import sys, hermes.tools.builtin, hermes.tools.toolsets, hermes.tools.arguments, hermes.tools.files.guard,"
        " hermes.tools.terminal.background; hermes.tools.builtin.builtin_tools(); print(*sys.modules)"
    )
    source = Path(__file__).parents[2] / "src"
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(source)}, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "hermes.tools.builtin" in loaded
    assert not loaded & {
        "subprocess",
        "tempfile",
        "shutil",
        "difflib",
        "shlex",
        "json",
        "asyncio",
        "importlib.metadata",
    }
    assert not loaded & {"hermes.tools.files.patch", "hermes.tools.search.search_files", "hermes.tools.files.read_file"}


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@pytest.mark.parametrize("name", ["read_file", "write_file", "patch", "search_files", "process", "terminal"])
@given(data=st.data())
def test_no_arguments_make_a_tool_raise(context: ToolContext, name: str, data: st.DataObject) -> None:
    properties = TOOLS[name].parameters["properties"]
    args: dict[str, Any] = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(properties, anything)))
    if name == "terminal":
        args["command"] = data.draw(st.sampled_from(["true", "", None, "\0", 3]))
    if name == "search_files":
        args["path"] = data.draw(st.sampled_from([".", "missing", None, "\0", 3]))
    try:
        answer = TOOLS[name].run(args, context)
    except Interrupted:
        pytest.fail("nobody interrupted this")
    assert isinstance(msgspec.json.decode(answer), dict)
