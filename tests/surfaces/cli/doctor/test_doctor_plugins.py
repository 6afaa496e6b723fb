"""``hermes doctor`` about plugins, exporters, hook commands, tools and toolsets."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from hermes.base.config.files import write_private_document
from hermes.journal.runner import FileRunner
from hermes.journal.store.port import home_store
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.journal.usage.plugins import EXPORT_SITE, PluginCalls, recent_counters, record_plugin_counters
from hermes.surfaces.gateway.store.outbox import Outbox, OutgoingMessage
from journal.kit import start_turn
from support.doctor_rig import Examined, examine, write_private_config

GOOD = "def register(ctx):\n    ctx.register_hook('pre_tool_call', lambda **_: None)\n"


def write_plugin(home: Path, name: str, code: str = GOOD, manifest: str = "") -> None:
    folder = home / "plugins" / name
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text(f"name: {name}\nversion: '1.0'\ndescription: A test.\n{manifest}")
    (folder / "__init__.py").write_text(code)


def enable(home: Path, *names: str, extra: str = "") -> None:
    write_private_config(home, f"plugins:\n  enabled: [{', '.join(names)}]\n{extra}")


def plugins(home: Path, workdir: Path, *arguments: str) -> Examined:
    return examine(home, workdir, "plugins", *arguments)


# -- plugins --------------------------------------------------------------------------------------------------------


def test_plugins_in_good_order_and_none_of_their_code_runs(home: Path, workdir: Path) -> None:
    write_plugin(home, "good", f"open({str(workdir / 'ran')!r}, 'w').close()\n{GOOD}")
    write_plugin(home, "idle", "broken code (", "")
    enable(home, "good")
    seen = plugins(home, workdir)
    assert (seen.code, seen.document["warnings"]) == (0, 0), seen.output
    assert seen.one("good", "ok")["detail"] == "1.0, user"
    assert seen.about("idle") == []  # not enabled, so nobody's concern
    assert not (workdir / "ran").exists()


def test_what_can_be_told_without_running_it(home: Path, workdir: Path) -> None:
    write_plugin(home, "misspelt", "def register(ctx):\n    ctx.register_hook('pre_tool_cal', print)\n")
    write_plugin(home, "torn", "def register(ctx:\n")
    write_plugin(home, "needy", GOOD, "requires_env: [SOME_TOKEN]\npip_dependencies: [no-such-wheel>=2, msgspec]\n")
    write_plugin(home, "early", GOOD, "provides_hooks: [pre_gateway_dispatch]\n")
    enable(home, "misspelt", "torn", "needy", "early", "missng")
    write_plugin(home, "missing")
    seen = plugins(home, workdir)
    assert seen.code == 1
    assert "there is no hook 'pre_tool_cal'; did you mean 'pre_tool_call'?" in seen.one("misspelt", "broken")["detail"]
    assert "is not valid Python" in seen.about("torn")[0]["detail"]
    env, wheel = seen.about("needy")
    assert (env["status"], env["fix"]) == ("warning", f"set SOME_TOKEN in {home}/.env")
    assert (wheel["status"], "needs the package no-such-wheel>=2" in wheel["detail"]) == ("broken", True)
    assert wheel["command"].endswith("-m pip install 'no-such-wheel>=2'")
    assert seen.one("early", "ok")
    assert "did you mean 'missing'?" in seen.one("missng", "broken")["detail"]


def test_platforms_and_messages_that_did_not_get_through(home: Path, workdir: Path) -> None:
    write_plugin(home, "mine", "def register(ctx):\n    ctx.register_platform('mine', 'Mine', print, print)\n")
    write_private_config(home, "gateway: {platforms: {mine: {}, gone: {}, off: {enabled: false}}}\n")
    with closing(home_store(home)) as store:
        outbox = Outbox(store)
        outbox.add(OutgoingMessage("k", "mine", "chat", "text"))
        assert outbox.claim(["mine"]) and outbox.settle_claims() == 1
    seen = plugins(home, workdir)
    assert "does not run it" in seen.one("mine", "ok")["detail"]
    assert "no plugin offers" in seen.one("gone", "warning")["detail"]
    assert seen.about("off") == []
    assert "1 message not sent" in seen.one("outbox", "warning")["detail"]


@pytest.mark.parametrize(("is_running", "expected"), [(True, "failed: no secret"), (False, "ran last: no secret")])
def test_a_platform_that_the_gateway_could_not_run(home: Path, workdir: Path, is_running: bool, expected: str) -> None:
    write_plugin(home, "mine", "def register(ctx):\n    ctx.register_platform('mine', 'Mine', print, print)\n")
    write_private_config(home, "gateway: {platforms: {mine: {}, webhook: {}}}\n")
    failed = {"name": "mine", "label": "Mine", "state": "failed", "error": "no secret", "restarts": 0, "since": 1.0}
    document = {"pid": os.getpid() if is_running else 0, "started_at": 1.0, "written_at": 2.0, "platforms": [failed]}
    write_private_document(home / "gateway.json", document)
    with closing(home_store(home)) as store:
        outbox = Outbox(store)
        outbox.add(OutgoingMessage("k", "mine", "chat", "text"), OutgoingMessage("l", "mine", "chat", "text"))
        first, second = outbox.claim(["mine"])
        due = time.time() + 300
        outbox.settle([(first.number, "waiting", "not here", "", due), (second.number, "waiting", "", "", due)])
    seen = plugins(home, workdir)
    assert expected in seen.one("mine", "warning")["detail"]
    assert seen.one("webhook", "warning" if is_running else "ok")
    assert seen.one("outbox", "warning")["detail"].startswith("2 messages ")


def test_safe_mode(home: Path, workdir: Path) -> None:
    enable(home)
    seen = examine(home, workdir, "plugins", env={"HERMES_SAFE_MODE": "1"})
    assert seen.one("safe mode", "warning")["command"] == "unset HERMES_SAFE_MODE"


def test_loading_on_demand(home: Path, workdir: Path) -> None:
    write_plugin(home, "good")
    write_plugin(home, "wheel", "import no_such_module\n\ndef register(ctx):\n    pass\n")
    enable(home, "good", "wheel")
    assert plugins(home, workdir).code == 0  # a missing import is not seen from outside
    seen = plugins(home, workdir, "--load")
    assert [finding["detail"] for finding in seen.about("good")] == ["1.0, user", "loads"]
    failed = seen.about("wheel")[1]
    assert (failed["status"], "No module named 'no_such_module'" in failed["detail"]) == ("broken", True)
    assert "install the package with the module no_such_module" in failed["fix"]


@pytest.fixture
def counted(home: Path) -> Path:
    """A home in which plugins have been at work."""
    write_plugin(home, "flaky")
    write_plugin(home, "slow")
    write_plugin(home, "exporter")
    enable(home, "flaky", "slow", "exporter")
    runner = FileRunner(home / "runners")
    with closing(SqliteStore(home / "state.db")) as store:
        start_turn(store, runner).end("completed", answer="x")
        counters = [
            PluginCalls("flaky", "pre_tool_call", 20, 3, 0.1, "ValueError: bad"),
            PluginCalls("slow", "post_tool_call", 9, 5, 3.0, "TimeoutError: left out after 3 late calls"),
            PluginCalls("exporter", f"{EXPORT_SITE}otlp", 120, 20, 0.0, "HTTP 503"),
            PluginCalls("exporter", f"{EXPORT_SITE}file", 120, 0, 0.0, ""),
            PluginCalls("exporter", "register", 1, 0, 0.0, ""),
        ]
        record_plugin_counters(store, "s1", counters)
    runner.close()
    return home


def test_failed_and_late_calls_and_the_health_of_exporters(counted: Path, workdir: Path) -> None:
    seen = plugins(counted, workdir)
    assert seen.code == 0
    details = {(f["what"], f["detail"]) for f in seen.findings if f["status"] == "warning"}
    assert details == {
        ("flaky", "3 of 20 calls at pre_tool_call failed in the last 7 days; last: ValueError: bad"),
        (
            "slow",
            "was skipped at post_tool_call after late calls (5 of 9 calls at post_tool_call failed in the last 7 days)",
        ),
        ("exporter", "otlp: 120 events in, 100 out; last: HTTP 503"),
    }
    assert "file: 120 events in, 120 out" in [f["detail"] for f in seen.about("exporter")]


def test_old_failures_are_forgotten(counted: Path, workdir: Path) -> None:
    with closing(sqlite3.connect(counted / "state.db", isolation_level=None)) as connection:
        connection.execute("UPDATE plugin_calls SET at = at - 8 * 86400")
    assert plugins(counted, workdir).document["warnings"] == 0


def test_counters_of_several_sessions_are_one(counted: Path) -> None:
    runner = FileRunner(counted / "runners")
    with closing(SqliteStore(counted / "state.db")) as store:
        start_turn(store, runner, "s2").end("completed", answer="x")
        record_plugin_counters(store, "s2", [PluginCalls("flaky", "pre_tool_call", 5, 0, 0.2, "")])
        flaky = next(one for one in recent_counters(store, 0.0) if one.plugin == "flaky")
    runner.close()
    assert (flaky.calls, flaky.failures, flaky.last_error) == (25, 3, "ValueError: bad")
    assert flaky.seconds == pytest.approx(0.3)


# -- hook commands --------------------------------------------------------------------------------------------------


def hooks(home: Path, workdir: Path, *commands: str, event: str = "pre_tool_call", more: str = "") -> Examined:
    lines = "".join(f"    - command: {command!r}\n{more}" for command in commands)
    write_private_config(home, f"hooks:\n  {event}:\n{lines}")
    return examine(home, workdir, "hooks")


def test_hook_commands_that_are_not_there(home: Path, workdir: Path) -> None:
    (workdir / "plain.sh").write_text("exit 0\n")
    seen = hooks(home, workdir, "no-such-program-x", "./gone.sh", "./plain.sh", "python3 /gone/hook.py")
    details = [finding["detail"] for finding in seen.findings]
    assert [finding["status"] for finding in seen.findings] == ["broken"] * 4
    assert details[0].endswith("no-such-program-x is not on PATH")
    assert details[1].endswith("./gone.sh does not exist")
    assert "./plain.sh may not be executed" in details[2]
    assert details[3].endswith("/gone/hook.py does not exist")


def test_hook_commands_and_consent(home: Path, workdir: Path) -> None:
    waiting = hooks(home, workdir, "true").one("shell:1", "warning")
    assert (waiting["detail"], waiting["command"]) == (
        "pre_tool_call: true: not accepted yet, so it does not run",
        "hermes hooks accept true",
    )
    guard = hooks(home, workdir, "true", more="      on_error: deny\n").one("shell:1", "broken")
    assert guard["detail"].endswith("so the calls it would check are blocked")
    accepted = examine(home, workdir, "hooks", env={"HERMES_ACCEPT_HOOKS": "1"})
    assert accepted.one("shell:1", "ok")["detail"] == "pre_tool_call: true"


def test_hook_commands_that_cannot_be_read(home: Path, workdir: Path) -> None:
    unpaired = hooks(home, workdir, "echo 'half")
    assert "paired quotes" in unpaired.one("hooks", "broken")["detail"]
    misspelt = hooks(home, workdir, "true", event="pre_tool_cal")
    assert any("did you mean 'pre_tool_call'?" in finding["detail"] for finding in misspelt.findings)


# -- tools ----------------------------------------------------------------------------------------------------------


def test_programs_that_are_missing(home: Path, workdir: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    seen = examine(home, workdir, "tools", env={"PATH": str(tmp_path / "empty")})
    assert seen.code == 0
    assert seen.one("rg", "warning")["fix"] == "install ripgrep"
    assert seen.one("git", "warning")["fix"] == "install git"


def test_toolsets_and_folders_that_do_not_exist(home: Path, workdir: Path) -> None:
    settings = "toolsets: [terminall]\nterminal:\n  cwd: ./gone\nplatform_toolsets:\n  telegram: [file]\n"
    write_private_config(home, settings)
    seen = examine(home, workdir, "tools")
    found = seen.one("toolsets", "broken")
    assert (found["detail"], found["fix"]) == (
        "toolsets: 'terminall' does not exist",
        "did you mean 'terminal'?",
    )
    assert f"{workdir}/gone (terminal.cwd) is not a folder" in seen.one("terminal", "broken")["detail"]
    write_private_config(
        home, "toolsets: [of_a_plugin]\nplugins:\n  enabled: [x]\nagent:\n  disabled_toolsets: [read_file, zebra]\n"
    )
    plugin, disabled = examine(home, workdir, "tools").about("toolsets")
    assert plugin["detail"] == "toolsets: 'of_a_plugin' does not exist unless a plugin adds it"
    assert (disabled["status"], "'zebra'" in disabled["detail"]) == ("warning", True)
