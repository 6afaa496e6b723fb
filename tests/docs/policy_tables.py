"""What is asked about and what never runs, made from the rules."""

from __future__ import annotations

from hermes.policy import ALL_RULES

from .markdown import code, table


def rules() -> str:
    """One line per rule, by family."""
    rows = [(code(rule.key), rule.description, "never runs" if rule.hardline else "") for rule in ALL_RULES]
    return table(("rule", "a command that", ""), rows)
