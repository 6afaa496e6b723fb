"""All commands of the corpus, and how well they are told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hermes.policy import Verdict, judge_command

from .cases import Case
from .dangerous import DANGEROUS
from .disguised import DISGUISED
from .everyday import EVERYDAY
from .families import FAMILIES
from .harmless import HARMLESS
from .indirect import INDIRECT, ORDINARY

GROUPS: dict[str, Sequence[Case]] = {
    "dangerous": (*DANGEROUS, *FAMILIES, *INDIRECT),
    "disguised": DISGUISED,
    "harmless": (*HARMLESS, *EVERYDAY, *ORDINARY),
}
CORPUS: tuple[Case, ...] = tuple(case for cases in GROUPS.values() for case in cases)


def judge(command: str) -> Verdict:
    """The verdict in the place that the corpus speaks of."""
    return judge_command(command, cwd="/home/user/project", home="/home/user", hermes_home="/home/user/.hermes")


@dataclass(frozen=True, slots=True)
class Rate:
    """How many commands of one group were judged as they should be."""

    group: str
    total: int
    right: int
    #: Dangerous ones that were allowed, or harmless ones that were not.
    wrong_side: int


def corpus_rates() -> list[Rate]:
    """One row for each group."""
    rates: list[Rate] = []
    for group, cases in GROUPS.items():
        decisions = [judge(case.command).decision for case in cases]
        pairs = list(zip(cases, decisions, strict=True))
        right = sum(case.decision == decision for case, decision in pairs)
        wrong_side = sum((case.decision == "allow") != (decision == "allow") for case, decision in pairs)
        rates.append(Rate(group, len(cases), right, wrong_side))
    return rates


def rates_table() -> str:
    """The rates as text: hits for what is dangerous, false alarms for what is not."""
    lines = ["group      commands  as expected  hit rate  false alarms"]
    for rate in corpus_rates():
        harmless = rate.group == "harmless"
        hits = "-" if harmless else f"{1 - rate.wrong_side / rate.total:.1%}"
        alarms = f"{rate.wrong_side / rate.total:.1%}" if harmless else "-"
        lines.append(f"{rate.group:<10} {rate.total:>8}  {rate.right:>11}  {hits:>8}  {alarms:>12}")
    return "\n".join(lines)
