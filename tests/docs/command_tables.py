"""The slash commands as tables, made from the data that help and completion use."""

from __future__ import annotations

from hermes.contract.commands import SLASH_COMMANDS
from hermes.surfaces.commands.table import usage

from .markdown import code, table


def slash_commands() -> str:
    """A table for each group of commands."""
    texts: list[str] = []
    for category in dict.fromkeys(command.category for command in (*SLASH_COMMANDS[1:], SLASH_COMMANDS[0])):
        rows = [
            (
                code(usage(command)),
                command.summary + "".join(f"; also {code(f'/{alias}')}" for alias in command.aliases),
                "" if command.while_working else "no",
                "" if not command.at_prompt else "no",
            )
            for command in SLASH_COMMANDS
            if command.category == category
        ]
        headings = ("command", "what it does", "while the agent works", "with --query")
        texts.append(f"### {category}\n\n{table(headings, rows)}")
    return "\n".join(texts)
