"""Ordinary work of a developer, done by the terminal tool in the sandbox with default settings."""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import sys
import threading
import zipfile
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from hermes.base.errors import Interrupted
from hermes.tools.sandbox.backend import SandboxBackend
from support.git_server import serve_git
from support.sandbox_rig import SandboxRig, outside
from support.waiting import wait_until

MakeRig = Callable[..., SandboxRig]


@pytest.fixture
def rig(make_rig: MakeRig, backend: SandboxBackend) -> SandboxRig:
    return make_rig(backend)


@pytest.fixture
def repository(rig: SandboxRig) -> SandboxRig:
    rig.git("init", "-q", "-b", "main")
    (rig.workspace / "README").write_text("hello\n")
    rig.git("add", "README")
    rig.git("commit", "-qm", "first")
    return rig


def test_commit_and_remote(repository: SandboxRig) -> None:
    result = repository.run("echo x > a && git add a && git commit -qm second && git remote add up /nowhere/at/all")
    assert (result["exit_code"], result.get("undone")) == (0, None), result
    assert repository.git("log", "--format=%s").splitlines() == ["second", "first"]
    assert repository.git("remote", "get-url", "up") == "/nowhere/at/all"


def test_commit_and_remote_in_a_worktree(repository: SandboxRig) -> None:
    tree = repository.home / "tree"
    repository.git("worktree", "add", "-q", str(tree), "-b", "side")
    repository.context.cwd = tree
    result = repository.run("echo x > a && git add a && git commit -qm second && git remote add up /nowhere/at/all")
    assert (result["exit_code"], result.get("undone")) == (0, None), result
    assert repository.git("log", "--format=%s", "side").splitlines() == ["second", "first"]
    # The working tree that the repository belongs to is not part of this workspace.
    assert repository.run(f"echo x > {repository.workspace}/README")["exit_code"] != 0


def test_branches_stashes_and_rebases(repository: SandboxRig) -> None:
    repository.works(
        "git checkout -qb side && echo y > b && git add b && git commit -qm side && git checkout -q main && echo z > c "
        "&& git add c && git stash -q && git stash pop -q && git commit -qm third "
        "&& git rebase -q main side && git gc -q"
    )
    assert "side" in repository.git("log", "--format=%s", "side")


def test_push_to_a_repository_in_a_writable_folder(make_rig: MakeRig, backend: SandboxBackend, folder: Path) -> None:
    shared = folder / "shared.git"
    outside(["git", "init", "-q", "--bare", str(shared)], folder)
    rig = make_rig(backend, sandbox_write=[str(shared)])
    rig.git("init", "-q", "-b", "main")
    rig.works(f"echo x > a && git add a && git commit -qm one && git remote add up {shared} && git push -q up main")
    assert outside(["git", "--git-dir", str(shared), "log", "--format=%s", "main"], folder) == "one"


@pytest.fixture
def git_server(folder: Path) -> Generator[tuple[str, Path]]:
    with serve_git(folder) as served:
        yield served


