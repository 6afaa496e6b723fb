"""What the embedded model may write, as a grammar that its server enforces."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hermes.local.prompt.offers import ARGUMENTS, Offer

#: Text never has the character that a call begins with, so the first character decides which of the two it is.
_TEXT = "text ::= [^<]+"


def free_answer(offers: Sequence[Offer]) -> str:
    """Plain text, or one of these calls."""
    if not offers:
        return f"root ::= text\n{_TEXT}"
    return f"root ::= call | text\n{_calls(offers)}\n{_TEXT}"


def quoting_answer(quote: str, offers: Sequence[Offer]) -> str:
    """Exactly this text, or one of these calls."""
    if not offers:
        return f"root ::= {_literal(quote)}"
    return f"root ::= call | quote\nquote ::= {_literal(quote)}\n{_calls(offers)}"


def call_text(offer: Offer) -> str:
    """A call as the model writes it."""
    value = msgspec.json.encode(offer.value).decode()
    body = f'{{"name": "{offer.tool}", "arguments": {{"{ARGUMENTS[offer.tool]}": {value}}}}}'
    return f"<tool_call>\n{body}\n</tool_call>"


def _calls(offers: Sequence[Offer]) -> str:
    return f"call ::= {' | '.join(_literal(call_text(offer)) for offer in offers)}"


def _literal(text: str) -> str:
    """A text as a string of the grammar. Control characters, which a grammar cannot have, are left out."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return '"' + "".join(character for character in escaped if character.isprintable()) + '"'
