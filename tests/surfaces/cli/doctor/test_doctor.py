"""``hermes doctor`` as a whole: the report, the configuration, the machine, and checks that fail themselves."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import threading
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.base.config.schema.aliases import (
    AliasedApprovalsConfig,
    AliasedConfig,
    AliasedModelConfig,
    AliasedPluginsConfig,
)
from hermes.base.config.schema.sections import ApprovalsConfig, Config, ModelConfig, PluginsConfig
from hermes.base.errors import HermesError
from hermes.surfaces.cli.doctor.check import Check, CheckResult, Installation, ok, run_check, size
from hermes.surfaces.cli.doctor.command import GROUPS
from hermes.surfaces.cli.doctor.configuration import OLDER_SPELLINGS
from hermes.surfaces.cli.doctor.system import PACKAGES
from hermes.testing import ScriptedProvider
from support import hermes_command, hermes_environment, run_hermes
from support.doctor_rig import examine, model_config, write_private_config
from support.small_disk import small_disk
from support.waiting import HANG

ROOT = Path(__file__).parents[4]


# -- the report -----------------------------------------------------------------------------------------------------


def test_a_home_in_good_order(home: Path, workdir: Path) -> None:
    with ScriptedProvider("Hi") as provider:
        write_private_config(home, model_config(provider.base_url))
        home.chmod(0o700)
        done = run_hermes("doctor", home=home, cwd=workdir)
    assert (done.returncode, done.stderr) == (0, "")
    assert "✗" not in done.stdout and "\x1b" not in done.stdout
    titles = [line for line in done.stdout.splitlines() if line and not line.startswith(" ")]
    assert titles[:-1] == [title for title, _ in GROUPS.values()]
    assert re.search(r"✓ model +http://127\.0\.0\.1:\d+/v1 answers \(\d+ ms\) and has scripted", done.stdout)
    assert max(map(len, done.stdout.splitlines())) <= 110  # only what cannot be divided is longer than 80


def test_the_document_for_programs(home: Path, workdir: Path) -> None:
    seen = examine(home, workdir, "--offline")
    assert seen.code == 1  # no model is set up
    assert set(seen.document) == {"ok", "version", "home", "broken", "warnings", "fixed", "groups"}
    assert (seen.document["ok"], seen.document["broken"], seen.document["home"]) == (False, 1, str(home))
    assert [group["name"] for group in seen.document["groups"]] == list(GROUPS)
    for finding in seen.findings:
        assert set(finding) == {"status", "what", "detail", "fix", "command", "fixed", "fixable"}
        assert finding["status"] in ("ok", "warning", "broken", "skipped")
        assert finding["what"] and finding["detail"]
        assert finding["status"] not in ("warning", "broken") or finding["fix"] or finding["command"], finding


def test_only_some_groups(home: Path, workdir: Path) -> None:
    seen = examine(home, workdir, "terminal", "tools")
    assert [group["name"] for group in seen.document["groups"]] == ["tools", "terminal"]
    wrong = run_hermes("doctor", "jurnal", home=home, cwd=workdir)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "there is no group 'jurnal'; did you mean 'journal'?" in wrong.stderr


def test_signs_that_the_output_can_show(home: Path, workdir: Path) -> None:
    done = run_hermes("doctor", "model", "terminal", home=home, cwd=workdir, env={"PYTHONIOENCODING": "ascii"})
    assert done.stdout.isascii()
    assert re.search(r"^  x model +no model is set up$", done.stdout, re.MULTILINE)
    assert re.search(r"^  ! encoding +ascii", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("env", "has_colour"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_colours_are_for_terminals_that_have_them(
    home: Path, workdir: Path, env: dict[str, str], has_colour: bool
) -> None:
    leader, follower = pty.openpty()
    with subprocess.Popen(
        hermes_command("doctor", "terminal"), cwd=workdir, env=hermes_environment(home, env), stdout=follower
    ) as process:
        os.close(follower)
        shown = b""
        while data := _read(leader):
            shown += data
        os.close(leader)
        assert process.wait() == 0
    assert (b"\x1b[" in shown) is has_colour, shown
    assert (b"no line editing" in shown) is (env["TERM"] == "dumb")


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65536)
    except OSError:  # how Linux tells that the other end is closed
        return b""


# -- checks that fail themselves ------------------------------------------------------------------------------------


def crash(_installation: Installation) -> Iterator[CheckResult]:
    yield ok("first", "fine")
    raise ZeroDivisionError("api_key=hunter2hunter2")


def refuse(_installation: Installation) -> Iterator[CheckResult]:
    raise HermesError("the thing is gone; put it back")


def leave(_installation: Installation) -> Iterator[CheckResult]:
    raise SystemExit(3)


def test_a_check_that_fails_is_a_line_and_keeps_what_it_found(home: Path, workdir: Path) -> None:
    installation = Installation(home, workdir)
    until = time.monotonic() + HANG
    first, failed = run_check(Check("odd", crash), installation, until)
    assert (first.what, first.status) == ("first", "ok")
    assert (failed.what, failed.status) == ("odd", "broken")
    assert "ZeroDivisionError" in failed.detail and "hunter2" not in failed.detail
    (told,) = run_check(Check("odd", refuse), installation, until)
    assert (told.status, told.detail, told.fix) == ("broken", "the thing is gone", "put it back")
    (left,) = run_check(Check("odd", leave), installation, until)
    assert left.status == "broken"


def test_time_is_bounded_for_each_check_and_for_all(home: Path, workdir: Path) -> None:
    installation = Installation(home, workdir)
    over = threading.Event()

    def hang(_installation: Installation) -> Iterator[CheckResult]:
        over.wait(60)
        yield ok("late", "too late")

    (late,) = run_check(Check("slow", hang, 0.05), installation, time.monotonic() + HANG)
    over.set()
    assert (late.status, late.detail) == ("broken", "the check did not finish within 0.05 s")
    (never,) = run_check(Check("slow", hang), installation, time.monotonic() - 1)
    assert never.detail.startswith("skipped: the checks before")


# -- the machine ----------------------------------------------------------------------------------------------------


def test_the_packages_that_are_looked_for_are_those_that_are_needed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[<>=~! ;\[]", line)[0] for line in project["dependencies"] if ";" not in line}
    assert set(PACKAGES) == needed


def test_a_missing_package(home: Path, workdir: Path, tmp_path: Path) -> None:
    blocker = tmp_path / "site" / "sitecustomize.py"
    blocker.parent.mkdir()
    blocker.write_text(
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'rich': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Missing())\n"
    )
    path = f"{blocker.parent}:{hermes_environment(home)['PYTHONPATH']}"
    found = examine(home, workdir, "system", env={"PYTHONPATH": path}).one("packages", "broken")
    assert found["detail"] == "not installed: rich"
    assert found["command"].endswith("-m pip install rich")


def test_a_home_that_is_a_file(home: Path, workdir: Path) -> None:
    home.write_text("not a folder")
    seen = examine(home, workdir)
    assert seen.one("home", "broken")["detail"] == f"{home} is not a folder"


def test_a_read_only_home(home: Path, workdir: Path) -> None:
    with small_disk(home, "1m"):
        subprocess.run(["mount", "-o", "remount,ro", str(home)], check=True)
        seen = examine(home, workdir, "--fix")
    assert seen.code == 1
    assert "cannot be written: Read-only file system" in seen.one("home", "broken")["detail"]


def test_a_full_disk(home: Path, workdir: Path) -> None:
    with small_disk(home, "64k"):
        (home / "filler").write_bytes(b"\0" * 40_000)
        little = examine(home, workdir, "system")
        with pytest.raises(OSError, match="space"):
            (home / "filler").write_bytes(b"\0" * 100_000)
        full = examine(home, workdir, "system")
    assert little.one("disk", "broken")["detail"].endswith("no conversation can be recorded")
    assert "No space left" in full.one("home", "broken")["detail"]


def test_a_clock_that_is_behind(home: Path, workdir: Path) -> None:
    write_private_config(home, "")
    ahead = time.time() + 10 * 86_400
    os.utime(home / "config.yaml", (ahead, ahead))
    found = examine(home, workdir, "system").one("clock", "warning")
    assert "before config.yaml was last changed" in found["detail"]


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (84e9, "84 GB"), (5e13, "50000 GB")]
)
def test_sizes(count: float, text: str) -> None:
    assert size(count) == text


# -- the configuration ----------------------------------------------------------------------------------------------


def test_every_problem_of_the_configuration_is_a_line_of_its_own(home: Path, workdir: Path) -> None:
    write_private_config(home, "agent:\n  max_turns: 0\napprovals:\n  mode: sometimes\n")
    seen = examine(home, workdir, "--offline")
    turns, mode = seen.about("config.yaml")
    assert turns["detail"] == "agent.max_turns: found the number 0"
    assert turns["fix"] == "allowed: a whole number, 1 or more (line 2)"
    assert mode["detail"] == "approvals.mode: found the text 'sometimes'"
    assert {finding["command"] for finding in (turns, mode)} == {"hermes config edit"}
    assert seen.one("toolsets", "skipped")["detail"] == "skipped: invalid configuration"
    assert [finding["what"] for finding in seen.findings if finding["detail"].startswith("the check failed")] == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("model: [unclosed\n", "line 2"),
        ("- a\n- list\n", "a list at the top"),
        ("\x00", "not readable as YAML"),
    ],
)
def test_a_file_that_is_no_configuration(home: Path, workdir: Path, text: str, says: str) -> None:
    write_private_config(home, text)
    found = examine(home, workdir, "config").about("config.yaml")[0]
    assert found["status"] == "broken"
    assert says in found["detail"] + found["fix"]


def test_a_configuration_that_is_a_folder(home: Path, workdir: Path) -> None:
    (home / "config.yaml").mkdir(parents=True)
    (home / ".env").mkdir()
    seen = examine(home, workdir, "config")
    assert "is a directory" in seen.about("config.yaml")[0]["detail"]
    assert "cannot be read" in seen.one(".env", "broken")["detail"]


def test_unknown_keys_and_unset_references(home: Path, workdir: Path) -> None:
    write_private_config(home, "agent:\n  max_turn: 5\nmodel:\n  api_key: ${NOT_THERE}\nzebra: 1\n")
    seen = examine(home, workdir, "config")
    assert seen.code == 0
    texts = {finding["detail"]: finding["fix"] for finding in seen.about("config.yaml")}
    assert texts["agent.max_turn is not a known setting"] == "did you mean agent.max_turns?"
    unset = "model.api_key refers to ${NOT_THERE}, which is not set in the environment or in .env"
    assert texts[unset].startswith(f"set NOT_THERE in {home}/.env")
    assert "zebra is not a known setting" in texts


def test_older_spellings(home: Path, workdir: Path) -> None:
    write_private_config(home, "model:\n  name: m\nbase_url: http://127.0.0.1:1/v1\n")
    details = [finding["detail"] for finding in examine(home, workdir, "config").about("spelling")]
    assert details == ["model.name means model.default", "base_url means model.base_url"]
    write_private_config(home, "model: plain\n")
    assert examine(home, workdir, "config").about("spelling") == []


def test_every_older_spelling_is_known() -> None:
    sections = {
        ("model",): (AliasedModelConfig, ModelConfig),
        ("approvals",): (AliasedApprovalsConfig, ApprovalsConfig),
        ("plugins",): (AliasedPluginsConfig, PluginsConfig),
        (): (AliasedConfig, Config),
    }
    extra = {
        (*path, name)
        for path, (written, settled) in sections.items()
        for name in set(written.__struct_fields__) - set(settled.__struct_fields__)
    }
    assert set(OLDER_SPELLINGS) == extra


def test_lines_of_the_env_file_that_are_no_variables(home: Path, workdir: Path) -> None:
    home.mkdir()
    (home / ".env").write_text("GOOD=1\nnot a pair\n")
    (home / ".env").chmod(0o600)
    found = examine(home, workdir, "config").one(".env", "warning")
    assert "line 2: not a NAME=" in found["detail"]
