"""Datasets answered by several models: scores, resumption, budgets, reports."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.base.errors import HermesError
from hermes.record.checks.evaluation import read_dataset
from hermes.record.checks.scorers import Sample, make_scorer
from hermes.surfaces.cli.main import main
from hermes.testing import RecordedRequest, ScriptedProvider, text
from support import write_config

SAMPLE = Sample("1", "2 + 2?", "4")


def answer(request: RecordedRequest) -> Any:
    said = request.last_user_text
    if said.startswith("You grade"):
        return text("Close enough.\nSCORE: 0.5")
    right = request.body["model"] == "large" or "1 + 1" in said
    return text(str(eval(said.removesuffix("?"))) if right else "I do not know.")


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    path = tmp_path / "sums.jsonl"
    path.write_text(
        '{"id": "a", "input": "1 + 1?", "expected": "2"}\n\n{"id": "b", "input": "2 + 3?", "expected": "5"}\n'
    )
    return path


def test_models_are_compared_and_nothing_is_asked_twice(
    dataset: Path, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["eval", str(dataset), "--models", "small,large", "--scorer", "exact"]
    with ScriptedProvider(answer) as provider:
        write_config(home, provider.base_url)
        assert main(command) == 0
        shown = capsys.readouterr().out
        assert re.search(r"small +2 +0.50", shown) and re.search(r"large +2 +1.00", shown), shown
        assert len(provider.requests) == 4
        assert main([*command, "--json"]) == 0
        document = msgspec.json.decode(capsys.readouterr().out)
        assert len(provider.requests) == 4 and all(one["resumed"] for one in document["results"])
        report = tmp_path / "report.html"
        assert main([*command, "--html", str(report)]) == 0
        assert "I do not know." in report.read_text()
        # A judge is a model call beside the sample's own, paid for once.
        judged = [*command[:-1], "judge", "--json"]
        capsys.readouterr()
        assert main(judged) == 0 and main(judged) == 0
        assert len(provider.requests) == 8
        assert '"score": 0.5' in capsys.readouterr().out
        capsys.readouterr()
        assert main([*command, "--name", "again", "--budget-usd", "0", "--json"]) == 0
        document = msgspec.json.decode(capsys.readouterr().out)
        assert {one["status"] for one in document["results"]} == {"skipped"} and len(provider.requests) == 8


def test_ctrl_c_ends_it_and_the_same_command_continues(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path, asked = tmp_path / "many.jsonl", list[str]()
    path.write_text("".join(f'{{"id": "{n}", "input": "sample {n}", "expected": "yes"}}\n' for n in range(20)))

    def interrupted(request: RecordedRequest) -> Any:
        asked.append(request.last_user_text)
        if len(asked) == 5:
            os.kill(os.getpid(), signal.SIGINT)
            return text("too late", delay=30)
        return text("yes")

    command = ["eval", str(path), "--models", "small", "--parallel", "2"]
    with ScriptedProvider(interrupted) as provider:
        write_config(home, provider.base_url)
        assert main(command) == 130
        said = capsys.readouterr().err
        first = len(asked)
        assert main(command) == 0
    assert re.search(r"\d of 20 samples were answered; the same command continues here", said), said
    assert 5 <= first <= 7, "samples were started after Ctrl-C"
    assert {f"sample {n}" for n in range(20)} == set(asked) and len(asked) <= 22, "a sample was paid for twice"
    assert "1.00" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("scorer", "sample", "said", "value"),
    [
        ("exact", SAMPLE, " 4\n", 1.0),
        ("exact", SAMPLE, "four", 0.0),
        ("regex", Sample("1", "", r"\b4\b"), "It is 4.", 1.0),
        ("regex", Sample("1", "", r"\b4\b"), "It is 44.", 0.0),
        ("schema", Sample("1", "", {"type": "object", "required": ["x"]}), '{"x": 1}', 1.0),
        ("schema", Sample("1", "", {"type": "object", "required": ["x"]}), '{"y": 1}', 0.0),
        ("schema", Sample("1", "", {"type": "object"}), "not JSON", 0.0),
        ('command:grep -q \'"answer": "4"\'', SAMPLE, "4", 1.0),
        ('command:grep -q \'"answer": "4"\'', SAMPLE, "5", 0.0),
    ],
)
def test_scorers(scorer: str, sample: Sample, said: str, value: float) -> None:
    assert make_scorer(scorer)(sample, said, lambda _prompt: "").value == value


def test_a_judge_is_read_by_its_last_line() -> None:
    judge = make_scorer("judge")
    assert judge(SAMPLE, "4", lambda _: "Good.\nSCORE: 1").value == 1.0
    assert judge(SAMPLE, "SCORE: 1", lambda _: "The answer says SCORE: 1.\nSCORE: 0").value == 0.0
    assert "gave no score" in judge(SAMPLE, "4", lambda _: "Hm.").reason


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("", "has no sample"),
        ("[1]\n", "line 1: this is not a JSON object"),
        ('{"question": "x"}\n', "line 1: 'input' is missing"),
        ('{"id": 1, "input": "x"}\n{"id": 1, "input": "y"}\n', "the id '1' is there twice"),
    ],
)
def test_bad_datasets_are_named(tmp_path: Path, lines: str, problem: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(lines)
    with pytest.raises(HermesError, match=problem):
        read_dataset(path)
    with pytest.raises(HermesError, match="there are exact, regex"):
        make_scorer("best")
