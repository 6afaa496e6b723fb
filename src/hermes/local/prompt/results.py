"""What tools answered, in the words that the embedded model passes on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import msgspec

from hermes.local.prompt.offers import ARGUMENTS, Offer

#: The most of all results together that an answer repeats, in bytes: each may cost the model a token.
_MOST_BYTES = 600
_SENTENCE_END = re.compile(r"(?<=[.!]) |\n")
_LINE_NUMBER = re.compile(r"^ *\d+\|", re.MULTILINE)


class ToolResult(NamedTuple):
    """One call of the turn in hand, and the message that came back."""

    call: Offer
    text: str


def quote(results: Sequence[ToolResult]) -> str:
    """The results as an answer. The model would make half of it up, so it is given the very words."""
    room = _MOST_BYTES // max(len(results), 1)
    text = "\n\n".join(_quoted(result, room) for result in results)
    # What a file says must not be taken for a call of the model's.
    return text.replace("<tool_call>", "<tool call>")


def _quoted(result: ToolResult, room: int) -> str:
    fields = _fields(result.text)
    if fields.get("error"):
        # What follows the first sentence is advice for a model that could take it.
        return f"That did not work: {_cut(re.split(_SENTENCE_END, str(fields['error']))[0], room)}"
    if result.call.tool == "read_file" and isinstance(fields.get("content"), str):
        said, heading = _LINE_NUMBER.sub("", fields["content"]), f"{result.call.value} says:"
    elif result.call.tool == "terminal" and isinstance(fields.get("output"), str):
        said, heading = fields["output"], "The command printed:"
    else:
        said, heading = result.text, "The result is:"
    said = _cut(said.strip(), room)
    return f"{heading}\n{said}" if said else f"{heading} nothing."


def _fields(text: str) -> dict[str, Any]:
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _cut(text: str, room: int) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= room:
        return data.decode()
    return f"{data[:room].decode('utf-8', 'ignore').rstrip()}\n(shortened: {len(text)} characters in all)"


def offer_of(name: str, arguments: object) -> Offer | None:
    """A recorded call as an offer; ``None`` when it is none of the model's tools."""
    argument = ARGUMENTS.get(name)
    if argument is None or not isinstance(arguments, str):
        return None
    value = _fields(arguments).get(argument)
    return Offer(name, value) if isinstance(value, str) else None
