"""The sandbox at work: who gets one, what it hides and protects, what it undoes, and what it tells."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from hermes.policy.files.git_keys import runs_code
from hermes.tools.sandbox.backend import SandboxBackend, SandboxProbe, cached_probe, store_probe
from hermes.tools.sandbox.sandbox import FOLDER_PREFIX
from support.sandbox_rig import SandboxRig

MakeRig = Callable[..., SandboxRig]


# -- who gets one ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "attended", "principal", "confined"),
    [
        ("auto", True, "", True),
        ("auto", False, "", True),
        ("auto", True, "bob", True),
        ("off", True, "", False),
        ("off", False, "", False),
        ("off", False, "bob", False),
        ("workspace", True, "", True),
        ("read-only", True, "", True),
    ],
)
def test_who_gets_a_sandbox(
    make_rig: MakeRig, bubblewrap: SandboxBackend, setting: str, attended: bool, principal: str, confined: bool
) -> None:
    rig = make_rig(bubblewrap, sandbox=setting, attended=attended, principal=principal)
    rig.run(f"echo x > {rig.home}/outside.txt")
    assert (rig.home / "outside.txt").exists() is not confined


def test_read_only(make_rig: MakeRig, backend: SandboxBackend) -> None:
    rig = make_rig(backend, sandbox="read-only", attended=True)
    result = rig.run("echo x > inside.txt")
    assert result["exit_code"] != 0
    assert not (rig.workspace / "inside.txt").exists()
    assert "terminal.sandbox: read-only" in result["sandbox"]
    assert rig.works('echo x > "$TMPDIR/a" && cat "$TMPDIR/a"') == "x"


NONE = "Commands run without a sandbox: install bubblewrap (apt install bubblewrap) for one."
REDUCED = "Commands run with a reduced sandbox: install bubblewrap (apt install bubblewrap) for the full one."


@pytest.fixture
def no_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("confinement", "owner.notice"):
        monkeypatch.setattr(f"hermes.tools.sandbox.{module}.find_bubblewrap", lambda: None)


@pytest.mark.usefixtures("no_bubblewrap")
@pytest.mark.parametrize(
    ("backend_of_machine", "sentence"),
    [(None, NONE), (SandboxBackend("landlock"), REDUCED), (SandboxBackend("bubblewrap", "/usr/bin/bwrap"), "")],
)
def test_a_home_is_told_once_what_its_machine_lacks(
    make_rig: MakeRig, backend_of_machine: SandboxBackend | None, sentence: str
) -> None:
    rig = make_rig(backend_of_machine, attended=True)
    assert rig.confinements.first_notice() == sentence
    for later in (rig, make_rig(backend_of_machine, attended=True)):
        said: list[str] = []
        later.confinements.notify = said.append
        assert later.confinements.first_notice() == ""
        if backend_of_machine is None:
            assert later.works("echo here") == "here"
        assert said == []
    # A server says it at each start, for its operator.
    assert make_rig(backend_of_machine).confinements.start_line() == sentence
    assert make_rig(backend_of_machine, sandbox="off").confinements.start_line() == ""


def test_whether_an_installed_bubblewrap_works_is_told_at_the_first_command(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("confinement", "owner.notice"):
        monkeypatch.setattr(f"hermes.tools.sandbox.{module}.find_bubblewrap", lambda: "/usr/bin/bwrap")
    rig = make_rig(None, attended=True)
    said: list[str] = []
    assert rig.confinements.first_notice() == ""
    assert not (rig.hermes_home / "cache").exists()  # nothing was tried out
    rig.works("true")  # no one to tell, so it is not told
    rig.confinements.notify = said.append
    rig.works("true")
    rig.works("true")
    doubt = "bubblewrap does not work on this machine, and 'hermes doctor' says why"
    assert said == [f"Commands run without a sandbox: {doubt}."]


def test_a_sandbox_that_was_asked_for_is_never_left_out(make_rig: MakeRig) -> None:
    rig = make_rig(None, sandbox="workspace")
    result = rig.run("echo x > ran.txt")
    assert "terminal.sandbox is workspace, and this machine has no sandbox" in result["error"]
    assert rig.confinements.start_line().startswith("Commands are refused, because terminal.sandbox is workspace: ")
    assert not (rig.workspace / "ran.txt").exists()


def test_the_result_of_a_probe_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "cache" / "sandbox.json"
    tried: list[int] = []

    def probe() -> SandboxProbe:
        tried.append(1)
        return SandboxProbe(SandboxBackend("landlock"), "reduced")

    monkeypatch.setattr("hermes.tools.sandbox.backend.probe", probe)
    assert cached_probe(kept) == cached_probe(kept) == SandboxProbe(SandboxBackend("landlock"), "reduced")
    assert len(tried) == 1
    kept.write_text("garbage")
    assert cached_probe(kept).summary == "reduced"
    monkeypatch.setattr("hermes.tools.sandbox.backend._machine", lambda: "another kernel")
    cached_probe(kept)
    assert len(tried) == 3
    store_probe(Path("/proc/no/such/place"), probe())  # no problem


# -- what it hides --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workspace", ["project", "."])
def test_secrets_are_invisible_also_when_the_workspace_is_the_home_folder(
    make_rig: MakeRig, backend: SandboxBackend, workspace: str
) -> None:
    rig = make_rig(backend, workspace=workspace)
    (rig.workspace / "link").symlink_to(rig.hermes_home / ".env")
    for path in ("~/.hermes/.env", "~/.ssh/id_ed25519", "link", f"/proc/self/root{rig.hermes_home}/.env"):
        result = rig.run(f"cat {path}")
        assert result["exit_code"] != 0, path
        assert "hidden-value" not in result["output"]
        assert "PRIVATE" not in result["output"]


def test_a_caller_sees_its_folder_and_nothing_else_of_the_home(make_rig: MakeRig, backend: SandboxBackend) -> None:
    rig = make_rig(backend, principal="bob", workspace=".hermes/principals/bob")
    other = rig.hermes_home / "principals" / "alice"
    other.mkdir()
    (other / "mine.txt").write_text("of alice")
    assert rig.works("echo x > mine.txt && cat mine.txt") == "x"
    assert "of alice" not in rig.run("cat ../alice/mine.txt")["output"]
    assert "hidden-value" not in rig.run("cat ../../.env")["output"]
    assert rig.run("echo x > ../alice/mine.txt")["exit_code"] != 0
    assert (other / "mine.txt").read_text() == "of alice"


def test_a_caller_sees_the_programs_of_the_owner_and_none_of_the_files(
    make_rig: MakeRig, backend: SandboxBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = make_rig(backend, principal="bob", workspace=".hermes/principals/bob/workspace")
    places = {"notes.txt": "diary", "papers/tax.txt": "taxes", ".bash_history": "typed", "lab/data.txt": "measured"}
    for name, text in places.items():
        (rig.home / name).parent.mkdir(exist_ok=True)
        (rig.home / name).write_text(text)
    tools = (rig.home / "bin", rig.home / ".pyenv" / "shims", rig.home / "lab" / ".venv" / "bin")
    for number, folder in enumerate(tools):
        folder.mkdir(parents=True)
        (folder / f"tool{number}").write_text("#!/bin/sh\necho ran\n")
        (folder / f"tool{number}").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join((*map(str, tools), os.environ["PATH"])))
    for name, text in places.items():
        assert text not in rig.run(f"cat {rig.home / name}; cat ~/{name}")["output"]
    assert rig.works("tool0 && tool1 && tool2").split() == ["ran"] * 3
    (rig.home / ".pyenv" / "version").write_text("3.13\n")
    (rig.home / "lab" / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    later = make_rig(backend, principal="ann", workspace=".hermes/principals/ann/workspace")
    assert later.works("cat ~/.pyenv/version ~/lab/.venv/pyvenv.cfg") == "3.13\nhome = /usr/bin"
    assert rig.works("git init -q . && git commit -q --allow-empty -m x && git log --format=%an") == "Me"
    assert (rig.home / "notes.txt").read_text() == "diary"


def test_of_the_path_a_caller_sees_the_named_folders_and_not_what_lies_beside_them(
    make_rig: MakeRig, backend: SandboxBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = make_rig(backend, principal="bob", workspace=".hermes/principals/bob/workspace")
    tokens = (".fly/config.yml", ".pulumi/credentials.json", ".opencode/auth.json", "tools/token", ".cargo/credentials")
    for name in tokens:
        folder = (rig.home / name).parent / "bin"
        folder.mkdir(parents=True)
        (rig.home / name).write_text("canary")
        (folder / f"run-{name.split('/')[0].strip('.')}").write_text("#!/bin/sh\necho ran\n")
        (folder / f"run-{name.split('/')[0].strip('.')}").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    assert rig.works("run-fly && run-pulumi && run-opencode && run-tools && run-cargo").split() == ["ran"] * 5
    for name in tokens:
        assert "canary" not in rig.run(f"cat ~/{name} {rig.home / name}")["output"], name


@pytest.mark.parametrize("principal", ["", "bob"])
def test_a_key_that_is_made_later_is_hidden_from_the_next_command(
    make_rig: MakeRig, backend: SandboxBackend, principal: str
) -> None:
    rig = make_rig(
        backend, principal=principal, workspace=".hermes/principals/bob/workspace" if principal else "project"
    )
    rig.works("true")
    later = (".netrc", ".aws/credentials", ".claude/.credentials.json", ".cache/huggingface/token", ".codex/auth.json")
    more = (".databrickscfg", ".kaggle/kaggle.json", ".thunderbird/key4.db", "snap/firefox/common/key4.db")
    edge = ".config/microsoft-edge/Default/Cookies"
    for name in (*later, *more, edge, ".fly/config.yml", ".pulumi/credentials.json"):
        (rig.home / name).parent.mkdir(parents=True, exist_ok=True)
        (rig.home / name).write_text("canary")
        assert "canary" not in rig.run(f"cat ~/{name} {rig.home / name}")["output"], name
    (rig.home / "vault").mkdir()
    (rig.home / "vault" / "key").write_text("canary")
    (rig.home / ".gnupg").symlink_to(rig.home / "vault")
    assert "canary" not in rig.run("cat ~/.gnupg/key ~/vault/key")["output"]
    (rig.home / ".claude" / "notes.md").write_text("readable")
    if not principal:
        assert rig.works("cat ~/.claude/notes.md") == "readable"


def test_logins_of_many_programs_are_hidden(make_rig: MakeRig, backend: SandboxBackend) -> None:
    rig = make_rig(backend, attended=True)
    programs = (
        ".bash_history .Renviron .terraformrc .msmtprc .sentryclirc .railway/config.json .pub-cache/credentials.json "
        ".bitcoin/wallet.dat .cloudflared/cert.pem .dbt/profiles.yml .step/secrets/k .librewolf/x/logins.json "
        ".nuget/NuGet/NuGet.Config .supabase/access-token .snowsql/config .electrum/wallets/w .aliyun/config.json "
        ".continue/config.json .qwen/oauth_creds.json .hex/hex.config .ivy2/.credentials .expo/state.json "
        ".var/app/com.brave.Browser/cookies .local/share/atuin/history.db .local/share/kwalletd/kdewallet.kwl"
    )
    settings = (
        "linode-cli aichat/config.yaml argocd/config Cursor/User/globalStorage/state.vscdb Slack/Cookies "
        "filezilla/sitemanager.xml scw/config.yaml Signal/config.json google-chrome-beta/Default/Cookies evolution/x "
        "pypoetry/auth.toml .wrangler/config/default.toml pip/pip.conf io.datasette.llm/keys.json goose/secrets.yaml "
        "helm/registry/config.json tea/config.yml vercel/auth.json dart/pub-credentials.json uv/uv.toml"
    )
    names = [*programs.split(), *(f".config/{name}" for name in settings.split()), ".config/Bitwarden CLI/data.json"]
    for name in names:
        (rig.home / name).parent.mkdir(parents=True, exist_ok=True)
        (rig.home / name).write_text(f"canary of {name}\n")
    paths = " ".join(f"'{rig.home / name}'" for name in names)
    assert re.findall("canary of .*", rig.run(f"cat {paths}")["output"]) == []


def test_sockets_in_the_home_are_hidden(make_rig: MakeRig, bubblewrap: SandboxBackend) -> None:
    """With the network on, too. Landlock does not limit connections to socket files."""
    rig = make_rig(bubblewrap, network="on")
    rig.works("true")
    path = rig.home / ".docker" / "run" / "docker.sock"
    path.parent.mkdir(parents=True)
    connect = (
        "import os, socket; socket.socket(socket.AF_UNIX).connect(os.path.expanduser('~/.docker/run/docker.sock'))"
    )
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(str(path))
        service.listen(1)
        assert rig.run(f'python3 -c "{connect}"')["exit_code"] == 1
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))  # from outside it is there


def test_agents_are_reached_only_when_they_are_passed_on(
    make_rig: MakeRig, bubblewrap: SandboxBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = 'python3 -c "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"'
    rig = make_rig(bubblewrap, network="on", attended=True)
    paths = [rig.home / name for name in ("agent.sock", ".program/s", "deep/in/it/agent", "project/own.sock")]
    monkeypatch.setenv("SSH_AUTH_SOCK", str(paths[2]))
    with ExitStack() as stack:
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            service = stack.enter_context(socket.socket(socket.AF_UNIX))
            service.bind(str(path))
            service.listen(8)
        assert [rig.run(f"{connect} {path}")["exit_code"] for path in paths] == [1, 1, 1, 0]
        passed = make_rig(bubblewrap, network="on", env_passthrough=["SSH_AUTH_SOCK"], sandbox_write=[str(paths[0])])
        assert [passed.run(f"{connect} {path}")["exit_code"] for path in paths] == [0, 1, 0, 0]
        home = make_rig(bubblewrap, network="on", workspace=".", sandbox_write=[str(paths[1])])
        assert [home.run(f"{connect} {path}")["exit_code"] for path in paths] == [1, 0, 1, 0]


def test_what_variables_name_is_hidden(
    make_rig: MakeRig, backend: SandboxBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = make_rig(backend, attended=True)
    names = ("keys/sa.json", "xdg/gh/hosts.yml", "one.yml", "two.yml", "gpg/key", "cargo/credentials.toml", "npm.conf")
    for name in names:
        (rig.home / name).parent.mkdir(parents=True, exist_ok=True)
        (rig.home / name).write_text(f"canary of {name}\n")
    (rig.home / "xdg" / "notes").write_text("readable")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(rig.home / "keys/sa.json"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(rig.home / "xdg"))
    monkeypatch.setenv("KUBECONFIG", f"{rig.home}/one.yml:{rig.home}/two.yml")
    monkeypatch.setenv("GNUPGHOME", str(rig.home / "gpg"))
    monkeypatch.setenv("CARGO_HOME", str(rig.home / "cargo"))
    monkeypatch.setenv("NPM_CONFIG_USERCONFIG", str(rig.home / "npm.conf"))
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PASSWORD_STORE_DIR", str(rig.home))  # it would hide all of the home folder
    said = rig.run("cd ~; cat " + " ".join(names))["output"]
    assert re.findall("canary of .*", said) == []
    assert rig.works("cat ~/xdg/notes && echo x > /dev/null") == "readable"
    passed = make_rig(backend, env_passthrough=["KUBECONFIG"])
    assert re.findall("canary of .*", passed.works("cat ~/one.yml")) == ["canary of one.yml"]


def test_a_folder_that_the_owner_gave_a_caller_is_there_and_what_lies_beside_it_is_not(
    make_rig: MakeRig, backend: SandboxBackend
) -> None:
    rig = make_rig(backend, principal="bob", workspace="project")
    (rig.home / "notes.txt").write_text("diary")
    assert rig.works("echo x > mine.txt && cat mine.txt") == "x"
    assert "diary" not in rig.run("cat ../notes.txt")["output"]
    own = make_rig(backend, workspace="project")  # work of the owner that no person attends
    assert own.works("cat ../notes.txt") == "diary"
    whole = make_rig(backend, principal="bob", workspace=".")
    assert whole.works("cat notes.txt") == "diary"
    assert "hidden-value" not in whole.run("cat .hermes/.env")["output"]


def test_principals_have_temporary_folders_of_their_own(make_rig: MakeRig, bubblewrap: SandboxBackend) -> None:
    rig = make_rig(bubblewrap)
    rig.works("echo secret > /tmp/notes")
    rig.context.scope = rig.context.scope.child(principal="bob")
    assert rig.run("cat /tmp/notes")["exit_code"] != 0


def test_private_folders_are_removed_at_the_end(make_rig: MakeRig, backend: SandboxBackend) -> None:
    rig = make_rig(backend)
    rig.works('mkdir -p "$TMPDIR/a/b" && echo x > "$TMPDIR/a/b/c" && chmod 500 "$TMPDIR/a/b"')
    folder = Path(rig.confinements.of_command(rig.context.scope, rig.workspace).outer_path("/tmp/a"))
    if backend.name == "bubblewrap":
        assert folder.is_dir()
        rig.close()
        assert not folder.parent.exists()


def test_processes_of_the_machine_are_invisible(make_rig: MakeRig, bubblewrap: SandboxBackend) -> None:
    rig = make_rig(bubblewrap)
    assert int(rig.works("ls /proc | grep -c '^[0-9]'")) < 10
    assert rig.run(f"kill -0 {os.getpid()}")["exit_code"] != 0


# -- what it protects -----------------------------------------------------------------------------------------------


@pytest.fixture
def repository(make_rig: MakeRig, backend: SandboxBackend) -> SandboxRig:
    rig = make_rig(backend)
    rig.git("init", "-q", "-b", "main")
    return rig


@pytest.mark.parametrize(
    "command",
    [
        "echo bad > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        "rm -rf .git/hooks; mkdir .git/hooks; echo bad > .git/hooks/pre-commit",
        "mv .git away; mkdir -p .git/hooks; echo bad > .git/hooks/pre-commit",
        "mkdir -p new/.git/hooks; git init -q new; echo bad > new/.git/hooks/pre-commit",
        "mkdir .hermes; echo bad > .hermes/plugin.py",
        "mkdir .vscode; echo '{}' > .vscode/tasks.json",
        "ln -s elsewhere .envrc",
    ],
)
def test_files_that_run_code_by_themselves_are_not_left_behind(repository: SandboxRig, command: str) -> None:
    result = repository.run(command)
    left = [".git/hooks/pre-commit", "new/.git/hooks/pre-commit", ".hermes/plugin.py", ".vscode/tasks.json", ".envrc"]
    assert not [name for name in left if os.path.lexists(repository.workspace / name)]
    assert "undone" in result or "sandbox" in result or result["exit_code"] == 0
    if "undone" in result:
        assert all("runs code by itself" in report for report in result["undone"])


def test_changes_to_files_that_were_there_are_put_back(repository: SandboxRig) -> None:
    hook = repository.workspace / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\necho mine\n")
    hook.chmod(0o755)
    tasks = repository.workspace / ".vscode" / "tasks.json"
    tasks.parent.mkdir()
    tasks.write_text("{}")
    for command in (
        "echo bad >> .git/hooks/pre-commit",
        "rm -f .git/hooks/pre-commit",
        "echo bad > .vscode/tasks.json",
        "mv .vscode old; mkdir .vscode; echo bad > .vscode/tasks.json",
    ):
        repository.run(command)
        assert hook.read_text() == "#!/bin/sh\necho mine\n", command
        assert hook.stat().st_mode & 0o777 == 0o755
        assert tasks.read_text() == "{}", command


def test_what_was_moved_away_can_still_be_read(repository: SandboxRig) -> None:
    (report,) = repository.run("mkdir .vscode; echo wanted > .vscode/tasks.json")["undone"]
    assert "moved to undone/1-tasks.json in TMPDIR" in report
    assert repository.works('cat "$TMPDIR/undone/1-tasks.json"') == "wanted"


def test_start_files_when_the_workspace_is_the_home_folder(make_rig: MakeRig, backend: SandboxBackend) -> None:
    rig = make_rig(backend, workspace=".")
    (rig.home / ".bashrc").write_text("# mine\n")
    rig.run("echo bad >> .bashrc")
    rig.run("echo bad >> .zshrc")
    rig.run("mkdir -p .config/autostart; echo bad > .config/autostart/x.desktop")
    assert (rig.home / ".bashrc").read_text() == "# mine\n"
    assert not (rig.home / ".zshrc").exists()
    assert not (rig.home / ".config" / "autostart" / "x.desktop").exists()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("core.hooksPath", "hooks"),
        ("core.fsmonitor", "./watch.sh"),
        ("core.sshCommand", "./ssh.sh"),
        ("alias.st", "!./status.sh"),
        ("filter.x.clean", "./clean.sh"),
        ("diff.x.textconv", "./convert.sh"),
        ("credential.helper", "./helper.sh"),
        ("include.path", "../more.config"),
    ],
)
def test_keys_of_a_git_configuration_that_run_code_are_undone(repository: SandboxRig, setting: str, value: str) -> None:
    result = repository.run(f"git remote add up /somewhere && git config {setting} '{value}'")
    assert result["exit_code"] == 0
    (report,) = result["undone"]
    assert setting.lower() in report.lower()
    assert repository.git("remote", "get-url", "up") == "/somewhere"  # the rest stays
    assert setting.lower() not in repository.git("config", "--list", "--local", "--name-only").lower().splitlines()


def test_keys_that_were_there_keep_their_values(repository: SandboxRig) -> None:
    repository.git("config", "core.hooksPath", "mine")
    assert "undone" in repository.run("git config core.hooksPath theirs")
    assert repository.git("config", "core.hooksPath") == "mine"
    assert "undone" in repository.run("git config --unset core.hooksPath")
    assert repository.git("config", "core.hooksPath") == "mine"
    # The user may change it between two commands.
    repository.git("config", "core.hooksPath", "other")
    assert "undone" not in repository.run("true")
    assert repository.git("config", "core.hooksPath") == "other"


def test_a_configuration_that_is_replaced_by_something_odd(repository: SandboxRig) -> None:
    before = (repository.workspace / ".git" / "config").read_text()
    for command in (
        "rm .git/config && mkfifo .git/config",
        "printf '[core]\\n\\tfsmonitor = x\\n' > evil; ln -sf ../evil .git/config",
        "echo '[[[' > .git/config",
    ):
        assert "undone" in repository.run(command), command
        assert (repository.workspace / ".git" / "config").read_text() == before


def test_a_named_pipe_where_git_keeps_its_pointer_holds_nothing_up(repository: SandboxRig) -> None:
    assert repository.run("mkdir sub && mkfifo sub/.git")["exit_code"] == 0
    assert repository.works("echo still here") == "still here"


def test_an_approved_change_outlives_a_command_that_still_runs(repository: SandboxRig) -> None:
    """The end of another command must not undo what a person approved in the meantime, and nothing else."""
    other = repository.confinements.of_command(repository.context.scope, repository.workspace)
    assert other.sandbox is not None
    other.sandbox.start(["true"], str(repository.workspace), {}, lambda line, folder, environment: None)
    repository.run("git init -q new && mkdir -p new/.git/hooks && echo hi > new/.git/hooks/pre-commit")
    repository.run("git config core.editor ./edit.sh; git config core.pager ./page.sh")
    editor = repository.context.command.undone
    for change in editor:
        repository.confinements.keep(change)
    (repository.workspace / ".envrc").write_text("echo more")
    assert [change.path for change in other.ended()] == [str(repository.workspace / ".envrc")]
    assert repository.git("config", "core.editor") == "./edit.sh"


def test_a_background_process_is_watched_to_its_end(repository: SandboxRig) -> None:
    started = repository.run("git config core.fsmonitor ./x; echo set; read line", background=True)
    repository.call("process", action="close", session_id=started["session_id"])
    ended = repository.call("process", action="wait", session_id=started["session_id"], timeout=60)
    assert "core.fsmonitor" in ended["undone"][0]


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("core.hookspath", "x", True),
        ("alias.st", "status", False),
        ("alias.st", " !sh", True),
        ("filter.a.b.process", "x", True),
        ("includeif.gitdir:/x.path", "x", True),
        ("remote.origin.url", "x", False),
        ("user.name", "x", False),
        ("branch.main.merge", "x", False),
        ("submodule.x.update", "rebase", False),
        ("submodule.x.update", "!x", True),
    ],
)
def test_which_keys_run_code(key: str, value: str, found: bool) -> None:
    assert runs_code(key, value) is found


# -- what it tells --------------------------------------------------------------------------------------------------


def test_a_refusal_is_told_as_such(make_rig: MakeRig, backend: SandboxBackend) -> None:
    rig = make_rig(backend)
    result = rig.run("echo x > ../outside.txt")
    assert "terminal.sandbox: workspace" in result["sandbox"]
    assert str(rig.workspace) in result["sandbox"]
    assert "sandbox" not in rig.run("exit 3")
    assert "sandbox" not in rig.run("echo permission denied")


# -- services and private folders ------------------------------------------------------------------------------------


def test_no_socket_of_a_service_is_reachable(make_rig: MakeRig, bubblewrap: SandboxBackend, folder: Path) -> None:
    """An agent's socket in the temporary folder of the machine is one such service."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="agent-") as place, socket.socket(socket.AF_UNIX) as agent:
        path = f"{place}/agent.sock"
        agent.bind(path)
        agent.listen()
        rig = make_rig(bubblewrap)
        connect = f"python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{path}\")'"
        assert rig.run(connect)["exit_code"] != 0
        assert rig.run('test -n "$SSH_AUTH_SOCK"')["exit_code"] != 0
    assert folder.exists()


