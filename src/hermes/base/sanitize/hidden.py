"""Hidden characters: shown as escapes where a user decides about a text."""

from __future__ import annotations


def escape_hidden(text: str) -> str:
    """The text with control and invisible characters as escapes, for a decision of the user; newlines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character in "\n\t" else character.encode("unicode_escape").decode()
        for character in text
    )
