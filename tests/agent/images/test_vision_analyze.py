"""``vision_analyze`` asks the model of ``auxiliary.vision`` about files and URLs, and is offered when there is one."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config.schema.sections import ApprovalsConfig, AuxiliaryConfig, AuxiliaryTaskConfig, SecurityConfig
from hermes.host import Host
from hermes.testing import ScriptedProvider, text, tool_call
from support.configured import configured_host
from support.web_server import serving

PNG = b"\x89PNG\r\n\x1a\n picture"


def seeing_host(home: Path, workdir: Path, provider: ScriptedProvider, **sections: Any) -> Host:
    tasks = {"vision": AuxiliaryTaskConfig(model="seer")}
    approvals = ApprovalsConfig(tools={"vision_analyze": "allow"})  # which URLs are asked about is tested elsewhere
    auxiliary = AuxiliaryConfig(tasks=tasks)
    return configured_host(home, workdir, provider, auxiliary=auxiliary, approvals=approvals, **sections)


def analyze(host: Host, image: str, question: str = "What is it?") -> dict[str, Any]:
    answer = host.services.dispatch_tool("vision_analyze", {"image_url": image, "question": question})
    return json.loads(answer[answer.index("{") : answer.rindex("}") + 1])


def test_the_model_asks_another_one_about_a_file(home: Path, workdir: Path) -> None:
    (workdir / "dot.png").write_bytes(PNG)
    script = [tool_call("vision_analyze", {"image_url": "dot.png", "question": "Colour?"}), text("black"), text("ok")]
    with ScriptedProvider(script) as provider, seeing_host(home, workdir, provider) as host:
        assert host.new_session().run("look").answer == "ok"
    asked, looked, told = provider.requests
    [tool] = [tool for tool in asked.body["tools"] if tool["function"]["name"] == "vision_analyze"]
    assert len(json.dumps(tool)) <= 400
    assert looked.body["model"] == "seer"
    words, picture = looked.messages[0]["content"]
    assert words["text"].endswith("Colour?") and picture["type"] == "image_url"
    content = told.messages[-1]["content"]
    assert '"analysis":"black"' in content and "<untrusted" in content


def test_urls_and_data_are_looked_at_too(home: Path, workdir: Path) -> None:
    open_network = SecurityConfig(allow_private_urls=True)
    with (
        ScriptedProvider([text("one"), text("two")]) as provider,
        seeing_host(home, workdir, provider, security=open_network) as host,
        serving(lambda _path: (200, {"content-type": "image/png"}, PNG)) as (url, _),
    ):
        assert analyze(host, url) == {"success": True, "analysis": "one"}
        assert analyze(host, f"data:image/png;base64,{base64.b64encode(PNG).decode()}")["analysis"] == "two"


def test_what_is_no_image_or_may_not_be_read_is_refused(home: Path, workdir: Path) -> None:
    (workdir / "notes.txt").write_text("words")
    with ScriptedProvider([]) as provider, seeing_host(home, workdir, provider) as host:
        assert "not a PNG" in analyze(host, "notes.txt")["error"]
        assert "no such file" in analyze(host, "missing.png")["error"]
        assert "private network" in analyze(host, "http://127.0.0.1:9/a.png")["error"]
        assert "not a PNG" in analyze(host, "data:text/plain,hello")["error"]
        assert "question is empty" in analyze(host, "a.png", " ")["error"]
        assert "error" in analyze(host, str(home / "state.db"))


def test_a_folder_that_becomes_a_link_after_the_check_is_not_followed(
    home: Path, workdir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check saw the user's picture; what is opened afterwards is a file that was asked about by no one."""
    away = tmp_path / "elsewhere" / ".ssh"
    for folder in (workdir / "folder", away):
        folder.mkdir(parents=True)
        (folder / "dot.png").write_bytes(PNG)
    opened = os.open

    def swapped(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).endswith("folder/dot.png") and not (workdir / "folder").is_symlink():
            (workdir / "folder").rename(workdir / "moved")
            (workdir / "folder").symlink_to(away)
        return opened(path, *arguments, **options)

    monkeypatch.setattr("hermes.tools.files.opening.os.open", swapped)
    with ScriptedProvider([text("seen")]) as provider, seeing_host(home, workdir, provider) as host:
        answer = analyze(host, "folder/dot.png")
    assert (workdir / "folder").is_symlink(), "nothing was swapped"
    assert "the file was replaced while it was opened" in answer["error"] and provider.requests == []


def test_a_pipe_does_not_hold_it_up(home: Path, workdir: Path) -> None:
    os.mkfifo(workdir / "pipe.png")
    with ScriptedProvider([]) as provider, seeing_host(home, workdir, provider) as host:
        assert "not an image" in analyze(host, "pipe.png")["error"]


def test_without_a_model_that_sees_it_is_not_offered(home: Path, workdir: Path) -> None:
    (workdir / "dot.png").write_bytes(PNG)
    with (
        ScriptedProvider([]) as provider,
        configured_host(home, workdir, provider, model={"supports_vision": False}) as host,
    ):
        assert "vision_analyze" not in {tool.name for tool in host.offered_tools()}
        assert "auxiliary.vision.model" in analyze(host, "dot.png")["error"]
