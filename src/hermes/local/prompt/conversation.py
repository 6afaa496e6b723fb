"""A conversation as the embedded model is shown it: what fits, the oldest turns left out first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from hermes.local.prompt.grammar import call_text
from hermes.local.prompt.offers import Offer
from hermes.local.prompt.results import ToolResult, offer_of, quote
from hermes.models.reply import text_of

Message = dict[str, Any]

#: The most tokens of a prompt: the model forgets what stands further back.
MOST_TOKENS = 900
#: The most tokens of the last message; of a longer one the middle is left out.
_LAST_MESSAGE = 350
#: The most tokens of what tools answered.
_RESULT = 150
#: The most characters of what a tool was called with; another model may have written it.
_ARGUMENT = 200
_MESSAGE_TOKENS = 6
#: What becomes a token of its own, or a few: words, digits, signs, line ends.
_PIECES = re.compile(r"[A-Za-z]+|[^A-Za-z \t]")


class TurnInHand(NamedTuple):
    """What the user said last, and what the tools answered since."""

    asked: str
    results: list[ToolResult]
    #: How often the model has called tools already.
    rounds: int


def turn_in_hand(messages: Sequence[Message]) -> TurnInHand:
    """The last turn of a conversation."""
    start = _last_user(messages)
    calls: dict[str, Offer] = {}
    results: list[ToolResult] = []
    rounds = 0
    for message in messages[start + 1 :]:
        if message.get("role") == "assistant" and message.get("tool_calls"):
            rounds += 1
            calls.update(_calls(message))
        elif message.get("role") == "tool":
            call = calls.get(str(message.get("tool_call_id"))) or Offer("", "")
            results.append(ToolResult(call, text_of(message.get("content"))))
    asked = text_of(messages[start].get("content")) if start >= 0 else ""
    return TurnInHand(asked, results, rounds)


def shown(head: list[Message], messages: Sequence[Message], turn: TurnInHand) -> list[Message]:
    """``head``, then as many of the turns before as fit, then the turn in hand."""
    last: list[Message] = [{"role": "user", "content": _middle_cut(_harmless(turn.asked), _LAST_MESSAGE)}]
    if turn.results:
        # One call stands for all: what the answer says of the results is given word for word anyway.
        tool, value = turn.results[-1].call
        said = call_text(Offer(tool, value[:_ARGUMENT])) if tool else "One moment."
        last.append({"role": "assistant", "content": said})
        result = _middle_cut(_harmless(quote(turn.results)), _RESULT)
        last.append({"role": "user", "content": f"Result:\n{result}"})
    room = MOST_TOKENS - tokens(head) - tokens(last)
    before: list[Message] = []
    for exchange in reversed(_exchanges(messages)):
        room -= tokens(exchange)
        if room < 0:
            break
        before = [*exchange, *before]
    return [*head, *before, *last]


def tokens(messages: Sequence[Message]) -> int:
    """About how many tokens messages take, rather too many than too few."""
    return sum(_MESSAGE_TOKENS + _text_tokens(text_of(message.get("content"))) for message in messages)


def _text_tokens(text: str) -> int:
    # A word takes a token for every few letters. Most other writing is foreign to the model, up to a token a byte.
    return sum(-(-len(piece) // 4) if piece.isascii() else 3 for piece in _PIECES.findall(text))


def _exchanges(messages: Sequence[Message]) -> list[list[Message]]:
    """The finished turns: what the user said and the last text that answered it. Calls in between are left out."""
    found: list[list[Message]] = []
    asked = ""
    for message in messages[: max(_last_user(messages), 0)]:
        text = _harmless(text_of(message.get("content")))
        if message.get("role") == "user":
            asked = text
        elif message.get("role") == "assistant" and asked and text and not message.get("tool_calls"):
            found.append([{"role": "user", "content": asked}, {"role": "assistant", "content": text}])
            asked = ""
    return found


def _last_user(messages: Sequence[Message]) -> int:
    return max((at for at, message in enumerate(messages) if message.get("role") == "user"), default=-1)


def _calls(message: Message) -> dict[str, Offer]:
    found: dict[str, Offer] = {}
    for call in message["tool_calls"]:
        function: dict[str, Any] = call.get("function") or {}
        offer = offer_of(str(function.get("name")), function.get("arguments"))
        if offer is not None:
            found[str(call.get("id"))] = offer
    return found


def _harmless(text: str) -> str:
    """Text in which nothing reads as the end of a message to the server."""
    return text.replace("<|", "< |")


def _middle_cut(text: str, most: int) -> str:
    taken = _text_tokens(text)
    if taken <= most:
        return text
    half = len(text) * most // taken // 2
    return f"{text[:half]}\n…\n{text[-half:]}"
