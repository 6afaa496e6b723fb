"""All rules, indexed by program."""

from __future__ import annotations

from hermes.policy.call import Call, without_version
from hermes.policy.rules import code, containers, databases, deletion, git, infrastructure, packages, runtime, writes
from hermes.policy.rules.machine import disks, permissions, persistence, processes, services, system
from hermes.policy.rules.rule import EVERY, REDIRECTED, Predicate, Rule
from hermes.policy.rules.targets import written_kinds

_FAMILIES = (
    deletion,
    disks,
    processes,
    services,
    system,
    permissions,
    databases,
    git,
    containers,
    infrastructure,
    packages,
    code,
    persistence,
    writes,
    runtime,
)

#: By family, as a reader would want them listed.
ALL_RULES: tuple[Rule, ...] = tuple(rule for family in _FAMILIES for rule in family.RULES)
BY_KEY: dict[str, Rule] = {rule.key: rule for rule in ALL_RULES}


def _index() -> dict[str, list[tuple[str, Predicate]]]:
    """The checks of each program."""
    index: dict[str, list[tuple[str, Predicate]]] = {}
    for rule in ALL_RULES:
        for programs, applies in rule.checks.items():
            for program in programs.split():
                index.setdefault(program, []).append((rule.key, applies))
    return index


_CHECKS = _index()


def broken_rules(call: Call) -> list[str]:
    """The keys of the rules that a call falls under."""
    program = call.program
    name = "mkfs" if program.startswith("mkfs.") else program
    checks = (_CHECKS.get(name) or _CHECKS.get(without_version(name)) or []) if program else []
    if not checks and program and infrastructure.LIKE_A_TOOL.search(program):
        checks = [("destroy-resources", infrastructure.destroys_by_name)]
    checks = [*checks, *_CHECKS[EVERY], *(_CHECKS[REDIRECTED] if call.writes else ())]
    return [*(key for key, applies in checks if applies(call)), *written_kinds(call)]


__all__ = ["ALL_RULES", "BY_KEY", "Rule", "broken_rules"]
