"""What tools wrote goes to the caller, when the server is told so, and only what may leave."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from hermes.base.config import A2AConfig
from hermes.testing import ScriptedProvider, by_step, text, tool_calls
from support.a2a_rig import served, wire_message

SECRET = "test-key-of-a-model"


def written(home: Path, workdir: Path, settings: A2AConfig, files: dict[str, str]) -> list[dict[str, Any]]:
    """The artifacts of a task that writes these files."""
    calls = [("write_file", {"path": name, "content": content}) for name, content in files.items()]
    with (
        ScriptedProvider(by_step(tool_calls(calls), text("done"))) as provider,
        served(home, workdir, provider, settings) as agent,
    ):
        task = agent.rpc("SendMessage", wire_message("go"))["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"] == [{"text": "done"}]
    return task["artifacts"][1:]


def test_files_are_only_sent_when_configured(home: Path, workdir: Path) -> None:
    assert written(home, workdir, A2AConfig(), {"a.txt": "one"}) == []
    assert (workdir / "a.txt").read_text().strip() == "one"


def test_files_are_artifacts(home: Path, workdir: Path) -> None:
    sent = written(home, workdir, A2AConfig(files=True), {"a.txt": "one", "deep/b.json": "{}"})
    assert [artifact["name"] for artifact in sent] == ["a.txt", "deep/b.json"]
    [part] = sent[1]["parts"]
    assert (part["filename"], part["mediaType"]) == ("deep/b.json", "application/json")
    assert base64.b64decode(part["raw"]).strip() == b"{}"
    assert len({artifact["artifactId"] for artifact in sent}) == 2


def test_guarded_files_and_secrets_are_not_sent(home: Path, workdir: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.txt"
    (workdir / "link.txt").symlink_to(tmp_path / "linked.txt")
    files = {
        "long.txt": "x" * 101,
        "key.txt": f"the key is {SECRET}",
        str(elsewhere): "outside",
        "link.txt": "outside too",
        "fine.txt": "fine",
    }
    sent = written(home, workdir, A2AConfig(files=True, max_file_bytes=100), files)
    assert [artifact["name"] for artifact in sent] == ["fine.txt"]
    assert (workdir / "key.txt").exists()
    assert not elsewhere.exists() and not (tmp_path / "linked.txt").exists()


def test_a_model_that_writes_a_file_and_says_nothing_has_done_its_work(home: Path, workdir: Path) -> None:
    write = tool_calls([("write_file", {"path": "a.txt", "content": "one"})])
    with (
        ScriptedProvider(by_step(write, text(""))) as provider,
        served(home, workdir, provider, A2AConfig(files=True)) as agent,
    ):
        task = agent.rpc("SendMessage", wire_message("go"))["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert "a.txt" in task["status"]["message"]["parts"][0]["text"]
    assert [artifact["name"] for artifact in task["artifacts"]] == ["a.txt"]


def test_a_model_that_says_nothing_at_all_has_failed(home: Path, workdir: Path) -> None:
    with ScriptedProvider(by_step(text(""))) as provider, served(home, workdir, provider, A2AConfig()) as agent:
        task = agent.rpc("SendMessage", wire_message("go"))["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_FAILED"


def test_an_answer_that_breaks_off_is_withdrawn_and_asked_for_again(home: Path, workdir: Path) -> None:
    broken = text("Half of the answer, and more", chunks=8, truncate_after=700)
    with (
        ScriptedProvider([broken, text("The whole answer.")]) as provider,
        served(home, workdir, provider, A2AConfig(), retries=1) as agent,
    ):
        task = agent.rpc("SendMessage", wire_message("go"))["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [artifact["parts"] for artifact in task["artifacts"]] == [[{"text": "The whole answer."}]]
