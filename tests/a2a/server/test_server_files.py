"""What tools wrote goes to the caller, when the server is told so, and only what may leave."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from hermes.config import A2AConfig
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
