"""Commands that were written before the rules they test, and kept out of their tuning. Nothing here is run."""

from __future__ import annotations

from pathlib import Path

import msgspec


class Commands(msgspec.Struct, frozen=True):
    """The commands of one author, by what should become of them."""

    #: Never run.
    hardline: list[str]
    #: Never run either, in the option, variable or file of another program.
    hidden: list[str]
    dangerous: list[str]
    everyday: list[str]


def fourth_author() -> Commands:
    """The commands of an author who had not read the rules."""
    file = Path(__file__).with_name("fourth_author.json")
    return msgspec.json.decode(file.read_bytes(), type=Commands)
