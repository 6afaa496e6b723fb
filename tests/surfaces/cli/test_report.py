"""Reports of commands: the same answer as a table with notes, or as one JSON document."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

import pytest

from hermes.surfaces.cli.arguments import JSON, Action, Argument, CommandSpec, execute, make_parser
from hermes.surfaces.cli.report import Report

Output = pytest.CaptureFixture[str]


def shown(report: Report, capsys: Output, *, as_json: bool = False) -> tuple[str, str]:
    report.show(as_json=as_json)
    return capsys.readouterr()


def test_rows_are_a_table_and_notes_go_to_stderr(capsys: Output) -> None:
    report = Report(None, ["first"], heads=("ID", "NAME"), rows=[("1", "one"), ("22", "\x1b[31mtwo")], notes=["a note"])
    assert shown(report, capsys) == ("first\nID  NAME\n1   one\n22  two\n", "a note\n")


def test_numbers_are_aligned_to_the_right(capsys: Output) -> None:
    report = Report(None, heads=("DAY", "CALLS"), rows=[("monday", "7"), ("tuesday", "1,000")], left=1)
    assert shown(report, capsys)[0] == "DAY      CALLS\nmonday       7\ntuesday  1,000\n"


def test_a_terminal_that_is_too_narrow_shows_records(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    report = Report(None, heads=("DAY", "CALLS", "COST"), rows=[("wednesday", "1,000,000", "$1,000.00")], left=1)
    assert shown(report, capsys)[0].startswith("day: wednesday")


def test_no_rows(capsys: Output) -> None:
    assert shown(Report([], heads=("ID",), empty="Nothing yet."), capsys) == ("Nothing yet.\n", "")


def test_json_is_the_document_alone_and_text_is_not_made(capsys: Output) -> None:
    def lines() -> Iterator[str]:
        raise AssertionError("made for a program")
        yield ""

    out, err = shown(Report({"a": [1]}, lines(), notes=["a note"]), capsys, as_json=True)
    assert json.loads(out) == {"a": [1]} and err == ""


def test_colours_are_kept_where_they_are_meant(capsys: Output) -> None:
    assert shown(Report(None, ["\x1b[1mbold"], is_painted=True), capsys)[0] == "\x1b[1mbold\n"


def _list(_args: argparse.Namespace) -> Report:
    return Report(["x"], ["x"], code=4)


def _add(args: argparse.Namespace) -> None:
    print(args.name, args.count)


COMMAND = CommandSpec(
    default="list",
    actions=(
        Action("list", _list, "list things").takes(JSON),
        Action("add", _add, "add a thing").takes(
            Argument("name NAME", "its name"), Argument("-n, --count N", "how many", type=int, default=1)
        ),
        Action("late", "failures:_exit_timeout", "imported when it is called", defaults={"line": []}),
    ),
)


@pytest.mark.parametrize(
    ("words", "code", "output"),
    [
        ([], 4, "x\n"),
        (["list"], 4, "x\n"),
        (["list", "--json"], 4, '[\n  "x"\n]\n'),
        (["add", "thing"], 0, "thing 1\n"),
        (["add", "thing", "-n", "3"], 0, "thing 3\n"),
    ],
)
def test_actions_are_rows_of_a_table(words: list[str], code: int, output: str, capsys: Output) -> None:
    args = make_parser(COMMAND, "hermes things", "Things.").parse_args(words)
    assert execute(COMMAND, args) == code
    assert capsys.readouterr().out == output


def test_what_stands_behind_two_dashes_is_a_line_of_its_own() -> None:
    args = make_parser(COMMAND, "hermes things", "Things.").parse_args(["late", "--", "prog", "--its-option"])
    assert args.line == ["prog", "--its-option"]
