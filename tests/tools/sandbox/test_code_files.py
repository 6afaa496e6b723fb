"""Code that a sandboxed command leaves behind for git and other programs of the owner: real attempts, real git."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from typing import NamedTuple

import pytest

from hermes.policy.files.code import GIT_FILES, HOME_FILES, LOGIN_FILES, PROJECT_FILES
from hermes.policy.files.git_keys import runs_code
from hermes.policy.judge import judge_write
from hermes.tools.sandbox.backend import SandboxBackend
from hermes.tools.sandbox.profile import make_profile
from hermes.tools.sandbox.watch import AutoRunWatch
from support.ordinary_user import as_ordinary_user, shared_folder
from support.sandbox_rig import SandboxRig, real_backend

MakeRig = Callable[..., SandboxRig]

#: A program that leaves a canary, as the file ``e.sh`` of the workspace.
_EVIL = "printf '#!/bin/sh\\ntouch %s/pwned\\n' \"$PWD\" > e.sh; chmod +x e.sh; "
_COPY = "cp e.sh {0}; chmod +x {0}"


class Attempt(NamedTuple):
    """What the owner had, what the command does, and what the owner does afterwards."""

    before: str
    command: str
    after: str


_COMMIT = "git -c user.name=me -c user.email=me@example.org commit -q --allow-empty -m x"
_BARE = (
    "mkdir -p {0}/objects {0}/refs && echo 'ref: refs/heads/main' > {0}/HEAD "
    "&& git config -f {0}/config core.repositoryformatversion 0 && git config -f {0}/config"
)
GIT_ATTEMPTS = {
    "commondir": Attempt(
        "true",
        "cp -r .git copy && git config -f copy/config core.fsmonitor ./e.sh && echo ../copy > .git/commondir",
        "git status",
    ),
    "hooks of a common folder": Attempt(
        "true",
        f"cp -r .git copy && mkdir -p copy/hooks && {_COPY.format('copy/hooks/pre-commit')} "
        "&& echo ../copy > .git/commondir",
        _COMMIT,
    ),
    "hooks in a folder that was configured": Attempt(
        "git config core.hooksPath .husky && mkdir .husky && echo '#!/bin/sh' > .husky/pre-commit && chmod +x .husky/*",
        _COPY.format(".husky/pre-commit"),
        _COMMIT,
    ),
    "a new hook in a folder that was configured": Attempt(
        "git config core.hooksPath tools/hooks && mkdir -p tools/hooks",
        _COPY.format("tools/hooks/pre-commit"),
        _COMMIT,
    ),
    "hooks configured for all repositories": Attempt(
        "git config --global core.hooksPath tools/hooks && mkdir -p tools/hooks",
        _COPY.format("tools/hooks/pre-commit"),
        _COMMIT,
    ),
    "a folder of hooks that is a link": Attempt(
        "rm -rf .git/hooks && mkdir -p tools/hooks && ln -s ../tools/hooks .git/hooks",
        _COPY.format("tools/hooks/pre-commit"),
        _COMMIT,
    ),
    "a hook that is a link": Attempt(
        "mkdir tools && echo '#!/bin/sh' > tools/check && chmod +x tools/check && ln -s ../../tools/check "
        ".git/hooks/pre-commit",
        _COPY.format("tools/check"),
        _COMMIT,
    ),
    "a bare repository in a folder": Attempt(
        "mkdir docs",
        f"{_BARE.format('docs')} core.fsmonitor ../e.sh && git config -f docs/config core.worktree .",
        "cd docs; git status",
    ),
    "an alias for difftool": Attempt(
        "echo a > a; git add a; echo b > a", "git config alias.d \"difftool -y -x 'sh e.sh'\"", "git d"
    ),
    "an alias for grep": Attempt("echo a > a; git add a", "git config alias.st 'grep -O./e.sh a'", "git st"),
    "the path of a tool": Attempt(
        "echo a > a; git add a; echo b > a; git config diff.tool meld; git config difftool.prompt false",
        'git config difftool.meld.path "$PWD/e.sh"',
        "git difftool",
    ),
    "a repository far below": Attempt(
        "mkdir -p a/b/c/d/e/f",
        "cd a/b/c/d/e/f && git init -q . && mkdir -p .git/hooks && cp ../../../../../../e.sh .git/hooks/pre-commit",
        f"cd a/b/c/d/e/f; {_COMMIT}",
    ),
    "a repository among packages": Attempt(
        "mkdir -p node_modules/x",
        "cd node_modules/x && git init -q . && git config core.fsmonitor ../../e.sh",
        "cd node_modules/x; git status",
    ),
    "a hook": Attempt("true", _COPY.format(".git/hooks/pre-commit"), _COMMIT),
    "a hook of a submodule": Attempt(
        "git init -q ../lib && cd ../lib && "
        f"{_COMMIT} && cd ../project && git -c protocol.file.allow=always submodule --quiet add ../lib lib",
        _COPY.format(".git/modules/lib/hooks/pre-commit"),
        f"cd lib; {_COMMIT}",
    ),
    "a hook of a submodule that is not checked out": Attempt(
        "git init -q ../lib && cd ../lib && "
        f"{_COMMIT} && cd ../project && git -c protocol.file.allow=always submodule --quiet add ../lib lib "
        f"&& {_COMMIT} && git submodule --quiet deinit -f lib",
        _COPY.format(".git/modules/lib/hooks/post-checkout"),
        "git -c protocol.file.allow=always submodule --quiet update --init; cd lib; git checkout -q -b y",
    ),
    "a hook of a new repository": Attempt(
        "true",
        "git init -q new && mkdir -p new/.git/hooks && cp e.sh new/.git/hooks/pre-commit",
        f"cd new; {_COMMIT}",
    ),
    "a file that points to a folder of git": Attempt(
        "mkdir sub",
        f"{_BARE.format('.git/objects/x')} core.fsmonitor ../e.sh && echo 'gitdir: ../.git/objects/x' > sub/.git",
        "cd sub; git status",
    ),
    "a file that the configuration includes": Attempt(
        "git config include.path ../team.config && git config -f team.config color.ui auto",
        "git config -f team.config core.fsmonitor ./e.sh",
        "git status",
    ),
    "a worktree of its own": Attempt(
        _COMMIT,
        "git worktree add -q tree && git config extensions.worktreeConfig true "
        "&& git -C tree config --worktree core.fsmonitor ../e.sh",
        "git -C tree status",
    ),
}


@pytest.fixture
def rig(make_rig: MakeRig, backend: SandboxBackend) -> SandboxRig:
    made = make_rig(backend)
    made.git("init", "-q", "-b", "main")
    return made


def owner(rig: SandboxRig, command: str) -> None:
    """The owner runs something, outside of the sandbox."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run(
        ["bash", "-c", command],
        cwd=rig.workspace,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize("name", GIT_ATTEMPTS)
