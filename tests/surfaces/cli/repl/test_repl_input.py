"""Ways into the prompt on a real pseudo-terminal: paste, shell, editor, search, choice of a session, vi keys."""

from __future__ import annotations

import base64
from pathlib import Path

from hermes.testing import ScriptedProvider, text, tool_call
from support import write_config
from support.image_server import PNG
from support.programs import write_program
from support.repl_terminal import CTRL_C, ENTER, TAB, ReplTerminal

CTRL_G, CTRL_R, CTRL_V, CTRL_X_CTRL_E, ESCAPE = "\x07", "\x12", "\x16", "\x18\x05", "\x1b"


def test_pasted_blocks_shell_output_the_editor_and_images_reach_the_model(home: Path, workdir: Path) -> None:
    write_program(workdir, "my-editor", 'cat "$1" > seen; echo "from the editor" > "$1"')
    programs, temporary = home / "tools", home / "tmp"
    programs.mkdir(parents=True)
    temporary.mkdir()
    write_program(programs, "xclip", "case $* in *-out*) cat shot.png;; *) cat > copied;; esac")
    (workdir / "shot.png").write_bytes(PNG)
    env = {"EDITOR": "./my-editor", "SHELL": "/bin/sh", "DISPLAY": ":0", "PATH": f"{programs}:/usr/bin:/bin"}
    env["TMPDIR"] = str(temporary)  # programs in a temporary folder do not count
    block = "\n".join(f"line {number}" for number in range(300))
    with ScriptedProvider([text("One."), text("Two."), text("Three.")]) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, workdir, columns=60, env=env) as terminal:
            terminal.paste(block)
            terminal.wait_for("> [pasted 300 lines]")
            terminal.paste("1\n" * 20)
            terminal.wait_for("[pasted 20 lines]")
            terminal.type("\x7f")  # one key removes all of it
            terminal.wait_until_gone("[pasted 20 lines]")
            terminal.send(" what is it?")
            terminal.wait_for("One.")
            terminal.wait_until_idle()
            assert "line 7" not in terminal.text

            terminal.send("!echo made by $((40 + 2)); exit 3")
            terminal.wait_for("made by 42\n(exit code 3; the agent gets this with your next message)")
            terminal.send("!echo runs $((40 + 1)); sleep 600")
            terminal.wait_for("runs 41")
            terminal.send("!echo never $((40 + 3))")
            terminal.type(CTRL_C)
            terminal.wait_for("Not run: echo never $((40 + 3))")
            terminal.wait_for("exit code -9")
            terminal.type("a draft" + CTRL_X_CTRL_E)
            terminal.wait_for("> from the editor")
            terminal.type(ENTER)
            terminal.wait_for("Two.")
            terminal.wait_until_idle()

            terminal.type("see " + CTRL_V)
            terminal.wait_for("> see [image 1]")
            terminal.type(ENTER)
            terminal.wait_for("1 image attached.")
            terminal.wait_for("Three.")
            terminal.wait_until_idle()
            terminal.send("/copy")
            terminal.wait_for("Copied the answer: 6 characters.")
            terminal.type(CTRL_R + "draf")
            terminal.wait_for("I-search")
            terminal.type("\x7f" * 4 + "what is")
            terminal.wait_for("what is it?")
            terminal.type(CTRL_G)
            terminal.send("/quit")
            assert terminal.end() == 0
    said = [request.last_user_text for request in provider.requests]
    assert said[0] == f"{block} what is it?"
    assert said[1].startswith('from the editor\n\n<user_command exit_code="3">\n$ echo made by')
    assert "\nmade by 42\n</user_command>" in said[1]
    assert (workdir / "seen").read_text() == "a draft"
    parts = provider.requests[2].messages[-1]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url"]
    assert parts[1]["image_url"]["url"].endswith(base64.b64encode(PNG).decode())
    assert (workdir / "copied").read_text() == "Three."
    assert b"\x1b]52;c;" + base64.b64encode(b"Three.") in terminal.raw


def test_a_session_is_chosen_by_its_title_vi_keys_work_and_the_terminal_is_told(home: Path, workdir: Path) -> None:
    script = [text("Watered."), text("Fed."), text("Again.")]
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url, "display:\n  keys: vi\n  theme: light\n  notify_after: 0\n")
        with ReplTerminal(home, workdir) as terminal:
            terminal.send("water the plants")
            terminal.wait_for("Watered.")
            terminal.wait_until_idle()
            terminal.wait_until(lambda: b"\x1b]2;water the plants - hermes\x07" in terminal.raw, "the title")
            assert b"\n\x07" in terminal.raw, "the bell"
            assert b"\x1b[0;34;1m> " in terminal.raw, "the colour of the light theme"
            terminal.send("/new")
            terminal.wait_for("New session")
            terminal.send("feed the cat")
            terminal.wait_for("Fed.")
            terminal.wait_until_idle()
            terminal.type("xx" + ESCAPE)  # vi: the normal mode has keys of its own
            terminal.wait_for("NORMAL · scripted")
            terminal.type("ddi")
            terminal.wait_until_gone("NORMAL")
            terminal.wait_until_idle()
            terminal.send("/quit")
            assert terminal.end() == 0
        assert b"\x1b[23;2t" in terminal.raw, "the terminal has its old title again"
        with ReplTerminal(home, workdir, "--resume", columns=70, ready="> /resume") as terminal:
            terminal.wait_for("feed the cat")
            terminal.wait_for("just now, 1 turn")
            terminal.type("plan")
            terminal.wait_until(lambda: "feed the cat" not in terminal.text and "water the plants" in terminal.text)
            terminal.type(TAB)
            terminal.wait_for("> /resume 2")
            terminal.type(ENTER)
            terminal.wait_for("Back in session")
            terminal.send("once more")
            terminal.wait_for("Again.")
            terminal.send("/quit")
            assert terminal.end() == 0
    assert [message["content"] for message in provider.requests[2].messages[1:]] == [
        "water the plants",
        "Watered.",
        "once more",
    ]


def test_children_tasks_and_processes_can_be_seen_while_the_agent_works(home: Path, workdir: Path) -> None:
    todos = [
        {"id": "1", "content": "look", "status": "completed"},
        {"id": "2", "content": "act", "status": "in_progress"},
    ]
    wait = {"command": "until [ -e go ]; do sleep 0.05; done"}
    script = {
        "work": [
            tool_call("todo", {"todos": todos}),
            tool_call("terminal", {"command": "echo up; exec sleep 60", "background": True}),
            tool_call("delegate_task", {"goal": "wait for it"}),
            text("All done."),
        ],
        "wait for it": [tool_call("terminal", wait), text("It came.")],
    }
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, workdir, columns=100, rows=50) as terminal:
            terminal.send("work")
            terminal.wait_for("child 1: wait for it → terminal until [ -e go ]")
            assert "  [x] look\n  [>] act\n" in terminal.text
            terminal.send("/children 1")
            terminal.wait_for("Child 1, running, session child_")
            terminal.wait_for("> terminal {")
            terminal.send("/todo")
            terminal.wait_for("1 of 2 tasks done")
            terminal.send("/ps")
            terminal.wait_for("1  running")
            terminal.send("/ps stop 1")
            terminal.wait_for("Stopped: echo up; exec sleep 60")
            (workdir / "go").touch()
            terminal.wait_for("All done.")
            terminal.wait_until_idle()
            terminal.send("/children")
            terminal.wait_for("completed  1 call")
            terminal.send("/quit")
            assert terminal.end() == 0
