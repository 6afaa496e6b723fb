"""``hermes model``: what is in use, what else there is, and how another one is chosen without harm."""

from __future__ import annotations

import io
import json
import os
import socket
import stat
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from hermes.models.credentials.store import AuthFile, add_key
from hermes.surfaces.cli.main import main
from support import run_hermes, start_hermes
from support.model_server import ModelServer, model_server
from support.repl_terminal import CTRL_C, ReplTerminal

KEY = "sk-sentinel-0123456789abcdef"

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``.env`` adds to the environment ends with the test."""
    monkeypatch.setattr(os, "environ", os.environ.copy())


@pytest.fixture
def server() -> Generator[ModelServer]:
    with model_server() as running:
        yield running


@pytest.fixture
def dead_port() -> Generator[int]:
    """A port that nothing listens on, and that nobody else can take."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


def write(home: Path, config: str, env: str = "") -> None:
    home.mkdir(parents=True, exist_ok=True)
    for name, text in (("config.yaml", config), (".env", env)):
        if text:
            (home / name).write_text(text)
            (home / name).chmod(0o600)


def lab(server: ModelServer, more: str = "", provider: str = "lab") -> str:
    """A configuration that uses a provider with a name of its own."""
    return (
        f"# mine\nmodel:\n  provider: {provider}  # the lab\n  default: alpha\nproviders:\n"
        f"  lab: {{base_url: '{server.base_url}', key_env: LAB_TOKEN}}\n{more}"
    )


def said(capsys: Output, *arguments: str, code: int = 0) -> str:
    assert main(["model", *arguments]) == code
    captured = capsys.readouterr()
    assert KEY not in captured.out + captured.err
    return captured.out if code == 0 else captured.err