def test_git_runs_nothing_that_a_command_left(rig: SandboxRig, name: str) -> None:
    attempt = GIT_ATTEMPTS[name]
    owner(rig, attempt.before)
    rig.run(_EVIL + attempt.command)
    owner(rig, attempt.after)
    assert not (rig.workspace / "pwned").exists()


@pytest.mark.parametrize("name", GIT_ATTEMPTS)
def test_each_attempt_works_without_a_sandbox(make_rig: MakeRig, name: str) -> None:
    """Else it would show nothing."""
    rig = make_rig(None, sandbox="off")
    rig.git("init", "-q", "-b", "main")
    attempt = GIT_ATTEMPTS[name]
    owner(rig, attempt.before)
    rig.works(_EVIL + attempt.command)
    owner(rig, attempt.after)
    assert (rig.workspace / "pwned").exists()


# -- other programs -------------------------------------------------------------------------------------------------

_NAMES = [name for files in PROJECT_FILES for name in files.names if "*" not in name]


@pytest.mark.parametrize("place", [".", "packages/a/b/c/d/e"])
def test_no_file_of_the_list_is_left_behind(rig: SandboxRig, place: str) -> None:
    files = [f"{place}/{name}file" if name.endswith("/") else f"{place}/{name}" for name in _NAMES]
    files = [file for file in files if f"{file}/" not in "".join(f"{other}/" for other in files if other != file)]
    lines = "\n".join(f"mkdir -p $(dirname {file}) && echo bad > {file}" for file in files)
    result = rig.run(lines)
    assert [file for file in files if (rig.workspace / file).exists()] == []
    told = " ".join(result["undone"])
    assert [file for file in files if str((rig.workspace / file).resolve()) not in told] == []