def test_push_over_the_network_with_a_credential_that_was_passed_on(
    make_rig: MakeRig, backend: SandboxBackend, git_server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, bare = git_server
    monkeypatch.setenv("PUSH_TOKEN", "passed-on-secret")
    push = f"git push -q http://me:$PUSH_TOKEN@{address} main"
    withheld = make_rig(backend, network="on")
    withheld.git("init", "-q", "-b", "main")
    withheld.works("echo x > a && git add a && git commit -qm one")
    refused = withheld.run(f"GIT_TERMINAL_PROMPT=0 {push}")
    assert refused["exit_code"] != 0
    assert "PUSH_TOKEN" in refused["hint"]
    passed = make_rig(backend, network="on", env_passthrough=["PUSH_TOKEN"])
    passed.works(push)
    assert outside(["git", "--git-dir", str(bare), "log", "--format=%s", "main"], bare) == "one"


# -- packages -------------------------------------------------------------------------------------------------------


def make_wheel(folder: Path) -> Path:
    wheel = folder / "kiwi_fruit-1.0-py3-none-any.whl"
    info = "kiwi_fruit-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("kiwi_fruit.py", "TASTE = 'sweet'\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: kiwi-fruit\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return wheel


def python() -> str:
    """An interpreter with pip and venv, outside of any virtual environment."""
    return os.path.realpath(sys.executable)


@pytest.mark.slow
def test_pip_installs_into_a_virtual_environment_of_the_workspace(
    make_rig: MakeRig, backend: SandboxBackend, folder: Path
) -> None:
    rig = make_rig(backend, network="on")
    index = folder / "index"
    (index / "kiwi-fruit").mkdir(parents=True)
    wheel = make_wheel(index / "kiwi-fruit")
    (index / "kiwi-fruit" / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(index))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        printed = rig.works(
            f"{python()} -m venv env && env/bin/python -m pip install -q --disable-pip-version-check --index-url {url} "
            "kiwi-fruit && env/bin/python -c 'import kiwi_fruit; print(kiwi_fruit.TASTE)'"
        )
        server.shutdown()
    assert printed.splitlines()[-1] == "sweet"


def test_pytest_runs(rig: SandboxRig) -> None:
    (rig.workspace / "test_it.py").write_text(
        "def test_it(tmp_path):\n    (tmp_path / 'a').write_text('x')\n    assert (tmp_path / 'a').read_text() == 'x'\n"
    )
    path = os.pathsep.join(filter(None, sys.path))
    assert "1 passed" in rig.works(f"PYTHONPATH='{path}' {python()} -m pytest -q -p no:xdist test_it.py")


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_npm_ci(rig: SandboxRig) -> None:
    local = rig.workspace / "kiwi"
    local.mkdir()
    (local / "package.json").write_text(json.dumps({"name": "kiwi", "version": "1.0.0", "main": "index.js"}))
    (local / "index.js").write_text("module.exports = 'sweet'\n")
    wanted = {"name": "project", "version": "1.0.0", "dependencies": {"kiwi": "file:kiwi"}}
    (rig.workspace / "package.json").write_text(json.dumps(wanted))
    rig.works("npm install --package-lock-only --no-audit --no-fund --offline")
    assert rig.works("npm ci --no-audit --no-fund --offline >&2 && node -p 'require(\"kiwi\")'").endswith("sweet")


def test_what_one_command_leaves_in_the_temporary_folder_is_there_for_the_next(rig: SandboxRig) -> None:
    rig.works('mkdir "$TMPDIR/build" && echo kept > "$TMPDIR/build/file"')
    where = rig.works('echo "$TMPDIR"')
    assert rig.works("cat file", workdir=f"{where}/build") == "kept"


def test_a_background_process_is_in_the_sandbox_too(rig: SandboxRig) -> None:
    target = rig.home / "outside.txt"
    started = rig.run(f"echo x > inside.txt; echo x > {target}; cat ~/.ssh/id_ed25519", background=True)
    ended = rig.call("process", action="wait", session_id=started["session_id"], timeout=60)
    assert ended["status"] == "exited"
    assert "PRIVATE KEY" not in ended["output"]
    assert (rig.workspace / "inside.txt").exists()
    assert not target.exists()


def test_a_long_command_and_one_on_a_pseudo_terminal(rig: SandboxRig) -> None:
    long = "echo start\n" + ": filler\n" * 20_000 + "echo end"
    assert rig.works(long).split() == ["start", "end"]
    assert rig.works("test -t 0 && echo terminal", pty=True) == "terminal"


def test_stopping_a_command_ends_everything_in_it(rig: SandboxRig) -> None:
    def stop() -> None:
        wait_until((rig.workspace / "started").exists, "the start of the command")
        rig.context.scope.interrupt.cancel("stop")

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(Interrupted):
        rig.call(command="trap '' TERM; (trap '' TERM; touch started; exec sleep 600) & wait", timeout=600)
    stopper.join()
