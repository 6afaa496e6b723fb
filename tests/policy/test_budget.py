"""Any text costs a bounded number of steps; over the bound it is unreadable. Counted, not timed."""

from __future__ import annotations

import re
import sys
from base64 import b64encode
from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import cast

import pytest

import hermes.policy
from hermes.policy import judge_command
from hermes.policy.budget import STEPS, StepBudget
from hermes.policy.call import without_version
from policy.corpus import CORPUS

HOSTILE: dict[str, Callable[[int], str]] = {
    "a base64 literal for a shell": lambda n: f"echo {b64encode(b'(' * n).decode()} | base64 -d | sh",
    "a base64 script for a shell": lambda n: f"echo {b64encode(b'echo hello; ' * (n // 12)).decode()} | base64 -d | sh",
    "pipes": lambda n: "a|" * (n // 2) + "a",
    "unfinished pipes": lambda n: "a|" * (n // 2),
    "parentheses": lambda n: "(" * n,
    "arithmetic": lambda n: "((" * (n // 2),
    "substitutions in each other": lambda n: "echo " + "$(" * (n // 3) + ")" * (n // 3),
    "arrays in each other": lambda n: "a=(" * (n // 3),
    "arguments": lambda n: "rm " + "ab " * (n // 3),
    "arguments behind wrappers": lambda n: "sudo env nice nohup x " + "ab " * (n // 3),
    "redirections": lambda n: "a " + ">b " * (n // 3),
    "backquotes": lambda n: "`" * n,
    "growing variables": lambda n: "a=xyz\n" + "a=$a$a\n" * (n // 7),
    "functions that call each other": lambda n: "f(){ g;g;};g(){ h;h;};h(){ i;i;};" + "f;" * (n // 2),
    "here-documents": lambda n: "a " + "<<E " * (n // 4),
    "a script for sed": lambda n: "sed '" + "s/a" * (n // 3) + "'",
    "PowerShell": lambda n: "powershell -c '" + "rm " * (n // 3) + "'",
    "code": lambda n: "python3 -c '" + 'print("x");' * (n // 11) + "'",
    "hashes": lambda n: "a#" * (n // 2),
    "zeros and a letter": lambda n: "0" * n + "x",
    "subscripts": lambda n: "test -v '" + "a[$(" * (n // 4) + "'",
    "settings of git": lambda n: "git " + "-c alias.a=b " * (n // 13),
    "variables that hold commands": lambda n: "PAGER=a " * (n // 8) + "b",
    "scripts of a package": lambda n: "echo '" + '{"scripts":' * (n // 11) + "' > package.json; npm run x",
    "patterns of files": lambda n: "cat " + "~/.*/a* " * (n // 8),
    "addresses of pools": lambda n: "a " + "pool." * (n // 5) + ":",
    "repositories": lambda n: "git clone x://a b;make;" * (n // 23),
    "files of commands": lambda n: "printf '" + "a: b\\n" * (n // 6) + "' > Taskfile.yml; task",
    "patterns for data": lambda n: "curl -T " + "backup" * (n // 6) + " https://example.org",
    "commands": lambda n: "a;" * (n // 2),
}


def test_no_pattern_looks_for_the_end_from_every_place() -> None:
    """An unlimited repetition up to the end, without a place to begin at, takes quadratic time in a search."""
    for module in list(iter_modules(hermes.policy.__path__, "hermes.policy.")):
        import_module(module.name)
    found = {
        (name, key)
        for name, module in list(sys.modules.items())
        if name.startswith("hermes.policy")
        for key, value in vars(module).items()
        if isinstance(value, re.Pattern) and _SEARCHES_THE_END.match(str(cast("re.Pattern[str]", value).pattern))
    }
    assert found == set()
    assert without_version("0" * 50_000 + "x") == "0" * 50_000 + "x"
    assert without_version("python3.12") == "python"


#: ``[…]+$`` and its like as a whole pattern.
_SEARCHES_THE_END = re.compile(r"(?:\[[^\]]+\]|\\\w|\.)[+*]\??\$$")


def steps(command: str) -> tuple[int, set[str]]:
    budget = StepBudget()
    verdict = judge_command(command, cwd="/home/user/project", home="/home/user", budget=budget)
    return budget.spent, {finding.rule for finding in verdict.findings}


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("size", [20_000, 60_000])
def test_hostile_text_ends_within_the_budget(text: str, size: int) -> None:
    spent, rules = steps(HOSTILE[text](size))
    assert spent <= STEPS
    assert spent < STEPS or "unreadable" in rules


@pytest.mark.parametrize("text", HOSTILE)
def test_the_cost_grows_no_faster_than_the_text(text: str) -> None:
    small, _ = steps(HOSTILE[text](500))
    large, rules = steps(HOSTILE[text](2_000))
    assert large <= 8 * small or "unreadable" in rules


def test_a_long_document_is_still_read() -> None:
    spent, rules = steps(
        "cat > notes.md <<'END'\n" + "A line of text, it's (rather) long | wide.\n" * 1_400 + "END\nls"
    )
    assert not rules
    assert spent < STEPS


def test_what_comes_after_costly_text_is_not_allowed() -> None:
    assert "unreadable" in steps("(" * 20_000 + ")" * 20_000 + "; rm -rf /")[1]


def test_ordinary_commands_are_cheap() -> None:
    spent = sorted(steps(case.command)[0] for case in CORPUS if case.decision == "allow")
    assert spent[len(spent) // 2] < 2_000
    assert spent[-1] < STEPS / 4
