"""The front door: which command runs, what is imported, and how each kind of failure ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from hermes.base.log import close_logging, log_path
from hermes.base.version import __version__
from hermes.surfaces.cli.commands import COMMANDS, GROUPS
from hermes.surfaces.cli.main import main

#: A command as others write them: it tells what it was given, or fails in the way it is asked to.
COMMAND = """
import sys
from hermes.surfaces.cli.arguments import Argument, CommandSpec, flag
from hermes.base.errors import HermesError, Interrupted

FAILURES = {
    "hermes": HermesError("no model is set up; run: hermes config set model.default NAME"),
    "lines": HermesError("two problems:\\n  one\\n  two"),
    "escape": HermesError("\\x1b[31mred\\x07"),
    "secret": HermesError("bad key sk-abcdefghijklmnopqrst"),
    "interrupt": KeyboardInterrupt(),
    "interrupted": Interrupted("stop"),
    "bug": ZeroDivisionError("first line\\nsecond line password=hunter2"),
    "pipe": BrokenPipeError("a socket of our own"),
    "exit": SystemExit(7),
    "say": SystemExit("bye"),
}

def run(args):
    if args.fail:
        raise FAILURES[args.fail]
    while args.flood:
        print("x" * 1000)
    print(f"query={args.query}")
    return 3

