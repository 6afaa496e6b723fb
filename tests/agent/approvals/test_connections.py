"""A command connects to a host that its sandbox does not reach only when a person says so."""

from __future__ import annotations

import http.server
import threading
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
from hermes.surfaces.cli.repl.questions import approval_question
from hermes.testing import ScriptedProvider, ScriptedResponder, by_step, text, tool_call
from hermes.testing.responder import Reaction
from support import write_config
from support.sandbox_rig import real_backend

SETTINGS = "terminal:\n  sandbox: workspace\n  network: off\n"


@pytest.fixture(autouse=True)
def _needs_bubblewrap() -> None:  # pyright: ignore[reportUnusedFunction]
    real_backend("bubblewrap")


class Page(http.server.BaseHTTPRequestHandler):
    """Answers every request."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"reached")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing is printed."""


@pytest.fixture
def web() -> Generator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def get(port: int, times: int = 1) -> str:
    """A command that gets a page ``times``, and prints what came."""
    return "export no_proxy= NO_PROXY=; " + "; ".join([f"python3 get.py {port} 2>&1 | tail -1"] * times)


def run(
    home: Path,
    workdir: Path,
    commands: Sequence[dict[str, Any]],
    person: ScriptedResponder | None,
    settings: str = SETTINGS,
    options: HostOptions | None = None,
) -> list[dict[str, Any]]:
    """The results of commands in one conversation."""
    script = "import sys, urllib.request as u; print(u.urlopen(f'http://localhost:{sys.argv[1]}/').read().decode())"
    (workdir / "get.py").write_text(script)
    calls = [tool_call("terminal", {"timeout": 60, **command}) for command in commands]
    with ScriptedProvider(by_step(*calls, text("done"))) as provider:
        write_config(home, provider.base_url, settings)
        with Host(home, load_config(home).config, options or HostOptions(), cwd=workdir) as host:
            session = host.new_session()
            if person is not None:
                host.responders.attach(session.id, person)
            session.run("go")
            results = [message for message in session.messages() if message["role"] == "tool"]
            states = [row.state for row in Questions(host.store).recent(9)]
            assert "pending" not in states
    return [msgspec.json.decode(str(result["content"]).split("\n", 1)[-1].rsplit("\n", 1)[0]) for result in results]


def test_a_person_is_asked_once_for_all_connections_of_a_command(home: Path, workdir: Path, web: int) -> None:
    person = ScriptedResponder("once", "deny")
    first, second = run(home, workdir, [{"command": get(web, times=3)}, {"command": get(web, times=2)}], person)
    assert first["output"].split() == ["reached"] * 3
    assert "reached" not in second["output"]
    assert f"the user refused the connection to localhost:{web}" in second["sandbox"]
    assert [request.rules for request in person.requests] == [(f"connect:localhost:{web}",)] * 2
    assert all(request.can_be_kept and get(web) in request.subject for request in person.requests)


def test_an_answer_for_the_session_is_remembered(home: Path, workdir: Path, web: int) -> None:
    person = ScriptedResponder("session")
    first, second = run(home, workdir, [{"command": get(web)}, {"command": get(web)}], person)
    assert (first["output"], second["output"], len(person.requests)) == ("reached", "reached", 1)


def test_an_answer_for_good_counts_in_runs_that_no_person_attends(home: Path, workdir: Path, web: int) -> None:
    run(home, workdir, [{"command": get(web)}], ScriptedResponder("always"))
    kept = load_config(home).config.command_allowlist
    assert kept == [f"connect:localhost:{web}"]
    settings = f"terminal:\n  sandbox: workspace\ncommand_allowlist: [{kept[0]!r}]\n"
    (later,) = run(home, workdir, [{"command": get(web)}], None, settings, HostOptions(unattended=True))
    assert later["output"] == "reached"
    (other,) = run(home, workdir, [{"command": get(web + 1)}], None, settings, HostOptions(unattended=True))
    assert f"localhost:{web + 1} was refused" in other["sandbox"]


def test_the_time_of_a_question_is_not_that_of_the_command(home: Path, workdir: Path, web: int) -> None:
    """The answer comes after the command would have timed out."""

    def late(_request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        assert not interrupt.wait(2.5)
        return ApprovalAnswer("once")

    (result,) = run(home, workdir, [{"command": get(web), "timeout": 2}], ScriptedResponder(late))
    assert (result["output"], result["exit_code"]) == ("reached", 0)


def test_a_command_that_ends_takes_its_question_back(home: Path, workdir: Path, web: int) -> None:
    ended: list[bool] = []

    def wait(_request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        ended.append(interrupt.wait(60))
        interrupt.check()
        return ApprovalAnswer("once")

    command = f"({get(web)}) & exec 3<>/dev/null; until test -e asked; do sleep 0.1; done"
    asked = workdir / "asked"

    def first(request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        asked.touch()
        return wait(request, interrupt)

    (result,) = run(home, workdir, [{"command": command}], ScriptedResponder(first))
    assert result["exit_code"] == 0
    assert ended == [True]


@pytest.mark.parametrize("reaction", [TurnSuspended(None), RuntimeError("broken")])
def test_a_person_who_cannot_answer_now_has_not_said_yes(
    home: Path, workdir: Path, web: int, reaction: Reaction
) -> None:
    (result,) = run(home, workdir, [{"command": get(web)}], ScriptedResponder(reaction))
    assert "reached" not in result["output"]
    assert f"localhost:{web}" in result["sandbox"]


@pytest.mark.parametrize("options", [HostOptions(allow_everything=True), HostOptions(unattended=True)])
def test_where_no_one_is_asked_the_setting_holds(home: Path, workdir: Path, web: int, options: HostOptions) -> None:
    settings = "terminal:\n  sandbox: workspace\n  network: [example.org]\napprovals:\n  headless: allow\n"
    (result,) = run(home, workdir, [{"command": get(web)}], None, settings, options)
    assert "reached" not in result["output"]
    assert f"terminal.network '[example.org, localhost:{web}]'" in result["sandbox"]


def test_the_question_at_the_prompt() -> None:
    request = ApprovalRequest(
        "appr_1", "s", "c", "terminal", {}, "curl https://a.example", "connects to a.example", ("connect:a.example",), 9
    )
    question = approval_question(request)
    assert question.text.splitlines()[:2] == ["Connect to a.example?", "    curl https://a.example"]
    assert question.hint == "[o]nce, this [s]ession, [a]lways, or [d]eny (with a reason)?"
