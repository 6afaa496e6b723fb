"""The plan of a compaction: which messages are summarised, which stay, and which long texts are cut."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

import msgspec

from hermes.agent.context.tokens import estimate, message_tokens
from hermes.base.config.schema.sections import CompressionConfig
from hermes.journal.turns.steps import Message

#: The beginning of the message that replaces everything summarised so far.
SUMMARY_MARK = "[Summary of the conversation so far"

#: The most a summary may take, and the least it needs to be of use.
_MAX_SUMMARY_TOKENS = 4_000
_MIN_SUMMARY_TOKENS = 150
#: The part of the window that a conversation may fill at most, so that an answer still fits.
_USABLE = 0.9

#: The longest text that is left alone, tried one after another until all of them together fit.
_LENGTHS = tuple(64_000 >> halvings for halvings in range(9))


class CompactionLimits(msgspec.Struct, frozen=True):
    """How much may stay, in tokens and messages."""

    #: Kept word for word at the end.
    tail_tokens: int
    #: Start and end together, as far as whole messages allow.
    kept_tokens: int
    #: What no conversation may exceed: longer texts at the end are cut.
    most_tokens: int
    #: Less than this is not worth a summary.
    least_gain: int
    summary_tokens: int
    protect_first: int
    protect_last: int
    #: Whether what people and the model said may be cut too, not only what tools returned.
    cut_everything: bool = False


class CompactionPlan(msgspec.Struct, frozen=True):
    """A conversation in three parts. Put together they are the conversation, unchanged."""

    head: list[Message]
    middle: list[Message]
    tail: list[Message]


def limits_for(settings: CompressionConfig, window: int, tokens: int, halvings: int) -> CompactionLimits:
    """The limits for a conversation of that many tokens in a window of that size.

    ``halvings`` counts how often the window has turned out smaller than it was thought to be (or that the user wants
    it shorter now): each time, half as much may stay.
    """
    threshold = settings.threshold * window
    if halvings:
        threshold = min(threshold, tokens) / 2**halvings
    return CompactionLimits(
        tail_tokens=int(settings.target_ratio * threshold),
        kept_tokens=int(threshold / 2),
        most_tokens=int(threshold if halvings else _USABLE * window),
        least_gain=0 if halvings else int(threshold / 8),
        summary_tokens=max(_MIN_SUMMARY_TOKENS, min(_MAX_SUMMARY_TOKENS, int(threshold / 8))),
        protect_first=settings.protect_first_n,
        protect_last=settings.protect_last_n,
        cut_everything=halvings > 0,
    )


def plan_compaction(messages: list[Message], limits: CompactionLimits) -> CompactionPlan:
    """Divide a conversation. A call and its results stay together, and an earlier summary is always in the middle."""
    sizes = list(map(message_tokens, messages))
    starts = _group_starts(messages)
    bounds = [*starts, len(messages)]
    summaries = [at for at, message in enumerate(messages) if is_summary(message)]
    head_end = _head_end(bounds, sizes, limits, summaries[0] if summaries else len(messages))
    spare = limits.kept_tokens - sum(sizes[:head_end])
    floor = max(head_end, summaries[-1] + 1 if summaries else 0)
    tail_start = _tail_start(bounds, sizes, limits, spare, floor)
    plan = CompactionPlan(messages[:head_end], messages[head_end:tail_start], messages[tail_start:])
    gain = sum(
        size for size, message in zip(sizes[head_end:tail_start], plan.middle, strict=True) if not is_summary(message)
    )
    return plan if gain > limits.least_gain else CompactionPlan(messages[:tail_start], [], plan.tail)


def is_summary(message: Message) -> bool:
    """Whether a message is a summary from an earlier compaction."""
    content: Any = message.get("content")
    return message.get("role") == "user" and isinstance(content, str) and content.startswith(SUMMARY_MARK)


def pairing_problem(messages: list[Message]) -> str | None:
    """What is wrong with the calls and results of a conversation; servers refuse one in which they do not match."""
    open_calls: list[Any] = []
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                return "a tool result without the call it belongs to"
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return "a tool call without its result"
        open_calls = [call.get("id") for call in message.get("tool_calls") or ()]
    return "a tool call without its result" if open_calls else None


def _group_starts(messages: list[Message]) -> list[int]:
    """Where the parts begin that cannot be divided: a message, or one with calls and the results that follow it."""
    return [at for at, message in enumerate(messages) if message["role"] != "tool" or at == 0]


def _head_end(bounds: list[int], sizes: list[int], limits: CompactionLimits, first_summary: int) -> int:
    """The end of the protected start: whole groups, as long as they leave at least half the room to the end."""
    end = tokens = 0
    for start, stop in pairwise(bounds):
        tokens += sum(sizes[start:stop])
        if end >= limits.protect_first or stop > first_summary or tokens > limits.kept_tokens // 2:
            break
        end = stop
    return end


def _tail_start(bounds: list[int], sizes: list[int], limits: CompactionLimits, spare: int, floor: int) -> int:
    """The start of the protected end: the last group always, more while they fit."""
    total = bounds[-1]
    start, tokens = total, 0
    for begin, stop in zip(reversed(bounds[:-1]), reversed(bounds[1:]), strict=True):
        if begin < floor:
            break
        tokens += sum(sizes[begin:stop])
        wanted = tokens <= limits.tail_tokens or total - start < limits.protect_last
        if start < total and not (wanted and tokens <= max(spare, limits.tail_tokens)):
            break
        start = begin
    return start


# -- long texts -----------------------------------------------------------------------------------------------------


def trim(messages: list[Message], tokens: int, *, everything: bool) -> list[Message]:
    """The messages with their longest texts cut until they fit, or as short as they get.

    Only what tools returned is cut, unless ``everything`` may be: then also what was said, and arguments of calls.
    """
    trimmed = messages
    for length in _LENGTHS:
        if estimate(trimmed) <= tokens:
            break
        trimmed = [_trim_message(message, length, everything) for message in messages]
    return trimmed


def cut(text: str, length: int) -> str:
    """The text itself, or its beginning and end."""
    if len(text) <= length:
        return text
    head = length * 2 // 3
    tail = length - head
    return f"{text[:head]}\n[{len(text) - length} characters left out to make room]\n{text[len(text) - tail :]}"


def _trim_message(message: Message, length: int, everything: bool) -> Message:
    if message["role"] != "tool" and not everything:
        return message
    trimmed = {**message, "content": _trim_content(message.get("content"), length)}
    if message.get("tool_calls"):
        trimmed["tool_calls"] = [_trim_call(call, length) for call in message["tool_calls"]]
    return trimmed


def _trim_content(content: Any, length: int) -> Any:
    if isinstance(content, str):
        return cut(content, length)
    if isinstance(content, list):
        parts = cast("list[dict[str, Any]]", content)
        return [{**part, "text": cut(part["text"], length)} if part.get("text") else part for part in parts]
    return content


def _trim_call(call: dict[str, Any], length: int) -> dict[str, Any]:
    """A call whose arguments are still the JSON object that servers want."""
    function: dict[str, Any] = call["function"]
    if len(function["arguments"]) <= length:
        return call
    args: dict[str, Any] = msgspec.json.decode(function["arguments"])
    shorter = {name: cut(value, length) if isinstance(value, str) else value for name, value in args.items()}
    return {**call, "function": {**function, "arguments": msgspec.json.encode(shorter).decode()}}