COMMAND = CommandSpec(
    run=run,
    arguments=(
        Argument("-q, --query", "the message"),
        Argument("--fail", "how it fails", choices=sorted(FAILURES)),
        flag("--verbose", "as others have it"),
        flag("--flood", "print without end"),
    ),
)
"""


@pytest.fixture(autouse=True)
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    (tmp_path / "probe_command.py").write_text(COMMAND)
    monkeypatch.syspath_prepend(str(tmp_path))  # pyright: ignore[reportUnknownMemberType]
    monkeypatch.setitem(COMMANDS, "chat", ("probe_command", "Probe."))
    yield
    sys.modules.pop("probe_command", None)
    close_logging()


def hermes(*arguments: str, code: str = "", **options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *(["-c", code] if code else ["-m", "hermes"]), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **options},
    )


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([flag]) == 0
    assert capsys.readouterr().out == f"hermes {__version__}\n"


def test_the_version_is_answered_before_anything_is_imported() -> None:
    code = (
        "import sys; before = set(sys.modules); from hermes.surfaces.cli.main import main; main(['-V']);"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = hermes(code=code)
    assert done.stdout.split()[2:] == [
        "__future__",
        "hermes",
        "hermes.base",
        "hermes.base.version",
        "hermes.surfaces",
        "hermes.surfaces.cli",
        "hermes.surfaces.cli.main",
    ]


def test_help_lists_the_commands_without_importing_them() -> None:
    code = (
        "import sys; from hermes.surfaces.cli.main import main; main(['--help']);"
        "print([name for name in sys.modules if name.startswith('hermes.surfaces.cli.')], 'argparse' in sys.modules)"
    )
    lines = hermes(code=code).stdout.splitlines()
    assert lines[-1] == "['hermes.surfaces.cli.main', 'hermes.surfaces.cli.commands'] False"
    assert [line.removesuffix(":") for line in lines if line.endswith(":")] == list(GROUPS)
    for name, (_, summary) in COMMANDS.items():
        if name != "chat":
            assert any(line.split(maxsplit=1) == [name, summary] for line in lines)


def test_garbage_is_looked_for_only_when_the_program_is_loaded() -> None:
    code = (
        "import gc, sys; from hermes.surfaces.cli import main as entry; usual, during = gc.get_threshold(), []\n"
        "entry._run = lambda arguments: during.append(gc.get_threshold()[0]) or 0\n"
        "sys.argv = ['hermes', 'chat']; sys.modules['hermes.plugins.loading.modules'] = sys\n"
        "entry.main(); print(during[0] > 50_000, gc.get_freeze_count())\n"
        "kept = [[] for _ in range(2 * during[0])]\n"
        "print(gc.get_threshold() == (10_000, *usual[1:]), gc.isenabled(), gc.callbacks)\n"
        "print(gc.get_freeze_count() > during[0] / 2)\n"
    )
    assert hermes(code=code).stdout.splitlines() == ["True 0", "True True []", "True"]


@pytest.mark.parametrize(("has_plugin", "frozen"), [(False, True), (True, False)])
def test_what_is_left_at_the_end_is_not_searched_unless_a_plugin_was_loaded(has_plugin: bool, frozen: bool) -> None:
    code = (
        "import gc, sys; from hermes.surfaces.cli.main import main; sys.argv = ['hermes', 'help']\n"
        f"sys.modules.update({{'hermes.plugins.loading.modules': sys}} if {has_plugin} else {{}})\n"
        "main(); print(gc.get_freeze_count() > 1_000)"
    )
    assert hermes(code=code).stdout.splitlines()[-1] == str(frozen)


def test_every_command_in_the_table_exists(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        assert main([name, "--help"]) == 0
        assert capsys.readouterr().out.startswith(f"usage: hermes {name} ")


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        ([], "query=None\n"),
        (["-q", "hi"], "query=hi\n"),
        (["--query=hi"], "query=hi\n"),
        (["chat", "-q", "-"], "query=-\n"),
    ],
)
def test_without_a_command_it_is_chat(arguments: list[str], output: str, capsys: pytest.CaptureFixture[str]) -> None:
    # With the arguments of the process it would be a process of its own, which ends itself when plugins keep it.
    assert main(arguments) == 3
    assert capsys.readouterr().out == output


def test_help_for_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "chat"]) == 0
    assert capsys.readouterr().out.startswith("usage: hermes chat ")
    assert main(["help", "config", "set"]) == 0
    assert capsys.readouterr().out.startswith("usage: hermes config set ")
    assert main(["help"]) == 0
    assert "commands:" in capsys.readouterr().out
    assert main(["help", "chta"]) == 2


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sesions", "did you mean 'sessions'?"),
        ("confg", "did you mean 'config'?"),
        ("zzz", "; 'hermes help' lists the commands. As a message: hermes -- zzz\n"),
        ("verison", "did you mean 'version'?"),
        ("hello", "did you mean 'help'? As a message: hermes -- hello\n"),
        ("modle", "did you mean 'model'?"),
        ("tools", "/tools is a command of the prompt, which 'hermes' alone opens."),
        ("\x1b[31mlog", "did you mean 'logs'?"),
    ],
)
def test_an_unknown_command_gets_the_nearest_name(name: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 2
    error = capsys.readouterr().err
    assert error.startswith("Error: unknown command '")
    assert hint in error
    assert error.count("\n") == 1
    assert "\x1b" not in error


def test_wrong_options_end_with_2_and_are_never_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "--quer", "hi"]) == 2
    assert "unknown option '--quer'; did you mean '--query'?" in capsys.readouterr().err
    assert main(["config", "show", "--js"]) == 2


@pytest.mark.parametrize(
    ("failure", "code", "error"),
    [
        ("hermes", 1, "Error: no model is set up; run: hermes config set model.default NAME\n"),
        ("lines", 1, "Error: two problems:\n  one\n  two\n"),
        ("escape", 1, "Error: red\n"),
        ("secret", 1, "Error: bad key <redacted>\n"),
        ("interrupt", 130, ""),
        ("interrupted", 130, ""),
        ("exit", 7, ""),
        ("say", 1, "bye\n"),
    ],
)
def test_expected_failures(failure: str, code: int, error: str, capsys: pytest.CaptureFixture[str], home: Path) -> None:
    assert main(["--fail", failure]) == code
    assert capsys.readouterr().err == error
    assert not home.exists()


def test_a_bug_is_one_line_and_its_traceback_is_in_the_log(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    assert main(["--fail", "bug"]) == 1
    error = capsys.readouterr().err
    path = log_path(home)
    assert error == f"Error: ZeroDivisionError: first line second line password=<redacted> (details: {path})\n"
    (line,) = path.read_text().splitlines()
    assert "Traceback (most recent call last)" in line
    assert "probe_command.py" in line
    assert "hunter2" not in line


@pytest.mark.parametrize("way", ["option", "environment"])
def test_a_traceback_is_shown_when_asked_for(
    way: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "environment":
        monkeypatch.setenv("HERMES_DEBUG", "1")
    main(["--fail", "bug", *(["--verbose"] if way == "option" else [])])
    error = capsys.readouterr().err
    assert "Traceback (most recent call last)" in error
    assert "hunter2" not in error


def test_a_bug_is_told_even_where_no_log_can_be_kept(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    home.write_text("in the way")
    assert main(["--fail", "bug"]) == 1
    assert "Error: ZeroDivisionError: first line" in capsys.readouterr().err


def test_a_broken_connection_is_not_taken_for_closed_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--fail", "pipe"]) == 1
    assert "Error: BrokenPipeError: a socket of our own" in capsys.readouterr().err


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_nobody_reads_ends_quietly(unbuffered: str, tmp_path: Path) -> None:
    code = (
        "import sys; from hermes.surfaces.cli import commands, main; commands.COMMANDS['chat'] = ('probe_command', '');"
        "sys.exit(main.main())"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "--flood"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={
            **os.environ,
            "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}",
            "PYTHONUNBUFFERED": unbuffered,
        },
    )
    assert process.stdout is not None
    assert process.stdout.read(10) == b"x" * 10
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_to_a_full_disk_is_an_error() -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, "-m", "hermes", "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr.startswith("Error: OSError: [Errno 28] No space left on device (details: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_do_no_harm(closed: str) -> None:
    for command, code in (("--help", 0), ("nonsense", 2), ("config show nonsense", 1)):
        done = subprocess.run(
            ["/bin/sh", "-c", f'"$0" -m hermes {command} {closed}', sys.executable], capture_output=True, check=False
        )
        assert done.returncode == code
        assert b"Traceback" not in done.stderr


def test_characters_that_the_terminal_cannot_show_are_replaced(home: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text("model: naïve-☤\n", encoding="utf-8")
    done = hermes("config", "show", "model.default", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.splitlines()[1] == 'model.default: "na?ve-?"'


def test_ctrl_c_ends_with_130(tmp_path: Path, home: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "hermes", "logs", "-f", "-n", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    log_path(home).parent.mkdir(parents=True, exist_ok=True)
    log_path(home).write_text("2026-01-01T00:00:00.000+00:00 INFO [-] hermes: ready\n")
    assert process.stdout is not None
    assert process.stdout.readline().endswith(b"ready\n")
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, b"")


def test_the_package_has_lazy_names_and_costs_nothing() -> None:
    code = (
        "import sys; before = set(sys.modules); import hermes; after = set(sys.modules) - before;"
        "print(hermes.__version__, sorted(after), '__version__' in dir(hermes))"
    )
    assert hermes(code=code).stdout == f"{__version__} ['__future__', 'hermes'] True\n"
    import hermes as package

    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = package.nonsense  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
