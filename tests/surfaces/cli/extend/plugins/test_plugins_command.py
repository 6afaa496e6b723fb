"""``hermes plugins``: what it lists, what it changes, what it refuses, and what it never runs."""

from __future__ import annotations

import json
import os
import pty
import select
import stat
import subprocess
import sys
import time
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config import config_path, load_config
from hermes.base.log import close_logging
from hermes.host import Host
from hermes.surfaces.cli.main import main
from hermes.testing import ScriptedProvider, text, tool_call
from support import SOURCES, hermes_command, hermes_environment, run_hermes, write_config
from support.git_repository import Repository, write_plugin
from support.waiting import HANG

Output = pytest.CaptureFixture[str]

COUNTING = """
import sys
def register(ctx):
    ctx.register_hook("pre_tool_call", lambda tool_name: None)
    ctx.register_hook("post_tool_call", fail)
    ctx.register_middleware("tool_request", lambda args: None)
    ctx.register_tool("shout", "loud", {"description": "x"}, lambda args: "{}")
    ctx.register_platform("irc", "IRC", print, print)
def fail(**fields):
    raise ValueError("bad key sk-abcdefghijklmnopqrst")
"""


@pytest.fixture(autouse=True)
def own_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing bundled but what a test puts there, and a working folder of its own."""
    monkeypatch.setenv("HERMES_BUNDLED_PLUGINS", str(tmp_path / "bundled"))
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")


def plugins(capsys: Output, *arguments: str) -> str:
    assert main(["plugins", *arguments]) == 0, capsys.readouterr()
    return capsys.readouterr().out


def refused(capsys: Output, *arguments: str) -> str:
    assert main(["plugins", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("Error: ") and error.count("\n") == 1
    return error


def listed(capsys: Output, *arguments: str) -> dict[str, dict[str, Any]]:
    return {row["key"]: row for row in json.loads(plugins(capsys, "list", "--json", *arguments))}


def configure(home: Path, yaml: str) -> None:
    home.mkdir(exist_ok=True)
    config_path(home).write_text(yaml)


# -- list -------------------------------------------------------------------------------------------------------------


def test_the_list_fits_a_terminal_of_80_columns(home: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    about = "description: Sends turns to a server as traces, with generations, tools, usage and cost.\n"
    write_plugin(home / "plugins" / "observability" / "long_name", f"name: long_name\n{about}", "")
    monkeypatch.setenv("COLUMNS", "80")
    head, *rows = plugins(capsys, "list").splitlines()
    assert head.split() == ["KEY", "STATUS", "VERSION", "SOURCE", "CALLS", "FAILED", "TIME"]
    assert all(len(row) <= 80 for row in [head, *rows])
    assert " ".join(row.strip() for row in rows[1:]).startswith(about.partition(": ")[2].strip())


def test_the_list_tells_status_and_source_and_runs_nothing(home: Path, tmp_path: Path, capsys: Output) -> None:
    assert plugins(capsys) == "No plugins. Create one with: hermes plugins new NAME\n"
    explode = f"open({str(tmp_path / 'ran')!r}, 'w')\n"
    for name in ("on", "off", "idle", "broken"):
        write_plugin(home / "plugins" / name, code=explode)
    (home / "plugins" / "broken" / "plugin.yaml").write_text("[")
    write_plugin(home / "plugins" / "web" / "find", "name: web-find\nkind: oddity\nrequires_env: [FIND_KEY]\n", explode)
    write_plugin(home / "plugins" / "memory" / "brain", "kind: exclusive\n", explode)
    write_plugin(tmp_path / "bundled" / "ours", code=explode)
    configure(home, "plugins: {enabled: ['on', web-find, broken, lost, memory/brain], disabled: ['off', 'on2']}\n")
    assert main(["plugins", "list", "--json"]) == 0
    captured = capsys.readouterr()
    rows = {row["key"]: row for row in json.loads(captured.out)}
    assert {key: (row["status"], row["source"]) for key, row in rows.items()} == {
        "on": ("enabled", "user"),
        "off": ("disabled", "user"),
        "idle": ("not enabled", "user"),
        "broken": ("failed", "user"),
        "web/find": ("enabled", "user"),
        "memory/brain": ("waiting", "user"),
        "ours": ("not enabled", "bundled"),
    }
    assert "is not valid YAML" in rows["broken"]["error"]
    assert rows["web/find"]["missing_env"] == ["FIND_KEY"]
    assert "kind is 'oddity'" in rows["web/find"]["problems"][0]
    assert captured.err == (
        "Warning: plugins.enabled: unknown plugin 'lost'; there are: broken, idle, memory/brain, off, on, ours, "
        "web/find\n"
    )
    assert not (tmp_path / "ran").exists()


def test_the_list_can_be_narrowed(home: Path, tmp_path: Path, capsys: Output) -> None:
    write_plugin(home / "plugins" / "mine")
    write_plugin(tmp_path / "bundled" / "ours")
    configure(home, "plugins: {enabled: [ours]}\n")
    assert set(listed(capsys)) == {"mine", "ours"}
    assert set(listed(capsys, "--enabled")) == {"ours"}
    assert set(listed(capsys, "--user")) == {"mine"}
    assert set(listed(capsys, "--no-bundled")) == {"mine"}
    assert plugins(capsys, "ls", "--plain") == (
        "not enabled  user       1.0.0        mine\nenabled      bundled    1.0.0        ours\n"
    )


def test_a_terminal_is_not_driven_by_a_manifest(home: Path, capsys: Output) -> None:
    write_plugin(home / "plugins" / "p", 'name: p\ndescription: "\\e[31mred"\nversion: "1\\n2"\n')
    for form in ("list", "info"):
        assert "\x1b" not in plugins(capsys, form, *(["p"] if form == "info" else []))


def test_safe_mode_is_told(home: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_SAFE_MODE", "1")
    write_plugin(home / "plugins" / "p")
    assert main(["plugins"]) == 0
    assert capsys.readouterr().err == "Warning: HERMES_SAFE_MODE is set: no plugin is loaded\n"


def run_session(home: Path, workdir: Path) -> None:
    with ScriptedProvider([tool_call("terminal", {"command": "true"}), text("done")]) as provider:
        listing = "plugins: {enabled: [counting, crashing]}\n"
        write_config(home, provider.base_url, listing)
        with Host(home, load_config(home).config, cwd=workdir, env={}) as host:
            assert host.new_session().run("go").status == "completed"


def test_past_sessions_are_counted(home: Path, workdir: Path, capsys: Output) -> None:
    write_plugin(home / "plugins" / "counting", code=COUNTING)
    crashing = write_plugin(home / "plugins" / "crashing", code="raise RuntimeError('no luck')")
    run_session(home, workdir)
    run_session(home, workdir)
    rows = listed(capsys)
    row = rows["counting"]
    assert (row["calls"], row["failures"], row["sessions"]) == (6, 2, 2)
    assert row["seconds"] > 0
    assert sorted(row["hooks"]) == ["post_tool_call", "pre_tool_call"]
    assert (row["middleware"], row["tools"]) == (["tool_request"], ["shout"])
    assert row["last_error"] == "ValueError: bad key <redacted>"
    assert rows["crashing"]["status"] == "failed"
    assert rows["crashing"]["error"].startswith("in the last session: RuntimeError: no luck")
    shown = plugins(capsys)
    assert "hooks post_tool_call, pre_tool_call, tool_request; tools shout" in shown
    assert "! last failure: ValueError" in shown
    shown = plugins(capsys, "info", "counting")
    assert "Past use    6 calls in 2 sessions, 2 failed" in shown
    assert "Unused      platform irc\n" in shown
    # Once somebody has changed the plugin, that it failed says nothing any more.
    os.utime(crashing / "__init__.py", (time.time() + 5, time.time() + 5))
    assert listed(capsys)["crashing"]["status"] == "enabled"


def test_a_damaged_journal_does_not_hide_the_plugins(home: Path, capsys: Output) -> None:
    write_plugin(home / "plugins" / "p")
    (home / "state.db").write_bytes(b"not a database" * 100)
    assert main(["plugins", "list", "--plain"]) == 0
    captured = capsys.readouterr()
    assert captured.out.endswith(" p\n")
    assert captured.err.startswith("Warning: no counters: ")


def test_a_host_that_is_closed_twice_counts_once(home: Path, workdir: Path, capsys: Output) -> None:
    write_plugin(home / "plugins" / "counting", code=COUNTING)
    with ScriptedProvider([tool_call("terminal", {"command": "true"}), text("done")]) as provider:
        write_config(home, provider.base_url, "plugins: {enabled: [counting]}\n")
        host = Host(home, load_config(home).config, cwd=workdir, env={})
        host.new_session()
        host.new_session().run("go")
        host.close()
        host.close()
    assert listed(capsys)["counting"]["calls"] == 3


def test_a_session_without_a_message_leaves_no_journal(home: Path, workdir: Path) -> None:
    write_plugin(home / "plugins" / "counting", code=COUNTING)
    write_config(home, "http://127.0.0.1:9/v1", "plugins: {enabled: [counting]}\n")
    with Host(home, load_config(home).config, cwd=workdir, env={}) as host:
        host.new_session()
    assert not (home / "state.db").exists()


# -- info -------------------------------------------------------------------------------------------------------------


def test_info_loads_a_plugin_only_when_asked(home: Path, tmp_path: Path, capsys: Output) -> None:
    code = (
        f"open({str(tmp_path / 'ran')!r}, 'w').close()\n"
        "def register(ctx):\n"
        "    print('noise')\n"
        "    ctx.register_hook('pre_tool_call', print)\n"
        "    ctx.register_hook('nope', print)\n"
        "    ctx.register_command('say', str)\n"
        "    ctx.register_cli_command('shout', 'h', lambda parser: None)\n"
        "    ctx.register_platform('irc', 'IRC', print, print)\n"
        "    from agent.context_engine import ContextEngine\n"
        "    class Mine(ContextEngine):\n"
        "        name = 'mine'\n"
        "        def update_from_response(self, usage): pass\n"
        "        def should_compress(self, prompt_tokens=None): return False\n"
        "        def compress(self, messages, current_tokens=None, **_): return messages\n"
        "    ctx.register_context_engine(Mine())\n"
    )
    write_plugin(home / "plugins" / "p", "name: p\nversion: 2\nauthor: me\nrequires_env: [P_KEY]\n", code)
    other = f"open({str(tmp_path / 'other ran')!r}, 'w').close()\n"
    write_plugin(tmp_path / "bundled" / "other", "name: other\nkind: backend\n", other)
    configure(home, "plugins: {disabled: [p]}\n")
    shown = plugins(capsys, "info", "p")
    assert "Status      disabled" in shown and "Author      me" in shown and "! P_KEY is not set" in shown
    assert not (tmp_path / "ran").exists()
    shown = plugins(capsys, "info", "p", "--load")
    assert "  hooks: pre_tool_call\n" in shown and "  hermes commands: hermes shout\n" in shown
    assert "  offers: platform irc (selected by gateway.platforms), context_engine mine (selected by" in shown
    assert "there is no hook 'nope'" in shown and "noise" not in shown
    document = json.loads(plugins(capsys, "info", "p", "--load", "--json"))
    assert document["registered"]["waiting"] == [
        {"what": "platform", "name": "irc"},
        {"what": "context_engine", "name": "mine"},
    ]
    assert document["registered"]["commands"] == ["say"]
    assert (tmp_path / "ran").exists()
    assert not (tmp_path / "other ran").exists()


def test_info_of_a_plugin_that_does_not_load(home: Path, capsys: Output) -> None:
    write_plugin(home / "plugins" / "p", code="raise RuntimeError('no luck')")
    assert main(["plugins", "info", "p", "--load"]) == 1
    captured = capsys.readouterr()
    assert captured.out.startswith("Key         p\n")
    assert "Error: plugin 'p' cannot be loaded: RuntimeError: no luck" in captured.err


# -- enable and disable -----------------------------------------------------------------------------------------------


def test_enabling_and_disabling_keep_remarks(home: Path, capsys: Output) -> None:
    write_plugin(home / "plugins" / "web" / "find", "name: web-find\nversion: 1\ndescription: d\n")
    configure(home, "# mine\nplugins:\n  enabled:\n    - other  # why\n  disabled: [web-find, find, x]\n")
    assert plugins(capsys, "enable", "find") == "Enabled plugin web/find. Takes effect in the next session.\n"
    section = load_config(home).config.plugins
    assert (section.enabled, section.disabled) == (["other", "web/find"], ["x"])
    assert "# mine" in config_path(home).read_text() and "# why" in config_path(home).read_text()
    plugins(capsys, "enable", "web/find")
    assert load_config(home).config.plugins.enabled == ["other", "web/find"]
    assert "Disabled plugin web/find. Takes effect" in plugins(capsys, "disable", "web-find")
    section = load_config(home).config.plugins
    assert (section.enabled, section.disabled) == (["other"], ["x", "web/find"])


def test_a_name_that_several_share_goes_on_standing_for_the_others(home: Path, capsys: Output) -> None:
    for category in ("web", "image"):
        write_plugin(home / "plugins" / category / "fal", "name: fal\nversion: 1\ndescription: d\n")
    configure(home, "plugins: {enabled: [fal], disabled: []}\n")
    assert "could be any of image/fal, web/fal; use the whole key" in refused(capsys, "disable", "fal")
    plugins(capsys, "disable", "web/fal")
    section = load_config(home).config.plugins
    assert (section.enabled, section.disabled) == (["image/fal"], ["web/fal"])


def test_a_plugin_that_stays_disabled_through_anothers_name_is_told(home: Path, capsys: Output) -> None:
    write_plugin(home / "plugins" / "fal")
    write_plugin(home / "plugins" / "web" / "fal", "name: fal\nversion: 1\ndescription: d\n")
    configure(home, "plugins: {disabled: [fal]}\n")
    assert main(["plugins", "enable", "web/fal"]) == 0
    assert "it stays disabled" in capsys.readouterr().err
    assert load_config(home).config.plugins.disabled == ["fal"]


def test_unknown_names_get_suggestions(home: Path, capsys: Output) -> None:
    write_plugin(home / "plugins" / "audit")
    for command in ("enable", "disable", "info", "update", "remove", "check"):
        assert "there is no plugin 'audti'; did you mean 'audit'?" in refused(capsys, command, "audti")
    assert not config_path(home).exists()


def test_what_is_doubtful_about_a_plugin_is_told_when_it_is_enabled(home: Path, capsys: Output) -> None:
    code = "def register(ctx):\n    ctx.register_hook('pre_tool', print)\n"
    write_plugin(
        home / "plugins" / "p", "name: p\nkind: exclusive\nversion: 1\ndescription: d\nrequires_env: [A]", code
    )
    assert main(["plugins", "enable", "p"]) == 0
    hook, kind, variable = capsys.readouterr().err.splitlines()
    assert hook.endswith(
        "p/__init__.py:2: error: there is no hook 'pre_tool'; did you mean 'pre_tool_call'? [hook-name]"
    )
    assert kind.startswith("Warning: plugins of kind 'exclusive' are loaded only when selected")
    assert variable == f"Warning: A is not set; add it to {home / '.env'}"
    write_plugin(home / "plugins" / "bad", "[")
    assert "plugin 'bad' cannot be enabled" in refused(capsys, "enable", "bad")


def test_the_grant_to_replace_tools(home: Path, capsys: Output) -> None:
    code = "def register(ctx):\n    ctx.register_tool('t', 's', {}, print, override=True)\n"
    write_plugin(home / "plugins" / "p", code=code)
    assert main(["plugins", "enable", "p"]) == 0
    assert "wants to replace tools; use --allow-tool-override to allow it" in capsys.readouterr().err
    assert load_config(home).config.plugins.entries == {}
    assert plugins(capsys, "enable", "p", "--allow-tool-override").endswith("It may replace tools.\n")
    assert load_config(home).config.plugins.entries == {"p": {"allow_tool_override": True}}
    plugins(capsys, "enable", "p", "--no-allow-tool-override")
    assert load_config(home).config.plugins.entries == {"p": {"allow_tool_override": False}}


# -- install, update, remove ------------------------------------------------------------------------------------------


def test_a_life_of_a_plugin_from_a_repository(home: Path, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repos" / "audit")
    write_plugin(repository.folder, code="def register(ctx): pass\n")
    (repository.folder / "after-install.md").write_text("\x1b[1mRead me first.\n")
    first = repository.commit()
    cwd = tmp_path / "cwd"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_hermes("plugins", *arguments, home=home, cwd=cwd, env={"HERMES_BUNDLED_PLUGINS": str(cwd / "none")})

    done = run("install", repository.url)
    assert done.returncode == 0
    assert done.stderr.startswith(f"Warning: {repository.url} is not encrypted in transit")
    assert (
        f"Plugin audit 1.0.0 installed in {home}/plugins/audit.\nFrom {repository.url}, revision {first}."
        in done.stdout
    )
    assert "\nRead me first.\n" in done.stdout and "\x1b" not in done.stdout
    # Nobody was there to ask, so it is not enabled.
    assert done.stdout.endswith("Not enabled. To enable it: hermes plugins enable audit\n")
    assert not config_path(home).exists()
    [row] = json.loads(run("list", "--json").stdout)
    assert (row["source"], row["revision"], row["status"]) == ("git", first, "not enabled")

    assert "is up to date" in run("update", "audit").stdout
    write_plugin(repository.folder, code="def register(ctx): ...\n")
    second = repository.commit()
    assert run("update", "audit").stdout == f"Plugin audit updated from {first} to {second}.\n"
    assert run("install", repository.url, "--force", "--enable").returncode == 0
    assert load_config(home).config.plugins.enabled == ["audit"]
    run("enable", "audit", "--allow-tool-override")

    done = run("remove", "audit")
    assert (done.returncode, done.stderr) == (
        1,
        "Error: not a terminal: use --yes to remove without confirmation\n",
    )
    assert "Removed plugin audit" in run("uninstall", "audit", "--yes").stdout
    assert not (home / "plugins" / "audit").exists()
    section = load_config(home).config.plugins
    assert (section.enabled, section.entries) == ([], {})


def test_failures_are_one_line(home: Path, tmp_path: Path, capsys: Output) -> None:
    assert "leads out of the repository" in refused(capsys, "install", "owner/repo#../..")
    assert "there is no such folder" in refused(capsys, "install", "./nothing")
    assert "is not a revision" in refused(capsys, "install", "owner/repo", "--ref=--x")
    write_plugin(tmp_path / "bundled" / "ours")
    assert "comes with hermes; 'hermes plugins disable'" in refused(capsys, "remove", "ours", "--yes")
    assert "is not a revision" in refused(capsys, "update", "ours", "--ref=-x")
    assert "cannot be the name of a new plugin" in refused(capsys, "new", "../x")
    assert not home.exists() or list((home / "plugins").iterdir()) == []


class Terminal:
    """A ``hermes`` process on a terminal of its own."""

    def __init__(self, home: Path, cwd: Path, *arguments: str, **environ: str) -> None:
        self.main_end, slave = pty.openpty()
        environment = hermes_environment(home, {"HERMES_BUNDLED_PLUGINS": str(cwd / "none"), **environ})
        command = hermes_command("plugins", *arguments)
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, cwd=cwd, env=environment, start_new_session=True
        )
        os.close(slave)
        self.seen = ""

    def expect(self, words: str) -> None:
        """Read until the words appear."""
        give_up = time.monotonic() + HANG
        while words not in self.seen:
            if time.monotonic() > give_up or not self._read():
                raise AssertionError(f"{words!r} never came: {self.seen}")

    def answer(self, line: str) -> None:
        os.write(self.main_end, line.encode() + b"\n")

    def end(self) -> tuple[int, str]:
        while self._read():
            pass
        code = self.process.wait(timeout=60)
        os.close(self.main_end)
        return code, self.seen

    def _read(self) -> bool:
        select.select([self.main_end], [], [], 30)
        try:
            data = os.read(self.main_end, 65536)
        except OSError:  # the other end is closed
            return False
        self.seen += data.decode()
        return bool(data)


def test_on_a_terminal_variables_are_asked_for_and_secrets_not_shown(home: Path, tmp_path: Path) -> None:
    manifest = (
        "name: p\nversion: 1\ndescription: d\nrequires_env:\n"
        "  - {name: P_TOKEN, description: Opens the door., url: 'https://x.test/keys', secret: true}\n"
        "  - {name: P_PLACE, secret: false}\n"
        "  - P_LATER\n"
    )
    code = "def register(ctx):\n    ctx.register_tool('t', 's', {}, print, override=True)\n"
    folder = write_plugin(tmp_path / "src" / "p", manifest, code)
    terminal = Terminal(home, tmp_path / "cwd", "install", str(folder))
    terminal.expect("P_TOKEN (Enter to skip): ")
    terminal.answer("it's-a-secret")
    terminal.expect("P_PLACE (Enter to skip): ")
    terminal.answer("here")
    terminal.expect("P_LATER (Enter to skip): ")
    terminal.answer("")
    terminal.expect("Enable plugin p now? [y/N] ")
    terminal.answer("y")
    terminal.expect("wants to replace built-in tools. Allow that? [y/N] ")
    terminal.answer("n")
    code_, seen = terminal.end()
    assert code_ == 0
    assert "Opens the door." in seen and "https://x.test/keys" in seen
    assert "it's-a-secret" not in seen and "here\r\n" in seen
    assert (home / ".env").read_text() == "P_TOKEN=\"it's-a-secret\"\nP_PLACE='here'\n"
    assert stat.S_IMODE((home / ".env").stat().st_mode) == 0o600
    section = load_config(home).config.plugins
    assert (section.enabled, section.entries) == (["p"], {"p": {"allow_tool_override": False}})


def test_on_a_terminal_removing_is_confirmed(home: Path, tmp_path: Path) -> None:
    write_plugin(home / "plugins" / "p")
    terminal = Terminal(home, tmp_path / "cwd", "remove", "p")
    terminal.expect("? [y/N] ")
    terminal.answer("n")
    code, seen = terminal.end()
    assert code == 1 and "Nothing was removed." in seen
    assert (home / "plugins" / "p").exists()


def wheel(folder: Path, name: str, version: str, entry_points: str) -> None:
    """A package as it is published, made by hand."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py": "def register(ctx): pass\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: Packed.\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": entry_points,
    }
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
        record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
        archive.writestr(f"{info}/RECORD", record)


