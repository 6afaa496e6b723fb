"""The log: one redacted line per event, shared by processes, rotated, and never in the way of the work."""

from __future__ import annotations

import logging
import re
import stat
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from hermes.base.log import LogFile, close_logging, log_path, rotated, setup_logging
from hermes.base.sanitize import REDACTED, Redactor
from hermes.base.scope import Scope, current_scope

LINE = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d "
    r"(?P<level>[A-Z]+) \[(?P<session>[^]]*)\] (?P<logger>[\w.]+): (?P<message>.*)"
)


@pytest.fixture(autouse=True)
def quiet_afterwards() -> Generator[None]:
    yield
    close_logging()


def lines(home: Path) -> list[str]:
    return log_path(home).read_text(encoding="utf-8").splitlines()


def only_line(home: Path) -> re.Match[str]:
    (line,) = lines(home)
    matched = LINE.fullmatch(line)
    assert matched, line
    return matched


def test_a_line_has_time_level_session_logger_and_message(home: Path) -> None:
    setup_logging(home)
    logging.getLogger("hermes.agent.turn").info("step %d of %s", 2, "many")
    line = only_line(home)
    assert line.group("level", "session", "logger", "message") == ("INFO", "-", "hermes.agent.turn", "step 2 of many")


def test_the_session_comes_from_the_scope_or_from_the_call(home: Path) -> None:
    setup_logging(home)
    logger = logging.getLogger("hermes")
    token = current_scope.set(Scope(session_id="20260101_000000_abcdef"))
    try:
        logger.info("one")
        logger.info("two", extra={"session_id": "other"})
        logging.LoggerAdapter(logger, {"session_id": "adapted"}).info("three")
    finally:
        current_scope.reset(token)
    logger.info("four")
    sessions = [found["session"] for line in lines(home) if (found := LINE.fullmatch(line))]
    assert sessions == ["20260101_000000_abcdef", "other", "adapted", "-"]


def test_a_line_of_a_turn_has_its_id(home: Path) -> None:
    setup_logging(home)
    logger = logging.getLogger("hermes")
    token = current_scope.set(Scope(session_id="s1", turn_id="s1:task:0a1b"))
    try:
        logger.info("of the turn")
        logger.info("of another session", extra={"session_id": "s2"})
        logger.info("of another turn", extra={"session_id": "s2", "turn_id": "old"})
    finally:
        current_scope.reset(token)
    found = [matched["session"] for line in lines(home) if (matched := LINE.fullmatch(line))]
    assert found == ["s1:task:0a1b", "s2", "s2:old"]