@pytest.mark.parametrize("file", ["AGENTS.md", ".claude/settings.json", ".mcp.json", ".devcontainer/devcontainer.json"])
def test_files_that_were_there_are_put_back(rig: SandboxRig, file: str) -> None:
    path = rig.workspace / "app" / file
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    for command in (f"echo bad > app/{file}", f"rm app/{file}", f"rm app/{file}; ln -s /etc/passwd app/{file}"):
        assert rig.run(command)["undone"], command
        assert path.read_text() == "mine" and not path.is_symlink()


def test_nothing_is_left_that_makes_such_a_file_later(make_rig: MakeRig, bubblewrap: SandboxBackend) -> None:
    rig = make_rig(bubblewrap)
    os.mkfifo(rig.workspace / "go")
    later = "touch started; read line < go; echo bad > .envrc"
    rig.works(f"(setsid sh -c '{later}' > /dev/null 2>&1 &); until test -e started; do :; done")
    with pytest.raises(OSError, match="No such device"):  # nobody reads
        os.open(rig.workspace / "go", os.O_WRONLY | os.O_NONBLOCK)


def test_more_files_than_one_look_takes(rig: SandboxRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.tools.sandbox.watch._MOST_FILES", 10)
    rig.run("mkdir .vscode && cd .vscode && touch $(seq 25) && touch tasks.json")
    assert list((rig.workspace / ".vscode").iterdir()) == []


def test_files_of_the_owner_stay_in_a_folder_with_more_than_one_look_takes(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes.tools.sandbox.watch._MOST_FILES", 10)
    rig = make_rig(real_backend("landlock"))
    folder = rig.workspace / ".vscode"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number}.json").write_text("mine")
    rig.run("rm .vscode/1*.json; touch .vscode/new.json")
    left = {path.name for path in folder.iterdir()}
    assert {f"{number}.json" for number in range(30) if not str(number).startswith("1")} <= left


def test_ordinary_work_is_left_alone(rig: SandboxRig) -> None:
    """Clones, worktrees and whole folders that move, with what the owner has in them."""
    rig.git("config", "core.hooksPath", ".husky")
    package = rig.workspace / "package"
    (package / ".vscode").mkdir(parents=True)
    (package / "AGENTS.md").write_text("mine")
    (package / ".vscode" / "settings.json").write_text("{}")
    rig.git("init", "-q", cwd=package)
    rig.git("config", "core.fsmonitor", "./watch.sh", cwd=package)
    result = rig.run(
        f"{_COMMIT} && git worktree add -q tree && git clone -q . copy && git -C tree checkout -q -b other "
        "&& mkdir lib && mv package lib/moved "
        "&& git worktree remove tree && git init -q --bare store.git && rm -rf copy"
    )
    assert result["exit_code"] == 0 and "undone" not in result, result
    assert (rig.workspace / "lib/moved/AGENTS.md").read_text() == "mine"
    assert rig.git("config", "core.fsmonitor", cwd=rig.workspace / "lib/moved") == "./watch.sh"


def test_a_file_that_moves_into_another_project_is_undone(rig: SandboxRig) -> None:
    sample = rig.workspace / "docs" / "sample" / ".vscode"
    sample.mkdir(parents=True)
    (sample / "tasks.json").write_text("{}")
    assert rig.run("mv docs/sample/.vscode .vscode")["undone"]
    assert not (rig.workspace / ".vscode/tasks.json").exists() and (sample / "tasks.json").exists()


def test_a_start_file_that_is_kept_in_the_workspace(make_rig: MakeRig, backend: SandboxBackend) -> None:
    rig = make_rig(backend, workspace="dotfiles")
    (rig.workspace / "bashrc").write_text("# mine\n")
    (rig.home / ".bashrc").symlink_to(rig.workspace / "bashrc")
    rig.run("echo bad >> bashrc")
    assert (rig.home / ".bashrc").read_text() == "# mine\n"


# -- the list -------------------------------------------------------------------------------------------------------


def test_files_of_every_kind_of_program_are_in_the_list() -> None:
    editors = ".helix/languages.toml .vim/coc-settings.json .lazy.lua a.code-workspace"
    agents = (
        "crush.json .qwen/settings.json QWEN.md .rules .kilocode/mcp.json .factory/mcp.json "
        ".claude/plugins/x/hooks.json .github/prompts/x.md .github/agents/x.md .github/chatmodes/x.md"
    )
    others = ".tool-versions bunfig.toml .bundle/config .pdbrc .irbrc .bazelrc"
    for name in f"{editors} {agents} {others}".split():
        found = judge_write(f"/work/project/{name}", hermes_home="/home/me/.hermes")
        assert found is not None and found.rule == "write-autorun", name
    for name in "docs/rules.md src/factory/a.py vim/x tool-versions".split():
        assert judge_write(f"/work/project/{name}", hermes_home="/home/me/.hermes") is None, name


def test_the_policy_asks_about_every_file_of_the_list() -> None:
    places = {
        "/home/me/project/packages/a": [name for files in PROJECT_FILES for name in files.names],
        "/home/me/project/.git": GIT_FILES,
        "/home/me/project/.git/modules/lib": GIT_FILES,
        "/home/me": [*LOGIN_FILES, *HOME_FILES],
    }
    for folder, names in places.items():
        for name in names:
            file = f"{folder}/{name.replace('*', 'x')}" + ("file" if name.endswith("/") else "")
            assert judge_write(file, hermes_home="/home/me/.hermes") is not None, file


#: What a setting of git is called that runs a program, more or less.
_SOUNDS = re.compile(
    r"cmd|command|program|editor|pager|helper|hook|driver|textconv|clean$|smudge|process|askpass|proxy$|tunnel|path$"
    r"|filter$|browser|httpd"
)
#: Those with such a name that run none.
_HARMLESS = set(
    (
        "advice.ignoredHook advice.updateSparsePath advice.waitingForEditor color.pager column.clean "
        "completion.commands core.fsmonitorHookVersion core.quotePath credential.useHttpPath diff.x.binary "
        "diff.x.cachetextconv diff.x.wordRegex diff.x.xfuncname fsck.gitmodulesPath gitcvs.dbDriver help.htmlPath "
        "merge.x.name merge.x.recursive notes.rewrite.x rebase.abbreviateCommands "
        "receive.fsck.gitmodulesPath remote.x.partialclonefilter "
        "uploadpack.allowFilter"
    ).split()
)


def test_every_setting_of_this_git_that_names_a_program_is_known() -> None:
    """A newer git may have more of them: those belong into the list, or here."""
    listed = subprocess.run(["git", "help", "--config"], capture_output=True, text=True, check=True).stdout.split("\n")
    keys = {re.sub("<[^>]*>", "x", key) for key in listed if _SOUNDS.search(key.lower())}
    known = {key for key in keys if runs_code(key, "./evil.sh")}
    assert {"core.hooksPath", "difftool.x.path", "mergetool.x.cmd", "pager.x", "sequence.editor"} <= known
    assert keys - known - _HARMLESS == set()


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("alias.st", "status -sb", False),
        ("alias.up", "push -u origin HEAD", False),
        ("alias.lg", "log --oneline --graph", False),
        ("alias.d", "difftool -y -x 'sh e.sh'", True),
        ("alias.g", "grep -nO./e.sh x", True),
        ("alias.g", "grep --open=./e.sh x", True),
        ("alias.r", "rebase -ix ./e.sh", True),
        ("alias.f", "fetch --upload-pack ./e.sh x", True),
        ("alias.l", "log --output=.git/config", True),
        ("alias.x", "other", True),
        ("alias.x", "-c core.pager=./e.sh log", True),
        ("alias.x", "log 'open", True),
        ("core.pager", "less -FRX", False),
        ("core.pager", "sh", True),
        ("core.editor", "vim", False),
        ("core.editor", "vim -c ':!./e.sh'", True),
        ("core.fsmonitor", "true", False),
        ("credential.helper", "store", False),
        ("credential.https://x.helper", "!./e.sh", True),
        ("sendemail.smtpserver", "mail.example.org", False),
        ("sendemail.smtpserver", "./e.sh", True),
        ("gc.recentobjectshook", "./e.sh", True),
        ("lfs.customtransfer.x.path", "./e.sh", True),
        ("difftool.vimdiff.path", "./e.sh", True),
        ("diff.tool", "vimdiff", False),
        ("http.proxy", "http://127.0.0.1:8080", True),
        ("http.https://example.org/.proxy", "http://127.0.0.1:8080", True),
        ("http.proxy", "", False),
        ("http.sslVerify", "false", True),
        ("http.sslVerify", "true", False),
        ("http.https://example.org.sslCAInfo", "./ca.pem", True),
        ("http.curloptResolve", "example.org:443:127.0.0.1", True),
        ("http.cookieFile", "../.bashrc", True),
        ("http.postBuffer", "524288000", False),
        ("core.worktree", "/home/me", True),
    ],
)
def test_which_settings_run_code(key: str, value: str, found: bool) -> None:
    assert runs_code(key, value) is found


