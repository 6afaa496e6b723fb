"""``hermes sessions`` on a real journal: what is printed, what is written, what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.journal.leases import SessionInfo
from hermes.journal.runner import FileRunner
from hermes.journal.sessions import Sessions
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.journal.turns.lifecycle import begin_turn
from hermes.journal.turns.steps import ModelCallRow, TurnJournal
from hermes.surfaces.cli.main import main
from support import hermes_command, hermes_environment, run_hermes
from support.growth import assert_grows_with_the_length
from support.repl_terminal import run_on_terminal

PARIS = "20250301_141200_aaa111"
LIMA = "20250302_091500_bbb222"
SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"


class World:
    """A home with a journal that a process filled and left."""

    def __init__(self, home: Path) -> None:
        self.store = SqliteStore(home / "state.db")
        self.runner = FileRunner(home / "runners")
        self.sessions = Sessions(self.store)

    def start(self, session_id: str, question: Any, **info: Any) -> TurnJournal:
        turn_id = f"{session_id}:{os.urandom(3).hex()}"
        return begin_turn(
            self.store,
            self.runner,
            SessionInfo(session_id, "/home/you/desk", provider="custom", model="scripted", **info),
            turn_id=turn_id,
            task_id="task",
            request_key=turn_id,
            message={"role": "user", "content": question},
        )

    def talk(self, session_id: str, question: Any, answer: str, **info: Any) -> None:
        turn = self.start(session_id, question, **info)
        usage: dict[str, Any] = {"input_tokens": 1200, "output_tokens": 34, "cost_usd": 0.0015}
        turn.model_call(ModelCallRow(f"{turn.id}:api:1", "model:1", "custom", "scripted", "ok", 1.0, 0.75, **usage))
        turn.message(1, 0, {"role": "assistant", "content": answer})
        turn.end("completed", answer=answer)
        turn.commit()

    def age(self, session_id: str, seconds: float) -> None:
        values = (time.time() - seconds, session_id)
        self.store.write(lambda c: c.execute("UPDATE sessions SET updated_at = ? WHERE id = ?", values))

    def ids(self) -> set[str]:
        return {row.id for row in self.sessions.list(children=True)}


@pytest.fixture
def world(home: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[World]:
    monkeypatch.delenv("COLUMNS", raising=False)
    world = World(home)
    yield world
    world.store.close()
    world.runner.close()


@pytest.fixture
def two_talks(world: World) -> World:
    world.talk(PARIS, "What is the capital of France?", "It is Paris.")
    world.talk(LIMA, "And of Peru?", "That is Lima.")
    world.age(PARIS, 3 * 3600 + 5)
    world.runner.close()
    return world


def sessions(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """Run the command in this process and give back what it printed."""
    assert main(["sessions", *arguments]) == code
    output, errors = capsys.readouterr()
    return output if code == 0 else errors


def documents(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return msgspec.json.decode(sessions(capsys, *arguments))


# -- list -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [(), ("list",), ("list", "--all")])
def test_an_empty_journal_says_how_to_start(
    capsys: pytest.CaptureFixture[str], home: Path, arguments: tuple[str, ...]
) -> None:
    assert sessions(capsys, *arguments) == "No sessions yet. Start one with: hermes chat --query TEXT\n"
    assert documents(capsys, "list", "--json") == []
    assert not home.exists(), "looking makes nothing"


@pytest.mark.parametrize("arguments", [(), ("list",)])
def test_the_list_is_a_table_that_fits(
    capsys: pytest.CaptureFixture[str], two_talks: World, arguments: tuple[str, ...]
) -> None:
    two_talks.talk(LIMA, "x " * 300, "y")
    two_talks.sessions.rename(LIMA, "日本語の長い題名 " * 20)
    lines = sessions(capsys, *arguments).splitlines()
    assert lines[0] == "ID                      USED        TURNS  TITLE"
    assert lines[1].startswith(f"{LIMA}  just now        2  日本語") and lines[1].endswith("…")
    assert lines[2] == f"{PARIS}  3 h ago         1  What is the capital of France?"
    assert all(sum(2 if ord(c) > 0x2FFF else 1 for c in line) <= 80 for line in lines)


def test_longer_ids_make_the_column_wider(capsys: pytest.CaptureFixture[str], two_talks: World) -> None:
    two_talks.talk("telegram-4711-a-much-longer-id", "q", "a")
    heading, *lines = sessions(capsys, "list").splitlines()
    titles = {line.split()[0]: line[heading.index("TITLE") :] for line in lines}
    assert titles["telegram-4711-a-much-longer-id"] == "q"
    assert titles[PARIS].startswith("What is the capital")


def test_the_list_tells_how_sessions_stand(capsys: pytest.CaptureFixture[str], world: World) -> None:
    for state in ("failed", "interrupted"):
        turn = world.start(f"{state}-session", "q")
        turn.end(state, error="because")
        turn.commit()
    world.start("open-session", "q")
    text = sessions(capsys, "list")
    assert "[failed] q" in text and "[interrupted] q" in text and "[running] q" in text
    world.runner.close()
    assert "[cut off] q" in sessions(capsys, "list")


def test_limits_and_children(capsys: pytest.CaptureFixture[str], world: World) -> None:
    for number in range(25):
        world.talk(f"session-{number:02}", "q", "a")
    world.talk("child", "sub task", "a", parent_id="session-03", parent_call="c1")
    assert main(["sessions", "list"]) == 0
    output, errors = capsys.readouterr()
    assert len(output.splitlines()) == 21 and errors == "(20 shown; use --limit N or --all for more)\n"
    assert len(sessions(capsys, "list", "--limit", "3").splitlines()) == 4
    everything = sessions(capsys, "list", "--all")
    assert len(everything.splitlines()) == 27 and "> sub task" in everything
    assert [row["id"] for row in documents(capsys, "list", "--limit", "1", "--json")] == ["session-24"]


@pytest.mark.parametrize("limit", ["0", "-1", "many", "1.5"])
def test_a_limit_that_is_none(capsys: pytest.CaptureFixture[str], limit: str) -> None:
    assert f"found '{limit}'; allowed: a whole number, 1 or more" in sessions(
        capsys, "list", f"--limit={limit}", code=2
    )


def test_times_are_relative_while_they_are_recent(capsys: pytest.CaptureFixture[str], world: World) -> None:
    ages = {"just now": 5, "59 min ago": 3599, "23 h ago": 86_399, "6 d ago": 7 * 86_400 - 60, "2001-09-0": 0}
    for text, age in ages.items():
        world.talk(text, "q", "a")
        world.age(text, age or time.time() - 1_000_000_000)
    lines = sessions(capsys, "list").splitlines()[1:]
    assert len(lines) == 5
    for line in lines:
        name = line[:22].strip()
        assert line[24:].startswith(name), line


# -- show -------------------------------------------------------------------------------------------------------------


def working_turn(world: World) -> None:
    turn = world.start(PARIS, [{"type": "text", "text": "Look around."}, {"type": "image_url"}])
    call = ModelCallRow("r1", "model:1", "custom", "scripted", "error", 1.0, 0.2, error="HTTP 500")
    turn.model_call(call)
    turn.model_call(
        ModelCallRow("r2", "model:1", "custom", "scripted", "ok", 2.0, 0.5, input_tokens=10, output_tokens=5)
    )
    tool_calls = [
        {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for i, (name, arguments) in enumerate(
            (("terminal", '{"command":"ls -la"}'), ("read_file", '{"path":"a"}'), ("write_file", '{"path":"b"}'))
        )
    ]
    turn.message(1, 0, {"role": "assistant", "content": "I will look.", "tool_calls": tool_calls})
    for index, (status, duration, error) in enumerate((("ok", 1530, None), ("error", 3, "no such file"))):
        body = {"status": status, "duration_ms": duration, "error_message": error, "result": "{}"}
        turn.step(f"tool:1.{index}", "done", "unsafe", body)
        turn.message(1, index + 1, {"role": "tool", "tool_call_id": f"c{index}", "content": "TOOL OUTPUT"})
    turn.step("tool:1.2", "claimed", "unsafe", {"args": {}})
    turn.end("interrupted", error="stopped by the user")
    turn.commit()


def test_a_conversation_is_shown_with_its_tools_and_usage(capsys: pytest.CaptureFixture[str], world: World) -> None:
    working_turn(world)
    world.talk(PARIS, "And the capital?", "Paris.")
    text = sessions(capsys, "show", PARIS[:12])
    blocks = text.split("\n\n")
    heading = blocks[0].splitlines()
    assert heading[0] == f"Session  {PARIS}"
    assert heading[1] == "Title    Look around."
    assert heading[2].endswith(", last used just now")
    assert heading[3:7] == [
        "Folder   /home/you/desk",
        "Model    custom/scripted",
        "Turns    2, completed",
        "Usage    1,210 tokens in, 39 out, $0.0015",
    ]
    question, reply, second, answer = (block.splitlines() for block in blocks[1:])
    assert question[0].startswith("--- You, ") and question[1] == "Look around."
    assert reply[0] == "--- Assistant ".ljust(72, "-")
    assert reply[1:] == [
        "  ! scripted, error: HTTP 500, 200 ms",
        "I will look.",
        '  > terminal {"command":"ls -la"}  ok, 1.5 s',
        '  > read_file {"path":"a"}  error, 3 ms: no such file',
        '  > write_file {"path":"b"}  no result',
        "  (scripted, 10 tokens in, 5 out, 500 ms)",
        "  ! interrupted: stopped by the user",
    ]
    assert second[1] == "And the capital?"
    assert answer[1:] == ["Paris.", "  (scripted, 1,200 tokens in, 34 out, $0.0015, 750 ms)"]
    assert "TOOL OUTPUT" not in text


def test_long_arguments_are_cut_so_that_the_end_of_a_call_is_seen(
    capsys: pytest.CaptureFixture[str], world: World
) -> None:
    turn = world.start(PARIS, "go")
    call = {"id": "c", "function": {"name": "terminal", "arguments": '{"command": "' + "x" * 500 + '"}'}}
    turn.message(1, 0, {"role": "assistant", "content": None, "tool_calls": [call]})
    turn.step("tool:1.0", "done", "unsafe", {"status": "ok", "duration_ms": 61_000, "error_message": None})
    turn.commit()
    (line,) = (line for line in sessions(capsys, "show", PARIS).splitlines() if "terminal" in line)
    assert len(line) == 80 and line.endswith("xxx…  ok, 1 min 1 s")


def test_events_are_shown_a_line_each(capsys: pytest.CaptureFixture[str], world: World) -> None:
    working_turn(world)
    lines = sessions(capsys, "show", PARIS, "--events").splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2", "3", "4", "5"]
    assert lines[0].split()[2] == "turn_started" and lines[1].split()[2:4] == ["step_done", "tool:1.0"]
    assert all(len(line) <= 80 for line in lines)


def test_a_session_as_one_document(capsys: pytest.CaptureFixture[str], world: World) -> None:
    working_turn(world)
    document = documents(capsys, "show", PARIS, "--json")
    assert list(document) == ["session", "turns", "model_calls", "messages"]
    assert document["session"]["id"] == PARIS and document["turns"][0]["state"] == "interrupted"
    assert [message["message"]["role"] for message in document["messages"]] == ["user", "assistant", "tool", "tool"]
    assert len(documents(capsys, "show", PARIS, "--json", "--events")["events"]) == 5


def test_the_time_to_show_a_session_grows_with_its_length(capsys: pytest.CaptureFixture[str], world: World) -> None:
    def showing(steps: int) -> Callable[[], object]:
        session_id = f"20250301_141200_{steps:06}"
        turn = world.start(session_id, "go")
        for step in range(1, steps + 1):
            turn.model_call(ModelCallRow(f"r{steps}.{step}", f"model:{step}", "p", "m", "ok", float(step), 0.1))
            turn.message(step, 0, {"role": "assistant", "content": f"step {step}"})
            turn.step(f"tool:{step}.0", "done", "pure", {"status": "ok", "duration_ms": 1, "error_message": None})
        turn.commit()
        assert f"step {steps}" in sessions(capsys, "show", session_id)
        return lambda: sessions(capsys, "show", session_id)

    assert_grows_with_the_length(showing, 150)


@pytest.mark.parametrize("action", ["show", "export", "delete", "rename"])
def test_an_unknown_id_is_one_clear_line(capsys: pytest.CaptureFixture[str], two_talks: World, action: str) -> None:
    extra = {"delete": ["--yes"], "rename": ["title"]}.get(action, [])
    errors = sessions(capsys, action, "nope", *extra, code=1)
    assert errors == "Error: no session 'nope'; 'hermes sessions list' shows those there are\n"
    errors = sessions(capsys, action, "2025030", *extra, code=1)
    assert errors == f"Error: several sessions start with '2025030' ({PARIS}, {LIMA}); give more of the id\n"
    assert two_talks.ids() == {PARIS, LIMA}


# -- what others wrote ------------------------------------------------------------------------------------------------

EVIL = "\x1b]0;owned\x07\x1b[31mred\x1b[0m\rover\u202ewritten\x9b2J"


def test_nothing_that_was_recorded_drives_the_terminal(
    capsys: pytest.CaptureFixture[str], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    turn = world.start(PARIS, EVIL)
    call = {"id": "c", "function": {"name": EVIL, "arguments": EVIL}}
    turn.message(1, 0, {"role": "assistant", "content": EVIL, "tool_calls": [call]})
    turn.step("tool:1.0", "done", "pure", {"status": "error", "duration_ms": 1, "error_message": EVIL})
    turn.model_call(ModelCallRow("r", "model:1", EVIL, EVIL, "error", 1.0, 1.0, error=EVIL))
    turn.end("failed", error=EVIL)
    turn.commit()
    for arguments in (("list",), ("show", PARIS), ("show", PARIS, "--events"), ("search", "written")):
        text = sessions(capsys, *arguments)
        assert "red" in text
        assert not set(text) & set("\x1b\x07\r\x9b\u202e"), arguments
    assert sessions(capsys, "search", "nothing\x1b[31m") == "No message matches nothing.\n"


def test_json_drives_no_terminal_and_is_exact_for_a_program(
    capsys: pytest.CaptureFixture[str], home: Path, workdir: Path, world: World
) -> None:
    world.talk(PARIS, "q", EVIL)
    records = [msgspec.json.decode(line) for line in sessions(capsys, "export", PARIS).splitlines()]
    assert records[-1]["message"]["content"] == EVIL
    for arguments in (("export", PARIS), ("show", PARIS, "--json")):
        output, code = on_a_terminal(home, workdir, "sessions", *arguments)
        assert code == 0 and "written" in output
        assert not set(output) & set("\x1b\x07\x9b\u202e")


def test_secrets_are_masked_wherever_they_are_printed(capsys: pytest.CaptureFixture[str], world: World) -> None:
    turn = world.start(PARIS, f"my key is {SECRET}")
    turn.message(1, 0, {"role": "assistant", "content": f"You said {SECRET}."})
    turn.step(
        "tool:1.0", "done", "pure", {"args": {"api_key": "hunter2-hunter2", "count": 1}, "result": f"KEY={SECRET}"}
    )
    turn.end("completed", answer=f"You said {SECRET}.")
    turn.commit()
    for arguments in (
        *(("list",), ("list", "--json"), ("show", PARIS), ("show", PARIS, "--events"), ("search", "key")),
        *(("show", PARIS, "--json", "--events"), ("search", "key", "--json")),
        *(("export", PARIS), ("export", PARIS, "-f", "json"), ("export", PARIS, "--format", "markdown")),
    ):
        text = sessions(capsys, *arguments)
        assert SECRET not in text and "hunter2" not in text, arguments


def test_text_that_the_terminal_cannot_show_is_replaced(home: Path, workdir: Path, two_talks: World) -> None:
    two_talks.talk(PARIS, "naïve 日本", "ок")
    ascii_only = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = run_hermes("sessions", "show", PARIS, home=home, cwd=workdir, env=ascii_only)
    assert (done.returncode, done.stderr) == (0, "")
    assert "na?ve ??" in done.stdout


# -- search -----------------------------------------------------------------------------------------------------------


def test_words_and_phrases_are_found(capsys: pytest.CaptureFixture[str], two_talks: World) -> None:
    assert sessions(capsys, "search", "capital", "france").splitlines() == [
        f"{PARIS}  3 h ago     What is the capital of France?",
        "  You: What is the [capital] of [France]?",
    ]
    assert sessions(capsys, "search", "of capital") == 'No message matches "of capital".\n'
    assert PARIS in sessions(capsys, "search", "capital of")
    assert PARIS in sessions(capsys, "search", '"capital of" what')
    hits = documents(capsys, "search", "lima", "--json")
    assert [(hit["session_id"], hit["role"]) for hit in hits] == [(LIMA, "assistant")]
    assert len(documents(capsys, "search", "is", "--limit", "1", "--json")) == 1


def test_a_search_for_nothing(capsys: pytest.CaptureFixture[str], two_talks: World) -> None:
    assert sessions(capsys, "search", "...", code=1) == "Error: nothing to search for: give at least one word\n"


# -- export -----------------------------------------------------------------------------------------------------------


def test_an_export_has_a_record_per_line(capsys: pytest.CaptureFixture[str], world: World) -> None:
    working_turn(world)
    records = [msgspec.json.decode(line) for line in sessions(capsys, "export", PARIS).splitlines()]
    assert [record["record"] for record in records] == [
        *("session", "turn", "model_call", "model_call"),
        *["event"] * 5,
        *["message"] * 4,
    ]
    document = documents(capsys, "export", PARIS, "--format", "json")
    assert len(document["events"]) == 5 and document["session"]["id"] == PARIS


def test_a_conversation_as_markdown(capsys: pytest.CaptureFixture[str], world: World) -> None:
    working_turn(world)
    lines = sessions(capsys, "export", PARIS, "--format", "markdown").splitlines()
    assert lines[0] == "# Look around."
    assert lines[2].startswith(f"Session `{PARIS}`, ") and lines[2].endswith(", custom/scripted")
    assert lines[4:] == [
        *("## You", "", "Look around.", "", "", "## Assistant", "", "I will look.", ""),
        '- terminal {"command":"ls -la"}  ok, 1.5 s',
        '- read_file {"path":"a"}  error, 3 ms: no such file',
        '- write_file {"path":"b"}  no result',
        *("", "> interrupted: stopped by the user"),
    ]


def test_a_file_is_replaced_in_one_step_and_private(
    capsys: pytest.CaptureFixture[str], two_talks: World, workdir: Path
) -> None:
    target = workdir / "talk.md"
    target.write_text("old")
    target.chmod(0o644)
    assert main(["sessions", "export", PARIS, "--format", "markdown", "-o", str(target)]) == 0
    assert capsys.readouterr() == ("", f"wrote {target}\n")
    assert target.read_text().endswith("It is Paris.\n")
    assert target.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in workdir.iterdir()] == ["talk.md"]


def test_an_export_that_cannot_be_written_leaves_nothing(
    capsys: pytest.CaptureFixture[str], two_talks: World, workdir: Path
) -> None:
    assert "is not a file" in sessions(capsys, "export", PARIS, "-o", str(workdir), code=1)
    assert "cannot be written" in sessions(capsys, "export", PARIS, "-o", str(workdir / "no" / "talk"), code=1)
    assert list(workdir.iterdir()) == []


# -- delete and rename ------------------------------------------------------------------------------------------------


def test_deleting_without_a_terminal_needs_yes(home: Path, workdir: Path, two_talks: World) -> None:
    done = run_hermes("sessions", "delete", PARIS, home=home, cwd=workdir, stdin="y\n")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == ("Error: not a terminal: use --yes to delete without confirmation\n")
    assert two_talks.ids() == {PARIS, LIMA}


def test_deleting_takes_children_and_words_along(
    capsys: pytest.CaptureFixture[str], two_talks: World, home: Path
) -> None:
    two_talks.talk("child", "sub task with needle", "a", parent_id=PARIS, parent_call="c1")
    two_talks.runner.close()
    assert PARIS in sessions(capsys, "search", "france")
    assert sessions(capsys, "delete", PARIS, "child", PARIS[:10], "--yes") == "Deleted 2 sessions.\n"
    assert two_talks.ids() == {LIMA}
    assert sessions(capsys, "search", "france").startswith("No message matches")
    two_talks.store.close()
    for file in ("search.db", "state.db"):
        content = (home / file).read_bytes()
        assert b"Lima" in content or b"lima" in content
        assert b"needle" not in content and b"France" not in content, "what was deleted is gone from the disk"


def test_a_session_in_use_is_not_deleted(home: Path, workdir: Path, two_talks: World) -> None:
    two_talks.runner = FileRunner(home / "runners")
    two_talks.start(LIMA, "still running")
    done = run_hermes("sessions", "delete", PARIS, LIMA, "--yes", home=home, cwd=workdir)
    assert done.returncode == 1 and done.stdout == "Deleted 1 session.\n"
    assert f"Error: session {LIMA} is in use by process {os.getpid()}" in done.stderr
    assert two_talks.ids() == {LIMA}


@pytest.mark.parametrize(
    ("answer", "left"),
    [("y\n", {LIMA}), ("YES\n", {LIMA}), ("n\n", {PARIS, LIMA}), ("\n", {PARIS, LIMA}), ("\x04", {PARIS, LIMA})],
)
def test_deleting_asks_on_a_terminal(home: Path, workdir: Path, two_talks: World, answer: str, left: set[str]) -> None:
    output, code = on_a_terminal(home, workdir, "sessions", "delete", PARIS, answer=answer, after="[y/N] ")
    assert f"{PARIS}  3 h ago         1  What is the capital of France?" in output
    assert "Delete 1 session, including child agents? [y/N] " in output
    assert two_talks.ids() == left
    assert code == (0 if left == {LIMA} else 1)
    assert ("Deleted 1 session." if left == {LIMA} else "Nothing was deleted.") in output


def on_a_terminal(home: Path, cwd: Path, *arguments: str, answer: str = "", after: str = "") -> tuple[str, int]:
    """Run ``hermes`` on a pseudo-terminal, typing ``answer`` once ``after`` has been printed."""

    def act(_process: object, terminal: int) -> None:
        os.write(terminal, answer.encode())

    return run_on_terminal(home, cwd, *arguments, env={"COLUMNS": "100"}, after=after, act=act if after else None)


def test_a_session_is_renamed(capsys: pytest.CaptureFixture[str], two_talks: World) -> None:
    assert sessions(capsys, "rename", PARIS[:12], "A", "better\x1b[31m\n", "title") == ""
    assert two_talks.sessions.get(PARIS).title == "A better title"
    errors = sessions(capsys, "rename", PARIS, " \x1b[31m", code=1)
    assert errors == "Error: the title is empty\n"


# -- the command line -------------------------------------------------------------------------------------------------


def test_a_closed_pipe_is_quiet(home: Path, workdir: Path, world: World) -> None:
    for number in range(40):
        world.talk(f"session-{number}", "q " * 200, "a" * 5000)
    world.runner.close()
    script = f"{' '.join(hermes_command('sessions', 'list', '--all', '--json'))} | head -c 1"
    done = subprocess.run(
        ["sh", "-c", script], cwd=workdir, env=hermes_environment(home), capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[", "")


def test_the_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    text = sessions(capsys, "--help")
    assert "examples:\n  hermes sessions  " in text
    for action in ("list", "show", "search", "export", "delete", "rename"):
        assert f"\n    {action} " in text
        assert f"usage: hermes sessions {action}" in sessions(capsys, action, "--help")


def test_a_journal_that_cannot_be_read_is_one_line(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    home.mkdir()
    (home / "state.db").write_bytes(b"garbage " * 1000)
    errors = sessions(capsys, "list", code=1)
    assert errors.startswith(f"Error: {home}/state.db is damaged") and errors.count("\n") == 1


def test_the_command_needs_no_model_and_no_network_code(home: Path, workdir: Path, two_talks: World) -> None:
    script = (
        "import sys; from hermes.surfaces.cli.main import main; main(['sessions', 'list'])\n"
        "print(sorted({'httpx2', 'asyncio', 'yaml', 'shutil', 'dataclasses', 'hermes.host'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=workdir,
        env=hermes_environment(home),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"
