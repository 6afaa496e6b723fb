"""Text for a person to judge: nothing in it may hide, or make it look like another."""

from __future__ import annotations


def visible(text: str) -> str:
    """The text with every character spelt out that a terminal would act on, or not show; newlines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character in "\n\t" else character.encode("unicode_escape").decode()
        for character in text
    )
