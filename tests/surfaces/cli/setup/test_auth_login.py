"""``hermes auth login`` as a real process against a real authorization server."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from hermes.models.credentials.store import AuthFile
from support import run_hermes, start_hermes
from support.authorization_server import AuthorizationServer, authorization_server, visit
from support.repl_terminal import CTRL_C, ReplTerminal


@pytest.fixture
def server(home: Path) -> Generator[AuthorizationServer]:
    """A server that the configuration of the home names for ``lab``."""
    with authorization_server() as server:
        home.mkdir()
        (home / "config.yaml").write_text(server.config())
        yield server


def no_secret_in(text: str, server: AuthorizationServer) -> bool:
    return not any(secret in text for secret in server.secrets)


def test_with_a_browser(home: Path, workdir: Path, server: AuthorizationServer) -> None:
    arguments = ("auth", "login", "lab", "--profile", "me")
    with start_hermes(*arguments, home=home, cwd=workdir, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines: list[str] = []
        while not (lines and lines[-1].startswith("Waiting")):
            lines.append(process.stdout.readline())
        address = next(line.strip() for line in lines if "/authorize?" in line)
        assert visit(address)[0] == 200
        rest, errors = process.communicate(timeout=60)
    [stored] = AuthFile(home).credentials("lab")
    assert rest == "lab: signed in, stored as 'me'\n"
    assert (errors, process.returncode) == ("", 0)
    assert stored.secret in server.secrets and stored.refresh_token in server.secrets and stored.auth_type == "oauth"
    assert no_secret_in("".join(lines) + rest, server)
    shown = run_hermes("auth", "list", home=home, cwd=workdir)
    assert re.search(rf"lab +{stored.id} +me +sign-in +0 +ready\n", shown.stdout)
    assert no_secret_in(shown.stdout, server)


def test_on_another_device_and_again(home: Path, workdir: Path, server: AuthorizationServer) -> None:
    server.device_answer = {"interval": 0.05}
    server.device_errors = ["authorization_pending", "authorization_pending"]
    for _ in range(2):
        done = run_hermes("auth", "login", "lab", "--device", home=home, cwd=workdir)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"  {server.url}/go\n  WDJB-MJHT\n" in done.stdout
        assert no_secret_in(done.stdout, server)
    [stored] = AuthFile(home).credentials("lab")  # the second one took the place of the first
    assert stored.label == "login" and stored.secret in server.secrets


def test_a_refusal_is_one_line(home: Path, workdir: Path, server: AuthorizationServer) -> None:
    server.device_answer = {"interval": 0.05}
    server.device_errors = ["access_denied"]
    done = run_hermes("auth", "login", "lab", "--device", home=home, cwd=workdir)
    assert (done.returncode, done.stderr) == (1, "Error: lab: the sign-in was refused\n")
    assert AuthFile(home).credentials("lab") == []


def test_a_key_of_that_name_is_not_replaced(home: Path, workdir: Path, server: AuthorizationServer) -> None:
    server.device_answer = {"interval": 0.05}
    run_hermes(
        "auth", "add", "lab", "--profile", "me", "--key-stdin", home=home, cwd=workdir, stdin="sk-mine-0123456789"
    )
    done = run_hermes("auth", "login", "lab", "--device", "--profile", "me", home=home, cwd=workdir)
    assert done.returncode == 1 and "a credential 'me' is stored for lab already" in done.stderr
    assert [one.secret for one in AuthFile(home).credentials("lab")] == ["sk-mine-0123456789"]


def test_a_provider_that_is_not_set_up_for_it(home: Path, workdir: Path, server: AuthorizationServer) -> None:
    done = run_hermes("auth", "login", "openrouter", home=home, cwd=workdir)
    assert done.returncode == 1 and "openrouter: how to sign in is not configured" in done.stderr
    text = (home / "config.yaml").read_text()
    (home / "config.yaml").write_text(re.sub(r"      device_url: .*\n", "", text))
    done = run_hermes("auth", "login", "lab", "--device", home=home, cwd=workdir)
    assert done.stderr == "Error: lab: providers.lab.oauth.device_url is not set in config.yaml\n"


def test_on_a_terminal_a_browser_is_opened(home: Path, workdir: Path, server: AuthorizationServer) -> None:
    opened = workdir / "opened"
    browser = workdir / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.part\nmv {opened}.part {opened}\n')
    browser.chmod(0o755)
    env = {"BROWSER": str(browser)}
    with ReplTerminal(home, workdir, "auth", "login", "lab", env=env, ready="Waiting ...") as terminal:
        terminal.wait_until(opened.exists, "the browser")
        visit(opened.read_text().strip())
        terminal.wait_for("lab: signed in, stored as 'login'")
        assert terminal.end() == 0
    opened.unlink()
    with ReplTerminal(home, workdir, "auth", "login", "lab", "--no-browser", env=env, ready="Waiting ...") as terminal:
        terminal.type(CTRL_C)
        assert terminal.end() == 130
    assert not opened.exists()
