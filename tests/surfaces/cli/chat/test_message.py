"""The message of a one-shot run: words, options, piped text, mentioned files, a schema for the answer."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from hermes.testing import RecordedRequest, ScriptedProvider, text
from support import hermes_command, hermes_environment, run_hermes, write_config
from support.waiting import HANG


def sent(provider: ScriptedProvider) -> str:
    """The user message of the last request."""
    return str(provider.requests[-1].messages[-1]["content"])


def system_of(request: RecordedRequest) -> str:
    return str(request.messages[0]["content"])


@pytest.mark.parametrize(
    "words",
    [
        ["What is here?"],
        ["chat", "What is here?"],
        ["chat", "What", "is", "here?"],
        ["-p", "What is here?"],
        ["--", "What is here?"],
        ["-m", "scripted", "What is here?"],
    ],
)
def test_a_message_can_be_given_in_any_usual_way(home: Path, workdir: Path, words: list[str]) -> None:
    with ScriptedProvider([text("A folder.")]) as provider:
        write_config(home, provider.base_url)
        quiet_first = ["-Q", *words] if "--" in words else [*words, "-Q"]
        done = run_hermes(*quiet_first, home=home, cwd=workdir)
        assert (done.returncode, done.stdout) == (0, "A folder.\n"), done.stderr
        assert sent(provider) == "What is here?"


def test_a_word_that_is_no_command_stays_an_error(home: Path, workdir: Path) -> None:
    done = run_hermes("chatt", home=home, cwd=workdir)
    assert done.returncode == 2 and "did you mean 'chat'?" in done.stderr


def test_two_messages_are_refused(home: Path, workdir: Path) -> None:
    done = run_hermes("chat", "one", "-q", "two", home=home, cwd=workdir)
    assert done.returncode == 1 and "two messages" in done.stderr


def run_piped(home: Path, workdir: Path, data: bytes, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        hermes_command(*words),
        input=data,
        cwd=workdir,
        env=hermes_environment(home),
        capture_output=True,
        timeout=HANG,
        check=False,
    )


def test_piped_text_is_added_to_the_message(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("Short."), text("Again.")]) as provider:
        write_config(home, provider.base_url)
        done = run_piped(home, workdir, b"line one\nline two\n", "-Q", "-q", "Summarise this:")
        assert (done.returncode, done.stdout) == (0, b"Short.\n")
        assert sent(provider) == "Summarise this:\n\nline one\nline two"
        done = run_piped(home, workdir, b"", "-Q", "-q", "Hello")
        assert done.returncode == 0 and sent(provider) == "Hello"


def test_a_file_as_input_is_added_too(home: Path, workdir: Path) -> None:
    (workdir / "f.txt").write_text("from the file")
    with ScriptedProvider([text("ok")]) as provider, (workdir / "f.txt").open("rb") as file:
        write_config(home, provider.base_url)
        command = hermes_command("-Q", "Say what it is")
        done = subprocess.run(command, stdin=file, cwd=workdir, env=hermes_environment(home), timeout=HANG, check=False)
        assert done.returncode == 0 and sent(provider) == "Say what it is\n\nfrom the file"


def test_a_pipe_that_stays_silent_is_reported_and_not_waited_for(home: Path, workdir: Path) -> None:
    reading, writing = os.pipe()
    try:
        with ScriptedProvider([text("ok")]) as provider:
            write_config(home, provider.base_url)
            command = hermes_command("-Q", "-q", "go")
            done = subprocess.run(
                command,
                stdin=reading,
                cwd=workdir,
                env=hermes_environment(home),
                capture_output=True,
                timeout=HANG,
                check=False,
            )
            assert done.returncode == 0 and sent(provider) == "go"
            assert b"stdin is a pipe without data" in done.stderr
    finally:
        os.close(reading)
        os.close(writing)


def test_too_much_piped_text_is_refused(home: Path, workdir: Path) -> None:
    write_config(home, "http://127.0.0.1:9/v1")
    done = run_piped(home, workdir, b"x" * (1024 * 1024 + 1), "-q", "go")
    assert done.returncode == 1 and b"stdin has more than 1,048,576 bytes" in done.stderr and b"@file" in done.stderr


def test_mentioned_files_and_folders_are_added(home: Path, workdir: Path) -> None:
    (workdir / "notes.txt").write_text("buy milk\n")
    (workdir / "src").mkdir()
    (workdir / "src" / "a.py").touch()
    with ScriptedProvider([text("ok")]) as provider:
        write_config(home, provider.base_url)
        done = run_hermes("-Q", "-q", "Compare @notes.txt with @src/, please", home=home, cwd=workdir)
        assert done.returncode == 0
        assert sent(provider) == (
            "Compare @notes.txt with @src/, please\n\n"
            '<file path="notes.txt">\nbuy milk\n</file>\n\n'
            '<folder path="src/">\na.py\n</folder>'
        )


def test_a_mentioned_file_that_is_not_there_is_an_error_before_any_request(home: Path, workdir: Path) -> None:
    with ScriptedProvider([]) as provider:
        write_config(home, provider.base_url)
        done = run_hermes("-Q", "-q", "See @nofile.txt", home=home, cwd=workdir)
        assert done.returncode == 1 and "@nofile.txt: no such file or folder" in done.stderr
        assert provider.requests == []


def test_instructions_and_allowed_tools_of_one_run(home: Path, workdir: Path) -> None:
    (workdir / "rules.md").write_text("Answer in rhymes.")
    with ScriptedProvider([text("ok"), text("ok")]) as provider:
        write_config(home, provider.base_url)
        options = ["--system", "Be brief.", "--allowed-tools", "read_file,search_*"]
        assert run_hermes("-Q", "-q", "go", *options, home=home, cwd=workdir).returncode == 0
        request = provider.requests[-1]
        assert "Be brief." in system_of(request)
        assert sorted(tool["function"]["name"] for tool in request.body["tools"]) == ["read_file", "search_files"]
        assert run_hermes("-Q", "-q", "go", "--system", "@rules.md", home=home, cwd=workdir).returncode == 0
        assert "Answer in rhymes." in system_of(provider.requests[-1])
        done = run_hermes("-Q", "-q", "go", "--allowed-tools", "fly", home=home, cwd=workdir)
        assert done.returncode == 1 and "'fly' fits no tool" in done.stderr and "read_file" in done.stderr
        done = run_hermes("-Q", "-q", "go", "--system", "@none.md", home=home, cwd=workdir)
        assert done.returncode == 1 and "--system @none.md: No such file" in done.stderr


def test_an_answer_that_fits_a_schema(home: Path, workdir: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    (workdir / "schema.json").write_text(json.dumps(schema))
    script = [text("It is four."), text('```json\n{"n": 4}\n```')]
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url)
        done = run_hermes("chat", "-q", "2+2?", "--output-schema", "schema.json", home=home, cwd=workdir)
        assert done.returncode == 0 and json.loads(done.stdout) == {"n": 4}, done.stderr
        assert "That answer cannot be used" in sent(provider)


@pytest.mark.parametrize(("content", "problem"), [("[1]", "not a JSON schema"), ("nonsense", "not a JSON schema")])
def test_a_schema_that_is_none(home: Path, workdir: Path, content: str, problem: str) -> None:
    (workdir / "s.json").write_text(content)
    done = run_hermes("chat", "-q", "go", "--output-schema", "s.json", home=home, cwd=workdir)
    assert done.returncode == 1 and problem in done.stderr and "--output-schema s.json" in done.stderr


@pytest.mark.parametrize("style", [[], ["-Q"]])
def test_control_characters_of_the_model_do_not_reach_a_pipe(home: Path, workdir: Path, style: list[str]) -> None:
    hostile = "a\x1b]52;c;aGk=\x07b\x1b[31mc\x9b2Jd\x08e\tf\n"
    with ScriptedProvider(text(hostile)) as provider:
        write_config(home, provider.base_url)
        plain = run_hermes("chat", "-q", "hello", *style, home=home, cwd=workdir)
        raw = run_hermes("chat", "-q", "hello", "--raw", *style, home=home, cwd=workdir)
    assert plain.stdout.strip() == "abc2Jde\tf"
    assert raw.stdout.strip() == hostile.strip()
