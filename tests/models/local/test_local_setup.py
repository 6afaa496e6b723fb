"""The embedded model where models are shown, chosen, tried and examined."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hermes.models.local.endpoint import NOTICE
from hermes.models.local.running import running_states
from hermes.surfaces.cli.main import main
from support import run_hermes
from support.doctor_rig import examine
from support.local_rig import write_gguf
from support.repl_terminal import ReplTerminal

Output = pytest.CaptureFixture[str]

MENU = "Number (Enter to cancel):"
#: Whatever a test does, it downloads nothing.
NO_INDEX = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null"}
MISSING = "the embedded model is not installed; run: hermes local install"


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``.env`` adds to the environment ends with the test."""
    monkeypatch.setattr(os, "environ", os.environ.copy())


@pytest.fixture
def nobody(home: Path) -> str:
    """Settings under which no other server of this machine is found."""
    home.mkdir(exist_ok=True)
    places = (
        f"  {name}: {{base_url: 'http://127.0.0.1:9/v1'}}\n" for name in ("ollama", "vllm", "llamacpp", "lmstudio")
    )
    text = "providers:\n" + "".join(places)
    (home / "config.yaml").write_text(text)
    return text


def said(capsys: Output, *arguments: str, code: int = 0) -> str:
    assert main([*arguments]) == code
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.err


# -- hermes model ---------------------------------------------------------------------------------------------------


def test_what_stands_in_is_shown_with_its_reason(installed: Path, capsys: Output) -> None:
    assert said(capsys, "model").splitlines() == [
        "Model: smollm2-135m at local (this machine)",
        "Why:   nothing else is set up",
        "Key:   none",
    ]


def test_the_list_says_whether_it_is_installed(installed: Path, nobody: str, capsys: Output) -> None:
    lines = {line[2:].split()[0]: line for line in said(capsys, "model", "list").splitlines()}
    assert lines["local"].startswith("* local") and lines["local"].endswith("installed; small, needs no key")
    assert said(capsys, "model", "list", "local") == "smollm2-135m\n"


def test_the_list_says_how_to_get_it(bare_environment: None, nobody: str, capsys: Output) -> None:
    lines = {line[2:].split()[0]: line for line in said(capsys, "model", "list").splitlines()}
    assert lines["local"].endswith(MISSING)
    row = {row["name"]: row for row in json.loads(said(capsys, "model", "list", "--json"))["providers"]}["local"]
    assert (row["missing"], row["answers"]) == (MISSING, None)
    assert said(capsys, "model", "list", "local", code=1) == f"Error: {MISSING}\n"


@pytest.mark.parametrize("words", [(), ("local",), ("embedded:smollm2-135m",)])
def test_it_is_tried_like_any_other(installed: Path, capsys: Output, words: tuple[str, ...]) -> None:
    assert said(capsys, "model", "test", *words).startswith("smollm2-135m at local works: it answered in ")
    assert not running_states(installed)


def test_a_trial_says_that_it_is_missing(bare_environment: None, capsys: Output) -> None:
    assert said(capsys, "model", "test", "local", code=1) == f"Error: setup: {MISSING}\n"


def test_a_trial_says_why_it_does_not_start(installed: Path, tmp_path: Path, capsys: Output) -> None:
    os.environ["HERMES_LOCAL_MODEL"] = str(write_gguf(tmp_path / "broken.gguf"))
    assert main(["model", "test", "local", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["problem"], found["model"], found["address"]) == ("model", "broken.gguf", "this machine")
    assert "the runtime cannot run" in found["detail"]


def test_it_can_be_set(installed: Path, nobody: str, capsys: Output) -> None:
    assert said(capsys, "model", "set", "local").startswith("Now using smollm2-135m at local")
    assert (installed / "config.yaml").read_text() == nobody + "model:\n  provider: local\n  default: smollm2-135m\n"
    assert "Why:   chosen by model.provider in config.yaml" in said(capsys, "model")


# -- hermes doctor --------------------------------------------------------------------------------------------------


def test_the_doctor_looks_at_the_files_and_starts_nothing(installed: Path, workdir: Path, tmp_path: Path) -> None:
    seen = examine(installed, workdir, "model", "--offline")
    choice, state = seen.about("model")
    assert (choice["status"], choice["detail"]) == ("ok", "smollm2-135m at local, nothing else is set up")
    assert (state["status"], state["command"]) == ("broken", "hermes local install")  # these weights are made up
    assert state["detail"].endswith(".gguf is damaged")
    path = write_gguf(tmp_path / "own.gguf")
    seen = examine(installed, workdir, "model", env={"HERMES_LOCAL_MODEL": str(path)})
    choice, state = seen.about("model")
    assert choice["detail"].startswith("own.gguf at local")
    assert (state["status"], state["detail"]) == ("ok", f"{path} and xllamacpp 2026.10.1 are installed")
    assert not (installed / "local" / "run").exists()


def test_the_doctor_says_what_is_missing(home: Path, workdir: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text("model: {provider: local}\nfallback_providers: [{provider: local}]\n")
    seen = examine(home, workdir, "model")
    assert seen.one("model", "broken")["detail"] == "the embedded model is not installed"
    assert seen.one("fallback 1", "warning")["fix"] == "run: hermes local install"
    (home / "config.yaml").unlink()
    assert seen.code == 1
    found = examine(home, workdir, "model").one("model", "broken")
    assert (found["detail"], found["command"]) == ("no model is set up", "hermes model")
    assert "hermes local install" in found["fix"]


# -- the first run --------------------------------------------------------------------------------------------------


def test_it_is_offered_and_what_it_needs_is_got(home: Path, workdir: Path, nobody: str) -> None:
    with ReplTerminal(home, workdir, "chat", "-q", "Hello.", columns=120, ready=MENU, env=NO_INDEX) as terminal:
        assert "3. the embedded model: small, needs no key, 127 MB to download" in terminal.text
        terminal.send("3")
        terminal.wait_for("Downloading the runtime and the weights, about 127 MB")
        assert terminal.end() == 1  # this test has no index to get it from
        assert "Error: " in terminal.text
    assert (home / "config.yaml").read_text() == nobody


def test_who_has_it_is_asked_nothing_and_told_once(installed: Path, workdir: Path, nobody: str) -> None:
    with ReplTerminal(installed, workdir, columns=150) as terminal:
        assert terminal.text.count(NOTICE) == 1
        terminal.send("Hello! say:Hello there")
        terminal.wait_for("Hello there\n")
        terminal.wait_until_idle()
        terminal.send("/new")
        terminal.wait_until_idle()
        terminal.send("/quit")
        assert terminal.end() == 0
        assert terminal.raw.decode().count(NOTICE) == 1 and MENU not in terminal.text
    assert (installed / "config.yaml").read_text() == nobody


@pytest.mark.parametrize("style", [(), ("--json",), ("--stream-json",), ("--quiet",), ("--verbose",)])
def test_every_style_of_output_says_once_who_answers(installed: Path, workdir: Path, style: tuple[str, ...]) -> None:
    done = run_hermes("chat", *style, "-q", "Hi! say:Yes", home=installed, cwd=workdir)
    assert done.returncode == 0 and "Yes" in done.stdout
    assert NOTICE not in done.stdout and done.stderr.count(NOTICE) == 1