def test_private_folders_do_not_outlive_a_host_that_was_not_closed(make_rig: MakeRig, backend: SandboxBackend) -> None:
    import gc

    rig = make_rig(backend)
    rig.works("true")
    confinements = rig.confinements
    (folder,) = (Path(one.path) for one in confinements._folders.values())  # pyright: ignore[reportPrivateUsage]
    assert folder.is_dir()
    rig.context.confinements = rig.confinements = type(confinements)()
    del confinements
    gc.collect()
    assert not folder.exists()


def test_private_folders_of_killed_processes_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_rig: MakeRig, backend: SandboxBackend
) -> None:
    import sys
    import tempfile

    make = (
        "import sys; from hermes.tools.sandbox.sandbox import PrivateFolder; folder = PrivateFolder(); "
        "open(folder.path + '/file', 'w').close(); print(folder.path, flush=True); sys.stdin.read()"
    )
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    other = temporary / "hermes-sandbox-of-someone-else"
    other.mkdir()
    (temporary / f"{FOLDER_PREFIX}link").symlink_to(other)
    started = [
        subprocess.Popen([sys.executable, "-c", make], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    killed, alive = started
    try:
        paths = [Path(process.stdout.readline().strip()) for process in started if process.stdout is not None]
        killed.kill()
        killed.wait()
        assert all((path / "file").exists() for path in paths)
        make_rig(backend).works("true")
        assert [path.exists() for path in paths] == [False, True]
        assert other.is_dir() and (temporary / f"{FOLDER_PREFIX}link").is_symlink()
    finally:
        alive.kill()
        for process in started:
            process.communicate()
