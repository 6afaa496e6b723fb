"""Ordinary work of a person at the prompt, with default settings, in the sandbox."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
import zipfile
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path

import pytest

from hermes.base.scope import Scope
from hermes.tools.sandbox.backend import SandboxBackend
from support.sandbox_rig import SandboxRig, outside
from support.waiting import wait_until

MakeRig = Callable[..., SandboxRig]


@pytest.fixture
def rig(make_rig: MakeRig, bubblewrap: SandboxBackend) -> SandboxRig:
    return make_rig(bubblewrap, attended=True)


def test_git_with_hooks_of_the_owner_and_a_push_that_has_to_be_asked_about(rig: SandboxRig, folder: Path) -> None:
    rig.git("init", "-q", "-b", "main")
    hook = rig.workspace / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\necho checked >> checks.log\n")
    hook.chmod(0o755)
    commit = "git add a && git commit -qm"
    rig.works(f"echo x > a && {commit} one && git checkout -qb side && echo y > a && {commit} two")
    rig.works("git checkout -q main && echo b > b && git add b && git commit -qm three && git rebase -q main side")
    assert rig.git("log", "--format=%s", "side").splitlines() == ["two", "three", "one"]
    assert (rig.workspace / "checks.log").read_text().count("checked") >= 3
    remote = folder / "remote.git"
    outside(["git", "init", "-q", "--bare", str(remote)], folder)
    refused = rig.run(f"git push -q {remote} main")
    assert refused["exit_code"] != 0
    assert f"{remote} cannot be changed (hermes config set terminal.sandbox_write '[{remote}]'" in refused["sandbox"]
    assert "repeat it with outside_sandbox=true: the user is asked" in refused["sandbox"]
    rig.works(f"git push -q {remote} main", outside_sandbox=True)
    assert outside(["git", "--git-dir", str(remote), "log", "--format=%s", "main"], folder).startswith("three")


def test_a_refusal_names_the_path_and_the_setting(rig: SandboxRig) -> None:
    other = rig.home / "other"
    other.mkdir()
    said = rig.run(f"echo x > {other}/file")["sandbox"]
    assert f"{other}/file cannot be changed (hermes config set terminal.sandbox_write '[{other}]' gives it)" in said
    assert "~/.ssh/id_ed25519".replace("~", str(rig.home)) in rig.run("cat ~/.ssh/id_ed25519")["sandbox"]


def test_the_caches_of_the_owner_cannot_be_changed(rig: SandboxRig) -> None:
    places = (
        ".npm/_npx",
        ".npm/_cacache",
        ".cache/pip",
        ".cache/uv",
        ".cargo/registry",
        "go/pkg/mod",
        ".m2/repository",
    )
    for place in places:
        (rig.home / place).mkdir(parents=True)
        assert rig.run(f"echo x > ~/{place}/x")["exit_code"] != 0, place
    variables = (
        "PIP_CACHE_DIR UV_CACHE_DIR npm_config_cache CARGO_HOME GOPATH GOMODCACHE NUGET_PACKAGES DENO_DIR".split()
    )
    rig.works("; ".join(f'mkdir -p "${name}/_npx" && echo x > "${name}/_npx/x" || exit 1' for name in variables))
    assert not [place for place in places if any((rig.home / place).iterdir())]


def test_the_caches_of_a_workspace_last_and_are_its_own(make_rig: MakeRig, bubblewrap: SandboxBackend) -> None:
    fill = 'mkdir -p "$npm_config_cache" && echo kept > "$npm_config_cache/x"'
    with make_rig(bubblewrap) as first:
        (first.home / ".cargo").mkdir()
        (first.home / ".cargo" / "config.toml").write_text("[net]\n")
        first.works(fill)
    again = make_rig(bubblewrap)
    assert again.works('cat "$npm_config_cache/x" "$CARGO_HOME/config.toml"').strip() == "kept\n[net]"
    hook = again.confinements.of_hook_command(Scope(), again.workspace, ())
    assert hook.sandbox is not None
    mine = again.confinements.of_command(Scope(), again.workspace)
    assert mine.sandbox is not None
    assert set(hook.sandbox.profile.caches).isdisjoint(mine.sandbox.profile.caches)
    other = make_rig(bubblewrap, workspace="other")
    assert other.works('ls "$npm_config_cache/x" || echo none').strip().endswith("none")


def test_the_caches_work_where_the_workspace_is_the_home_folder(make_rig: MakeRig, backend: SandboxBackend) -> None:
    rig = make_rig(backend, workspace=".")
    assert rig.works('mkdir -p "$CARGO_HOME" && echo x > "$CARGO_HOME/x" && cat "$CARGO_HOME/x"').strip() == "x"
    assert "hidden-value-1" not in rig.run("cat ~/.hermes/.env")["output"]


def test_a_link_in_place_of_the_caches_opens_nothing(make_rig: MakeRig, bubblewrap: SandboxBackend) -> None:
    with make_rig(bubblewrap) as first:
        (first.home / "bin").mkdir()
        first.works('echo x > "$UV_CACHE_DIR.x"')
    above = first.hermes_home / "cache" / "packages"
    (made,) = above.iterdir()
    shutil.rmtree(made)
    made.symlink_to(first.home / "bin")
    with make_rig(bubblewrap) as second:
        assert second.run("echo x > ~/bin/evil")["exit_code"] != 0
        assert second.works('echo "$UV_CACHE_DIR"').startswith("/tmp/")
    made.unlink()
    above.rmdir()
    above.symlink_to(first.home / "bin")
    third = make_rig(bubblewrap)
    assert third.run("echo x > ~/bin/evil")["exit_code"] != 0
    assert third.works('echo "$UV_CACHE_DIR"').startswith("/tmp/")
    assert not list((first.home / "bin").iterdir())


def test_caches_are_removed_when_their_workspace_is_gone(make_rig: MakeRig, bubblewrap: SandboxBackend) -> None:
    with make_rig(bubblewrap, workspace="old") as first:
        first.works('mkdir -p "$GOPATH/pkg" && chmod 500 "$GOPATH/pkg" && echo x > "$UV_CACHE_DIR.x"')
    above = first.hermes_home / "cache" / "packages"
    (made,) = above.iterdir()
    first.workspace.rmdir()
    make_rig(bubblewrap).works("true")
    assert len(list(above.iterdir())) == 1
    assert not made.exists()


def test_a_caller_has_private_caches(make_rig: MakeRig, bubblewrap: SandboxBackend) -> None:
    rig = make_rig(bubblewrap, principal="bob", workspace=".hermes/principals/bob")
    assert rig.works('echo "$npm_config_cache"').startswith("/tmp/")


@pytest.mark.slow
def test_pip_installs_a_local_package(rig: SandboxRig) -> None:
    python = os.path.realpath(sys.executable)
    wheel = rig.workspace / "kiwi-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("kiwi.py", "TASTE = 'sweet'\n")
        archive.writestr("kiwi-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: kiwi\nVersion: 1.0\n")
        archive.writestr("kiwi-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("kiwi-1.0.dist-info/RECORD", "")
    install = f"env/bin/python -m pip install -q --disable-pip-version-check --no-index ./{wheel.name}"
    used = rig.works(f"{python} -m venv env && {install} && env/bin/python -c 'import kiwi; print(kiwi.TASTE)'")
    assert used.splitlines()[-1] == "sweet"


def test_a_server_in_the_background_and_tests_with_servers(rig: SandboxRig) -> None:
    (rig.workspace / "page.txt").write_text("served\n")
    (rig.workspace / "serve.py").write_text(
        "import http.server\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n"
        "open('port', 'w').write(str(server.server_address[1]))\nserver.serve_forever()\n"
    )
    rig.run("python3 serve.py", background=True)
    wait_until(lambda: (rig.workspace / "port").exists() and (rig.workspace / "port").read_text())
    fetch = (
        "import urllib.request as u; print(u.urlopen('http://127.0.0.1:' + open('port').read() + '/page.txt').read())"
    )
    assert "served" in rig.works(f'python3 -c "{fetch}"')


def test_a_language_server_in_the_background(rig: SandboxRig) -> None:
    (rig.workspace / "server.py").write_text("import sys\nfor line in sys.stdin: print('seen', line, flush=True)\n")
    started = rig.run("python3 -u server.py", background=True)["session_id"]
    for word in ("one", "two"):
        rig.call("process", action="submit", session_id=started, data=word)
        wait_until(lambda word=word: f"seen {word}" in str(rig.call("process", action="log", session_id=started)))


@pytest.fixture
def daemon(folder: Path) -> Generator[str]:
    """A service on a Unix socket that answers like Docker's ping."""
    path = str(folder / "docker.sock")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listening.accept()
                    with client:
                        client.sendall(b"HTTP/1.0 200 OK\r\n\r\nOK")

        threading.Thread(target=serve, daemon=True).start()
        yield path
        listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("setting", ["env_passthrough", "sandbox_write", ""])
