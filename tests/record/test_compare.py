"""Two runs compared, and the setting that makes the difference."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hermes.base.config import Config
from hermes.base.config.schema.sections import AgentConfig, ModelConfig
from hermes.base.errors import HermesError
from hermes.host import Host
from hermes.record.bisect import bisect, changes_between
from hermes.record.compare import compare_recordings
from hermes.record.recording import load_recording, totals_of
from hermes.record.replay.replay import ReplayResult, recorded_config, replay
from hermes.surfaces.cli.main import main
from hermes.testing import ScriptedProvider, text, tool_calls
from support import HostFactory


def test_a_cost_that_no_price_is_known_for_is_unknown_and_not_nothing(make_host: HostFactory) -> None:
    host, session_id = run_with(make_host, text("a"))
    assert totals_of(load_recording(host.store, session_id)).cost_usd is None


def run_with(make_host: HostFactory, *answers: object) -> tuple[Host, str]:
    with ScriptedProvider(list(answers)) as provider:  # type: ignore[arg-type]
        host = make_host(provider)
        session = host.new_session()
        session.run("go")
        return host, session.id


def looks(*names: str) -> object:
    return tool_calls([("read_file", {"path": name}) for name in names])


def test_runs_are_aligned_by_step_and_content(make_host: HostFactory, workdir: Path) -> None:
    for name in ("a", "b"):
        (workdir / name).write_text(name)
    host, first = run_with(make_host, looks("a", "b"), text("One."))
    _, same = run_with(make_host, looks("a", "b"), text("One."))
    _, moved = run_with(make_host, looks("b", "a"), text("One."))
    _, other = run_with(make_host, looks("a"), text("Two."))
    runs = [load_recording(host.store, one) for one in (first, same, moved, other)]
    assert compare_recordings(runs[0], runs[1]) == []
    places = [one.place for one in compare_recordings(runs[0], runs[2])]
    assert places == ["turn 1, model:1, reply", "turn 1, tool:1.0, order", "turn 1, tool:1.1, order"]
    places = [one.place for one in compare_recordings(runs[0], runs[3])]
    assert places == [
        *("turn 1, model:1, reply", "turn 1, tool:1.1", "turn 1, model:2, reply", "turn 1, final"),
    ]


def test_the_diff_command(
    make_host: HostFactory, workdir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host, first = run_with(make_host, text("One <b>."))
    _, second = run_with(make_host, text("Two."))
    host.close()
    assert main(["trace", "diff", first, first]) == 0
    assert capsys.readouterr().out == "the same\n"
    assert main(["trace", "diff", first, second]) == 1
    shown = capsys.readouterr().out
    assert "turn 1, model:1, reply:" in shown and '-  "content": "One <b>.",' in shown
    assert main(["trace", "diff", first, second, "--json"]) == 1
    document = msgspec.json.decode(capsys.readouterr().out)
    assert document["differences"][0]["step"] == "model:1" and len(document["totals"]) == 2
    report = tmp_path / "report.html"
    assert main(["trace", "diff", first, second, "--html", str(report)]) == 1
    assert "&lt;b&gt;" in report.read_text() and "<script" not in report.read_text()


def test_changes_are_single_settings_and_plugins() -> None:
    before, after = Config(), Config(model=ModelConfig(temperature=0.5), agent=AgentConfig(max_turns=7))
    before.plugins.enabled, after.plugins.enabled = ["one", "two"], ["two", "three"]
    assert [str(change) for change in changes_between(before, after)] == [
        "agent.max_turns: (default) -> 7",
        "model.temperature: (default) -> 0.5",
        "plugin one left out",
        "plugin three enabled",
    ]


def test_bisection_finds_the_setting_that_flips_the_run(make_host: HostFactory, tmp_path: Path) -> None:
    host, session_id = run_with(make_host, text("One."))
    before = recorded_config(load_recording(host.store, session_id))
    assert before is not None
    after = msgspec.convert(msgspec.to_builtins(before), Config)
    after.model.temperature = 0.5
    after.a2a.max_hops, after.compression.threshold, after.file_read_max_chars = 7, 0.7, 777

    def run(config: Config) -> ReplayResult:
        return replay(host.store, session_id, tmp_path / "elsewhere", config)

    found = bisect(before, after, run)
    assert str(found.culprit) == "model.temperature: (default) -> 0.5" and found.changes == 4
    after.model.temperature = None
    assert bisect(before, after, run).culprit is None
    after.model.temperature = 0.5
    with pytest.raises(HermesError, match="differs already with the first"):
        bisect(after, before, run)


def test_the_bisect_command(
    make_host: HostFactory, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host, session_id = run_with(make_host, text("One."))
    base_url = host.config.model.base_url
    host.close()
    other = tmp_path / "other.yaml"
    other.write_text(
        f"model:\n  provider: custom\n  default: scripted\n  base_url: {base_url}\n  temperature: 0.5\n"
        "agent:\n  api_max_retries: 0\n"
    )
    assert main(["trace", "bisect", session_id, str(other)]) == 0
    assert "model.temperature: (default) -> 0.5" in capsys.readouterr().out
    assert main(["trace", "bisect", str(other), session_id]) == 1
    assert "name the run that is replayed with --run" in capsys.readouterr().err
