"""The prompt of the embedded model: example turns, the recent conversation that fits, and quoted tool results."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from hermes.models.local.prompt.calls import ARGUMENTS, CandidateCall, call_text
from hermes.models.reply import text_of

#: The most of all results together that an answer repeats, in bytes: each may cost the model a token.
_MOST_BYTES = 600
_SENTENCE_END = re.compile(r"(?<=[.!]) |\n")
_LINE_NUMBER = re.compile(r"^ *\d+\|", re.MULTILINE)


class ToolResult(NamedTuple):
    """One call of the current turn and its result."""

    call: CandidateCall
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
    argument = ARGUMENTS.get(result.call.tool)
    if argument == "path" and isinstance(fields.get("content"), str):
        said, heading = _LINE_NUMBER.sub("", fields["content"]), f"{result.call.value} says:"
    elif argument == "command" and isinstance(fields.get("output"), str):
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


def call_of(name: str, arguments: object) -> CandidateCall | None:
    """A recorded call as an offer; ``None`` when it is none of the model's tools."""
    argument = ARGUMENTS.get(name)
    if argument is None or not isinstance(arguments, str):
        return None
    value = _fields(arguments).get(argument)
    return CandidateCall(name, value) if isinstance(value, str) else None


SYSTEM = "You are Hermes, a helpful assistant. Answer briefly."


class Example(NamedTuple):
    """One message and what to answer."""

    asked: str
    answer: str | CandidateCall


#: Without these it continues the text instead of answering.
_TALK = (
    Example("Hello!", "Hello! I am Hermes. How can I help you?"),
    Example("What is the capital of Japan?", "The capital of Japan is Tokyo."),
    Example("Reply exactly yes", "yes"),
    Example("What is 2 plus 3?", "2 plus 3 is 5."),
    Example("Reply exactly with: red", "red"),
    Example("Thank you!", "You are welcome!"),
)
#: It copies examples word for word now and then, so no command here could do any harm.
_WORK = (
    Example("Read the file notes.txt", CandidateCall("read_file", "notes.txt")),
    Example("Who am I?", CandidateCall("terminal", "whoami")),
    Example("What is in src/app.py?", CandidateCall("read_file", "src/app.py")),
    Example("Please run `echo hi`", CandidateCall("terminal", "echo hi")),
)


def prompt(tools: Collection[str] = ()) -> list[dict[str, Any]]:
    """The messages that come before every conversation; with tools, examples that call them.

    The talk comes first in both, so that what the server has read of one need not be read again for the other.
    """
    return [{"role": "system", "content": SYSTEM}, *_messages(_TALK, tools), *_messages(_WORK, tools)]


def _messages(examples: tuple[Example, ...], tools: Collection[str]) -> Iterator[dict[str, Any]]:
    for asked, answer in examples:
        if isinstance(answer, CandidateCall) and answer.tool not in tools:
            continue
        yield {"role": "user", "content": asked}
        yield {"role": "assistant", "content": call_text(answer) if isinstance(answer, CandidateCall) else answer}


Message = dict[str, Any]

#: The most tokens of a prompt: the model forgets what is further back.
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


class CurrentTurn(NamedTuple):
    """What the user said last, and what the tools answered since."""

    asked: str
    results: list[ToolResult]
    #: How often the model has called tools already.
    rounds: int


def current_turn(messages: Sequence[Message]) -> CurrentTurn:
    """The last turn of a conversation."""
    start = _last_user(messages)
    calls: dict[str, CandidateCall] = {}
    results: list[ToolResult] = []
    rounds = 0
    for message in messages[start + 1 :]:
        if message.get("role") == "assistant" and message.get("tool_calls"):
            rounds += 1
            calls.update(_calls(message))
        elif message.get("role") == "tool":
            call = calls.get(str(message.get("tool_call_id"))) or CandidateCall("", "")
            results.append(ToolResult(call, text_of(message.get("content"))))
    asked = text_of(messages[start].get("content")) if start >= 0 else ""
    return CurrentTurn(asked, results, rounds)


def shown(head: list[Message], messages: Sequence[Message], turn: CurrentTurn) -> list[Message]:
    """``head``, then as many of the earlier turns as fit, then the current turn."""
    last: list[Message] = [{"role": "user", "content": _middle_cut(_harmless(turn.asked), _LAST_MESSAGE)}]
    if turn.results:
        # One call represents all: the answer quotes the results word for word anyway.
        tool, value = turn.results[-1].call
        said = call_text(CandidateCall(tool, value[:_ARGUMENT])) if tool else "One moment."
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


def _calls(message: Message) -> dict[str, CandidateCall]:
    found: dict[str, CandidateCall] = {}
    for call in message["tool_calls"]:
        function: dict[str, Any] = call.get("function") or {}
        offer = call_of(str(function.get("name")), function.get("arguments"))
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
