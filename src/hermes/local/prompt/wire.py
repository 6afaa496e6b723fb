"""How the embedded model is asked: the chat format, with a prompt of its own and a grammar in place of tools."""

from __future__ import annotations

from typing import Any

import msgspec

from hermes.local.prompt.conversation import TurnInHand, shown, turn_in_hand
from hermes.local.prompt.examples import prompt
from hermes.local.prompt.grammar import free_answer, quoting_answer
from hermes.local.prompt.offers import ARGUMENTS, LOOKS, Offer, offers
from hermes.local.prompt.results import quote
from hermes.models.endpoint import Endpoint
from hermes.models.reply import text_of
from hermes.models.wires.chat.wire import ChatCompletions, ChatParser
from hermes.models.wires.wire import ModelRequest

#: How often one message may lead to tool calls.
MOST_ROUNDS = 2
_MOST_ANSWER_TOKENS = 256
#: The most of somebody else's system prompt that is passed on, in characters.
_MOST_SYSTEM = 1_200
#: Keeps the model from repeating a phrase for ever.
_NO_LOOPS = {"dry_multiplier": 0.8, "dry_allowed_length": 4}


class EmbeddedWire(ChatCompletions):
    """Asks the embedded model so that it can answer. It keeps no state."""

    def kwargs(self, endpoint: Endpoint, request: ModelRequest) -> dict[str, Any]:
        """The request as the official SDK's keyword arguments; the tools are in the grammar."""
        turn, tools = turn_in_hand(request.messages), request.tools
        known = [name for tool in tools or () if (name := tool["function"]["name"]) in ARGUMENTS]
        choices = _choices(turn, known)
        most = min(request.max_tokens or _MOST_ANSWER_TOKENS, _MOST_ANSWER_TOKENS)
        extra: dict[str, Any] = dict(_NO_LOOPS)
        if turn.results:
            words = quote(turn.results)
            extra = {"grammar": quoting_answer(words, choices)}
            most = len(words.encode()) + 64  # what is given word for word is given to its end
        elif tools and request.response_format is None:
            extra["grammar"] = free_answer(choices)
        head = _head(request.messages, known if choices or turn.results else (), is_conversation=bool(tools))
        fitted = msgspec.structs.replace(
            request,
            messages=shown(head, request.messages, turn),
            tools=None,
            max_tokens=most,
            temperature=0.0 if request.temperature is None else request.temperature,
            reasoning_effort="",
        )
        kwargs = super().kwargs(endpoint, fitted)
        kwargs["extra_body"] = {**extra, **kwargs.get("extra_body", {})}
        return kwargs

    def parser(self, endpoint: Endpoint, *, streaming: bool, tools: bool = False) -> ChatParser:
        """A parser that finds calls in the text: the server was told of no tools and reports none."""
        return ChatParser(endpoint, streaming=streaming, tools=True)


def _choices(turn: TurnInHand, tools: list[str]) -> list[Offer]:
    """What may be called now. A second round is for what the user named and the first has left."""
    if turn.rounds >= MOST_ROUNDS:
        return []
    found = offers(turn.asked, tools)
    if not turn.rounds:
        return found
    made = [result.call for result in turn.results]
    return [offer for offer in found if offer not in made and offer.value not in LOOKS]


def _head(
    messages: list[dict[str, Any]], tools: list[str] | tuple[()], *, is_conversation: bool
) -> list[dict[str, Any]]:
    """What comes first: the model's own prompt, unless somebody has a short job of another kind for it."""
    system = "\n\n".join(text_of(one.get("content")) for one in messages if one.get("role") in ("system", "developer"))
    if is_conversation or not system:
        # The prompt for capable models is longer than all that this one can hold.
        return prompt(tools)
    return [{"role": "system", "content": system[:_MOST_SYSTEM]}]
