"""``hermes trace``: past runs listed, drawn, exported, followed, summed up and checked."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from nat.atif.trajectory import Trajectory

from hermes.models.credentials.store import AuthFile, add_key
from hermes.surfaces.cli.main import main
from hermes.surfaces.cli.runs.trace.timeline import ChartStyle, Row, draw
from hermes.surfaces.cli.terminal import cells
from hermes.testing import ScriptedProvider, text, tool_call
from hermes.trace.verify.atof import check_atof
from support import run_hermes, start_hermes, write_config
from support.trace_runs import (
    SECRET,
    Rig,
    approval,
    delegated_children,
    error_and_retry,
    one_tool,
    plugin_asks_a_model,
)

Found = subprocess.CompletedProcess[str]


class Desk:
    """A home with a few sessions and the command to look at them."""

    def __init__(self, home: Path, cwd: Path) -> None:
        self.home, self.cwd = home, cwd
        self.ids: dict[str, str] = {}

    def trace(self, *arguments: str, env: dict[str, str] | None = None) -> Found:
        """The command in this process: all but the first word of it is what a shell would start."""
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name, value in {"HERMES_HOME": str(self.home), "COLUMNS": "100", **(env or {})}.items():
                patch.setenv(name, value)
            code = main(["trace", *arguments])
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())

    def ok(self, *arguments: str, **options: Any) -> str:
        done = self.trace(*arguments, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    folder = tmp_path_factory.mktemp("trace")
    (folder / "work").mkdir()
    made = Desk(folder / "home", folder / "work")
    for scenario in (one_tool, plugin_asks_a_model, approval, error_and_retry, delegated_children):
        with ExitStack() as stack:
            made.ids[scenario.__name__] = scenario(Rig(made.home, made.cwd, stack)).stored.id
    return made


def test_sessions_are_listed_newest_first(desk: Desk) -> None:
    lines = desk.ok("list").splitlines()
    assert lines[0].split() == ["ID", "STARTED", "TURNS", "CALLS", "TOOLS", "TOKENS", "COST", "TITLE"]
    assert [line.split()[0] for line in lines[1:]] == list(reversed(desk.ids.values()))
    assert "2 (1 failed)" in lines[2]
    everything = json.loads(desk.ok("list", "--all", "--json"))
    assert len(everything) == 7 and sum(row["parent_id"] is not None for row in everything) == 2
    assert len(desk.ok("list", "--limit", "1").splitlines()) == 2


def test_a_session_is_drawn_with_everything_in_it(desk: Desk) -> None:
    lines = desk.ok("show", desk.ids["delegated_children"]).splitlines()
    assert lines[1].startswith("cli, scripted (custom), 1 turn, 6 model calls, 3 tool calls, 2 children, 600 in")
    kinds = [line.split()[0] for line in lines[5:]]
    assert kinds == ["model", "tool", *["child", "model", "tool", "model"] * 2, "model"]
    assert [len(line) - len(line.lstrip()) for line in lines[4:10]] == [0, 2, 2, 4, 6, 6]
    assert all("█" in line or "▒" in line for line in lines[4:])
    assert "\x1b" not in "".join(lines)


def test_the_last_session_is_drawn_when_none_is_named(desk: Desk) -> None:
    assert desk.ok("show") == desk.ok("show", desk.ids["delegated_children"])


@pytest.mark.parametrize("columns", [24, 40, 60, 80, 131])
def test_a_drawing_fits_the_width(desk: Desk, columns: int) -> None:
    env = {"COLUMNS": str(columns)}
    for session_id in desk.ids.values():
        drawn = desk.ok("show", session_id, env=env)
        assert max(map(cells, drawn.splitlines())) <= columns
        assert "model scr" in drawn or columns < 40
    for listed in (desk.ok("list", env=env), desk.ok("tail", env=env)):
        assert max(map(cells, listed.splitlines())) <= columns


def test_a_narrow_terminal_shows_what_matters_first(desk: Desk) -> None:
    lines = desk.ok("list", env={"COLUMNS": "40"}).splitlines()
    assert lines[0].split() == ["ID", "TITLE"]
    at = lines[0].index("TITLE")
    assert all(line[at - 1] == " " and line[at] != " " for line in lines)
    assert all("step_" in line or "turn_" in line for line in desk.ok("tail", env={"COLUMNS": "40"}).splitlines())
    assert max(map(cells, desk.ok("stats", env={"COLUMNS": "60"}).splitlines())) <= 60


def test_attempts_and_approvals_are_drawn(desk: Desk) -> None:
    drawn = desk.ok("show", desk.ids["error_and_retry"])
    assert "attempt 2: scripted (custom)" in drawn and "ProviderError" in drawn
    drawn = desk.ok("show", desk.ids["approval"])
    assert "approval recursive-delete" in drawn and "once" in drawn


def test_what_plugins_asked_is_drawn_in_its_turn_or_between_turns(desk: Desk) -> None:
    lines = desk.ok("show", desk.ids["plugin_asks_a_model"]).splitlines()
    assert ", 2 turns, 4 model calls, 0 tool calls, 400 in" in lines[1]
    asked = [number for number, line in enumerate(lines) if "side plugin:acme" in line]
    between = lines.index("between turns")
    assert len(asked) == 2 and lines.index("turn 1") < asked[0] < lines.index("turn 2") < between < asked[1]
    assert "between turns" not in desk.ok("show", desk.ids["plugin_asks_a_model"], "--turn", "1")


def test_records_are_printed_for_programs(desk: Desk) -> None:
    record = json.loads(desk.ok("show", desk.ids["one_tool"], "--json"))
    assert record["turns"][0]["steps"][0]["tools"][0]["name"] == "read_file"


def test_one_turn_can_be_asked_for(desk: Desk) -> None:
    assert "turn 1" in desk.ok("show", "--turn", "1")
    done = desk.trace("show", "--turn", "3")
    assert done.returncode == 1 and "turns 1 to 1" in done.stderr


def test_a_session_that_does_not_exist_has_neighbours(desk: Desk) -> None:
    wrong = desk.ids["one_tool"][:-1] + "x"
    for action in (("show", wrong), ("export", wrong), ("tail", wrong), ("verify", wrong)):
        done = desk.trace(*action)
        assert done.returncode == 1 and f"no session '{wrong}'; did you mean " in done.stderr
        assert desk.ids["one_tool"] in done.stderr
    assert "did you mean" not in desk.trace("show", "zzz").stderr


def test_an_empty_home_has_nothing_to_show(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "home", tmp_path)
    assert "No sessions yet" in desk.ok("list")
    assert desk.ok("tail") == ""
    assert "No data in that period" in desk.ok("stats")
    assert "no sessions yet" in desk.trace("show").stderr


# -- export -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["atif", "atof", "otlp", "openinference", "jsonl"])
def test_every_format_is_written_without_secrets(desk: Desk, form: str) -> None:
    for session_id in desk.ids.values():
        exported = desk.ok("export", session_id, "--to", form)
        assert SECRET not in exported
        for line in exported.splitlines():
            json.loads(line)


def test_exported_files_are_private_and_whole(desk: Desk, tmp_path: Path) -> None:
    atif, atof = tmp_path / "run.json", tmp_path / "run.jsonl"
    done = desk.trace("export", "--to", "atif", "-o", str(atif))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"wrote {atif}\n")
    assert atif.stat().st_mode & 0o777 == 0o600
    Trajectory.model_validate_json(atif.read_text())
    desk.ok("export", "--to", "atof", "-o", str(atof))
    assert check_atof(atof.read_bytes().splitlines()) == []
    assert desk.ok("verify", str(atif)) == f"{atif}: valid\n"
    assert desk.ok("verify", "--atif", str(atif), "--atof", str(atof)).count("valid") == 2
    done = desk.trace("export", "-o", str(tmp_path))
    assert done.returncode == 1 and "is not a file" in done.stderr


def test_a_broken_file_is_not_whole(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    made = json.loads(desk.ok("export"))
    made["steps"][2]["observation"]["results"].clear()
    file.write_text(json.dumps(made))
    done = desk.trace("verify", "--atif", str(file))
    assert done.returncode == 1 and "has 0 results instead of one" in done.stdout
    assert desk.trace("verify", "--atof", str(file)).returncode == 1
    assert "cannot be read" in desk.trace("verify", "--atif", str(tmp_path / "none")).stderr


@pytest.mark.parametrize("form", ["atif", "atof", "otlp", "openinference", "jsonl"])
def test_what_a_format_cannot_hold_is_said(desk: Desk, form: str) -> None:
    told = desk.ok("export", "--to", form, "--explain")
    assert told.startswith(f"{form} cannot represent") and "\n- " in told


# -- tail -------------------------------------------------------------------------------------------------------------


def test_the_last_events_are_printed(desk: Desk) -> None:
    lines = desk.ok("tail", desk.ids["one_tool"]).splitlines()
    assert [line.split()[2] for line in lines] == [
        *("turn_started", "step_done", "step_done", "step_done", "step_done", "step_done", "turn_ended")
    ]
    assert "read_file ok" in lines[3] and SECRET not in "".join(lines)
    assert len(desk.ok("tail", "-n", "3").splitlines()) == 3
    assert desk.ok("tail", "-n", "0") == ""
    event = json.loads(desk.ok("tail", desk.ids["one_tool"], "-n", "1", "--json"))
    assert (event["kind"], event["body"]["state"]) == ("turn_ended", "completed")


@pytest.fixture
def follower(home: Path, workdir: Path) -> Generator[subprocess.Popen[str]]:
    process = start_hermes(
        # Whether the first events land before it looks or after, it shows them.
        *("trace", "tail", "--follow", "-n", "1000"),
        home=home,
        cwd=workdir,
        env={"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
    )
    yield process
    process.kill()
    process.communicate()


def test_events_of_another_process_are_printed_as_they_land(
    home: Path, workdir: Path, follower: subprocess.Popen[str]
) -> None:
    with ScriptedProvider([tool_call("terminal", {"command": "true"}), text("done")]) as provider:
        write_config(home, provider.base_url)
        done = run_hermes("chat", "-q", "go", "-Q", home=home, cwd=workdir)
    session_id = done.stderr.split()[1]
    assert follower.stdout is not None
    lines: list[str] = []
    while not lines or "turn_ended" not in lines[-1]:
        lines.append(follower.stdout.readline())
        assert lines[-1], "it ended too soon"
    assert all(session_id in line for line in lines) and "terminal is about to run" in "".join(lines)
    os.kill(follower.pid, signal.SIGINT)
    assert follower.wait(60) == 130


# -- stats ------------------------------------------------------------------------------------------------------------


def test_figures_by_model_tool_and_plugin(desk: Desk) -> None:
    models = json.loads(desk.ok("stats", "--json"))["rows"]
    [model] = models
    assert (model["name"], model["detail"], model["calls"], model["failed"]) == ("scripted", "custom", 16, 1)
    assert 0 < model["p50"] <= model["p95"] <= model["total"]
    tools = {row["name"]: row["calls"] for row in json.loads(desk.ok("stats", "--by", "tool", "--json"))["rows"]}
    assert tools == {"delegate_task": 1, "terminal": 3, "read_file": 1}
    plugins = desk.ok("stats", "--by", "plugin").splitlines()
    assert plugins[0].split() == ["PLUGIN", "CALLS", "FAILED", "MEAN", "TOTAL", "COST"]
    assert any(line.startswith("trace (post_tool_call)") for line in plugins)
    assert "No data in that period" in desk.ok("stats", "--since", "2099-01-01")


def test_a_wrong_moment_is_refused(desk: Desk) -> None:
    done = desk.trace("stats", "--since", "soon")
    assert done.returncode == 2 and "a duration such as 12h, 7d or 4w" in done.stderr


# -- drawing ----------------------------------------------------------------------------------------------------------


def test_a_terminal_has_colours_and_one_without_unicode_plain_signs() -> None:
    rows = [Row(0, "turn", "go", 0.0, 10.0, "failed", True), Row(1, "tool", "terminal", 5.0, None, "running")]
    rows += [Row(1, "mark", "compacted", 2.5, 2.5)]
    turn, tool, mark = draw(rows, ChartStyle(100, unicode=False, colour=True))
    assert turn.startswith("\x1b[31mgo ") and "=" * 24 in turn and "10.0 s" in turn
    assert tool.startswith("\x1b[32m  tool terminal") and f"  {' ' * 12}{'#' * 12}" in tool and "-  running" in tool
    assert mark.startswith("\x1b[2m  mark compacted") and "*" in mark and " ms" not in mark


def test_the_keys_of_the_home_are_masked_whatever_they_look_like(home: Path, workdir: Path) -> None:
    keys = {"config": "plain-words-all", "env": "correct-horse-battery", "stored": "nothing-like-one"}
    with ScriptedProvider(" and ".join(keys.values())) as provider:
        write_config(home, provider.base_url, f"providers:\n  acme:\n    api_key: {keys['config']}\n")
        (home / ".env").write_text(f"ACME_API_KEY={keys['env']}\n")
        add_key(AuthFile(home), "acme", keys["stored"])
        assert run_hermes("chat", "-q", " or ".join(keys.values()), home=home, cwd=workdir).returncode == 0
    commands = [["show"], ["show", "--json"], ["list"], ["tail"], ["tail", "--json"], ["export"]]
    for command in [*commands, ["export", "--to", "atof"], ["export", "--to", "otlp"], ["export", "--to", "jsonl"]]:
        told = run_hermes("trace", *command, home=home, cwd=workdir).stdout
        assert "<redacted:" in told
        assert [name for name, key in keys.items() if key in told] == [], command
