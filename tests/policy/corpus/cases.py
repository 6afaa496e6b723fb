"""A command of the corpus and what must be said about it."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.policy import Decision


@dataclass(frozen=True, slots=True)
class Case:
    """A command that is only ever classified, never run."""

    command: str
    decision: Decision
    #: A rule that must be among the findings; empty for commands that are allowed.
    rule: str = ""


def ask(rule: str, *commands: str) -> tuple[Case, ...]:
    """Commands that a person must approve."""
    return tuple(Case(command, "ask", rule) for command in commands)


def hardline(rule: str, *commands: str) -> tuple[Case, ...]:
    """Commands that must not run."""
    return tuple(Case(command, "hardline", rule) for command in commands)


def allow(*commands: str) -> tuple[Case, ...]:
    """Commands that nobody need be asked about."""
    return tuple(Case(command, "allow") for command in commands)