# -- undoing --------------------------------------------------------------------------------------------------------


def test_settings_that_send_passwords_or_write_files_elsewhere_are_undone(
    make_rig: MakeRig, backend: SandboxBackend
) -> None:
    rig = make_rig(backend)
    rig.git("init", "-q", ".")
    rig.git("config", "http.proxy", "http://proxy.example:3128")
    rig.works("git config user.name Eve; git config http.sslVerify true")
    settings = (
        f"git config http.sslVerify false; git config core.worktree {rig.home}; "
        "git config http.proxy http://x.example; "
        "git config http.https://a.example/.proxy http://x.example; git config http.sslCAInfo ./ca.pem"
    )
    undone = " ".join(rig.run(settings)["undone"])
    for key in ("http.sslverify", "core.worktree", "http.proxy", "http.https://a.example/.proxy", "http.sslcainfo"):
        assert key in undone, key
    assert rig.git("config", "--local", "--get-regexp", "^http|^user|worktree").splitlines() == [
        "http.proxy http://proxy.example:3128",
        "user.name Eve",
    ]


def test_commands_that_are_left_for_a_rebase_to_run_are_undone(make_rig: MakeRig, backend: SandboxBackend) -> None:
    rig = make_rig(backend)
    rig.git("init", "-q", "-b", "main", ".")
    for name in ("one", "two", "three"):
        (rig.workspace / "file").write_text(name)
        rig.git("add", "file")
        rig.git("commit", "-q", "-m", name)
    # A rebase that stops with a conflict, and the rest of it that goes on later, are ordinary work.
    begun = rig.run("git rebase -q --onto main~2 main~1 main; git status | head -1")
    assert "undone" not in begun and "rebase in progress" in begun["output"], begun
    todo = rig.workspace / ".git" / "rebase-merge" / "git-rebase-todo"
    assert todo.exists()
    planted = rig.run("printf 'exec touch pwned\\n' >> .git/rebase-merge/git-rebase-todo")
    assert "git-rebase-todo" in planted["undone"][0] and not todo.exists()
    rig.git("rebase", "--abort")
    assert "undone" not in rig.run("git rebase -q --onto main~2 main~1 main; true")
    ended = rig.run("echo both > file; git add file; GIT_EDITOR=true git rebase --continue")
    assert ended["exit_code"] == 0 and "undone" not in ended, ended
    # What the owner wants to run goes on being run, also when a command goes on with it.
    todo.parent.mkdir(exist_ok=True)
    todo.write_text("exec true\nexec false\n")
    assert "undone" not in rig.run("echo 'exec false' > .git/rebase-merge/git-rebase-todo")
    assert "undone" not in rig.run("rm -r .git/rebase-merge")


