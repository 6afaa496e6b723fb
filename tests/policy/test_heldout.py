"""The held-out commands: how many dangerous ones are stopped, and how many everyday ones are not."""

from __future__ import annotations

from policy.corpus import judge
from policy.heldout import unseen
from policy.heldout.dangerous import ASK, HARDLINE
from policy.heldout.everyday import EVERYDAY


def test_dangerous_commands_are_asked_about_or_refused() -> None:
    commands = [command for group in ASK.values() for command in group]
    missed = [command for command in commands if judge(command).decision == "allow"]
    assert len(missed) <= 0.05 * len(commands), "\n".join(missed)


def test_hardline_commands_are_refused() -> None:
    missed = [command for command in HARDLINE if judge(command).decision != "hardline"]
    assert not missed, "\n".join(missed)


def test_everyday_commands_are_left_alone() -> None:
    alarms = [command for command in EVERYDAY if judge(command).decision != "allow"]
    assert len(alarms) <= 0.02 * len(EVERYDAY), "\n".join(alarms)


def test_nothing_is_caught_only_because_it_cannot_be_read() -> None:
    for command in [*HARDLINE, *(command for group in ASK.values() for command in group)]:
        assert {finding.rule for finding in judge(command).findings} != {"unreadable"}, command


def test_commands_that_the_rules_were_not_developed_with() -> None:
    assert all(judge(command).decision == "hardline" for command in unseen.HARDLINE)
    missed = [command for command in unseen.DANGEROUS if judge(command).decision == "allow"]
    alarms = [command for command in unseen.EVERYDAY if judge(command).decision != "allow"]
    assert len(missed) <= 0.05 * len(unseen.DANGEROUS), missed
    assert len(alarms) <= 0.02 * len(unseen.EVERYDAY), alarms
