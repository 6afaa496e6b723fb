"""Every command of the corpus gets the verdict it should; none of them is ever run."""

from __future__ import annotations

import pytest

from hermes.policy import ALL_RULES
from policy.corpus import CORPUS, GROUPS, corpus_rates, judge, rates_table
from policy.corpus.cases import Case


@pytest.mark.parametrize("group", GROUPS)
def test_every_command_is_judged_as_expected(group: str) -> None:
    wrong = [line for case in GROUPS[group] if (line := _complaint(case))]
    assert not wrong, "\n".join(wrong)


def _complaint(case: Case) -> str:
    verdict = judge(case.command)
    rules = [finding.rule for finding in verdict.findings]
    if verdict.decision == case.decision and (not case.rule or case.rule in rules):
        return ""
    return f"{case.command[:100]!r}: expected {case.decision} {case.rule}, got {verdict.decision} {rules}"


def test_the_corpus_is_large_and_repeats_nothing() -> None:
    commands = [case.command for case in CORPUS]
    assert len(set(commands)) == len(commands)
    assert len(commands) >= 330
    assert all(len(cases) >= 100 for cases in GROUPS.values())


def test_every_rule_has_a_command_in_the_corpus() -> None:
    assert {rule.key for rule in ALL_RULES} == {case.rule for case in CORPUS if case.rule}


def test_hit_and_false_alarm_rates() -> None:
    print(f"\n{rates_table()}")
    assert all(rate.wrong_side == 0 and rate.right == rate.total for rate in corpus_rates())
