"""The environment of child processes: no secret of the home, and little of anything for callers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.base.config.schema.sections import TerminalConfig
from hermes.base.sanitize import Redactor
from hermes.base.scope import Scope
from hermes.tools.builtin import builtin_tools
from hermes.tools.files.guard import FileGuard
from hermes.tools.registry import ToolContext
from hermes.tools.sandbox.confinement import Confinements
from hermes.tools.terminal.background import ProcessTable
from hermes.tools.terminal.environment import child_environment, withheld_hint
from support.shell_rig import ShellRig
from support.waiting import wait_until

SECRET = "kiwi-9f31c0aa77d2"
REDACTOR = Redactor((SECRET,))

SOURCE = {
    "PATH": "/usr/bin",
    "HOME": "/home/me",
    "LC_ALL": "C.UTF-8",
    "EDITOR": "vi",
    "GITHUB_TOKEN": "anything at all",
    "INNOCENT": SECRET,
    "SERVICE_URL": f"https://me:{SECRET}@example.org/",
    "HTTPS_PROXY": "http://proxy.example.org:3128",
    "http_proxy": "http://me:word@proxy.example.org:3128",
}


def test_the_owner_gets_everything_but_secrets() -> None:
    built = child_environment(SOURCE, REDACTOR)
    assert set(built.variables) == {"PATH", "HOME", "LC_ALL", "EDITOR", "HTTPS_PROXY", "http_proxy"}
    assert built.withheld == {"GITHUB_TOKEN", "INNOCENT", "SERVICE_URL"}


def test_others_get_a_short_list() -> None:
    built = child_environment(SOURCE, REDACTOR, minimal=True)
    assert built.variables == {name: SOURCE[name] for name in ("PATH", "HOME", "LC_ALL", "HTTPS_PROXY")}


def test_variables_can_be_passed_on_by_name() -> None:
    passed = ("GITHUB_TOKEN", "EDITOR", "NOT_SET")
    assert child_environment(SOURCE, REDACTOR, passed).variables["GITHUB_TOKEN"] == "anything at all"
    minimal = child_environment(SOURCE, REDACTOR, passed, minimal=True).variables
    assert minimal["EDITOR"] == "vi"
    assert "GITHUB_TOKEN" not in minimal  # a secret is for the owner's own work only


def test_a_short_secret_inside_a_longer_value_is_a_coincidence() -> None:
    redactor = Redactor(("/usr/bin",))
    built = child_environment({"PATH": "/usr/bin:/bin", "TOOLS": "/usr/bin:/bin", "SAME": "/usr/bin"}, redactor)
    assert built.withheld == {"SAME"}


@pytest.mark.parametrize(
    ("command", "output", "exit_code", "named"),
    [
        ('curl -H "Authorization: Bearer $GH_TOKEN" http://localhost', "", 0, True),
        ("python deploy.py", "error: GH_TOKEN is not set", 1, True),
        ("gh pr list", "authentication required", 4, True),
        ("gh pr list", "no pull requests", 0, False),
        ("make", "failed", 2, False),
        ("GH_TOKEN=mine make", "failed", 2, False),
        ("echo $GH_TOKENS", "", 0, False),
    ],
)
def test_a_command_that_misses_a_withheld_variable_gets_a_hint(
    command: str, output: str, exit_code: int, named: bool
) -> None:
    hint = withheld_hint({"GH_TOKEN"}, command, output, exit_code)
    assert ("terminal.env_passthrough '[GH_TOKEN]'" in hint) is named
    assert "\n" not in hint
    assert bool(hint) is named


# -- in use ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALICE_TOKEN", "the token of another caller")
    monkeypatch.setenv("PLAIN_NAME", SECRET)
    monkeypatch.setenv("EDITOR", "vi")


def run(context: ToolContext, **args: Any) -> dict[str, Any]:
    (tool,) = (tool for tool in builtin_tools() if tool.name == "terminal")
    return msgspec.json.decode(tool.run(args, context))


def tool_context(workdir: Path, principal: str = "", *passthrough: str) -> ToolContext:
    confinements = Confinements(TerminalConfig(sandbox="off", env_passthrough=list(passthrough)), REDACTOR)
    scope = Scope(principal=principal)
    return ToolContext(scope, workdir, ProcessTable(), FileGuard(), confinements=confinements)


@pytest.mark.usefixtures("planted")
def test_commands_do_not_inherit_secrets(workdir: Path) -> None:
    printed = run(tool_context(workdir), command="env")["output"]
    assert "EDITOR=vi" in printed
    assert "ALICE_TOKEN" not in printed
    assert SECRET not in printed


@pytest.mark.usefixtures("planted")
def test_commands_of_a_caller_inherit_next_to_nothing(workdir: Path) -> None:
    context = tool_context(workdir, "bob")
    printed = run(context, command="env")["output"]
    names = {line.partition("=")[0] for line in printed.splitlines()}
    shell = {"PWD", "SHLVL", "_", "OLDPWD", "PAGER", "GIT_PAGER"}
    assert names - shell <= {"PATH", "HOME", "USER", "LANG", "TERM", "TZ", "TMPDIR"} | {
        name for name in os.environ if name.startswith("LC_") or name.lower().endswith("_proxy")
    }
    # The names of the owner's variables are not told either.
    assert "hint" not in run(context, command="echo $ALICE_TOKEN; false")


@pytest.mark.usefixtures("planted")
def test_a_result_names_the_variable_that_was_withheld(workdir: Path) -> None:
    assert "ALICE_TOKEN" in run(tool_context(workdir), command='test -n "$ALICE_TOKEN"')["hint"]
    passed = run(tool_context(workdir, "", "ALICE_TOKEN"), command='test -n "$ALICE_TOKEN"')
    assert passed["exit_code"] == 0
    assert "hint" not in passed


@pytest.mark.usefixtures("planted")
def test_background_processes_do_not_inherit_secrets(workdir: Path) -> None:
    context = tool_context(workdir)
    try:
        started = run(context, command="env > printed && mv printed done", background=True)
        assert started["exit_code"] == 0
        wait_until((workdir / "done").exists)
        printed = (workdir / "done").read_text()
        assert "EDITOR=vi" in printed
        assert "ALICE_TOKEN" not in printed
        assert SECRET not in printed
    finally:
        context.processes.close()


@pytest.mark.usefixtures("planted")
def test_hook_commands_do_not_inherit_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_NAME", "planted-secret-value")
    with ShellRig(tmp_path) as rig:
        script = "import json, os\nopen('env.json', 'w').write(json.dumps(dict(os.environ)))\n"
        rig.load("on_session_start", rig.script(script, "save.py"))
        rig.fire("on_session_start", session_id="s1")
        found = json.loads((rig.cwd / "env.json").read_text())
    assert found["EDITOR"] == "vi"
    assert found["HERMES_HOOK_EVENT"] == "on_session_start"
    assert not {"ALICE_TOKEN", "OTHER_NAME"} & set(found)