NEEDS = "name: p\nversion: 1\ndescription: d\npython_dependencies: ['packed_library>=1', msgspec]\n"


def test_packages_that_a_plugin_needs_are_named(home: Path, tmp_path: Path, capsys: Output) -> None:
    write_plugin(home / "plugins" / "p", NEEDS)
    assert main(["plugins", "enable", "p"]) == 0
    told = capsys.readouterr().err
    assert "plugin p needs packed_library>=1; install with: " in told
    assert "-m pip install 'packed_library>=1'" in told
    assert "msgspec" not in told


def test_packages_that_a_plugin_needs_are_installed_on_request(home: Path, tmp_path: Path) -> None:
    wheel(tmp_path / "index", "packed_library", "1.0", "")
    write_plugin(home / "plugins" / "p", NEEDS)
    pip = {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path / "index"),
        "PIP_TARGET": str(tmp_path / "target"),
        "PIP_ROOT_USER_ACTION": "ignore",
        "PIP_CONFIG_FILE": os.devnull,
    }
    terminal = Terminal(home, tmp_path / "cwd", "enable", "p", **pip)
    terminal.expect("Plugin p needs packed_library>=1. Install with pip into ")
    terminal.answer("y")
    code, seen = terminal.end()
    assert (code, "Installed packed_library>=1." in seen) == (0, True), seen
    assert (tmp_path / "target" / "packed_library").is_dir()