def give(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


# -- show and list --------------------------------------------------------------------------------------------------


def test_what_is_in_use_and_why(home: Path, capsys: Output, server: ModelServer) -> None:
    write(home, lab(server, "fallback_providers:\n  - {provider: groq, model: m}\n"), f"LAB_TOKEN={KEY}\n")
    assert said(capsys).splitlines() == [
        f"Model: alpha at lab ({server.base_url})",
        "Why:   chosen by model.provider in config.yaml",
        f"Key:   LAB_TOKEN in {home}/.env",
        "When it fails: m (groq)",
    ]
    (home / ".env").unlink()
    os.environ.pop("LAB_TOKEN")
    add_key(AuthFile(home), "lab", KEY, "work")
    assert "Key:   stored by hermes auth" in said(capsys)


def test_nothing_is_in_use(home: Path, capsys: Output) -> None:
    assert said(capsys, code=1).startswith("Error: no model is set up")
    assert not home.exists()


def test_the_providers_and_their_state(home: Path, capsys: Output, server: ModelServer, dead_port: int) -> None:
    dead = f"http://127.0.0.1:{dead_port}/v1"
    local = "".join(f"  {name}: {{base_url: '{dead}'}}\n" for name in ("vllm", "llamacpp", "lmstudio"))
    local += f"  ollama: {{base_url: '{server.base_url}'}}\n  off: {{base_url: '{dead}', enabled: false}}\n"
    write(home, lab(server, local), f"GROQ_API_KEY={KEY}\n")
    lines = {line[2:].split()[0]: line for line in said(capsys, "list").splitlines()}
    assert lines["lab"].startswith("* ") and lines["lab"].endswith("no key (set LAB_TOKEN)")
    assert lines["groq"].startswith("  ") and lines["groq"].endswith(f"key: GROQ_API_KEY in {home}/.env")
    assert lines["openai"].endswith("no key (set OPENAI_API_KEY)")
    assert lines["ollama"].endswith("answers, 2 models") and lines["vllm"].endswith("does not answer")
    assert "off" not in lines
    rows = {row["name"]: row for row in json.loads(said(capsys, "list", "--json"))["providers"]}
    assert (rows["ollama"]["answers"], rows["ollama"]["models"], rows["groq"]["answers"]) == (True, 2, None)
    assert rows["lab"]["current"] and rows["lab"]["default_model"] == "alpha"


def test_the_models_of_a_provider_are_asked_for_once(home: Path, capsys: Output, server: ModelServer) -> None:
    write(home, lab(server), f"LAB_TOKEN={KEY}\n")
    assert said(capsys, "list", "lab") == "alpha\nbeta\n"
    server.models.append("gamma")
    assert said(capsys, "list", "lab") == "alpha\nbeta\n"
    assert json.loads(said(capsys, "list", "lab", "--refresh", "--json"))["models"] == ["alpha", "beta", "gamma"]
    assert server.requests == ["GET /v1/models"] * 2 and server.keys == [KEY] * 2
    cache = home / "cache" / "models.json"
    assert stat.S_IMODE(cache.stat().st_mode) == 0o600 and KEY not in cache.read_text()
    cache.write_text("{ not json")
    assert said(capsys, "list", "lab").endswith("gamma\n")


def test_a_list_in_the_anthropic_format(home: Path, capsys: Output, server: ModelServer) -> None:
    address = server.base_url.removesuffix("/v1")
    write(home, f"providers:\n  anthropic: {{base_url: '{address}', api_key: {KEY}}}\n")
    server.key = KEY
    assert said(capsys, "list", "claude") == "alpha\nbeta\n"
    assert server.requests == ["GET /v1/models?limit=1000"]


def test_a_list_that_cannot_be_had(home: Path, capsys: Output, server: ModelServer) -> None:
    write(home, lab(server), f"LAB_TOKEN={KEY}\n")
    server.key = "another"
    line = said(capsys, "list", "lab", code=1)
    assert line.startswith(f"Error: {server.base_url} refused the key (LAB_TOKEN in {home}/.env): HTTP 401")
    server.refusal = (404, {})
    assert "has no list of models" in said(capsys, "list", "lab", code=1)
    assert "unknown provider 'labb'; did you mean 'lab'?" in said(capsys, "list", "labb", code=1)


# -- set ------------------------------------------------------------------------------------------------------------


def test_another_model_of_the_same_provider(home: Path, capsys: Output, server: ModelServer) -> None:
    write(home, lab(server), f"LAB_TOKEN={KEY}\n")
    before = (home / "config.yaml").read_text()
    assert said(capsys, "set", "beta").startswith("Now using beta at lab")
    assert (home / "config.yaml").read_text() == before.replace("default: alpha", "default: beta")
    said(capsys, "set", "lab:alpha")
    assert (home / "config.yaml").read_text() == before
    said(capsys, "set", "lab", "beta")
    assert "default: beta" in (home / "config.yaml").read_text()


def test_a_name_that_is_not_listed(home: Path, capsys: Output, server: ModelServer) -> None:
    write(home, lab(server), f"LAB_TOKEN={KEY}\n")
    before = (home / "config.yaml").read_text()
    line = said(capsys, "set", "alfa", code=1)
    assert "does not list the model 'alfa'; did you mean 'alpha'?" in line and "--no-check" in line
    assert (home / "config.yaml").read_text() == before
    server.models.append("alfa")  # the list that is remembered does not have it yet
    said(capsys, "set", "alfa")
    said(capsys, "set", "lab:unheard-of:7b", "--no-check")
    assert "default: unheard-of:7b" in (home / "config.yaml").read_text()


def test_a_server_that_cannot_be_asked_is_no_obstacle(home: Path, capsys: Output, dead_port: int) -> None:
    write(home, f"providers:\n  lab: {{base_url: 'http://127.0.0.1:{dead_port}/v1'}}\n")
    assert main(["model", "set", "lab", "m"]) == 0
    assert "Warning: not checked" in capsys.readouterr().err
    assert "provider: lab" in (home / "config.yaml").read_text()


def test_what_was_set_for_another_provider_is_put_aside(home: Path, capsys: Output, server: ModelServer) -> None:
    write(
        home,
        "# before\nmodel:\n  default: m\n  api_base: http://127.0.0.1:9/v1\n  api_key: ${MY_KEY}  # mine\n"
        "  context_length: 4096\n  temperature: 0.5\nproviders:\n"
        f"  lab: {{base_url: '{server.base_url}'}}\n# after\n",
        f"MY_KEY={KEY}\n",
    )
    text = said(capsys, "set", "lab:alpha")
    assert "base_url, api_key of the model section moved to providers.custom" in text
    assert "model.context_length was for another model and is removed" in text
    written = (home / "config.yaml").read_text()
    assert written.startswith("# before\n") and "# after" in written and "temperature: 0.5" in written
    assert "api_key: ${MY_KEY}" in written
    assert server.keys == [""]  # the key of one server is never sent to another
    assert said(capsys).startswith("Model: alpha at lab")
    said(capsys, "set", "custom", "m", "--no-check")
    assert said(capsys).splitlines()[0] == "Model: m at custom (http://127.0.0.1:9/v1)"


def test_a_key_from_standard_input(
    home: Path, capsys: Output, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.key = KEY
    write(home, lab(server, provider="groq"), "# keys\nOTHER=1\n")
    assert "lab wants a key" in said(capsys, "set", "lab:alpha", code=1)
    give(monkeypatch, "sk-wrong-0123456789\n")
    line = said(capsys, "set", "lab:alpha", "--key-stdin", code=1)
    assert "refused the key (the one just given): HTTP 401" in line and "sk-wrong" not in line
    assert (home / ".env").read_text() == "# keys\nOTHER=1\n"
    give(monkeypatch, f"{KEY}\n")
    (home / ".env").chmod(0o644)
    assert f"the key is stored as LAB_TOKEN in {home}/.env" in said(capsys, "set", "lab:alpha", "--key-stdin")
    assert (home / ".env").read_text() == f"# keys\nOTHER=1\nLAB_TOKEN='{KEY}'\n"
    assert stat.S_IMODE((home / ".env").stat().st_mode) == 0o600
    give(monkeypatch, "a b\n")
    assert "characters that no key has" in said(capsys, "set", "lab:alpha", "--key-stdin", code=1)


def test_a_server_of_ones_own_with_a_key(
    home: Path, capsys: Output, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.key = KEY
    give(monkeypatch, KEY)
    said(capsys, "set", "custom", "alpha", "--base-url", server.base_url, "--key-stdin")
    assert (home / "config.yaml").read_text() == (
        f"model:\n  provider: custom\n  default: alpha\n  base_url: {server.base_url}\n  key_env: CUSTOM_API_KEY\n"
    )
    assert said(capsys, "test").startswith("alpha at custom works")


def test_a_new_key_wins_over_one_in_the_file(
    home: Path, capsys: Output, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.key = KEY
    write(home, lab(server).replace("key_env: LAB_TOKEN", "key_env: LAB_TOKEN, api_key: old-key-01234"))
    give(monkeypatch, KEY)
    said(capsys, "set", "lab:alpha", "--key-stdin")
    assert "old-key" not in (home / "config.yaml").read_text()
    assert said(capsys, "test").startswith("alpha at lab works")


def test_wrong_usage(home: Path, capsys: Output) -> None:
    assert "unknown provider 'opnrouter'; did you mean 'openrouter'?" in said(capsys, "set", "opnrouter", "m", code=1)
    assert "names no provider, and none is set up" in said(capsys, "set", "some-model", code=1)
    assert "give a model, PROVIDER:MODEL" in said(capsys, "set", "a", "b", "c", code=1)
    assert not (home / "config.yaml").exists()


def test_two_at_once_leave_a_whole_file(home: Path, workdir: Path, server: ModelServer) -> None:
    write(home, lab(server), f"LAB_TOKEN={KEY}\n")
    runs = [start_hermes("model", "set", "lab", name, home=home, cwd=workdir) for name in ("alpha", "beta")]
    assert [run.wait(60) for run in runs] == [0, 0]
    written = (home / "config.yaml").read_text()
    assert written in (lab(server), lab(server).replace("default: alpha", "default: beta"))


# -- on a terminal --------------------------------------------------------------------------------------------------


def test_a_missing_key_is_asked_for_and_not_shown(home: Path, workdir: Path, server: ModelServer) -> None:
    server.key = KEY
    write(home, lab(server, provider="groq"))
    with ReplTerminal(home, workdir, "model", "set", "lab:alfa", ready="Key for lab (not shown):") as terminal:
        terminal.send("sk-wrong-0123456789")
        terminal.wait_for("refused the key (the one just given)")
        # What is typed before the question comes would be echoed by the terminal itself.
        terminal.wait_until(lambda: terminal.text.count("Key for lab") == 2, "the second question")
        terminal.send(KEY)
        terminal.wait_for("Use alpha instead?")
        terminal.send("")
        terminal.wait_for("Now using alpha at lab")
        assert terminal.end() == 0
        assert b"sentinel" not in terminal.raw and b"sk-wrong" not in terminal.raw
    assert (home / ".env").read_text() == f"LAB_TOKEN='{KEY}'\n"
    assert stat.S_IMODE((home / ".env").stat().st_mode) == 0o600


def test_picking_from_the_list(home: Path, workdir: Path) -> None:
    with model_server([f"model-{number:02}" for number in range(40)]) as server:
        write(home, lab(server).replace(", key_env: LAB_TOKEN", ""))
        with ReplTerminal(home, workdir, "model", rows=50, ready="Number or name") as terminal:
            assert "Model: alpha at lab" in terminal.text
            terminal.send("99")
            terminal.wait_for("'99' is not a choice")
            terminal.send("lab")
            terminal.wait_for("(40 models; a part of a name narrows")  # the rest may be on the next line
            terminal.send("l-3")
            terminal.wait_for("10. model-39")
            shown = "".join(terminal.text.splitlines())
            assert "(40 models; a part of a name narrows them down)" in shown
            terminal.send("2")
            terminal.wait_for("Now using model-31 at lab")
            assert terminal.end() == 0
    assert "default: model-31" in (home / "config.yaml").read_text()


@pytest.mark.parametrize(("keys", "code"), [(CTRL_C, 130), ("\r", 0), ("lab\r\x04", 0)])
def test_leaving_changes_nothing(home: Path, workdir: Path, server: ModelServer, keys: str, code: int) -> None:
    write(home, lab(server).replace(", key_env: LAB_TOKEN", ""))
    before = (home / "config.yaml").read_text()
    with ReplTerminal(home, workdir, "model", rows=50, ready="Number or name") as terminal:
        terminal.type(keys)
        assert terminal.end() == code, terminal.text
    assert (home / "config.yaml").read_text() == before and not (home / ".env").exists()


def test_in_a_pipe_nobody_is_asked(home: Path, workdir: Path, server: ModelServer) -> None:
    write(home, lab(server))
    done = run_hermes("model", home=home, cwd=workdir)
    assert isinstance(done, subprocess.CompletedProcess) and done.returncode == 0
    assert "Pick another" not in done.stderr and "Key:   none; set LAB_TOKEN" in done.stdout


def test_a_model_that_cannot_be_used_is_said_before_others_are_offered(home: Path, workdir: Path) -> None:
    write(
        home,
        "model: {provider: lab, default: m}\nproviders:\n  lab: {base_url: 'http://127.0.0.1:9/v1', enabled: false}\n",
    )
    with ReplTerminal(home, workdir, "model", columns=120, rows=50, ready="Number or name") as terminal:
        assert "provider 'lab' is disabled" in terminal.text
        terminal.send("")
        assert terminal.end() == 0
        assert "Nothing was changed." in terminal.text
