"""Providers that plugins bring, to the commands about models and keys, and to the first run."""

from __future__ import annotations

import io
import os
from collections.abc import Generator
from pathlib import Path

import pytest

from hermes.models.credentials.store import AuthFile
from hermes.surfaces.cli.main import main
from support.configured import write_plugin
from support.doctor_rig import examine
from support.model_server import ModelServer, model_server
from support.repl_terminal import ReplTerminal

KEY = "sk-sentinel-0123456789abcdef"
MANIFEST = "name: acme\nversion: 1.0.0\nkind: model-provider\n"
PLUGIN = """
def register(ctx):
    ctx.register_model_provider({{
        "name": "acme", "aliases": ["ac"], "base_url": "{url}", "env_vars": ["ACME_API_KEY"], "default_model": "alpha",
    }})
"""

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``.env`` adds to the environment ends with the test."""
    monkeypatch.setattr(os, "environ", os.environ.copy())


@pytest.fixture
def server(home: Path) -> Generator[ModelServer]:
    """The plugin's server. The plugin is there and not enabled."""
    with model_server(key=KEY) as running:
        write_plugin(home, "acme", PLUGIN.format(url=running.base_url), MANIFEST)
        yield running


def enable(home: Path, more: str = "") -> None:
    (home / "config.yaml").write_text(f"plugins: {{enabled: [acme]}}\n{more}")
    (home / "config.yaml").chmod(0o600)


def said(capsys: Output, *arguments: str, code: int = 0) -> str:
    assert main([*arguments]) == code
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.err


def test_a_key_can_be_stored_for_it(
    home: Path, server: ModelServer, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(KEY))
    assert said(capsys, "auth", "add", "acme", "--key-stdin") == "acme: key …cdef stored as 'key-1'\n"
    assert [one.secret for one in AuthFile(home).credentials("acme")] == [KEY]
    assert said(capsys, "model", "test", "acme", "alpha").startswith("alpha at acme works")
    assert server.keys == [KEY]
    assert "did you mean 'openrouter'?" in said(capsys, "auth", "add", "opnrouter", code=1)


def test_an_enabled_one_is_used_because_of_its_key(
    home: Path, server: ModelServer, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    enable(home)
    monkeypatch.setenv("ACME_API_KEY", KEY)
    assert said(capsys, "model").splitlines() == [
        f"Model: alpha at acme ({server.base_url})",
        "Why:   chosen by its key, ACME_API_KEY in the environment",
        "Key:   ACME_API_KEY in the environment",
    ]


def test_who_has_one_is_not_offered_others(home: Path, workdir: Path, server: ModelServer) -> None:
    enable(home)
    env = {"ACME_API_KEY": KEY}
    with ReplTerminal(home, workdir, "chat", "-q", "Hello.", ready="OK", env=env) as terminal:
        assert terminal.end() == 0
        assert "set up" not in terminal.text
    assert server.keys == [KEY]


@pytest.mark.parametrize("settings", ["model: {provider: acme}\n", "model: {default: alpha}\n"])
def test_the_doctor_asks_it_when_plugins_may_be_loaded(
    home: Path, workdir: Path, server: ModelServer, settings: str
) -> None:
    enable(home, settings)
    env = {"ACME_API_KEY": KEY}
    [unknown] = examine(home, workdir, "model", env=env).about("model")
    assert (unknown["status"], server.keys) == ("skipped", [])
    assert unknown["detail"].endswith("plugins were not loaded (use --load)")
    choice, answer = examine(home, workdir, "model", "--load", env=env).about("model")
    assert choice["detail"].startswith("alpha at acme, chosen by ")
    assert answer["status"] == "ok" and "and has alpha" in answer["detail"]


def test_a_misspelt_provider_is_no_plugins_matter(home: Path, workdir: Path, server: ModelServer) -> None:
    (home / "config.yaml").write_text("model: {provider: opnrouter}\n")
    assert "did you mean 'openrouter'?" in examine(home, workdir, "model").one("model", "broken")["fix"]
