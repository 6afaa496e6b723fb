"""The prompt on a real pseudo-terminal: what is typed, and what is seen."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from hermes.testing import ScriptedProvider, failure, hanging, text, tool_call, tool_calls
from support import run_hermes, start_hermes, write_config
from support.configured import write_plugin
from support.repl_terminal import ALT_ENTER, CTRL_C, CTRL_D, CTRL_L, ENTER, SHIFT_TAB, TAB, UP, ReplTerminal
from support.waiting import HANG, wait_until

MARKDOWN = "## Result\n\nHello **Ada**, see:\n\n- one\n- two\n\n```python\nprint('hi')\n```\n\nAll done."


def test_a_message_is_answered_above_the_prompt_with_tool_lines_and_rendered_markdown(
    home: Path, workdir: Path
) -> None:
    script = [tool_call("terminal", {"command": "echo hello"}), text(MARKDOWN, chunks=30)]
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, workdir) as terminal:
            assert terminal.rows[0].startswith("hermes ") and terminal.rows[0].endswith("· /help")
            terminal.send("Who am I?")
            terminal.wait_for("20 in, 10 out")
            terminal.wait_until_idle()
            shown = terminal.rows
            terminal.type(CTRL_D)
            assert terminal.end() == 0
    assert shown[1] == "> Who am I?"
    assert shown[2].startswith("✓ terminal echo hello  ")
    assert shown[3] == "  hello"
    assert shown[4:14] == ["Result", "", "Hello Ada, see:", "", "• one", "• two", "", "  print('hi')", "", "All done."]
    assert shown[14:17] == ["", ">", shown[16]] and shown[16].startswith("scripted · 20 in, 10 out · 10/128k 0% · ")
    assert "hermes chat --resume 20" in terminal.text
    assert provider.requests[0].last_user_text == "Who am I?"


def test_commands_are_run_completed_and_never_sent_to_the_model(home: Path, workdir: Path) -> None:
    (workdir / "a file.txt").write_text("")
    with ScriptedProvider([]) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, workdir) as terminal:
            terminal.type("/stat")
            terminal.wait_for("/status")
            terminal.type(TAB)
            terminal.wait_for("> /status")
            terminal.type(ENTER)
            terminal.wait_for("Approvals  mode ask-risky")
            terminal.send("/stauts")
            terminal.wait_for("did you mean 'status'?")
            terminal.type("look at ./a")
            terminal.wait_for("a file.txt")
            terminal.type(TAB)
            terminal.wait_for('look at "./a file.txt"')
            terminal.type("\x03")
            terminal.wait_until_gone("look at")
            terminal.send("/quit")
            assert terminal.end() == 0
    assert provider.requests == []


def test_several_lines_are_one_message_and_history_remembers_it(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("one"), text("two"), text("three"), text("four")]) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, workdir) as terminal:
            terminal.send(f"a{ALT_ENTER}b")
            terminal.wait_for("one")
            terminal.type(f"c\\{ENTER}d{ENTER}")
            terminal.wait_for("two")
            terminal.paste("e\nf\n\ng")
            terminal.wait_for("f\n\ng")
            terminal.type(ENTER)
            terminal.wait_for("three")
            terminal.send("/quit")
            terminal.end()
        with ReplTerminal(home, workdir) as terminal:
            terminal.type(UP + UP)
            terminal.wait_for("> e")
            terminal.type(ENTER)
            terminal.wait_for("four")
            terminal.send("/exit")
            assert terminal.end() == 0
    said = [request.last_user_text for request in provider.requests]
    assert said == ["a\nb", "c\nd", "e\nf\n\ng", "e\nf\n\ng"]


@pytest.mark.parametrize("columns", [80, 40])
def test_nothing_runs_over_the_edge_and_a_resize_is_followed(home: Path, workdir: Path, columns: int) -> None:
    words = "Übung 漢字 🙂 " * 30
    with ScriptedProvider([text(words), text("narrow " * 20)]) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, workdir, columns=columns) as terminal:
            terminal.send("x" * (columns + 10))
            terminal.wait_until(lambda: terminal.text.count("漢") == 30, "all of the answer")
            terminal.wait_until_idle()
            assert terminal.text.count("漢") == 30, "nothing is cut off"
            terminal.resize(30, 12)
            terminal.send("again")
            terminal.wait_for("\n".join(["narrow narrow narrow narrow"] * 5))
            terminal.send("/quit")
            assert terminal.end() == 0


def test_without_colour_there_is_none(home: Path, workdir: Path) -> None:
    with ScriptedProvider([failure(401, "no"), text(MARKDOWN)]) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, workdir, env={"NO_COLOR": "1"}) as terminal:
            terminal.send("hi")
            terminal.wait_for("Error: ")
            terminal.wait_until_idle()
            terminal.send("/retry")
            terminal.wait_for("All done.")
            terminal.send("/quit")
            assert terminal.end() == 0
    styles = {style for found in re.findall(rb"\x1b\[([0-9;]*)m", terminal.raw) for style in found.split(b";")}
    assert styles <= {b"", b"0", b"7"}, "neither colours nor weights; the chosen completion is reversed"


def test_a_terminal_of_ascii_gets_ascii(home: Path, workdir: Path) -> None:
    with ScriptedProvider([tool_call("terminal", {"command": "true"}), text("- Grüße")]) as provider:
        write_config(home, provider.base_url)
        env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        with ReplTerminal(home, workdir, env=env) as terminal:
            terminal.send("hi")
            terminal.wait_for("+ terminal true")
            terminal.wait_for("- Gr??e")
            terminal.send("/quit")
            assert terminal.end() == 0


def test_a_failure_is_one_line_and_the_message_can_be_asked_again(home: Path, workdir: Path) -> None:
    with ScriptedProvider([failure(401, "invalid key test-key"), text("Second time lucky.")]) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, workdir) as terminal:
            terminal.send("please")
            terminal.wait_for("Use /retry to try again.")
            terminal.wait_until_idle()
            assert "test-key" not in terminal.text
            terminal.send("/retry")
            terminal.wait_for("Second time lucky.")
            terminal.send("/quit")
            assert terminal.end() == 0
    assert [request.last_user_text for request in provider.requests] == ["please", "please"]


NOISY = (
    "import sys\n"
    "def shout(**_):\n"
    "    print('printed by\\r\\x1b[2J a plugin')\n"
    "    print('and to stderr', file=sys.stderr)\n"
    "def register(ctx):\n"
    "    ctx.register_hook('pre_llm_call', shout)\n"
    "    ctx.register_hook('on_session_finalize', lambda **kw: _note('finalize', kw))\n"
    "    ctx.register_hook('on_session_reset', lambda **kw: _note('reset', kw))\n"
    "    ctx.register_command('leave', lambda _: sys.exit(3), 'ends the program')\n"
    "def _note(name, kw):\n"
    "    with open('hooks', 'a') as file:\n"
    "        print(name, kw['reason'], file=file)\n"
)


def test_plugins_print_above_the_prompt_and_each_session_ends_once(home: Path, workdir: Path) -> None:
    write_plugin(home, "noisy", NOISY)
    with ScriptedProvider([text("Calm."), text("Again.")]) as provider:
        write_config(home, provider.base_url, "plugins:\n  enabled: [noisy]\n")
        with ReplTerminal(home, workdir) as terminal:
            terminal.send("hi")
            terminal.wait_for("Calm.")
            terminal.wait_until_idle()
            assert "printed by a plugin\nand to stderr\n" in terminal.text
            terminal.send("/leave")
            terminal.wait_for("a plugin tried to end the program (sys.exit(3))")
            terminal.send("/new")
            terminal.wait_for("New session 20")
            terminal.send("hi again")
            terminal.wait_for("Again.")
            terminal.send("/quit")
            assert terminal.end() == 0
    assert (workdir / "hooks").read_text().splitlines() == [
        "finalize new_session",
        "reset new_session",
        "finalize shutdown",
    ]


def test_a_resumed_session_shows_where_it_stands_and_offers_its_open_turn(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("Hello Ada."), failure(401, "no"), text("After all."), text("More.")]) as provider:
        write_config(home, provider.base_url)
        session_id = run_hermes("chat", "-q", "I am Ada", "-Q", home=home, cwd=workdir).stderr.split()[1]
        with ReplTerminal(home, workdir, "--resume", session_id) as terminal:
            assert "I am Ada" in terminal.text and "Hello Ada." in terminal.text
            terminal.send("fails")
            terminal.wait_for("/retry")
            terminal.send("/quit")
            terminal.end()
        with ReplTerminal(home, workdir, "-c", ready="The last turn failed. Continue it?") as terminal:
            terminal.wait_for("yes?")
            terminal.send("n")
            terminal.wait_until_idle()
            terminal.send("/new")
            terminal.wait_for("New session")
            terminal.send(f"/resume {session_id}")
            terminal.wait_for("yes?\n")
            terminal.send("/title Ada")  # a command is run at once, and is no answer
            terminal.wait_for("Title: Ada")
            terminal.send("/branch")
            terminal.wait_for("yes?\n")
            terminal.send("y")
            terminal.wait_for("After all.")
            terminal.wait_until_idle()
            terminal.send("/undo")
            terminal.wait_for("Take back the last turn?")
            terminal.send("tell me more")  # a message is a no
            terminal.wait_for("Nothing was taken back.")
            terminal.wait_for("More.")
            terminal.send("/quit")
            assert terminal.end() == 0
    assert provider.requests[2].last_user_text == "fails"
    assert provider.requests[3].last_user_text == "tell me more"


def test_no_means_that_nothing_of_the_old_turn_runs(home: Path, workdir: Path) -> None:
    commands = ["echo one >> log; exec sleep 60", "echo 2 >> log"]
    script = [tool_calls([("terminal", {"command": command}) for command in commands]), text("New answer.")]
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url, 'approvals:\n  mode: "off"\n')
        killed = start_hermes("chat", "-q", "old", "-Q", home=home, cwd=workdir)
        wait_until(lambda: (workdir / "log").exists(), "the command")
        killed.kill()
        killed.wait(HANG)
        question = "The last turn has no answer yet. Continue it?"
        with ReplTerminal(home, workdir, "-c", ready=question) as terminal:
            terminal.wait_for("yes?")
            terminal.type(CTRL_C)  # not an answer: it is asked again before anything else happens
            terminal.wait_until_idle()
            terminal.send("/title Old")  # neither is a command
            terminal.wait_for("Title: Old")
            terminal.send("new")
            terminal.wait_for("yes?")
            terminal.send("n")
            terminal.wait_for("New answer.")
            terminal.send("/quit")
            assert terminal.end() == 0
        again = run_hermes("chat", "-Q", "-c", home=home, cwd=workdir)
        checked = run_hermes("trace", "verify", "--all", home=home, cwd=workdir)
    assert (workdir / "log").read_text() == "one\n"
    assert [request.last_user_text for request in provider.requests] == ["old", "new"]
    told = [message["content"] for message in provider.requests[1].messages if message["role"] == "tool"]
    assert '"outcome":"unknown"' in told[0] and "cancelled" in told[1]
    assert again.stdout == "New answer.\n"
    assert checked.returncode == 0, checked.stdout


def test_the_screen_can_be_cleared(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("One."), text("Two.")]) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, workdir) as terminal:
            terminal.send("first")
            terminal.wait_for("One.")
            terminal.wait_until_idle()  # until then the answer is provisional and is printed again
            terminal.type(CTRL_L)
            terminal.wait_until_gone("One.")
            terminal.send("second")
            terminal.wait_for("Two.")
            terminal.wait_until_idle()
            terminal.send("/clear")
            terminal.wait_for("Clear the screen and start a new session?")
            terminal.send("y")
            terminal.wait_until_gone("Two.")
            terminal.wait_for("New session")
            terminal.send("/quit")
            assert terminal.end() == 0


def test_an_image_whose_path_is_typed_goes_along(home: Path, workdir: Path) -> None:
    (workdir / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\nrest")
    with ScriptedProvider([text("A dot.")]) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, workdir) as terminal:
            terminal.send("what is ./dot.png ?")
            terminal.wait_for("1 image attached.")
            terminal.wait_for("A dot.")
            terminal.send("/quit")
            assert terminal.end() == 0
    assert provider.requests[0].messages[-1]["content"][1]["type"] == "image_url"


def test_a_message_that_is_not_taken_comes_back_to_the_prompt(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("Hello."), hanging(), text("Free now.")]) as provider:
        write_config(home, provider.base_url)
        session_id = run_hermes("chat", "-q", "hi", "-Q", home=home, cwd=workdir).stderr.split()[1]
        busy = start_hermes("chat", "-q", "slow", "-Q", "--resume", session_id, home=home, cwd=workdir)
        provider.wait_for_request(2)
        with ReplTerminal(home, workdir, "--resume", session_id, ready="yes?") as terminal:
            terminal.send("n")
            terminal.wait_for("\n>")
            terminal.send("me too")
            terminal.wait_for(f"in use by process {busy.pid}")
            terminal.wait_until(lambda: terminal.text.count("> me too") == 2, "the message again")
            busy.send_signal(signal.SIGINT)
            busy.wait(60)
            terminal.type(ENTER)
            terminal.wait_for("Free now.")
            terminal.send("/quit")
            assert terminal.end() == 0
    assert provider.requests[-1].last_user_text == "me too"


def test_a_key_changes_the_mode_and_the_status_line_shows_it(home: Path, workdir: Path) -> None:
    script = [tool_call("terminal", {"command": "touch ran"}), text("So much for the plan.")]
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url, 'terminal: {sandbox: "off"}\n')
        with ReplTerminal(home, workdir) as terminal:
            for mode in ("accept-edits", "auto", "plan"):
                terminal.type(SHIFT_TAB)
                terminal.wait_for(f"Mode {mode}: ")
                terminal.wait_for(f" · {mode}")
            assert "so it behaves as ask-risky." in terminal.text
            terminal.send("Do something.")
            terminal.wait_for("So much for the plan.")
            terminal.type(SHIFT_TAB)
            terminal.wait_for("Mode ask: ")
            terminal.type(CTRL_D)
            assert terminal.end() == 0
    assert not (workdir / "ran").exists()
