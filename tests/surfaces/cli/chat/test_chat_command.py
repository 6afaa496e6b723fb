"""``hermes chat`` as a person or a program runs it: real processes against a scripted model."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from hermes.testing import ScriptedProvider, failure, hanging, text, tool_call
from hermes.tools.sandbox.backend import cached_probe
from hermes.tools.sandbox.owner.program import probe_file
from support import hermes_command, hermes_environment, run_hermes, start_hermes, write_config
from support.waiting import HANG, read_pid, wait_until, wait_until_gone

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360f8ffff3f0005fe02fe"
    "a7359d630000000049454e44ae426082"
)


def test_quiet_prints_the_session_on_stderr_and_the_answer_alone_on_stdout(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("Paris.")]) as provider:
        write_config(home, provider.base_url)
        done = run_hermes("chat", "--query", "What is the capital of France?", "--quiet", home=home, cwd=workdir)
    assert (done.returncode, done.stdout) == (0, "Paris.\n")
    assert done.stderr.startswith("session_id: 20")
    assert len(done.stderr.splitlines()) == 1


def test_the_answer_streams_with_tool_lines_and_usage_for_a_person(home: Path, workdir: Path) -> None:
    script = [
        tool_call("terminal", {"command": "echo hello"}, usage=None),
        text("It says hello.", usage={"prompt_tokens": 7, "completion_tokens": 4}),
    ]
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url)
        done = run_hermes("-q", "run it", "-t", "terminal", home=home, cwd=workdir)
    assert done.returncode == 0
    assert done.stdout == "It says hello.\n"
    tool_line, usage_line = done.stderr.splitlines()
    assert tool_line.startswith("✓ terminal echo hello  ") and tool_line.endswith((" ms", " s"))
    assert usage_line.startswith("scripted · ") and "7 in, 4 out" in usage_line and "session 20" in usage_line


def test_json_is_one_document(home: Path, workdir: Path) -> None:
    script = [
        tool_call("terminal", {"command": "echo hi"}, call_id="call_1", usage=None),
        text("Done.", usage={"prompt_tokens": 5, "completion_tokens": 2, "cost": 0.5}),
    ]
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url)
        done = run_hermes("chat", "-q", "go", "--json", home=home, cwd=workdir)
    document = json.loads(done.stdout)
    assert done.returncode == 0 and done.stderr == ""
    assert (document["answer"], document["status"], document["cost_usd"]) == ("Done.", "completed", 0.5)
    assert document["usage"]["prompt_tokens"] == 5
    [call] = document["tool_calls"]
    assert (call["tool_call_id"], call["name"], call["args"], call["status"]) == (
        "call_1",
        "terminal",
        {"command": "echo hi"},
        "ok",
    )
    assert document["session_id"].startswith("20")


def test_stream_json_is_one_event_per_line(home: Path, workdir: Path) -> None:
    script = [tool_call("terminal", {"command": "true"}), text("a b", chunks=["a ", "b"])]
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url)
        done = run_hermes("chat", "-q", "go", "--stream-json", home=home, cwd=workdir)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["type"] for event in events] == [
        "session",
        "turn_started",
        "model_answered",
        "tool_started",
        "tool_finished",
        "text",
        "text",
        "model_answered",
        "result",
    ]
    assert events[-1]["answer"] == "a b"


def test_the_query_may_come_from_stdin(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("ok")]) as provider:
        write_config(home, provider.base_url)
        run_hermes("chat", "--query", "-", "-Q", home=home, cwd=workdir, stdin="from a pipe\n")
    assert provider.requests[0].last_user_text == "from a pipe\n"


def test_invalid_utf8_on_stdin_is_replaced_not_lost(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("ok")]) as provider:
        write_config(home, provider.base_url)
        done = run_hermes("chat", "--query", "-", "-Q", home=home, cwd=workdir, stdin=b"caf\xe9 au lait")
    assert done.returncode == 0
    assert provider.requests[0].last_user_text == "caf\N{REPLACEMENT CHARACTER} au lait"


def test_a_prompt_of_a_megabyte_goes_through(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("long")]) as provider:
        write_config(home, provider.base_url)
        done = run_hermes("chat", "--query", "-", "-Q", home=home, cwd=workdir, stdin="x" * 1_000_000)
    assert done.stdout == "long\n"
    assert len(provider.requests[0].last_user_text) == 1_000_000


def test_a_failed_run_is_one_error_line_and_exit_1(home: Path, workdir: Path) -> None:
    with ScriptedProvider([failure(401, "invalid key test-key")]) as provider:
        write_config(home, provider.base_url)
        done = run_hermes("chat", "-q", "hi", "--quiet", home=home, cwd=workdir)
    assert (done.returncode, done.stdout) == (1, "")
    session, error = done.stderr.splitlines()
    assert session.startswith("session_id: ")
    assert error.startswith("Error: ") and "test-key" not in error


def test_nothing_configured_says_in_one_line_how_to_set_a_model_up(home: Path, workdir: Path) -> None:
    done = run_hermes("chat", "-q", "hi", home=home, cwd=workdir)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("Error: no model is set up") and "hermes model" in line and "hermes local install" in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chat", "-q", "  "], "empty"),
        (["chat"], "--query"),
        (["chat", "-q", "hi", "-t", "fiel"], "file"),
        (["chat", "-q", "hi", "--provider", "opnai"], "openai"),
        (["chat", "-q", "hi", "--resume", "nope"], "hermes sessions list"),
        (["chat", "-q", "hi", "--image", "missing.png"], "missing.png"),
        (["chat", "-q", "hi", "--plugin", "nope"], "nope"),
    ],
)
def test_wrong_input_gets_one_clear_line(home: Path, workdir: Path, arguments: list[str], message: str) -> None:
    write_config(home, "http://127.0.0.1:9")
    done = run_hermes(*arguments, home=home, cwd=workdir)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ") and len(done.stderr.splitlines()) == 1
    assert message in done.stderr


@pytest.mark.parametrize(
    "arguments", [["--max-turns", "0"], ["--max-turns", "x"], ["--no-such-flag"], ["-t", ""], ["--resume", ""]]
)
def test_wrong_usage_exits_2(home: Path, workdir: Path, arguments: list[str]) -> None:
    done = run_hermes("chat", "-q", "hi", *arguments, home=home, cwd=workdir)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_flags_override_the_configuration(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("ok")]) as provider:
        write_config(home, "http://127.0.0.1:9/v1", f"providers:\n  mine:\n    base_url: {provider.base_url}\n")
        done = run_hermes(
            *("chat", "-q", "hi", "-Q", "--provider", "mine", "--model", "other", "--accept-hooks", "--yolo"),
            home=home,
            cwd=workdir,
        )
    assert done.returncode == 0, done.stderr
    assert provider.requests[0].body["model"] == "other"
    # The key of the configured provider is not for another one.
    assert "test-key" not in provider.requests[0].headers.get("authorization", "")


@pytest.mark.parametrize("flag", ["--ignore-user-config", "--ignore_user_config"])
def test_the_user_configuration_can_be_ignored(home: Path, workdir: Path, flag: str) -> None:
    write_config(home, "http://127.0.0.1:9/v1")
    done = run_hermes("chat", "-q", "hi", flag, home=home, cwd=workdir)
    assert done.returncode == 1 and "no model is set up" in done.stderr


def test_an_image_is_sent_along(home: Path, workdir: Path) -> None:
    (workdir / "dot.png").write_bytes(PNG)
    with ScriptedProvider([text("a dot")]) as provider:
        write_config(home, provider.base_url)
        done = run_hermes("chat", "-q", "what?", "-Q", "--image", "dot.png", home=home, cwd=workdir)
    assert done.returncode == 0, done.stderr
    words, picture = provider.requests[0].messages[-1]["content"]
    assert words == {"type": "text", "text": "what?"}
    assert picture["image_url"]["url"].startswith("data:image/png;base64,iVBOR")


def test_resume_and_continue_go_on_with_the_conversation(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("Hello Ada."), text("Ada."), text("Still Ada.")]) as provider:
        write_config(home, provider.base_url)
        first = run_hermes("chat", "-q", "I am Ada", "-Q", home=home, cwd=workdir)
        session_id = first.stderr.split()[1]
        resumed = run_hermes("chat", "-q", "Who?", "-Q", "--resume", session_id, home=home, cwd=workdir)
        continued = run_hermes("chat", "-q", "And now?", "-Q", "--continue", home=home, cwd=workdir)
    assert (resumed.stdout, continued.stdout) == ("Ada.\n", "Still Ada.\n")
    assert resumed.stderr.split()[1] == continued.stderr.split()[1] == session_id
    assert [m["content"] for m in provider.requests[2].messages[1:]] == [
        "I am Ada",
        "Hello Ada.",
        "Who?",
        "Ada.",
        "And now?",
    ]


def test_resume_without_a_query_prints_the_answer_that_is_on_record(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("Forty-two.")]) as provider:
        write_config(home, provider.base_url)
        session_id = run_hermes("chat", "-q", "What?", "-Q", home=home, cwd=workdir).stderr.split()[1]
        again = run_hermes("chat", "--resume", session_id, "--quiet", home=home, cwd=workdir)
    assert (again.returncode, again.stdout) == (0, "Forty-two.\n")
    assert len(provider.requests) == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_turn_in_order_and_it_can_be_finished(
    home: Path, workdir: Path, number: signal.Signals, code: int
) -> None:
    with ScriptedProvider([hanging(), text("Finished after all.")]) as provider:
        write_config(home, provider.base_url)
        process = start_hermes(
            "chat", "-q", "slow", "-Q", home=home, cwd=workdir, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        provider.wait_for_request()
        os.kill(process.pid, number)
        stdout, stderr = process.communicate(timeout=60)
        session_id = stderr.split()[1]
        resumed = run_hermes("chat", "--resume", session_id, "--quiet", home=home, cwd=workdir)
    assert (process.returncode, stdout) == (code, "")
    assert "Traceback" not in stderr and f"--resume {session_id}" in stderr
    assert resumed.stdout == "Finished after all.\n"


def test_a_closed_pipe_is_not_a_traceback(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("line\n" * 50_000, chunks=100)]) as provider:
        write_config(home, provider.base_url)
        command = " ".join(hermes_command("chat", "-q", "go"))
        done = _in_a_shell(f"{command} 2>/dev/null | head -n 1; echo ${{PIPESTATUS[0]}}", home, workdir)
    assert done.stdout == "line\n141\n"
    assert done.stderr == ""


def test_a_second_ctrl_c_ends_the_process_and_the_command_it_runs(home: Path, workdir: Path) -> None:
    # Short sleeps: a signal that comes while the shell starts one may end neither of the two.
    stubborn = "trap 'echo > told' INT TERM; echo $$ > pid; while :; do sleep 1; done"
    with ScriptedProvider([tool_call("terminal", {"command": stubborn})]) as provider:
        write_config(home, provider.base_url)
        process = start_hermes("chat", "-q", "go", "-Q", home=home, cwd=workdir)
        command = read_pid(workdir / "pid")
        process.send_signal(signal.SIGINT)
        wait_until((workdir / "told").exists, "the first Ctrl-C to reach the command")
        process.send_signal(signal.SIGINT)
        assert process.wait(HANG) in (130, -signal.SIGINT)
    wait_until_gone(command)


def test_a_cut_off_turn_is_finished_before_the_new_message_and_each_answer_is_shown_once(
    home: Path, workdir: Path
) -> None:
    with ScriptedProvider({"first": [text("To the first."), text("To the first.")], "second": "To the second."}) as p:
        write_config(home, p.base_url)
        run_hermes("chat", "-q", "first", home=home, cwd=workdir, env={"HERMES_CRASH_AT": "6"})
        done = run_hermes("chat", "-c", "-q", "second", home=home, cwd=workdir)
    assert done.stdout == "To the first.\nTo the second.\n"


def test_json_is_utf8_whatever_the_terminal_speaks(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("Grüße ✓"), text("Grüße ✓")]) as provider:
        write_config(home, provider.base_url)
        env = {"PYTHONIOENCODING": "ascii"}
        document = run_hermes("chat", "-q", "hi", "--json", home=home, cwd=workdir, env=env)
        env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        plain = run_hermes("chat", "-q", "hi", "-Q", home=home, cwd=workdir, env=env)
    assert json.loads(document.stdout)["answer"] == "Grüße ✓"
    assert (plain.returncode, plain.stdout) == (0, "Gr??e ?\n")


def test_a_plugin_that_did_not_load_is_worth_a_line(home: Path, workdir: Path) -> None:
    folder = home / "plugins" / "guard"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: guard\n")
    (folder / "__init__.py").write_text("import no_such_module\n")
    with ScriptedProvider([text("ok")]) as provider:
        write_config(home, provider.base_url, "plugins:\n  enabled: [guard, missing]\n")
        done = run_hermes("chat", "-q", "hi", "-Q", home=home, cwd=workdir)
    assert done.stdout == "ok\n"
    _session, *warnings = done.stderr.splitlines()
    assert [line.partition(":")[0] for line in warnings] == ["Warning", "Warning"]
    assert "guard is enabled and did not load" in warnings[0] and "no_such_module" in warnings[0]
    assert "missing is enabled and was not found" in warnings[1]


def test_a_plugin_that_ends_the_program_is_named(home: Path, workdir: Path) -> None:
    folder = home / "plugins" / "quitter"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: quitter\n")
    (folder / "__init__.py").write_text(
        "import sys\ndef register(ctx):\n    ctx.register_hook('pre_llm_call', lambda **kw: sys.exit(3))\n"
    )
    with ScriptedProvider([text("ok")]) as provider:
        write_config(home, provider.base_url, "plugins:\n  enabled: [quitter]\n")
        done = run_hermes("chat", "-q", "hi", "-Q", home=home, cwd=workdir)
    assert (done.returncode, done.stdout) == (0, "ok\n")
    log = (home / "logs" / "agent.log").read_text()
    assert "plugin 'quitter': pre_llm_call callback failed: SystemExit: 3" in log


def test_middleware_that_ends_the_program_ends_the_turn_and_is_named(home: Path, workdir: Path) -> None:
    folder = home / "plugins" / "quitter"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: quitter\n")
    (folder / "__init__.py").write_text(
        "import sys\ndef register(ctx):\n    ctx.register_middleware('llm_execution', lambda **kw: sys.exit(3))\n"
    )
    with ScriptedProvider([text("ok")]) as provider:
        write_config(home, provider.base_url, "plugins:\n  enabled: [quitter]\n")
        done = run_hermes("chat", "-q", "hi", "-Q", home=home, cwd=workdir)
        assert provider.requests == []
    assert done.returncode == 1
    assert "Error: plugin 'quitter' raised SystemExit: 3 in llm_execution" in done.stderr


def test_a_working_directory_that_is_gone_is_said_plainly(home: Path, workdir: Path) -> None:
    write_config(home, "http://127.0.0.1:9")
    command = " ".join(hermes_command("chat", "-q", "hi"))
    done = _in_a_shell(f"mkdir gone && cd gone && rmdir ../gone && {command}", home, workdir)
    assert done.returncode == 1
    assert "Error: the current directory no longer exists" in done.stderr


def _in_a_shell(line: str, home: Path, workdir: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line],
        cwd=workdir,
        env=hermes_environment(home),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_session_in_use_is_refused_with_the_name_of_who_uses_it(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("first"), hanging()]) as provider:
        write_config(home, provider.base_url)
        session_id = run_hermes("chat", "-q", "hi", "-Q", home=home, cwd=workdir).stderr.split()[1]
        busy = start_hermes("chat", "-q", "slow", "-Q", "--resume", session_id, home=home, cwd=workdir)
        provider.wait_for_request(2)
        refused = run_hermes("chat", "-q", "me too", "-Q", "--resume", session_id, home=home, cwd=workdir)
        busy.send_signal(signal.SIGINT)
        busy.wait(60)
    assert refused.returncode == 1
    assert f"in use by process {busy.pid}" in refused.stderr


def test_one_shot_chat_imports_nothing_it_does_not_use(home: Path, workdir: Path) -> None:
    heavy = (
        *("rich", "prompt_toolkit", "jsonschema", "asyncio", "click", "ruamel", "tree_sitter", "hermes.testing"),
        *("httpx2", "ssl", "shutil", "lzma", "stringprep", "random"),
        *("hermes.agent.pipelines.tool_call", "hermes.agent.approvals.question"),
    )
    program = (
        "import sys\n"
        "from hermes.surfaces.cli.main import main\n"
        "code = main(['chat', '-q', 'hi', '-Q'])\n"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    import sys

    with ScriptedProvider([text("ok")]) as provider:
        write_config(home, provider.base_url)
        cached_probe(probe_file(home))  # done by the first run of a home; without bubblewrap it tries Landlock
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=workdir,
            env=hermes_environment(home),
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.stdout == "ok\n"
    assert done.stderr.splitlines()[-1] == "[]"


@pytest.mark.parametrize("style", ["-Q", "--stream-json"])
def test_a_session_is_named_only_once_its_message_is_stored(home: Path, workdir: Path, style: str) -> None:
    with ScriptedProvider("never asked") as provider:
        write_config(home, provider.base_url)
        with closing(sqlite3.connect(home / "state.db")) as connection:
            connection.execute("PRAGMA user_version = 999")
        refused = run_hermes("chat", "-q", "hi", style, home=home, cwd=workdir)
    assert refused.returncode == 1 and provider.requests == []
    assert "newer version" in refused.stderr
    assert "session" not in refused.stdout and "session_id" not in refused.stderr
