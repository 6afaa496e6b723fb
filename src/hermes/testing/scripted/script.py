"""Scripts of a scripted provider: which reply is given to which request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from hermes.testing.scripted.formats import chat_messages
from hermes.testing.scripted.replies import ScriptedReply, failure, reply_from_json


class RecordedRequest(msgspec.Struct, frozen=True):
    """One request the server received."""

    number: int
    method: str
    path: str
    #: Names are lower case.
    headers: dict[str, str]
    body: dict[str, Any]
    #: ``time.monotonic()`` when it had arrived completely.
    arrived: float

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation in the chat format, whatever format the request has."""
        return chat_messages(urlsplit(self.path).path, self.body)

    @property
    def last_user_text(self) -> str:
        """The text of the last user message."""
        for message in reversed(self.messages):
            if message.get("role") == "user":
                content: str | list[dict[str, Any]] = message.get("content") or ""
                if isinstance(content, str):
                    return content
                return "".join(part.get("text", "") for part in content)
        return ""

    @property
    def step(self) -> int:
        """The number of answers of the model since the last user message."""
        count = 0
        for message in reversed(self.messages):
            if message.get("role") == "user":
                break
            count += message.get("role") == "assistant"
        return count


ReplyLike = ScriptedReply | str
Chooser = Callable[[RecordedRequest], ReplyLike]
Script = (
    ReplyLike
    | Sequence[ReplyLike]
    | Mapping[str, "ReplyLike | Sequence[ReplyLike] | Chooser"]
    | Callable[..., ReplyLike]
)


def by_step(*replies: ReplyLike) -> Chooser:
    """A script that picks its reply by how far the turn has come, so that many sessions can share it."""

    def choose(request: RecordedRequest) -> ReplyLike:
        if request.step < len(replies):
            return replies[request.step]
        return failure(500, f"the script has {len(replies)} steps, the turn asked for step {request.step + 1}")

    return choose


def chooser(script: Script) -> Chooser:
    """The function that answers for a script of any form."""
    if callable(script):
        return script
    if isinstance(script, ScriptedReply | str):
        return lambda _request: script
    if isinstance(script, Mapping):
        by_text = {key: chooser(value) for key, value in script.items()}
        return partial(_by_user_text, by_text)
    replies = iter(script)

    def take_next(request: RecordedRequest) -> ReplyLike:
        exhausted = failure(500, f"the script has run out: no reply for request {request.number}")
        return next(replies, exhausted)

    return take_next


def script_from_file(path: str, *, stepwise: bool) -> Script:
    """A script written as JSON: a list of replies, or an object from user text to a reply or a list."""
    data = msgspec.json.decode(Path(path).read_bytes())
    if isinstance(data, dict):
        scripts = cast("dict[str, Any]", data)
        by_text = {key: chooser(_from_json(value, stepwise)) for key, value in scripts.items()}
        return partial(_by_user_text, by_text)
    return _from_json(data, stepwise)


def _from_json(value: Any, stepwise: bool) -> Script:
    if not isinstance(value, list):
        return reply_from_json(value)
    replies = [reply_from_json(item) for item in cast("list[Any]", value)]
    return by_step(*replies) if stepwise else replies


def _by_user_text(choosers: Mapping[str, Chooser], request: RecordedRequest) -> ReplyLike:
    said = request.last_user_text
    # Plugins and structured output add paragraphs to what the user said.
    chosen = choosers.get(said) or choosers.get(said.partition("\n\n")[0])
    return chosen(request) if chosen else failure(500, f"no reply scripted for {said!r}")
