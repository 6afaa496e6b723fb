"""The worked examples: the real command with the real runtime writes the files that the documentation shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hermes.testing import RecordedRequest, ScriptedCall, ScriptedProvider, by_step, text, tool_call, tool_calls
from support.relay_rig import (
    ADDS_METADATA,
    KEEPS_CALL_IDS,
    Document,
    Event,
    agree,
    events,
    marks,
    problems,
    relay_chat,
    relay_env,
    scopes,
    trajectories,
)

GOAL = "Run the command `printf docs_nested_leaf_function` using the terminal tool."
DELEGATION = """
delegation:
  max_spawn_depth: 2
  max_concurrent_children: 2
  child_timeout_seconds: 180
"""
ADAPTIVE_TOML = """\
version = 1

[[components]]
kind = "observability"
enabled = true

[components.config]
version = 1

[components.config.atof]
enabled = true
output_directory = "{folder}/atof"
filename = "middleware-events.jsonl"
mode = "overwrite"

[components.config.atif]
enabled = true
output_directory = "{folder}/atif"
filename_template = "middleware-trajectory-{{session_id}}.json"
agent_name = "Hermes Middleware E2E"
agent_version = "local"

[[components]]
kind = "adaptive"
enabled = true

[components.config.tool_parallelism]
mode = "observe_only"
"""


def _parent_and_child(request: RecordedRequest) -> Any:
    if GOAL in request.last_user_text:
        return by_step(
            tool_call("terminal", {"command": "printf docs_nested_leaf_function"}, call_id="call_terminal"),
            text("It printed docs_nested_leaf_function."),
        )(request)
    return by_step(
        tool_call("delegate_task", {"goal": GOAL, "toolsets": ["terminal"]}, call_id="call_delegate"),
        text("parent received nested subagent result."),
    )(request)


def _within(part: Any, whole: Any) -> bool:
    """Whether every field of ``part`` is in ``whole``, however deep."""
    kinds = {part.__class__, whole.__class__}
    if kinds == {dict}:
        return all(name in whole and _within(part[name], whole[name]) for name in part)
    if kinds == {list}:
        return all(any(_within(one, other) for other in whole) for one in part)
    return part == whole


def _only(found: list[Event], **fields: Any) -> Event:
    [one] = [event for event in found if _within(fields, event)]
    return one


def test_delegated_subagent(home: Path, workdir: Path, tmp_path: Path) -> None:
    env = relay_env(
        tmp_path,
        ATOF_FILENAME="nested-subagent-atof.jsonl",
        ATOF_MODE="overwrite",
        ATIF_FILENAME_TEMPLATE="nested-subagent-atif-{session_id}.json",
        ATIF_AGENT_NAME="Hermes Agent E2E",
        ATIF_AGENT_VERSION="docs-example",
        ATIF_SUBAGENT_EXPORT_MODE="all",
    )
    with ScriptedProvider(_parent_and_child) as provider:
        done = relay_chat(
            *(home, workdir, "--query", "Delegate.", "--provider", "custom", "--model", "qwen3.6:35b"),
            *("--toolsets", "delegation,terminal", "--max-turns", "10", "--quiet", "--accept-hooks"),
            env=env,
            base_url=provider.base_url,
            config=DELEGATION,
        )
    assert (done.returncode, done.stdout) == (0, "parent received nested subagent result.\n")
    parent = done.stderr.strip().removeprefix("session_id: ")
    assert problems(tmp_path, "nested-subagent-atof.jsonl") == []
    assert agree(tmp_path, "nested-subagent-atof.jsonl") == []
    found = events(tmp_path, "nested-subagent-atof.jsonl")

    start = _only(found, kind="scope", category="tool", name="delegate_task", scope_category="start")
    assert _within({"session_id": parent, "tool_call_id": "call_delegate"}, start["metadata"])
    assert start["data"] == {"goal": GOAL, "toolsets": ["terminal"]}
    announced = _only(found, kind="mark", name="hermes.subagent.start")["metadata"]
    child = announced["session_id"]
    assert _within({"parent_session_id": parent, "child_role": "leaf"}, announced)
    assert announced["subagent_id"].startswith("sa-0-")
    assert (announced["parent_trajectory_id"], announced["child_trajectory_id"]) == (parent, child)
    leaf = _only(found, kind="scope", category="tool", name="terminal", scope_category="end")
    assert leaf["data"] == '{"output":"docs_nested_leaf_function","exit_code":0,"error":null}'
    assert _within({"session_id": child, "tool_call_id": "call_terminal", "status": "ok"}, leaf["metadata"])
    end = _only(found, kind="scope", category="tool", name="delegate_task", scope_category="end")
    assert _within({"session_id": parent, "tool_call_id": "call_delegate", "status": "ok"}, end["metadata"])
    order = [found.index(event) for event in (start, leaf, end)]
    assert order == sorted(order)

    _check_delegated_trajectories(trajectories(tmp_path), parent, child)
    names = {path.name for path in (tmp_path / "atif").iterdir()}
    assert names == {f"nested-subagent-atif-{name}.json" for name in (parent, child)}


def _check_delegated_trajectories(documents: dict[str, Document], parent: str, child: str) -> None:
    document = documents[parent]
    assert document["schema_version"] == "ATIF-v1.7"
    expected = {"name": "Hermes Agent E2E", "version": "docs-example", "model_name": "qwen3.6:35b"}
    assert _within(expected, document["agent"])
    first, last = [step for step in document["steps"] if step["source"] == "agent"]
    [call], [result] = first["tool_calls"], first["observation"]["results"]
    assert call["function_name"] == "delegate_task"
    assert _within([{"session_id": child, "trajectory_id": child}], result["subagent_trajectory_ref"])
    assert '"status":"completed"' in result["content"] and '"tool":"terminal"' in result["content"]
    assert last["message"] == "parent received nested subagent result."
    [embedded] = document["subagent_trajectories"]
    assert embedded["session_id"] == child
    step = next(step for step in embedded["steps"] if step["source"] == "agent")
    assert _within(
        {"function_name": "terminal", "arguments": {"command": "printf docs_nested_leaf_function"}},
        step["tool_calls"][0],
    )
    assert step["observation"]["results"][0]["content"].startswith('{"output":"docs_nested_leaf_function"')
    assert documents[child]["steps"] == embedded["steps"]


def test_parallel_tools(home: Path, workdir: Path, tmp_path: Path) -> None:
    for name in ("alpha", "beta"):
        (workdir / f"{name}.txt").write_text(f"docs_parallel_{name}_function\n")
    both = [ScriptedCall("read_file", {"path": f"{name}.txt"}, f"call_{name}") for name in ("alpha", "beta")]
    env = relay_env(
        tmp_path,
        ATOF_FILENAME="parallel-tools-atof.jsonl",
        ATOF_MODE="overwrite",
        ATIF_FILENAME_TEMPLATE="parallel-tools-atif-{session_id}.json",
        ATIF_AGENT_NAME="Hermes Agent E2E",
        ATIF_AGENT_VERSION="docs-example",
    )
    with ScriptedProvider([tool_calls(both), text("parallel tools complete.")]) as provider:
        done = relay_chat(
            *(home, workdir, "--query", "Read both.", "--provider", "custom", "--model", "qwen3.6:35b"),
            *("--toolsets", "file", "--max-turns", "8", "--quiet", "--accept-hooks"),
            env=env,
            base_url=provider.base_url,
        )
    assert (done.returncode, done.stdout) == (0, "parallel tools complete.\n")
    session = done.stderr.strip().removeprefix("session_id: ")
    assert problems(tmp_path, "parallel-tools-atof.jsonl") == []
    found = events(tmp_path, "parallel-tools-atof.jsonl")

    answer = scopes(found, "llm", "end")[0]
    assert (answer["name"], answer["data"]["finish_reason"]) == ("custom", "tool_calls")
    assert answer["data"]["assistant_message"]["tool_calls"] == [
        {"id": f"call_{name}", "name": "read_file", "arguments": f'{{"path":"{name}.txt"}}'}
        for name in ("alpha", "beta")
    ]
    starts, ends = scopes(found, "tool"), scopes(found, "tool", "end")
    assert [one["metadata"]["tool_call_id"] for one in starts] == ["call_alpha", "call_beta"]
    assert [one["data"] for one in starts] == [{"path": "alpha.txt"}, {"path": "beta.txt"}]
    for one in ends:
        name = one["metadata"]["tool_call_id"].removeprefix("call_")
        assert _within({"session_id": session, "status": "ok"}, one["metadata"])
        assert one["data"].startswith(f'{{"content":"     1|docs_parallel_{name}_function\\n"')

    document = trajectories(tmp_path)[session]
    first, last = [step for step in document["steps"] if step["source"] == "agent"]
    assert [(call["tool_call_id"], call["arguments"]) for call in first["tool_calls"]] == [
        ("call_alpha", {"path": "alpha.txt"}),
        ("call_beta", {"path": "beta.txt"}),
    ]
    # Results come in the order in which the calls ended, whichever that was.
    completed = [one["metadata"]["tool_call_id"] for one in ends]
    assert [result["source_call_id"] for result in first["observation"]["results"]] == completed
    assert last["message"] == "parallel tools complete."


def test_adaptive_middleware(home: Path, workdir: Path, tmp_path: Path) -> None:
    toml = tmp_path / "plugins.toml"
    toml.write_text(ADAPTIVE_TOML.format(folder=tmp_path))
    command = tool_call("terminal", {"command": "printf middleware_execution_ok"}, call_id="call_terminal")
    with ScriptedProvider([command, text("middleware_execution_ok")]) as provider:
        done = relay_chat(
            *(home, workdir, "--query", "Run it.", "--provider", "custom", "--model", "qwen3.6:35b"),
            *("--toolsets", "terminal", "--max-turns", "4", "--quiet", "--accept-hooks"),
            env={"HERMES_NEMO_RELAY_PLUGINS_TOML": str(toml)},
            base_url=provider.base_url,
        )
    assert (done.returncode, done.stdout) == (0, "middleware_execution_ok\n")
    session = done.stderr.strip().removeprefix("session_id: ")
    assert problems(tmp_path, "middleware-events.jsonl") == []
    found = events(tmp_path, "middleware-events.jsonl")

    model, _ = scopes(found, "llm")
    assert model["name"] == "custom"
    # No release writes what is handed over as data of a managed start, so that the mode is among the metadata.
    assert _within({"session_id": session, "mode": "observe_only"}, model["metadata"])
    [start], [end] = scopes(found, "tool"), scopes(found, "tool", "end")
    assert start["name"] == "terminal" and start["data"] == {"command": "printf middleware_execution_ok"}
    assert _within({"session_id": session, "tool_call_id": "call_terminal", "mode": "observe_only"}, start["metadata"])
    assert end["data"] == '{"output":"middleware_execution_ok","exit_code":0,"error":null}'
    if KEEPS_CALL_IDS:
        assert end["metadata"]["otel.status_code"] == "OK"
    if ADDS_METADATA:
        assert _within({"session_id": session, "status": "ok"}, end["metadata"])
    # On every release.
    outcomes = ["hermes.api.outcome", "hermes.tool.outcome", "hermes.api.outcome"]
    ends = ["hermes.turn.end", "hermes.session.end"]
    assert [mark["name"] for mark in marks(found)] == ["hermes.turn.start", *outcomes, *ends]
    assert [mark["metadata"]["status"] for mark in marks(found)[1:4]] == ["ok", "ok", "ok"]

    [path] = (tmp_path / "atif").iterdir()
    assert path.name == f"middleware-trajectory-{session}.json"
    document = trajectories(tmp_path)[session]
    expected = {"name": "Hermes Middleware E2E", "version": "local", "model_name": "qwen3.6:35b"}
    assert _within(expected, document["agent"])
    first, last = [step for step in document["steps"] if step["source"] == "agent"]
    assert _within(
        {"function_name": "terminal", "arguments": {"command": "printf middleware_execution_ok"}},
        first["tool_calls"][0],
    )
    assert _within(
        [{"source_call_id": "call_terminal", "content": end["data"]}],
        first["observation"]["results"],
    )
    assert last["message"] == "middleware_execution_ok"
