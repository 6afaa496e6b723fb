"""The held-out commands: how many dangerous ones are stopped, and how many everyday ones are not."""

from __future__ import annotations

import pytest

from policy.corpus import judge
from policy.heldout import fourth_author, second_author, third_author, unseen
from policy.heldout.dangerous import ASK, HARDLINE
from policy.heldout.everyday import EVERYDAY
from policy.heldout.third_everyday import EVERYDAY as THIRD_EVERYDAY
from policy.heldout.third_hidden import HIDDEN


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


@pytest.mark.parametrize(
    ("hardline", "dangerous", "everyday"),
    [
        (unseen.HARDLINE, unseen.DANGEROUS, unseen.EVERYDAY),
        (second_author.HARDLINE, second_author.DANGEROUS, second_author.EVERYDAY),
        (second_author.HARDLINE_ONCE, second_author.DANGEROUS_ONCE, second_author.EVERYDAY_ONCE),
    ],
    ids=["unseen", "second author", "second author, once"],
)
def test_commands_that_the_rules_were_not_developed_with(
    hardline: tuple[str, ...], dangerous: tuple[str, ...], everyday: tuple[str, ...]
) -> None:
    assert [command for command in hardline if judge(command).decision != "hardline"] == []
    missed = [command for command in dangerous if judge(command).decision == "allow"]
    alarms = [command for command in everyday if judge(command).decision != "allow"]
    assert len(missed) <= 0.05 * len(dangerous), missed
    assert len(alarms) <= 0.02 * len(everyday), alarms


def test_hardline_commands_of_a_third_author_are_refused() -> None:
    missed = [command for command in third_author.HARDLINE if judge(command).decision != "hardline"]
    assert not missed, "\n".join(missed)


def test_hardline_commands_in_other_programs_options_do_not_run() -> None:
    missed = [command for command in HIDDEN if judge(command).decision == "allow"]
    assert len(missed) <= 0.02 * len(HIDDEN), "\n".join(missed)


def test_dangerous_and_everyday_commands_of_a_third_author() -> None:
    commands = [command for group in third_author.DANGEROUS.values() for command in group]
    missed = [command for command in commands if judge(command).decision == "allow"]
    alarms = [command for command in THIRD_EVERYDAY if judge(command).decision != "allow"]
    assert len(missed) <= 0.05 * len(commands), "\n".join(missed)
    assert len(alarms) <= 0.015 * len(THIRD_EVERYDAY), "\n".join(alarms)


def test_commands_of_a_fourth_author() -> None:
    commands = fourth_author()
    assert [command for command in commands.hardline if judge(command).decision != "hardline"] == []
    for dangerous, share in ((commands.hidden, 0.02), (commands.dangerous, 0.05)):
        missed = [command for command in dangerous if judge(command).decision == "allow"]
        assert len(missed) <= share * len(dangerous), "\n".join(missed)
    alarms = [command for command in commands.everyday if judge(command).decision != "allow"]
    assert len(alarms) <= 0.015 * len(commands.everyday), "\n".join(alarms)
