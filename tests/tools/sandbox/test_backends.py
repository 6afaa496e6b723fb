"""Both sandbox backends, with real commands: what they can write, read and reach."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from hermes.tools.sandbox.backend import SandboxBackend, probe
from hermes.tools.sandbox.landlock import abi_version, readable_roots
from hermes.tools.sandbox.profile import SandboxProfile, make_profile
from hermes.tools.sandbox.workspace.repositories import git_folders, working_trees
from hermes.tools.sandbox.workspace.tree import workspace_tree

BACKENDS = [SandboxBackend("bubblewrap", "/usr/bin/bwrap"), SandboxBackend("landlock")]


@pytest.fixture(params=BACKENDS, ids=lambda backend: backend.name)
def backend(request: pytest.FixtureRequest) -> SandboxBackend:
    chosen: SandboxBackend = request.param
    if chosen.name == "bubblewrap":
        found = probe().backend
        if found is None or found.name != "bubblewrap":
            pytest.skip(f"bubblewrap does not work on this machine: {probe().summary}")
        return found
    if abi_version() == 0:
        pytest.skip("this kernel has no Landlock")
    return chosen


class Box:
    """A home folder with a workspace in it, and commands that run there."""

    def __init__(self, backend: SandboxBackend, folder: Path) -> None:
        self.backend = backend
        self.home = folder / "home"
        self.workspace = self.home / "project"
        self.temporary = folder / "private tmp"
        for path in (self.workspace, self.temporary, self.home / ".ssh"):
            path.mkdir(parents=True)
        (self.home / ".ssh" / "id_ed25519").write_text("PRIVATE")
        self.hermes = self.home / ".hermes"
        self.hermes.mkdir()
        (self.hermes / ".env").write_text("KEY=secret")

    def profile(self, mode: str = "workspace", **options: object) -> SandboxProfile:
        return make_profile(
            mode,  # pyright: ignore[reportArgumentType]
            str(self.workspace),
            home=str(self.home),
            secrets=[str(self.hermes)],
            **options,  # pyright: ignore[reportArgumentType]
        )

    def run(self, command: str, profile: SandboxProfile | None = None) -> subprocess.CompletedProcess[str]:
        def start(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
            environment = {**os.environ, "HOME": str(self.home), "TMPDIR": str(self.temporary)}
            return subprocess.run(
                arguments, capture_output=True, text=True, cwd=self.workspace, env=environment, timeout=60, check=False
            )

        arguments = ["/bin/sh", "-c", command]
        return self.backend.start(profile or self.profile(), str(self.temporary), arguments, start)


@pytest.fixture
def folder() -> Generator[Path]:
    """Not below /tmp, which bubblewrap replaces."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="hermes-sandbox-") as name:
        yield Path(name)


@pytest.fixture
def box(backend: SandboxBackend, folder: Path) -> Box:
    return Box(backend, folder)


def test_the_workspace_is_writable_and_the_rest_is_not(box: Box) -> None:
    done = box.run("echo inside > a.txt && mkdir -p sub/b && rm -r sub && cat a.txt")
    assert (done.returncode, done.stdout) == (0, "inside\n")
    assert (box.workspace / "a.txt").read_text() == "inside\n"
    outside = box.home / "outside.txt"
    assert box.run(f"echo x > {outside}").returncode != 0
    assert not outside.exists()
    assert box.run("echo x > /etc/hermes-probe").returncode != 0
    assert not Path("/etc/hermes-probe").exists()


def test_existing_files_outside_cannot_be_changed(box: Box) -> None:
    victim = box.home / "victim.txt"
    victim.write_text("before")
    for command in (f"echo x >> {victim}", f"rm {victim}", f"mv {victim} {victim}.2", f": > {victim}"):
        assert box.run(command).returncode != 0, command
    assert victim.read_text() == "before"


def test_read_only(box: Box) -> None:
    (box.workspace / "a.txt").write_text("here")
    profile = box.profile("read-only")
    assert box.run("cat a.txt", profile).stdout == "here"
    assert box.run("echo x > b.txt", profile).returncode != 0
    assert not (box.workspace / "b.txt").exists()