@pytest.mark.slow
def test_a_package_is_installed_with_pip(home: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    wheel(index, "packed_plugin", "1.0", "[hermes_agent.plugins]\npacked = packed_plugin\n")
    wheel(index, "no_plugin", "1.0", "")
    venv.create(tmp_path / "venv", with_pip=False)
    python = str(tmp_path / "venv" / "bin" / "python")
    site_packages = str(Path(pytest.__file__).parent.parent)
    environment = hermes_environment(
        home,
        {
            "PYTHONPATH": f"{SOURCES}{os.pathsep}{site_packages}",
            "HERMES_BUNDLED_PLUGINS": str(tmp_path / "none"),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(index),
            "PIP_ROOT_USER_ACTION": "ignore",
            "PIP_CONFIG_FILE": os.devnull,
        },
    )

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, "-m", "hermes", "plugins", *arguments],
            env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    done = run("install", "packed-plugin", "--enable")
    assert "Plugin packed installed: package packed_plugin 1.0.\n" in done.stdout, done.stderr
    assert load_config(home).config.plugins.enabled == ["packed"]
    [row] = json.loads(run("list", "--json").stdout)
    assert (row["key"], row["source"], row["version"], row["description"]) == ("packed", "entrypoint", "1.0", "Packed.")
    wheel(index, "packed_plugin", "1.1", "[hermes_agent.plugins]\npacked = packed_plugin\n")
    assert run("update", "packed").stdout == "Plugin packed updated from 1.0 to 1.1.\n"
    assert "Removed plugin packed (package packed_plugin)" in run("remove", "packed", "--yes").stdout
    assert run("list", "--json").stdout.strip() == "[]"
    done = run("install", "no-plugin")
    assert done.returncode == 1
    assert "offers no plugin" in done.stderr and "it was removed again" in done.stderr
    assert not list((tmp_path / "venv").glob("lib/*/site-packages/no_plugin"))
    assert "Error: pip install failed: ERROR: " in run("install", "unheard-of").stderr


