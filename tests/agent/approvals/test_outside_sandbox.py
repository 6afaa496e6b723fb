"""A command leaves the sandbox only when a person says so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.agent.approvals.responder import Choice
from hermes.base.config import load_config
from hermes.host import Host, HostOptions
from hermes.testing import ScriptedProvider, ScriptedResponder, by_step, text, tool_call
from support import write_config
from support.approval_rig import says
from support.sandbox_rig import real_backend

SETTINGS = "terminal:\n  sandbox: workspace\n"


@pytest.fixture(autouse=True)
def _needs_a_sandbox() -> None:  # pyright: ignore[reportUnusedFunction]
    real_backend("landlock")


def run(
    home: Path, workdir: Path, answers: Sequence[Choice], options: HostOptions, settings: str = SETTINGS
) -> tuple[dict[str, Any], list[Any], bool]:
    """The result of a command that writes outside, the questions, and whether it wrote."""
    target = workdir.parent / "outside.txt"
    call = tool_call("terminal", {"command": f"echo x > {target}", "outside_sandbox": True})
    person = ScriptedResponder(*(says(answer) for answer in answers))
    with ScriptedProvider(by_step(call, text("done"))) as provider:
        write_config(home, provider.base_url, settings)
        with Host(home, load_config(home).config, options, cwd=workdir) as host:
            session = host.new_session()
            if answers:
                host.responders.attach(session.id, person)
            session.run("go")
            (result,) = (message for message in session.messages() if message["role"] == "tool")
            offered = host.tools.get("terminal")
    assert offered is not None
    assert ("outside_sandbox" in offered.parameters["properties"]) is (not options.unattended)
    return msgspec.json.decode(str(result["content"])), person.requests, target.exists()


def test_a_person_is_asked(home: Path, workdir: Path) -> None:
    _, questions, wrote = run(home, workdir, ["once"], HostOptions())
    (question,) = questions
    assert (question.rules, question.can_be_kept, wrote) == (("outside-sandbox",), False, True)


def test_a_no_keeps_it_inside(home: Path, workdir: Path) -> None:
    result, questions, wrote = run(home, workdir, ["deny"], HostOptions())
    assert (len(questions), wrote, result["status"]) == (1, False, "blocked")


def test_a_tool_that_the_settings_allow_is_allowed_inside(home: Path, workdir: Path) -> None:
    settings = f"{SETTINGS}approvals:\n  tools: {{terminal: allow}}\n"
    _, questions, wrote = run(home, workdir, ["deny"], HostOptions(), settings)
    assert (len(questions), wrote) == (1, False)


@pytest.mark.parametrize("allow_everything", [False, True])
def test_a_run_that_no_person_attends_cannot_leave(home: Path, workdir: Path, allow_everything: bool) -> None:
    settings = f"{SETTINGS}approvals:\n  headless: allow\n"
    options = HostOptions(unattended=True, allow_everything=allow_everything)
    result, _, wrote = run(home, workdir, [], options, settings)
    # It ran inside, where the temporary folder of the machine is a private one, or cannot be changed.
    assert result.get("error") is None
    assert not wrote