def test_a_submodule_that_a_command_adds_keeps_its_working_tree(make_rig: MakeRig, backend: SandboxBackend) -> None:
    rig = make_rig(backend)
    rig.git("init", "-q", ".")
    rig.git("init", "-q", "other")
    rig.git("commit", "-q", "--allow-empty", "-m", "one", cwd=rig.workspace / "other")
    result = rig.run("git -c protocol.file.allow=always submodule --quiet add ./other lib")
    assert result["exit_code"] == 0 and "undone" not in result, result
    assert rig.git("status", "--short", cwd=rig.workspace / "lib") == ""
    outside = rig.run(f"git config -f .git/modules/lib/config core.worktree {rig.home}")
    assert "core.worktree" in outside["undone"][0]


def test_a_git_that_a_command_leaves_in_a_folder_of_path_is_not_run(
    make_rig: MakeRig, backend: SandboxBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = make_rig(backend)
    rig.git("init", "-q", ".")
    programs, elsewhere = rig.workspace / ".venv" / "bin", rig.home / "tools"
    programs.mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / "git").symlink_to(shutil.which("git") or "")
    canary = rig.workspace / "canary"
    plant = f"printf '#!/bin/sh\\necho ran >> {canary}\\n' > .venv/bin/git; chmod +x .venv/bin/git; "
    setting = "printf '[core]\\n\\tfsmonitor = ./e.sh\\n\\thooksPath = x\\n' >> .git/config"
    # The folder of the workspace is before that of the system, before one of the owner, and the only one.
    for path in (f"{programs}:{os.environ['PATH']}", f"{programs}:{elsewhere}", str(programs)):
        monkeypatch.setenv("PATH", path)
        result = rig.run("PATH=/usr/bin:/bin; " + plant + setting)
        assert "undone" in result, (path, result)
        assert "fsmonitor" not in (rig.workspace / ".git/config").read_text(), path
        assert not canary.exists(), path