def test_the_temporary_folder_is_private_and_writable(box: Box) -> None:
    done = box.run('f=$(mktemp) && echo x > "$f" && cat "$f"', box.profile("read-only"))
    if box.backend.name == "bubblewrap":
        done = box.run("echo x > /tmp/f && cat /tmp/f", box.profile("read-only"))
        assert (box.temporary / "f").exists()
    assert (done.returncode, done.stdout) == (0, "x\n")


@pytest.mark.parametrize("name", [".ssh/id_ed25519", ".hermes/.env"])
def test_secrets_cannot_be_read(box: Box, name: str) -> None:
    (box.workspace / "link").symlink_to(box.home / name)
    for command in (f"cat {box.home / name}", "cat link", f"cat /proc/self/root{box.home / name}"):
        done = box.run(command)
        assert done.returncode != 0
        assert not {"PRIVATE", "KEY"} & set(done.stdout.replace("=", " ").split())


def test_secrets_stay_hidden_when_the_workspace_is_the_home_folder(backend: SandboxBackend, folder: Path) -> None:
    box = Box(backend, folder)
    box.workspace = box.home
    assert box.run("cat .ssh/id_ed25519").returncode != 0
    assert box.run("cat .hermes/.env").returncode != 0
    # Landlock cannot allow reading of files that are made later beside a hidden one.
    (box.home / "project").mkdir(exist_ok=True)
    target = "project/mine.txt" if backend.is_reduced else "mine.txt"
    assert box.run(f"echo x > {target} && cat {target}").stdout == "x\n"


def test_a_workspace_inside_of_a_hidden_folder(backend: SandboxBackend, folder: Path) -> None:
    box = Box(backend, folder)
    box.workspace = box.hermes / "principals" / "bob"
    box.workspace.mkdir(parents=True)
    assert box.run("echo x > mine.txt && cat mine.txt").stdout == "x\n"
    assert (box.workspace / "mine.txt").exists()
    assert box.run(f"cat {box.hermes}/.env").returncode != 0


def test_the_network_is_off_unless_allowed(box: Box) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)'"
        assert box.run(connect).returncode != 0
        assert box.run(connect, box.profile(network=True)).returncode == 0


def test_exit_code_and_output_pass_through(box: Box) -> None:
    done = box.run("echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")


def test_children_of_a_command_are_confined_too(box: Box) -> None:
    outside = box.home / "late.txt"
    box.run(f"(setsid sh -c 'echo x > {outside}' &) ; wait; sh -c 'sh -c \"echo x > {outside}\"'")
    assert not outside.exists()


def test_paths_with_odd_characters(backend: SandboxBackend, folder: Path) -> None:
    odd = folder / "with space\nand line"
    odd.mkdir()
    box = Box(backend, odd)
    assert box.run("echo x > 'a b' && cat 'a b'").stdout == "x\n"


# -- git ------------------------------------------------------------------------------------------------------------

_GIT = "git -c user.name=me -c user.email=me@example.org"


@pytest.fixture
def repository(box: Box) -> Box:
    subprocess.run(["git", "init", "-q", str(box.workspace)], check=True, env={**os.environ, "HOME": str(box.home)})
    return box


def test_ordinary_work_with_git(repository: Box) -> None:
    done = repository.run(
        f"echo x > a && git add a && {_GIT} commit -qm one && git remote add up /nowhere && git log --oneline | wc -l"
    )
    assert (done.returncode, done.stdout.strip()) == (0, "1"), done.stderr


def test_a_commit_in_a_worktree(repository: Box) -> None:
    main = repository.workspace
    repository.run(f"echo x > a && git add a && {_GIT} commit -qm one")
    tree = repository.home / "tree"
    subprocess.run(["git", "-C", str(main), "worktree", "add", "-q", str(tree)], check=True, capture_output=True)
    repository.workspace = tree
    done = repository.run(f"echo y > b && git add b && {_GIT} commit -qm two && git log --oneline | wc -l")
    assert (done.returncode, done.stdout.strip()) == (0, "2"), done.stderr
    assert repository.run(f"echo x > {main}/other").returncode != 0