def test_a_container_service_where_the_owner_allowed_it(
    make_rig: MakeRig, bubblewrap: SandboxBackend, monkeypatch: pytest.MonkeyPatch, daemon: str, setting: str
) -> None:
    home_socket = Path(daemon).parent / "user" / ".docker" / "run" / "docker.sock"
    home_socket.parent.mkdir(parents=True)
    Path(daemon).rename(home_socket)  # where it is hidden
    monkeypatch.setenv("DOCKER_HOST", f"unix://{home_socket}")
    values = {"env_passthrough": ["DOCKER_HOST"], "sandbox_write": [str(home_socket)]}
    rig = make_rig(bubblewrap, attended=True, **({setting: values[setting]} if setting else {}))
    connect = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('{home_socket}'); print(s.recv(99))"
    result = rig.run(f'python3 -c "{connect}"')
    assert ("200 OK" in result["output"]) is bool(setting), result
    assert rig.run('test -n "$DOCKER_HOST"')["exit_code"] == (0 if setting == "env_passthrough" else 1)


@pytest.mark.skipif(shutil.which("ssh-agent") is None, reason="ssh-agent is not installed")
@pytest.mark.parametrize("allowed", [True, False])
def test_the_ssh_agent_where_it_is_allowed(
    make_rig: MakeRig, bubblewrap: SandboxBackend, monkeypatch: pytest.MonkeyPatch, folder: Path, allowed: bool
) -> None:
    import subprocess

    path = folder / "agent.sock"
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL) as agent:
        try:
            wait_until(path.exists)
            monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
            rig = make_rig(bubblewrap, attended=True, **({"env_passthrough": ["SSH_AUTH_SOCK"]} if allowed else {}))
            (rig.home / ".ssh" / "known_hosts").write_text("known\n")
            result = rig.run("ssh-add -l")
            assert ("no identities" in result["output"]) is allowed, result
            assert (rig.run("cat ~/.ssh/known_hosts")["output"] == "known") is allowed
            if not allowed:
                assert "terminal.env_passthrough '[SSH_AUTH_SOCK]'" in result["sandbox"]
        finally:
            agent.terminate()


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")
@pytest.mark.slow
def test_cargo_builds(make_rig: MakeRig, bubblewrap: SandboxBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUSTUP_HOME", os.environ.get("RUSTUP_HOME") or str(Path("~/.rustup").expanduser()))
    rig = make_rig(bubblewrap, attended=True)
    (rig.workspace / "src").mkdir()
    (rig.workspace / "Cargo.toml").write_text('[package]\nname = "kiwi"\nversion = "1.0.0"\nedition = "2021"\n')
    (rig.workspace / "src" / "main.rs").write_text('fn main() { println!("sweet"); }\n')
    assert rig.works("cargo build -q --offline && ./target/debug/kiwi").endswith("sweet")
