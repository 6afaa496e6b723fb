"""The documented delegation, word for word: a parent asks a child to run one command and reports that it did."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.testing import RecordedRequest, ScriptedProvider, text, tool_call
from support import run_hermes

QUERY = (
    "Use delegate_task exactly once. Ask the child subagent to use the terminal tool exactly once to run printf "
    "docs_nested_leaf_function. After the child returns, reply with exactly: parent received nested subagent result."
)
GOAL = "Run the command `printf docs_nested_leaf_function` using the terminal tool."
ANSWER = "parent received nested subagent result."

CONFIG = """\
model:
  provider: custom
  default: qwen3.6:35b
  base_url: {base_url}
  api_key: ollama
delegation:
  max_spawn_depth: 2
  max_concurrent_children: 2
  child_timeout_seconds: 180
  model: qwen3.6:35b
  provider: custom
  base_url: {base_url}
  api_key: ollama
"""

COMMAND = (
    *("chat", "--query", QUERY, "--provider", "custom", "--model", "qwen3.6:35b"),
    *("--toolsets", "delegation,terminal", "--max-turns", "10", "--quiet", "--accept-hooks"),
)


def _model(request: RecordedRequest) -> Any:
    """A model that does as it is told."""
    if request.last_user_text == QUERY:
        call = tool_call("delegate_task", {"goal": GOAL, "toolsets": ["terminal"]}, call_id="call_delegate")
        return (call, text(ANSWER))[request.step]
    assert request.last_user_text == GOAL
    call = tool_call("terminal", {"command": "printf docs_nested_leaf_function"}, call_id="call_terminal")
    return (call, text("The command printed docs_nested_leaf_function."))[request.step]


@pytest.fixture
def provider(home: Path) -> Any:
    with ScriptedProvider(_model, model="qwen3.6:35b") as provider:
        home.mkdir()
        (home / "config.yaml").write_text(CONFIG.format(base_url=provider.base_url))
        yield provider


def test_the_delegated_example_prints_what_it_should(provider: ScriptedProvider, home: Path, workdir: Path) -> None:
    done = run_hermes(*COMMAND, home=home, cwd=workdir)
    assert (done.returncode, done.stdout) == (0, f"{ANSWER}\n"), done.stderr
    assert re.fullmatch(r"session_id: (\S+)\n", done.stderr)
    child_end, parent_end = provider.requests[2], provider.requests[3]
    assert child_end.messages[-1] == {
        "role": "tool",
        "tool_call_id": "call_terminal",
        "content": '{"output":"docs_nested_leaf_function","exit_code":0,"error":null}',
    }
    [result] = msgspec.json.decode(parent_end.messages[-1]["content"])["results"]
    assert result["status"] == "completed"
    assert [(line["tool"], line["status"]) for line in result["tool_trace"]] == [("terminal", "ok")]


def test_the_journal_links_the_child_to_the_call(provider: ScriptedProvider, home: Path, workdir: Path) -> None:
    done = run_hermes(*COMMAND, home=home, cwd=workdir)
    parent_id = done.stderr.removeprefix("session_id: ").strip()
    [result] = msgspec.json.decode(provider.requests[-1].messages[-1]["content"])["results"]
    exported = run_hermes("sessions", "export", result["session_id"], home=home, cwd=workdir)
    session = msgspec.json.decode(exported.stdout.splitlines()[0])
    assert (session["parent_id"], session["parent_call"]) == (parent_id, "call_delegate")
    shown = run_hermes("sessions", "show", result["session_id"], home=home, cwd=workdir)
    assert re.search(rf"^Parent +{parent_id}", shown.stdout, re.MULTILINE)
    listed = run_hermes("sessions", "list", home=home, cwd=workdir)
    assert parent_id in listed.stdout and result["session_id"] not in listed.stdout
