"""Tests made from runs: what they expect, and what happens when something changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.base.config import Config
from hermes.base.errors import HermesError
from hermes.record.bundle import open_bundle
from hermes.record.checks.cases import find_cases, run_case
from hermes.record.recording import load_recording
from hermes.record.replay.replay import recorded_config
from hermes.surfaces.cli.main import main
from hermes.testing import ScriptedProvider, text, tool_call
from support import HostFactory

pytest_plugins = ["pytester"]


@pytest.fixture
def case(make_host: HostFactory, workdir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (workdir / "a").write_text("five words")
    with ScriptedProvider([tool_call("read_file", {"path": "a"}), text('{"words": 5}')]) as provider:
        host = make_host(provider)
        host.new_session().run("Count.")
        host.close()
    (workdir / "a").unlink()
    monkeypatch.chdir(tmp_path)
    assert main(["test", "add", "--name", "count"]) == 0
    return tmp_path / "tests/hermes/count.yaml"


def test_a_new_test_passes_elsewhere_and_is_a_pytest_item(
    case: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    pytester: pytest.Pytester,
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.chdir(tmp_path)
    assert main(["test", "run"]) == 0
    assert capsys.readouterr().out.endswith("1 passed, 0 failed\n")
    ran = pytester.inline_run(str(case), "-p", "no:cacheprovider")  # pyright: ignore[reportUnknownMemberType]
    ran.assertoutcome(passed=1)
    with pytest.raises(HermesError, match="no test in"):
        find_cases([tmp_path / "none"])
    assert main(["test", "add", "--name", "../x"]) == 1


@pytest.mark.parametrize(
    ("expect", "problem"),
    [
        ("tools: [read_file]", ""),
        ("tools: [terminal]", "tools: expected terminal; found read_file"),
        ("tools_any: [terminal]", "tools_any: terminal was not called"),
        ("calls: [{tool: read_file, args: {path: ^a$}}]", ""),
        ("calls: [{tool: read_file, args: {path: ^b$}}]", "calls: no read_file with"),
        ("contains: [words]", ""),
        ("contains: [seven]", "contains: 'seven' is not in the answer"),
        ("matches: '5}$'", ""),
        ("matches: '^x'", "matches: '^x' does not match"),
        ("schema: {type: object, required: [words]}", ""),
        ("schema: {type: object, required: [lines]}", "schema: "),
        ("max_steps: 2", ""),
        ("max_steps: 1", "max_steps: expected at most 1; found 2"),
        ("max_cost_usd: 0", ""),
    ],
)
def test_expectations(case: Path, tmp_path: Path, expect: str, problem: str) -> None:
    case.write_text(f"# hermes test\nrecording: count.bundle\nexpect:\n  {expect}\n")
    result = run_case(case, tmp_path / "elsewhere")
    assert [one[: len(problem)] for one in result.problems] == ([problem] if problem else [])


def test_a_changed_request_fails_until_it_is_accepted(case: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"

    def recorded() -> Config:
        with open_bundle(case.with_suffix(".bundle")) as (store, session_id):
            found = recorded_config(load_recording(store, session_id))
        assert found is not None
        return found

    changed = recorded()
    changed.agent.system_prompt = "Answer in rhymes."
    [problem] = run_case(case, elsewhere, changed).problems
    assert "the run is not as recorded; --update accepts it" in problem and "+Answer in rhymes." in problem
    assert run_case(case, elsewhere, changed, update=True).updated
    result = run_case(case, elsewhere)
    assert result.passed and recorded().agent.system_prompt == "Answer in rhymes.", result.problems


def test_bad_files_are_named(case: Path, tmp_path: Path) -> None:
    case.write_text("# hermes test\nrecording: count.bundle\nexpect: {tool: [x]}\n")
    with pytest.raises(HermesError, match=r"count.yaml: this is not a test: .*tool"):
        run_case(case, tmp_path / "elsewhere")
    case.write_text("# hermes test\nrecording: gone.bundle\n")
    with pytest.raises(HermesError, match=r"gone.bundle cannot be read"):
        run_case(case, tmp_path / "elsewhere")
