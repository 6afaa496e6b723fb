"""The chaos plugin: seeded faults of tools and models, recorded and replayed."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config.schema.sections import PluginsConfig
from hermes.bundled.chaos import Chaos, ChaosRule, ChaosSettings
from hermes.host import Host
from hermes.journal.records import FailureRecord
from hermes.journal.sessions import Sessions
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.record.compare import difference_lines
from hermes.record.recording import load_recording
from hermes.record.replay.replay import recorded_config, replay
from hermes.testing import ScriptedProvider, text, tool_call, tool_calls
from support import HostFactory, run_hermes, write_config


def chaos_host(make_host: HostFactory, provider: ScriptedProvider, rules: Sequence[dict[str, Any]]) -> Host:
    settings = PluginsConfig(enabled=["chaos"], entries={"chaos": {"seed": 7, "rules": list(rules)}})
    return make_host(provider, limits=settings, retries=2)


@pytest.mark.parametrize(
    ("fault", "status"), [("error", "error"), ("timeout", "timeout"), ("wrong_json", "ok"), ("slow", "ok")]
)
def test_tools_fail_and_the_failure_is_replayed(
    fault: str, status: str, make_host: HostFactory, home: Path, workdir: Path, tmp_path: Path
) -> None:
    (workdir / "a").write_text("a")
    with ScriptedProvider([tool_call("read_file", {"path": "a"}), text("Done.")]) as provider:
        host = chaos_host(make_host, provider, [{"tool": "read_*", "fault": fault, "seconds": 0.01}])
        session = host.new_session()
        assert session.run("go").answer == "Done."
        host.close()
    assert identical(home, session.id, tmp_path)
    with closing(SqliteStore(home / "state.db")) as store:
        step = load_recording(store, session.id).turns[0].steps["tool:1.0"]
    assert step.status == status
    if fault != "slow":
        assert [one.plugin for one in step.decisions] == ["chaos"]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("error", "server_error"), ("timeout", "timeout"), ("truncated", "truncated")],
)
def test_models_fail_and_the_failure_is_replayed(
    fault: str, reason: str, make_host: HostFactory, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes.models.retry.BASE_DELAY", 0.0)
    with ScriptedProvider(text("A whole answer.")) as provider:
        host = chaos_host(make_host, provider, [{"provider": "*", "fault": fault, "times": 1}])
        session = host.new_session()
        session.can_withdraw_text = True
        result = session.run("go")
        host.close()
    with closing(SqliteStore(home / "state.db")) as store:
        turn = load_recording(store, session.id).turns[0]
    assert [one.body.reason for one in turn.attempts if isinstance(one.body, FailureRecord)] == [reason]
    assert (result.status, result.answer) == ("completed", "A whole answer.")
    assert identical(home, session.id, tmp_path)


def test_a_slow_model_answers_all_the_same(make_host: HostFactory, home: Path, tmp_path: Path) -> None:
    with ScriptedProvider(text("Done.")) as provider:
        host = chaos_host(make_host, provider, [{"provider": "*", "fault": "slow", "seconds": 0.05}])
        session = host.new_session()
        assert session.run("go").answer == "Done."
        host.close()
    with closing(SqliteStore(home / "state.db")) as store:
        [call] = load_recording(store, session.id).turns[0].calls
    assert call.duration >= 0.05
    assert identical(home, session.id, tmp_path)


def test_a_model_that_writes_wrong_json(make_host: HostFactory, home: Path, tmp_path: Path) -> None:
    with ScriptedProvider([tool_call("read_file", {"path": "a"}), text("Done.")]) as provider:
        host = chaos_host(make_host, provider, [{"provider": "custom", "fault": "wrong_json"}])
        session = host.new_session()
        assert session.run("go").tool_calls[0].error_type == "invalid_arguments"
        host.close()
    assert identical(home, session.id, tmp_path)


def identical(home: Path, session_id: str, tmp_path: Path) -> bool:
    with closing(SqliteStore(home / "state.db")) as store:
        config = recorded_config(load_recording(store, session_id))
        assert config is not None
        result = replay(store, session_id, tmp_path / "elsewhere", config)
    shown = [line for one in result.differences for line in difference_lines(one)]
    assert shown == []
    return result.identical


def test_the_same_seed_makes_the_same_faults() -> None:
    def decisions(seed: int) -> list[bool]:
        chaos = Chaos(ChaosSettings(seed, [ChaosRule("error", tool="*", rate=0.5)]))
        return [chaos.rule_for("tool", "read_file", {"path": str(number % 9)}) is not None for number in range(90)]

    assert decisions(1) == decisions(1) != decisions(2)
    assert 20 < sum(decisions(1)) < 70


SEEDED: Sequence[dict[str, Any]] = (
    {"tool": "read_*", "fault": "error", "rate": 0.5},
    {"tool": "search_*", "fault": "timeout", "times": 1},
    {"provider": "*", "fault": "error", "rate": 0.4},
)
LOOKS = [("read_file", {"path": str(number)}) for number in range(6)]
SEARCHES = [("search_files", {"pattern": str(number)}) for number in range(3)]


def faults_of_a_run(make_host: HostFactory, seed: int, *, after_others: bool = False) -> list[Any]:
    """What failed, by step: reasons of attempts and states of calls, of a run with calls that run in parallel."""
    script = [tool_calls([*LOOKS, *SEARCHES]), tool_calls([*LOOKS, *SEARCHES]), text("Done.")]
    entries = {"chaos": {"seed": seed, "rules": list(SEEDED)}}
    with ScriptedProvider(script * (1 + after_others)) as provider:
        host = make_host(provider, limits=PluginsConfig(enabled=["chaos"], entries=entries), retries=9)
        if after_others:
            host.new_session().run("something else first")
        session = host.new_session()
        assert session.run("go").answer == "Done."
        turn = load_recording(host.store, session.id).turns[0]
        host.close()
    failed = [(one.key, one.body.reason) for one in turn.attempts if isinstance(one.body, FailureRecord)]
    calls = [(key, call.status) for key, call in turn.tool_calls().items()]
    assert sum(call.status == "timeout" for call in turn.tool_calls().values()) == 1
    return [*failed, *calls]


def test_a_failed_run_comes_again_from_its_seed(
    make_host: HostFactory, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes.models.retry.BASE_DELAY", 0.0)
    for number in range(6):
        (workdir / str(number)).write_text("a")
    first = faults_of_a_run(make_host, 3)
    assert {"error", "ok", "timeout", "server_error"} <= {what for _, what in first}, first
    assert faults_of_a_run(make_host, 3) == first
    assert faults_of_a_run(make_host, 3, after_others=True) == first, (
        "an earlier session of the process has a part in it"
    )
    assert faults_of_a_run(make_host, 4) != first


def test_times_limits_the_faults() -> None:
    chaos = Chaos(ChaosSettings(0, [ChaosRule("error", tool="a", times=2)]))
    assert [chaos.rule_for("tool", "a", {}) is not None for _ in range(4)] == [True, True, False, False]
    assert chaos.rule_for("provider", "a", {}) is None


def test_kill_ends_the_process_at_the_call(home: Path, workdir: Path, tmp_path: Path) -> None:
    rules = "plugins:\n  enabled: [chaos]\n  entries:\n    chaos: {rules: [{tool: read_file, fault: kill}]}\n"
    script = [tool_call("read_file", {"path": "a"}), text("Done."), text("More.")]
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url, rules)
        ended = run_hermes("chat", "-Q", "-q", "go", home=home, cwd=workdir)
        assert ended.returncode == -signal.SIGKILL
        # Without the plugin the turn is finished, and the whole of it is replayed.
        write_config(home, provider.base_url)
        with closing(SqliteStore(home / "state.db")) as store:
            [session] = Sessions(store).list()
        ended = run_hermes("chat", "-Q", "--resume", session.id, "-q", "more", home=home, cwd=workdir)
        assert ended.returncode == 0, ended.stderr
    assert identical(home, session.id, tmp_path)


WRONG = ({"fault": "error"}, {"fault": "boom", "tool": "a"}, {"fault": "error", "tool": "a", "provider": "b"})


@pytest.mark.parametrize("rule", WRONG)
def test_wrong_rules_are_named(rule: dict[str, str], make_host: HostFactory) -> None:
    with ScriptedProvider([text("x")]) as provider:
        host = chaos_host(make_host, provider, [rule])
    [plugin] = [one for one in host.plugins if one.manifest.key == "chaos"]
    assert plugin.status == "failed" and "plugins.entries.chaos" in str(plugin.error)