# -- new and check ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tool-log", "plain"])
def test_a_new_plugin_is_complete_and_its_test_passes(name: str, home: Path, tmp_path: Path, capsys: Output) -> None:
    folder = tmp_path / "cwd" / name.replace("-", "_")
    assert f"Created plugin {name} in {folder.name}." in plugins(capsys, "new", name)
    assert {path.name for path in folder.iterdir()} == {"plugin.yaml", "__init__.py", "README.md", "tests"}
    environment = {**hermes_environment(home), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", str(folder)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "3 passed" in done.stdout, done.stdout
    assert plugins(capsys, "check", str(folder)) == "OK\n"
    assert "is there already" in refused(capsys, "new", name)
    plugins(capsys, "install", folder.name, "--enable")
    assert load_config(home).config.plugins.enabled == [name]


def _no_module(_name: str) -> None:
    """No module is installed."""


def test_new_elsewhere(tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "pip install" not in plugins(capsys, "new", "other")
    monkeypatch.setattr("hermes.surfaces.cli.extend.plugins.command.find_spec", _no_module)
    shown = plugins(capsys, "new", "mine", "--path", str(tmp_path / "deep" / "er"))
    assert "-m pytest" in shown and "(needs: pip install pytest)" in shown
    assert (tmp_path / "deep" / "er" / "mine" / "tests" / "test_mine.py").exists()


def test_check_ends_with_1_on_errors_only(home: Path, tmp_path: Path, capsys: Output) -> None:
    folder = write_plugin(home / "plugins" / "p", "name: p\nversion: 1\n")
    assert plugins(capsys, "check", "p").splitlines() == [
        f"{folder}/plugin.yaml: warning: description is not given [manifest-field]",
        "0 errors, 1 warning",
    ]
    write_plugin(folder, code="")
    assert main(["plugins", "check", "p", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False
    assert document["findings"][0] == {
        "severity": "error",
        "rule": "register",
        "text": "it has no register(ctx) function",
        "file": f"{folder}/__init__.py",
        "line": 0,
    }
    assert main(["plugins", "check", str(tmp_path)]) == 1
    assert "there is no plugin.yaml" in capsys.readouterr().out


# -- commands that plugins add ----------------------------------------------------------------------------------------

COMMANDS = """
def register(ctx):
    ctx.register_cli_command("greet", "Greets.", setup, greet, "Greets somebody.")
    ctx.register_cli_command("later", "Later.", lambda parser: parser.set_defaults(func=later))
    ctx.register_cli_command("crash", "Crashes.", lambda parser: None, lambda args: 1 / 0)
    ctx.register_cli_command("empty", "Nothing.", lambda parser: None)

    def look(args):
        print(ctx.dispatch_tool("terminal", {"command": "echo from-a-tool"}))
    ctx.register_cli_command("look", "Looks.", lambda parser: None, look)

def setup(parser):
    parser.add_argument("name")

def greet(args):
    print(f"Hello {args.name}.")
    return 7

async def later(args):
    print("Later.")
"""


@pytest.fixture
def _closed_log() -> Any:
    yield
    close_logging()


@pytest.mark.usefixtures("_closed_log")
def test_commands_of_enabled_plugins(home: Path, capsys: Output) -> None:
    write_plugin(home / "plugins" / "talk", code=COMMANDS)
    assert main(["greet", "you"]) == 2
    assert "unknown command 'greet'" in capsys.readouterr().err
    configure(home, "plugins: {enabled: [talk]}\n")
    assert main(["greet", "you"]) == 7
    assert capsys.readouterr().out == "Hello you.\n"
    assert main(["greet"]) == 2
    assert "required: name. See 'hermes greet --help'" in capsys.readouterr().err
    assert main(["help", "greet"]) == 0
    assert "Greets somebody." in capsys.readouterr().out
    assert main(["later"]) == 0
    assert capsys.readouterr().out == "Later.\n"
    assert main(["look"]) == 0
    assert "from-a-tool" in capsys.readouterr().out
    assert main(["crash"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("Error: command 'crash' of plugin 'talk' failed: ZeroDivisionError: division by zero")
    assert main(["empty"]) == 1
    assert "Error: command 'empty' of plugin 'talk' has no handler" in capsys.readouterr().err
    assert main(["gret"]) == 2
    assert "did you mean 'greet'?" in capsys.readouterr().err
    assert main(["help", "nonsense"]) == 2


def test_an_unknown_command_with_a_broken_config_is_still_told(home: Path, capsys: Output) -> None:
    configure(home, "plugins: [")
    assert main(["greet"]) == 2
    assert "unknown command 'greet'" in capsys.readouterr().err
