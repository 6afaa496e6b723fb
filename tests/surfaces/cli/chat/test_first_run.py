"""The first run with nothing set up: a choice at a terminal, a plain error elsewhere."""

from __future__ import annotations

import socket
import stat
from collections.abc import Generator
from pathlib import Path

import pytest

from support import run_hermes
from support.model_server import ModelServer, model_server
from support.repl_terminal import CTRL_C, ReplTerminal

KEY = "sk-sentinel-0123456789abcdef"
MENU = "Number (Enter to cancel):"


@pytest.fixture
def server() -> Generator[ModelServer]:
    with model_server(["alpha", "beta"]) as running:
        yield running


@pytest.fixture
def nobody() -> Generator[str]:
    """An address that nobody answers at."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{sock.getsockname()[1]}/v1"


@pytest.fixture
def places(home: Path, nobody: str) -> dict[str, str]:
    """Where the servers of this machine would be, so that those of the person who runs the tests are left alone."""
    home.mkdir()
    return dict.fromkeys(("ollama", "vllm", "llamacpp", "lmstudio"), nobody)


def write(home: Path, places: dict[str, str], more: str = "") -> str:
    lines = [f"  {name}: {{base_url: '{place}'}}\n" for name, place in places.items()]
    text = "# mine\nproviders:\n" + "".join(lines) + more
    (home / "config.yaml").write_text(text)
    return text


def test_a_server_on_this_machine_is_found(
    home: Path, workdir: Path, places: dict[str, str], server: ModelServer
) -> None:
    before = write(home, {**places, "ollama": server.base_url})
    with ReplTerminal(home, workdir, "chat", "--query", "Hello.", columns=120, ready=MENU) as terminal:
        assert f"1. ollama at {server.base_url}, which answers, 2 models" in terminal.text
        assert "vllm" not in terminal.text
        terminal.send("1")
        terminal.wait_for("2. beta")
        terminal.send("2")
        terminal.wait_for("Now using beta at ollama")
        assert terminal.end() == 0
        assert "OK" in terminal.text  # and the question is answered
    assert (home / "config.yaml").read_text() == before + "model:\n  provider: ollama\n  default: beta\n"


def test_a_provider_with_a_key(home: Path, workdir: Path, places: dict[str, str], server: ModelServer) -> None:
    server.key = KEY
    write(home, places, f"  groq: {{base_url: '{server.base_url}'}}\n")
    with ReplTerminal(home, workdir, columns=120, rows=40, ready=MENU) as terminal:
        terminal.send("1")
        terminal.wait_for("Which provider?")
        terminal.wait_for("Number or name")
        terminal.send("groq")
        terminal.wait_for("Key for groq (not shown):")
        terminal.send("wrong-0123456789")
        # Not before it asks again: what is typed earlier would be seen, and not read.
        terminal.wait_until(lambda: terminal.text.count("Key for groq (not shown):") == 2, "the second question")
        assert "refused the key" in terminal.text
        terminal.send(KEY)
        terminal.wait_for("1. alpha")
        terminal.send("alpha")
        terminal.wait_for("'hermes model' shows and changes it")
        terminal.wait_until_idle()
        terminal.send("Hello.")
        terminal.wait_for("OK")
        terminal.wait_until_idle()
        terminal.send("/quit")
        assert terminal.end() == 0
        assert b"sentinel" not in terminal.raw
    assert (home / ".env").read_text() == f"GROQ_API_KEY='{KEY}'\n"
    assert stat.S_IMODE((home / ".env").stat().st_mode) == 0o600
    assert KEY not in (home / "config.yaml").read_text()


def test_another_server(home: Path, workdir: Path, places: dict[str, str], server: ModelServer) -> None:
    write(home, places)
    with ReplTerminal(home, workdir, "chat", "-q", "Hello.", columns=120, ready=MENU) as terminal:
        terminal.send("2")
        terminal.wait_for("Its URL")
        terminal.send("127.0.0.1")
        terminal.wait_for("must start with http")
        terminal.send(server.base_url)
        terminal.wait_for("1. alpha")
        terminal.send("1")
        terminal.wait_for("Now using alpha at custom")
        assert terminal.end() == 0
    written = (home / "config.yaml").read_text()
    assert f"model:\n  provider: custom\n  default: alpha\n  base_url: {server.base_url}\n" in written


@pytest.mark.parametrize(("keys", "code"), [(CTRL_C, 130), ("\r", 1), ("2\r\r", 1), ("/quit\r", 1), ("q\r", 1)])
def test_leaving_sets_nothing_up(home: Path, workdir: Path, places: dict[str, str], keys: str, code: int) -> None:
    before = write(home, places)
    with ReplTerminal(home, workdir, ready=MENU) as terminal:
        terminal.type(keys)
        assert terminal.end() == code
        assert " ".join(terminal.text.split()).count("no model is set up") == (code == 1), "said once"
        assert ("'hermes model' sets one up later" in " ".join(terminal.text.split())) == (code == 1)
    assert (home / "config.yaml").read_text() == before and not (home / ".env").exists()


@pytest.mark.parametrize("arguments", [("chat", "--query", "Hello."), ("chat", "-Q", "--query", "Hello.")])
def test_without_a_terminal_it_is_an_error(home: Path, workdir: Path, arguments: tuple[str, ...]) -> None:
    done = run_hermes(*arguments, home=home, cwd=workdir)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("Error: no model is set up") and MENU not in done.stderr


def test_who_has_a_model_is_not_asked(home: Path, workdir: Path, places: dict[str, str], server: ModelServer) -> None:
    write(home, places, f"model: {{default: alpha, base_url: '{server.base_url}'}}\n")
    with ReplTerminal(home, workdir, "chat", "-q", "Hello.", ready="OK") as terminal:
        assert terminal.end() == 0
        assert "set up" not in terminal.text
    assert server.requests == ["POST /v1/chat/completions"]