def test_a_locked_configuration_is_put_back(rig: SandboxRig) -> None:
    owner(rig, "git config user.name Bob")
    result = rig.run("git config core.fsmonitor ./e.sh; git config user.name Eve; touch .git/config.lock")
    assert "core.fsmonitor" in result["undone"][0] and "put back" in result["undone"][0]
    assert "fsmonitor" not in (rig.workspace / ".git/config").read_text()


@pytest.mark.parametrize("place", ["tools", "tools/hooks"])
def test_nothing_is_moved_or_written_through_a_link(rig: SandboxRig, place: str) -> None:
    """What is undone must not become a way to write outside."""
    autostart = rig.home / ".config" / "autostart"
    autostart.mkdir(parents=True)
    (autostart / "pre-commit").write_text("of the owner")
    (rig.home / ".claude").mkdir()
    (rig.home / ".claude" / "settings.json").write_text("of the owner")
    owner(rig, "git config core.hooksPath tools/hooks; mkdir -p tools/hooks; echo mine > tools/hooks/pre-commit")
    rig.run(f'ln -s {autostart} "$TMPDIR/undone"; mkdir -p .vscode; echo bad > .vscode/x.desktop')
    rig.run(f"rm -rf {place}; ln -s {autostart} {place}; ln -s ~/.claude .claude; mkdir a; ln -s ~/.claude a/.claude")
    assert sorted(path.name for path in autostart.iterdir()) == ["pre-commit"]
    assert (autostart / "pre-commit").read_text() == "of the owner"
    assert (rig.home / ".claude" / "settings.json").read_text() == "of the owner"
    assert not (rig.workspace / ".vscode" / "x.desktop").exists()
    assert not (rig.workspace / ".claude").is_symlink() and not (rig.workspace / "a/.claude").is_symlink()


def test_what_is_in_a_folder_that_was_closed_is_put_back() -> None:
    with shared_folder() as folder:
        folder.chmod(0o777)

        def undo() -> tuple[str, list[str]]:
            (folder / "project" / "a").mkdir(parents=True)
            (folder / "project" / "a" / "AGENTS.md").write_text("mine")
            profile = make_profile("workspace", str(folder / "project"), home=str(folder / "home"))
            watch = AutoRunWatch(profile, str(folder / "undone"))
            watch.command_starts()
            (folder / "project" / "a" / "AGENTS.md").write_text("bad")
            (folder / "project" / "a" / ".envrc").write_text("bad")
            (folder / "project" / "a").chmod(0o555)
            watch.command_ended()
            return (folder / "project/a/AGENTS.md").read_text(), [
                path.name for path in (folder / "project/a").iterdir()
            ]

        assert as_ordinary_user(undo) == ("mine", ["AGENTS.md"])