def test_hooks_of_a_repository_cannot_be_written(repository: Box) -> None:
    if repository.backend.is_reduced:
        pytest.skip("Landlock cannot protect a path inside a writable folder")
    hook = repository.workspace / ".git" / "hooks" / "pre-commit"
    for command in (
        "echo 'echo bad' > .git/hooks/pre-commit",
        "rm -rf .git/hooks && mkdir .git/hooks && echo bad > .git/hooks/pre-commit",
        "mv .git away && mkdir -p .git/hooks && echo bad > .git/hooks/pre-commit",
        "mv .git/hooks .git/old && mkdir .git/hooks && echo bad > .git/hooks/pre-commit",
    ):
        assert repository.run(command).returncode != 0, command
        assert not hook.exists()


def test_start_files_cannot_be_written_when_the_home_is_the_workspace(backend: SandboxBackend, folder: Path) -> None:
    if backend.is_reduced:
        pytest.skip("Landlock cannot protect a path inside a writable folder")
    box = Box(backend, folder)
    (box.home / ".bashrc").write_text("# mine\n")
    box.workspace = box.home
    assert box.run("echo bad >> .bashrc").returncode != 0
    assert (box.home / ".bashrc").read_text() == "# mine\n"


# -- profiles -------------------------------------------------------------------------------------------------------


def test_repositories_are_found_above_and_below(tmp_path: Path) -> None:
    names = ("top", "top/packages/inner", "top/node_modules/other", "top/a/b/c/d/e/deep")
    for name in names:
        (tmp_path / name / ".git").mkdir(parents=True)

    def found(workspace: str) -> list[str]:
        return working_trees(workspace_tree(workspace))

    assert found(str(tmp_path / "top" / "packages")) == [str(tmp_path / "top"), str(tmp_path / "top/packages/inner")]
    assert set(found(str(tmp_path / "top"))) == {str(tmp_path / name) for name in names}


def test_a_broken_git_file_is_ignored(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /no/such/folder\n")
    assert git_folders(str(tmp_path)) == []
    (tmp_path / ".git").write_bytes(b"\xff\x00 garbage")
    assert git_folders(str(tmp_path)) == []


def test_everything_but_the_hidden_is_readable(tmp_path: Path) -> None:
    for name in ("a/b/secret", "a/c", "d"):
        (tmp_path / name).mkdir(parents=True)
    roots = set(readable_roots((str(tmp_path / "a/b/secret"),), str(tmp_path)))
    assert roots == {str(tmp_path / "a/c"), str(tmp_path / "d")}


def test_a_git_file_opens_no_folder_that_does_not_name_the_working_tree_too(tmp_path: Path) -> None:
    victim, project = tmp_path / "victim", tmp_path / "project"
    victim.mkdir()
    project.mkdir()
    (victim / "HEAD").write_text("ref: refs/heads/main\n")
    (project / ".git").write_text(f"gitdir: {victim}\n")
    assert git_folders(str(project)) == []
    (victim / "config").write_text("[core]\n\tworktree = ../elsewhere\n")
    assert git_folders(str(project)) == []
    (victim / "config").write_text("[core]\n\tworktree = ../project\n")
    assert git_folders(str(project)) == [str(victim)]


def test_what_is_hidden_is_found_when_it_is_there(tmp_path: Path) -> None:
    home = str(tmp_path)
    names = (".ssh", ".netrc", ".config/gh", "link", "a//b", ".aws/credentials")
    profile = SandboxProfile(
        "workspace", f"{home}/work", hidden=tuple(f"{home}/{name}" for name in names), homes=(home,)
    )
    assert profile.hidden_now() == []
    (tmp_path / ".config" / "gh").mkdir(parents=True)
    (tmp_path / ".aws").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    assert profile.hidden_now() == [f"{home}/.config/gh", f"{home}/link"]
    (tmp_path / ".netrc").touch()
    assert profile.hidden_now() == [f"{home}/.netrc", f"{home}/.config/gh", f"{home}/link"]
