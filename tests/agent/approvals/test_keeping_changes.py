"""What a sandboxed command does to files that run code is undone, unless a person approves it."""

from __future__ import annotations

import subprocess
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
from hermes.base.config import load_config
from hermes.base.errors import TurnSuspended
from hermes.base.scope import Interrupt
from hermes.host import Host, HostOptions
from hermes.journal.questions import Questions
from hermes.journal.sessions import Sessions
from hermes.testing import ScriptedProvider, ScriptedResponder, by_step, text, tool_call
from support import write_config
from support.approval_rig import says
from support.hook_callbacks import note
from support.sandbox_rig import real_backend

HOOK = "printf '#!/bin/sh\\necho hi\\n' > new/.git/hooks/pre-commit"
MAKE_HOOK = f"git init -q new && mkdir -p new/.git/hooks && {HOOK} && chmod +x new/.git/hooks/pre-commit"
SET_KEY = "git config core.fsmonitor ./watch.sh && git config user.name Bob"


@pytest.fixture(autouse=True)
def _needs_a_sandbox() -> None:  # pyright: ignore[reportUnusedFunction]
    real_backend("landlock")


@pytest.fixture
def repository(workdir: Path) -> Path:
    subprocess.run(["git", "init", "-q"], cwd=workdir, check=True)
    return workdir


def open_host(home: Path, workdir: Path, provider: ScriptedProvider, options: HostOptions | None = None) -> Host:
    # The judge lets the commands run, as one that it did not understand would.
    settings = "terminal:\n  sandbox: workspace\ncommand_allowlist: [write-autorun]\n"
    write_config(home, provider.base_url, settings)
    return Host(home, load_config(home).config, options or HostOptions(), cwd=workdir)


def result_of(host: Host, session_id: str) -> dict[str, Any]:
    messages = Sessions(host.store).messages(session_id)
    (found,) = (message for message in messages if message["role"] == "tool")
    return msgspec.json.decode(str(found["content"]))


def run(
    home: Path, workdir: Path, command: str, answers: Sequence[Any], options: HostOptions | None = None
) -> tuple[dict[str, Any], list[ApprovalRequest]]:
    person = ScriptedResponder(*(says(answer) for answer in answers))
    with (
        ScriptedProvider(by_step(tool_call("terminal", {"command": command}), text("done"))) as provider,
        open_host(home, workdir, provider, options) as host,
    ):
        session = host.new_session()
        if answers:
            host.responders.attach(session.id, person)
        session.run("go")
        return result_of(host, session.id), person.requests


def test_an_approved_hook_is_kept(home: Path, repository: Path) -> None:
    result, [question] = run(home, repository, MAKE_HOOK, ["once"])
    hook = repository / "new/.git/hooks/pre-commit"
    assert hook.read_text() == "#!/bin/sh\necho hi\n" and hook.stat().st_mode & 0o111
    assert result["kept"] == [f"made {hook}, which runs code by itself; it was approved and is kept"]
    assert "undone" not in result
    assert (question.rules, question.can_be_kept) == (("keep-change",), False)
    assert "echo hi" in question.subject and str(hook) in question.subject


def test_a_refused_hook_stays_undone(home: Path, repository: Path) -> None:
    result, questions = run(home, repository, MAKE_HOOK, ["deny"])
    assert len(questions) == 1 and "kept" not in result
    assert "moved to undone" in result["undone"][0]
    assert not (repository / "new/.git/hooks/pre-commit").exists()


@pytest.mark.parametrize(("answer", "value"), [("once", "./watch.sh"), ("deny", "")])
def test_a_key_of_git_that_runs_a_program(home: Path, repository: Path, answer: str, value: str) -> None:
    _, [question] = run(home, repository, SET_KEY, [answer])
    assert "core.fsmonitor = ./watch.sh" in question.subject and "user.name" not in question.subject

    def key(name: str) -> str:
        done = subprocess.run(["git", "config", name], cwd=repository, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    assert (key("core.fsmonitor"), key("user.name")) == (value, "Bob")


@pytest.mark.parametrize("unattended", [False, True])
def test_without_a_person_it_stays_undone(home: Path, repository: Path, unattended: bool) -> None:
    result, _ = run(home, repository, MAKE_HOOK, [], HostOptions(unattended=unattended))
    assert result["undone"] and not (repository / "new/.git/hooks/pre-commit").exists()


def test_a_change_that_holds_a_secret_is_not_offered(
    home: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_KEY", "Zk9x7Qm2-Lp4Wn8Rt5Yv3Ub6")
    (repository / "text").write_text("echo Zk9x7Qm2-Lp4Wn8Rt5Yv3Ub6\n")
    command = "git init -q new && mkdir -p new/.git/hooks && cp text new/.git/hooks/pre-commit"
    result, questions = run(home, repository, command, ["once"])
    assert result["undone"] and not questions


class Later:
    """An owner who answers later, in the list of approvals."""

    surface = "a2a"
    approval_surface = "owner"

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        raise TurnSuspended(None)

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        raise AssertionError("no question of the model is expected")


@pytest.fixture
def provider() -> Generator[ScriptedProvider]:
    script = by_step(tool_call("terminal", {"command": f"echo ran >> count; {MAKE_HOOK}"}), text("done"))
    with ScriptedProvider(script) as provider:
        yield provider


@pytest.mark.parametrize("answer", ["once", "deny"])
def test_an_answer_that_comes_after_a_restart(
    home: Path, repository: Path, provider: ScriptedProvider, answer: str
) -> None:
    ended: list[Any] = []
    hook = repository / "new/.git/hooks/pre-commit"
    with open_host(home, repository, provider) as host:
        host.hooks.subscribe("post_tool_call", "test", note(ended, "result"))
        session = host.new_session()
        host.responders.attach(session.id, Later())
        with pytest.raises(TurnSuspended):
            session.run("go")
        session.close()
        [question] = Questions(host.store).pending()
        assert (question.surface, question.rules) == ("owner", ("keep-change",))
        assert not hook.exists() and ended == [], "the call has not ended"
    with open_host(home, repository, provider) as host:
        host.hooks.subscribe("post_tool_call", "test", note(ended, "result"))
        Questions(host.store).answer(question.id, answer)
        again = host.resume_session(session.id)
        host.responders.attach(again.id, Later())
        again.finish_open_turn()
        again.close()
        result = result_of(host, session.id)
    assert ("kept" in result, hook.exists()) == ((answer == "once"),) * 2
    assert (repository / "count").read_text() == "ran\n", "the command ran once"
    assert len(ended) == 1


def test_a_change_by_a_plugins_own_call_stays_undone_without_a_question(home: Path, repository: Path) -> None:
    person = ScriptedResponder(says("once"))
    with ScriptedProvider([text("done")]) as provider, open_host(home, repository, provider) as host:
        session = host.new_session()
        host.responders.attach(session.id, person)
        results: list[dict[str, Any]] = []

        def call(**_fields: Any) -> None:
            result = host.services.dispatch_tool("terminal", {"command": SET_KEY})
            results.append(msgspec.json.decode(result))

        host.hooks.subscribe("pre_llm_call", "test", call)
        session.run("go")
    assert person.requests == []
    [result] = results
    assert result["undone"] and "kept" not in result
    config = (repository / ".git" / "config").read_text()
    assert "fsmonitor" not in config and "Bob" in config
