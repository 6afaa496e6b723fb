"""The wire of the embedded model: the chat format with a prompt of its own and a grammar in place of tools."""

from __future__ import annotations

from typing import Any

import msgspec

from hermes.models.endpoint import Endpoint
from hermes.models.local.prompt.calls import (
    ARGUMENTS,
    LOOKS,
    CandidateCall,
    candidate_calls,
    free_answer,
    quoting_answer,
)
from hermes.models.local.prompt.conversation import CurrentTurn, current_turn, prompt, quote, shown
from hermes.models.reply import text_of
from hermes.models.wires.body_parser import BodyParser
from hermes.models.wires.chat.wire import ChatCompletions
from hermes.models.wires.wire import ModelRequest

#: How often one message may lead to tool calls.
MOST_ROUNDS = 2
_MOST_ANSWER_TOKENS = 256
#: The most of another system prompt that is passed on, in characters.
_MOST_SYSTEM = 1_200
#: Keeps the model from repeating a phrase for ever.
_NO_LOOPS = {"dry_multiplier": 0.8, "dry_allowed_length": 4}


class EmbeddedWire(ChatCompletions):
    """Asks the embedded model so that it can answer. It keeps no state."""

    def kwargs(self, endpoint: Endpoint, request: ModelRequest) -> dict[str, Any]:
        """The request as the official SDK's keyword arguments; the tools are in the grammar."""
        turn, tools = current_turn(request.messages), request.tools
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

    def parser(self, endpoint: Endpoint, *, streaming: bool, tools: bool = False) -> BodyParser:
        """A parser that finds calls in the text: the server is not given the tools and reports no calls."""
        return super().parser(endpoint, streaming=streaming, tools=True)


def _choices(turn: CurrentTurn, tools: list[str]) -> list[CandidateCall]:
    """The candidate calls of this round. A second round is for calls that the user named and the first left out."""
    if turn.rounds >= MOST_ROUNDS:
        return []
    found = candidate_calls(turn.asked, tools)
    if not turn.rounds:
        return found
    made = [result.call for result in turn.results]
    return [call for call in found if call not in made and call.value not in LOOKS]


def _head(
    messages: list[dict[str, Any]], tools: list[str] | tuple[()], *, is_conversation: bool
) -> list[dict[str, Any]]:
    """The first messages: the model's own prompt, or the system prompt of a side job."""
    system = "\n\n".join(text_of(one.get("content")) for one in messages if one.get("role") in ("system", "developer"))
    if is_conversation or not system:
        # The prompt for capable models is longer than all that this one can hold.
        return prompt(tools)
    return [{"role": "system", "content": system[:_MOST_SYSTEM]}]
