"""The sandbox of a person's own session: leaving it is asked once, and a plugin's working directory is part of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes.base.config import load_config
from hermes.host import Host, HostOptions
from hermes.testing import ScriptedProvider, ScriptedResponder, by_step, text, tool_call
from support import write_config
from support.approval_rig import says
from support.sandbox_rig import real_backend


@pytest.fixture(autouse=True)
def _needs_a_sandbox() -> None:  # pyright: ignore[reportUnusedFunction]
    real_backend("landlock")


def test_the_same_call_is_asked_about_once_in_a_session(home: Path, workdir: Path) -> None:
    """With default settings: the sandbox is there at the prompt, and one yes lets one command line out of it."""
    target, other = workdir.parent / "one.txt", workdir.parent / "two.txt"
    calls = [
        tool_call("terminal", {"command": f"echo x >> {path}", "outside_sandbox": True})
        for path in (target, target, other)
    ]
    person = ScriptedResponder(says("once"), says("deny"))
    with ScriptedProvider(by_step(*calls, text("done"))) as provider:
        write_config(home, provider.base_url)
        with Host(home, load_config(home).config, HostOptions(), cwd=workdir) as host:
            session = host.new_session()
            host.responders.attach(session.id, person)
            session.run("go")
    assert [question.subject for question in person.requests] == [f"echo x >> {target}", f"echo x >> {other}"]
    assert (target.read_text(), other.exists()) == ("x\nx\n", False)


@pytest.mark.parametrize(("by_plugin", "wrote"), [(True, True), (False, False)])
def test_a_working_directory_of_a_plugin_can_be_changed_and_one_of_the_model_cannot(
    home: Path, workdir: Path, by_plugin: bool, wrote: bool
) -> None:
    folder = workdir.parent / "elsewhere"
    folder.mkdir()
    args = {"command": "echo x > made.txt"}

    def give(**fields: Any) -> dict[str, Any]:
        return {"args": {**fields["args"], "workdir": str(folder)}}

    call = tool_call("terminal", args if by_plugin else {**args, "workdir": str(folder)})
    with ScriptedProvider(by_step(call, text("done"))) as provider:
        write_config(home, provider.base_url)
        with Host(home, load_config(home).config, HostOptions(), cwd=workdir) as host:
            if by_plugin:
                host.hooks.add_middleware("tool_request", "mine", give)
            session = host.new_session()
            session.run("go")
    assert (folder / "made.txt").exists() is wrote
