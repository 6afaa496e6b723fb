"""The prompt of the embedded model: one sentence, and example turns that show it how to answer and how to call."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from hermes.local.prompt.grammar import call_text
from hermes.local.prompt.offers import Offer

SYSTEM = "You are Hermes, a helpful assistant. Answer briefly."


class Example(NamedTuple):
    """One message and what to answer."""

    asked: str
    answer: str | Offer


#: Without these it does not answer so much as go on talking.
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
    Example("Read the file notes.txt", Offer("read_file", "notes.txt")),
    Example("Who am I?", Offer("terminal", "whoami")),
    Example("What is in src/app.py?", Offer("read_file", "src/app.py")),
    Example("Please run `echo hi`", Offer("terminal", "echo hi")),
)


def prompt(tools: Collection[str] = ()) -> list[dict[str, Any]]:
    """The messages that come before every conversation; with tools, examples that call them.

    The talk comes first in both, so that what the server has read of one need not be read again for the other.
    """
    return [{"role": "system", "content": SYSTEM}, *_messages(_TALK, tools), *_messages(_WORK, tools)]


def _messages(examples: tuple[Example, ...], tools: Collection[str]) -> Iterator[dict[str, Any]]:
    for asked, answer in examples:
        if isinstance(answer, Offer) and answer.tool not in tools:
            continue
        yield {"role": "user", "content": asked}
        yield {"role": "assistant", "content": call_text(answer) if isinstance(answer, Offer) else answer}