def test_nothing_is_made_before_the_first_line_at_its_level(home: Path) -> None:
    setup_logging(home)
    logging.getLogger("hermes").debug("too small")
    logging.getLogger("somebody.else").error("not ours")
    assert not home.exists()
    logging.getLogger("hermes").info("now")
    assert len(lines(home)) == 1
    assert stat.S_IMODE(log_path(home).stat().st_mode) == 0o600
    assert stat.S_IMODE(log_path(home).parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_plugins_and_their_audit_lines_are_logged_too(home: Path) -> None:
    setup_logging(home)
    logging.getLogger("hermes_plugins.observability__x").warning("a")
    logging.getLogger("agent.plugin_llm").info("b")
    assert [line.rsplit(": ", 1)[1] for line in lines(home)] == ["a", "b"]


def test_one_event_is_one_line_whatever_it_holds(home: Path) -> None:
    setup_logging(home)
    logging.getLogger("hermes").info("a\nb\r\x1b[31mred\x85\u2028\ttab \ud800 ü")
    assert only_line(home)["message"] == "a\\nb\\r\\x1b[31mred\\x85\\u2028\ttab \\ud800 ü"


def test_a_traceback_is_folded_into_its_line(home: Path) -> None:
    setup_logging(home)
    try:
        raise ValueError("bad\nthing")
    except ValueError:
        logging.getLogger("hermes").exception("it failed", stack_info=True)
    message = only_line(home)["message"]
    assert message.startswith("it failed\\nTraceback (most recent call last):\\n")
    assert "ValueError: bad\\nthing" in message
    assert "Stack (most recent call last)" in message


def test_secrets_never_reach_the_file(home: Path) -> None:
    redactor = Redactor(("a-registered-secret",))
    setup_logging(home, redactor=redactor)
    logger = logging.getLogger("hermes")
    logger.info("key %s and a-registered-secret", "sk-abcdefghijklmnopqrst")
    redactor.add_secret("told-later-on")
    logger.info("told-later-on")
    try:
        raise ValueError("password=hunter2")
    except ValueError:
        logger.exception("x")
    text = log_path(home).read_text()
    assert f"key {REDACTED} and {REDACTED}" in text
    for secret in ("sk-abc", "a-registered", "told-later", "hunter2"):
        assert secret not in text


def test_a_very_long_message_is_cut(home: Path) -> None:
    setup_logging(home)
    logging.getLogger("hermes").info("x " * 500_000)
    message = only_line(home)["message"]
    assert len(message) < 33_000
    assert message.endswith("[968000 more characters]")


def test_a_badly_written_log_call_is_told_and_does_no_harm(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    setup_logging(home)
    logging.getLogger("hermes").info("%d items", "many")
    assert only_line(home)["message"] == "'%d items' (its arguments do not fit: TypeError)"
    assert capsys.readouterr().err == ""


def test_verbose_shows_the_same_lines_on_stderr(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    setup_logging(home, verbose=True)
    logging.getLogger("hermes").info("seen")
    captured = capsys.readouterr()
    assert captured.err.splitlines() == lines(home)
    assert captured.out == ""


@pytest.mark.parametrize(("wanted", "messages"), [("debug", ["d", "i", "w"]), ("WARNING", ["w"]), ("", ["i", "w"])])
def test_the_level_comes_from_the_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch, wanted: str, messages: list[str]
) -> None:
    monkeypatch.setenv("HERMES_LOG_LEVEL", wanted)
    setup_logging(home)
    logger = logging.getLogger("hermes.x")
    logger.debug("d")
    logger.info("i")
    logger.warning("w")
    assert [line.rsplit(": ", 1)[1] for line in lines(home)] == messages


def test_an_unknown_level_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_LOG_LEVEL", "loud")
    setup_logging(home)
    assert "HERMES_LOG_LEVEL is 'LOUD'; allowed: DEBUG, INFO" in only_line(home)["message"]


def test_setting_up_again_replaces_and_closing_restores(tmp_path: Path) -> None:
    logger = logging.getLogger("hermes")
    before = list(logger.handlers)
    setup_logging(tmp_path / "a")
    setup_logging(tmp_path / "b")
    logger.info("once")
    assert not (tmp_path / "a").exists()
    assert len(lines(tmp_path / "b")) == 1
    assert logger.propagate is False
    close_logging()
    assert (logger.handlers, logger.propagate, logger.level) == (before, True, logging.NOTSET)
    assert logging.getLogger().handlers == [
        handler for handler in logging.getLogger().handlers if "hermes" not in type(handler).__module__
    ]


@pytest.mark.parametrize("obstacle", ["file in place of the home", "file in place of the folder", "directory"])
def test_a_log_that_cannot_be_written_is_told_once(
    home: Path, capsys: pytest.CaptureFixture[str], obstacle: str
) -> None:
    if obstacle == "directory":
        log_path(home).mkdir(parents=True)
    elif obstacle == "file in place of the home":
        home.write_text("x")
    else:
        home.mkdir()
        (home / "logs").write_text("x")
    setup_logging(home)
    for _ in range(3):
        logging.getLogger("hermes").error("work goes on")
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert told[0].startswith(f"Warning: cannot write {log_path(home)} (")
    assert told[0].endswith("; going on without a log.")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_does_not_break_the_run(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log_path(home).parent.mkdir(parents=True)
    log_path(home).symlink_to("/dev/full")
    setup_logging(home)
    logging.getLogger("hermes").error("one")
    logging.getLogger("hermes").error("two")
    assert capsys.readouterr().err.count("No space left on device") == 1


def test_the_log_is_rotated_by_size(tmp_path: Path) -> None:
    path = tmp_path / "agent.log"
    log = LogFile(path, max_bytes=100, backups=2)
    for number in range(12):
        log.write(f"{number:029d}\n".encode())
    log.close()
    assert [len(file.read_bytes()) for file in (path, rotated(path, 1), rotated(path, 2))] == [90, 90, 90]
    assert path.read_text().splitlines()[-1].endswith("11")
    assert not rotated(path, 3).exists()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_line_longer_than_the_limit_is_still_written(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "agent.log", max_bytes=10, backups=1)
    log.write(b"a" * 50 + b"\n")
    log.write(b"b" * 50 + b"\n")
    log.close()
    assert (tmp_path / "agent.log").read_bytes() == b"b" * 50 + b"\n"
    assert (tmp_path / "agent.log.1").read_bytes() == b"a" * 50 + b"\n"


def test_a_file_that_was_removed_is_made_again(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "logs" / "agent.log", look_seconds=0)
    log.write(b"one\n")
    (tmp_path / "logs" / "agent.log").unlink()
    (tmp_path / "logs").rmdir()
    log.write(b"two\n")
    log.close()
    assert (tmp_path / "logs" / "agent.log").read_bytes() == b"two\n"


def test_processes_that_write_and_rotate_at_once_lose_and_tear_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from hermes.base.log import LogFile;"
        "log = LogFile(Path(sys.argv[1]), max_bytes=20_000, backups=200);"
        "[log.write(f'{sys.argv[2]}-{i:05d} {\"x\" * 80}\\n'.encode()) for i in range(1500)]"
    )
    path = tmp_path / "agent.log"
    processes = [subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in "abc"]
    assert [process.wait(timeout=60) for process in processes] == [0, 0, 0]
    written: list[str] = []
    for file in tmp_path.glob("agent.log*"):
        written += file.read_text().splitlines()
    assert sorted(written) == sorted(f"{name}-{i:05d} {'x' * 80}" for name in "abc" for i in range(1500))
    assert rotated(path, 3).exists()


def test_a_held_rotation_lock_keeps_nobody_waiting(tmp_path: Path) -> None:
    import fcntl

    path = tmp_path / "agent.log"
    log = LogFile(path, max_bytes=10, backups=1)
    log.write(b"one line\n")
    with (tmp_path / ".agent.log.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        log.write(b"two line\n")
    assert path.read_bytes() == b"one line\ntwo line\n"
    log.write(b"three\n")
    log.close()
    assert path.read_bytes() == b"three\n"


def test_a_forked_child_writes_to_the_same_log(home: Path) -> None:
    code = """
import logging, os, sys
from pathlib import Path
from hermes.base.log import setup_logging
setup_logging(Path(sys.argv[1]))
logging.getLogger("hermes").info("parent")
if not (child := os.fork()):
    logging.getLogger("hermes").info("child")
    os._exit(0)
os.waitpid(child, 0)
logging.getLogger("hermes").info("parent again")
"""
    subprocess.run([sys.executable, "-c", code, str(home)], check=True, timeout=60)
    assert [line.rsplit(": ", 1)[1] for line in lines(home)] == ["parent", "child", "parent again"]
