"""``execute_code``: scripts call tools through the one pipeline, in a sandbox, within limits."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
from hermes.base.config.schema.sections import CodeExecutionConfig, PluginsConfig, TerminalConfig
from hermes.base.scope import Interrupt
from hermes.host import Host
from hermes.journal.bodies import unpack
from hermes.journal.store.connection import JournalConnection
from hermes.testing import ScriptedProvider, text, tool_call
from support.configured import configured_host, tool_answers, write_plugin
from support.waiting import wait_until

TOOLSETS = ["hermes-cli", "code_execution"]


@contextmanager
def running(home: Path, workdir: Path, *scripts: str, **sections: Any) -> Generator[tuple[Host, ScriptedProvider]]:
    """A host whose model runs these scripts one after the other."""
    options = {"toolsets": TOOLSETS, **sections.pop("options", {})}
    replies = [*(tool_call("execute_code", {"code": code}) for code in scripts), text("done")]
    with (
        ScriptedProvider(replies) as provider,
        configured_host(home, workdir, provider, options=options, **sections) as host,
    ):
        yield host, provider


def run(home: Path, workdir: Path, *scripts: str, **sections: Any) -> list[dict[str, Any]]:
    """What the scripts answered."""
    with running(home, workdir, *scripts, **sections) as (host, _):
        result = host.new_session().run("go")
        assert result.answer == "done", result
        return tool_answers(host, result.session_id)


class Person:
    """Answers every approval the same way."""

    surface = "cli"

    def __init__(self, choice: Any) -> None:
        self.choice = choice
        self.asked: list[str] = []

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        self.asked.append(request.subject)
        return ApprovalAnswer(self.choice)

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        return None


def test_a_script_calls_tools_and_prints_what_matters(home: Path, workdir: Path) -> None:
    (workdir / "a.txt").write_text("one\ntwo\n")
    script = (
        "from hermes_tools import read_file, write_file, terminal\n"
        "lines = read_file('a.txt')['total_lines']\n"
        "write_file(path='b.txt', content='x' * lines)\n"
        "print(lines, terminal(command='cat b.txt')['output'])\n"
    )
    [answer] = run(home, workdir, script)
    assert (answer["status"], answer["output"], answer["exit_code"], answer["tool_calls_made"]) == (
        "success",
        "2 xx",
        0,
        3,
    )


def test_every_inner_call_is_a_tool_call_with_hooks_and_a_record(home: Path, workdir: Path) -> None:
    write_plugin(
        home,
        "watch",
        "SEEN = []\n"
        "def register(ctx):\n"
        "    ctx.register_hook('pre_tool_call', lambda tool_name, args, **kw:\n"
        "        {'action': 'block', 'message': 'not here'} if args.get('path') == 'no.txt' else None)\n",
    )
    script = "from hermes_tools import read_file, terminal\nprint(read_file('no.txt')['error'])\nterminal('true')\n"
    with running(home, workdir, script, plugins=PluginsConfig(enabled=["watch"])) as (host, _):
        session = host.new_session()
        session.run("go")
        [answer] = tool_answers(host, session.id)
        assert answer["output"] == "not here"
        events = _dispatches(host, session.id)
    assert [(kind, body["name"]) for kind, body in events] == [
        ("dispatch_done", "read_file"),
        ("dispatch_claimed", "terminal"),
        ("dispatch_done", "terminal"),
    ]
    assert events[0][1]["status"] == "blocked"


def _dispatches(host: Host, session_id: str) -> list[tuple[str, dict[str, Any]]]:
    query = "SELECT kind, body FROM events WHERE session_id = ? AND kind LIKE 'dispatch%' ORDER BY seq"

    def find(connection: JournalConnection) -> list[tuple[str, dict[str, Any]]]:
        return [(kind, unpack(connection, body)) for kind, body in connection.execute(query, (session_id,)).fetchall()]

    return host.store.read(find)


def test_an_inner_call_waits_for_no_sync_unless_it_is_unsafe(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hermes.journal.turns.steps import TurnJournal

    (workdir / "a.txt").write_text("one\n")
    commits: list[str] = []
    commit = TurnJournal.commit

    def counted(journal: TurnJournal, *arguments: Any, **more: Any) -> Any:
        commits.append("commit")
        return commit(journal, *arguments, **more)

    monkeypatch.setattr(TurnJournal, "commit", counted)

    def commits_of(script: str) -> int:
        commits.clear()
        run(home, workdir, script)
        return len(commits)

    none = commits_of("print(1)")
    assert commits_of("from hermes_tools import read_file\nfor _ in range(10): read_file('a.txt')") == none
    assert commits_of("from hermes_tools import terminal\nfor _ in range(3): terminal('true')") == none + 3


def test_a_dangerous_inner_call_is_asked_about(home: Path, workdir: Path) -> None:
    (workdir / "notes").mkdir()
    script = "from hermes_tools import terminal\nprint(terminal('rm -rf notes'))\n"
    for choice, is_there in (("deny", True), ("once", False)):
        with running(home, workdir, script) as (host, _):
            session = host.new_session()
            person = Person(choice)
            host.responders.attach(session.id, person)
            session.run("go")
        assert person.asked == ["rm -rf notes"]
        assert (workdir / "notes").exists() == is_there


def test_a_script_cannot_call_what_is_not_offered(home: Path, workdir: Path) -> None:
    script = (
        "import hermes_tools\n"
        "for name in ('execute_code', 'delegate_task', 'terminal'):\n"
        "    try:\n"
        "        getattr(hermes_tools, name)\n"
        "    except AttributeError as error:\n"
        "        print(error)\n"
    )
    [answer] = run(home, workdir, script, options={"toolsets": ["file", "code_execution"]})
    assert answer["output"].count("there is no tool") == 3


def test_the_script_has_a_minimal_environment(home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "tok_0123456789abcdef")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    [answer] = run(home, workdir, "import os\nprint(sorted(os.environ))\n")
    assert "MY_TOKEN" not in answer["output"] and "PYTHONPATH" not in answer["output"]
    assert "HERMES" not in answer["output"]


def _has_sandbox(home: Path, workdir: Path) -> bool:
    with running(home, workdir) as (host, _):
        return host.confinements.confines_scripts()


def test_the_sandbox_lets_a_script_read_and_nothing_else(home: Path, workdir: Path) -> None:
    if not _has_sandbox(home, workdir):
        pytest.skip("this machine has no sandbox")
    (workdir / "a.txt").write_text("one\n")
    script = (
        "import socket\n"
        "print(open('a.txt').read().strip())\n"
        "for what in (lambda: open('b.txt', 'w'),\n"
        f"             lambda: open({str(home / 'config.yaml')!r}),\n"
        "             lambda: socket.create_connection(('127.0.0.1', 9), 1)):\n"
        "    try:\n"
        "        what()\n"
        "        print('done')\n"
        "    except OSError as error:\n"
        "        print(type(error).__name__)\n"
    )
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text("{}")
    [answer] = run(home, workdir, script)
    assert answer["output"].startswith("one\n")
    assert "done" not in answer["output"]
    assert not (workdir / "b.txt").exists()


def test_without_a_sandbox_a_script_needs_approval(home: Path, workdir: Path) -> None:
    off = TerminalConfig(sandbox="off")
    [answer] = run(home, workdir, "print(1)", terminal=off)
    assert "error" in answer and "output" not in answer, "there is no one to ask"
    with running(home, workdir, "print(1)", terminal=off) as (host, _):
        session = host.new_session()
        person = Person("once")
        host.responders.attach(session.id, person)
        session.run("go")
        assert tool_answers(host, session.id)[0]["output"] == "1"
    [asked] = person.asked
    assert "print(1)" in asked


def test_errors_show_the_line_and_bad_syntax_runs_nothing(home: Path, workdir: Path) -> None:
    failed, odd, left = run(
        home, workdir, "x = 1\nraise KeyError('gone')\n", "print('never'", "import sys\nprint('bye')\nsys.exit(3)\n"
    )
    assert failed["status"] == "error" and failed["exit_code"] == 1
    assert "line 2, in <module>" in failed["output"] and "raise KeyError('gone')" in failed["output"]
    assert "script_child" not in failed["output"]
    assert "does not compile" in odd["error"]
    assert (left["status"], left["exit_code"], left["output"]) == ("error", 3, "bye")


def test_limits_of_calls_output_and_time(home: Path, workdir: Path) -> None:
    (workdir / "a.txt").write_text("one\n")
    calls = (
        "from hermes_tools import read_file, ToolCallError\n"
        "try:\n"
        "    while True: read_file('a.txt')\n"
        "except ToolCallError as error:\n"
        "    print(error)\n"
    )
    settings = CodeExecutionConfig(max_tool_calls=3, timeout=1)
    limited, flood, late = run(
        home, workdir, calls, "print('x' * 200_000)", "while True: pass", code_execution=settings
    )
    assert limited["tool_calls_made"] == 3 and "may call 3 tools" in limited["output"]
    assert 40_000 < len(flood["output"]) < 60_000
    assert late["status"] == "timeout" and "longer than 1 s" in late["error"]


@pytest.mark.parametrize(
    "flood",
    [
        "while True: reader.recv(65536); writer.sendall(b'x\\n' * 1000)",  # every line is refused
        "while True: writer.sendall(b'x\\n' * 1000)",  # and no answer is read
    ],
)
def test_requests_that_are_refused_do_not_stretch_the_time(home: Path, workdir: Path, flood: str) -> None:
    script = (
        "import socket, hermes_tools\n"
        "connection = hermes_tools.read_file.__closure__[0].cell_contents\n"
        "reader = writer = socket.socket(fileno=connection._descriptor)\n"
        f"writer.sendall(b'x\\n')\n{flood}\n"
    )
    [answer] = run(home, workdir, script, code_execution=CodeExecutionConfig(timeout=1))
    assert answer["status"] == "timeout", answer


def test_a_file_of_the_project_does_not_pose_as_a_module_of_python(home: Path, workdir: Path) -> None:
    (workdir / "json.py").write_text("raise SystemExit('code of the project ran')\n")
    (workdir / "own.py").write_text("name = 'own'\n")
    (workdir / "a.txt").write_text("one\n")
    script = "import own\nfrom hermes_tools import read_file\nprint(own.name, read_file('a.txt')['total_lines'])\n"
    [answer] = run(home, workdir, script)
    assert (answer["status"], answer["output"]) == ("success", "own 1"), answer


def test_cancelling_ends_the_script_at_once(home: Path, workdir: Path) -> None:
    script = "from hermes_tools import write_file\nwrite_file('started', 'x')\nimport time\ntime.sleep(600)\n"
    interrupt = Interrupt()
    with running(home, workdir, script) as (host, _):
        session = host.new_session()
        thread = threading.Thread(target=lambda: session.run("go", interrupt=interrupt))
        thread.start()
        wait_until(lambda: (workdir / "started").exists())
        interrupt.cancel("enough")
        thread.join(60)
        assert not thread.is_alive()


def test_it_is_offered_on_request_and_its_schema_is_small(home: Path, workdir: Path) -> None:
    with ScriptedProvider([]) as provider:
        with configured_host(home, workdir, provider) as host:
            assert "execute_code" not in {tool.name for tool in host.offered_tools()}
            tool = host.tools.get("execute_code")
        assert tool is not None and len(json.dumps(tool.definition())) <= 400


@pytest.mark.slow
def test_a_script_ends_with_a_hermes_that_is_killed(home: Path, workdir: Path) -> None:
    from support import hermes_environment, write_config

    script = "from hermes_tools import write_file\nimport os, time\nwrite_file('pid', 'x')\ntime.sleep(600)\n"
    with ScriptedProvider([tool_call("execute_code", {"code": script})]) as provider:
        write_config(home, provider.base_url)
        process = subprocess.Popen(
            [sys.executable, "-m", "hermes", "chat", "-t", "file,code_execution", "-q", "go"],
            cwd=workdir,
            env=hermes_environment(home),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: (workdir / "pid").exists())
        marker = "script_child.py"
        assert _running(marker, workdir)
        process.kill()
        process.wait()
        wait_until(lambda: not _running(marker, workdir))


def _running(marker: str, cwd: Path) -> bool:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker in (entry / "cmdline").read_text() and (entry / "cwd").readlink() == cwd:
                    return True
            except OSError:
                continue
    return False
