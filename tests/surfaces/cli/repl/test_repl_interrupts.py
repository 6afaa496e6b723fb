"""Ctrl-C, signals, and what is said while the agent works."""

from __future__ import annotations

import signal
import sqlite3
import time
from pathlib import Path

import pytest

from hermes.testing import ScriptedProvider, hanging, text, tool_call
from support import is_running, write_config
from support.configured import write_plugin
from support.repl_terminal import CTRL_C, CTRL_D, ReplTerminal
from support.waiting import wait_until_gone

SLEEP = tool_call("terminal", {"command": "sh -c 'echo $$ > pid; exec sleep 100' & wait"})
STUBBORN = tool_call("terminal", {"command": "trap '' INT TERM; echo $$ > pid; sleep 100"})

#: In which a command has another number than outside of it.
NO_SANDBOX = 'terminal: {sandbox: "off"}\n'


def test_ctrl_c_stops_the_turn_with_its_processes_and_the_prompt_is_back(home: Path, workdir: Path) -> None:
    with ScriptedProvider([SLEEP, text("Still here.")]) as provider:
        write_config(home, provider.base_url, NO_SANDBOX)
        with ReplTerminal(home, workdir) as terminal:
            terminal.send("go")
            command = _pid(workdir, terminal)
            terminal.type(CTRL_C)
            terminal.wait_for("[interrupted]")
            wait_until_gone(command)
            # A second Ctrl-C within two seconds of the first would leave. The first was read before it was answered.
            time.sleep(2.05)
            terminal.type("half a line" + CTRL_C)
            terminal.wait_until_gone("half a line")
            terminal.send("and now?")
            terminal.wait_for("Still here.")
            terminal.wait_until_idle()
            terminal.type(CTRL_C)
            terminal.wait_for("Ctrl-C again to quit")
            terminal.type(CTRL_C)
            assert terminal.end() == 130


def test_an_interrupt_signal_is_ctrl_c(home: Path, workdir: Path) -> None:
    write_config(home, "http://127.0.0.1:1/v1")
    with ReplTerminal(home, workdir) as terminal:
        terminal.type("half a line")
        terminal.wait_for("half a line")
        terminal.process.send_signal(signal.SIGINT)
        terminal.wait_until_gone("half a line")
        terminal.process.send_signal(signal.SIGINT)
        terminal.wait_for("Ctrl-C again to quit")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130


def test_partial_text_is_kept_and_marked(home: Path, workdir: Path) -> None:
    with ScriptedProvider(
        [text("The answer is forty-", chunks=["The ", "answer ", "is ", "forty-", "two"], hang_after=700)]
    ) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, workdir) as terminal:
            terminal.send("go")
            terminal.wait_for("The answer")
            terminal.type(CTRL_C)
            terminal.wait_for("[interrupted]")
            shown = terminal.text
            terminal.send("/history")
            terminal.wait_for("Assistant:")
            terminal.send("/quit")
            assert terminal.end() == 0
    assert "The answer" in shown.partition("[interrupted]")[0]


def test_a_second_ctrl_c_leaves_and_takes_a_stubborn_command_along(home: Path, workdir: Path) -> None:
    with ScriptedProvider([STUBBORN]) as provider:
        write_config(home, provider.base_url, NO_SANDBOX)
        with ReplTerminal(home, workdir) as terminal:
            terminal.send("go")
            command = _pid(workdir, terminal)
            terminal.type(CTRL_C)
            terminal.wait_for("stopping")
            terminal.type(CTRL_C)
            assert terminal.end() == 130
    assert not is_running(command)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_everything_in_order(home: Path, workdir: Path, number: signal.Signals) -> None:
    write_plugin(
        home,
        "witness",
        "def register(ctx):\n"
        "    ctx.register_hook('on_session_finalize', lambda **kw: open('ended', 'a').write(kw['reason'] + '\\n'))\n",
    )
    with ScriptedProvider([SLEEP]) as provider:
        write_config(home, provider.base_url, NO_SANDBOX + "plugins:\n  enabled: [witness]\n")
        with ReplTerminal(home, workdir) as terminal:
            terminal.send("go")
            command = _pid(workdir, terminal)
            terminal.process.send_signal(number)
            assert terminal.end() == 143
    assert not is_running(command)
    assert (workdir / "ended").read_text() == "shutdown\n"
    with sqlite3.connect(home / "state.db") as connection:
        assert connection.execute("SELECT state FROM turns").fetchall() == [("interrupted",)]
    connection.close()


def test_a_terminal_that_goes_away_ends_everything_too(home: Path, workdir: Path) -> None:
    with ScriptedProvider([SLEEP]) as provider:
        write_config(home, provider.base_url, NO_SANDBOX)
        with ReplTerminal(home, workdir) as terminal:
            terminal.send("go")
            command = _pid(workdir, terminal)
            terminal.hang_up()
            # Whichever is noticed first: the signal, or that nobody reads any more.
            assert terminal.process.wait(60) in (143, 141)
    assert not is_running(command)
    log = (home / "logs" / "agent.log").read_text()
    assert "Traceback" not in log, log


def test_what_is_typed_while_the_agent_works_waits_survives_a_stop_and_is_answered_next(
    home: Path, workdir: Path
) -> None:
    script = {"first": [hanging()], "second": [text("To the second.")], "third": [text("To the third.")]}
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, workdir) as terminal:
            terminal.send("first")
            provider.wait_for_request()
            terminal.send("second")
            terminal.wait_for("queued: second")
            terminal.send("/queue third")
            terminal.wait_for("queued 2")
            terminal.send("/new")
            terminal.wait_for("/new has to wait")
            terminal.send("/stop")
            terminal.wait_for("To the third.")
            shown = terminal.text
            terminal.send("/quit")
            assert terminal.end() == 0
    assert shown.index("[interrupted]") < shown.index("To the second.") < shown.index("To the third.")
    assert "> second\nTo the second.\n" in shown and "> third\nTo the third." in shown
    assert "queued" not in shown.splitlines()[-1]


def test_steering_reaches_the_model_before_its_next_step(home: Path, workdir: Path) -> None:
    waiting = tool_call("terminal", {"command": "touch started; until [ -e go ]; do sleep 0.02; done"})
    with ScriptedProvider([waiting, text("In French: bonjour.")]) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, workdir) as terminal:
            terminal.send("greet me")
            terminal.wait_until(lambda: (workdir / "started").exists())
            terminal.send("/steer in French")
            terminal.wait_for("The agent gets it before its next step.")
            (workdir / "go").touch()
            terminal.wait_for("In French: bonjour.")
            terminal.type(CTRL_D)
            assert terminal.end() == 0
    assert provider.requests[1].last_user_text == "in French"


def test_leaving_while_the_agent_works_tells_what_was_not_sent(home: Path, workdir: Path) -> None:
    with ScriptedProvider([hanging()]) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, workdir) as terminal:
            terminal.send("first")
            provider.wait_for_request()
            terminal.send("second")
            terminal.wait_for("queued: second")
            terminal.type(CTRL_D)
            assert terminal.end() == 0
    assert "1 message not sent:\n  second\nContinue with: hermes chat --resume 20" in terminal.text


def _pid(workdir: Path, terminal: ReplTerminal) -> int:
    path = workdir / "pid"
    terminal.wait_until(lambda: path.exists() and path.read_text().endswith("\n"), "the command")
    return int(path.read_text())
