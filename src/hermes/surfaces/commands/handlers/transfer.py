"""Commands that bring text out of the conversation or into the message: copy, export, edit, paste."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from hermes.base.config.files import write_atomically
from hermes.base.errors import HermesError
from hermes.journal.bodies import message_text
from hermes.surfaces.commands.conversation import Conversation
from hermes.surfaces.commands.text import plural, positive

_CODE = re.compile(r"^(```+|~~~+)[^\n]*\n(.*?)^\1\s*$", re.MULTILINE | re.DOTALL)
_HEADINGS = {"user": "You", "assistant": "Assistant", "tool": "Result"}


def copy(conversation: Conversation, arguments: str) -> str:
    """Copy the last answer, an earlier one by its number from the end, or the last block of code."""
    screen = conversation.need_screen("/copy")
    answers = _answers(conversation)
    if not answers:
        raise HermesError("there is no answer to copy yet")
    if arguments.lower() == "code":
        text, what = _last_code(answers), "block of code"
    else:
        number = positive(arguments, "/copy", 1)
        if number > len(answers):
            raise HermesError(f"/copy takes a number from 1 to {len(answers)} here, not {number}")
        text, what = answers[-number], "answer"
    screen.copy(text)
    return f"Copied the {what}: {plural(len(text), 'character')}."


def _answers(conversation: Conversation) -> list[str]:
    messages = conversation.host.sessions.messages(conversation.session.id)
    texts = [
        message_text(message).strip()
        for message in messages
        if message["role"] == "assistant" and not message.get("tool_calls")
    ]
    return [text for text in texts if text]


def _last_code(answers: list[str]) -> str:
    for answer in reversed(answers):
        blocks = _CODE.findall(answer)
        if blocks:
            return blocks[-1][1].rstrip("\n")
    raise HermesError("no answer has a block of code")


def export(conversation: Conversation, arguments: str) -> str:
    """Write the conversation to a file: Markdown, or records when its name ends in .json or .jsonl."""
    if not arguments:
        raise HermesError("the file is missing: /export talk.md, or talk.jsonl for the records of the journal")
    sessions, session = conversation.host.sessions, conversation.session
    if not sessions.turn_count(session.id):
        raise HermesError("there is nothing to export: this session has no turns")
    path = session.cwd / Path(arguments.strip("\"'")).expanduser()
    if path.is_dir():
        raise HermesError(f"{path} is a folder; name a file in it")
    if path.exists() and not conversation.surface.confirm(f"{path} exists. Replace it?"):
        return "Nothing was written."
    redactor = conversation.host.redactor
    if path.suffix in (".json", ".jsonl"):
        text = _records([redactor.mask_data(record) for record in sessions.export(session.id)], path.suffix)
    else:
        text = redactor.redact(_markdown(conversation.title(), sessions.messages(session.id)))
    try:
        write_atomically(path, text)
    except OSError as error:
        raise HermesError(f"{path}: {error.strerror}") from error
    return f"Wrote {path}"


def _records(records: list[dict[str, Any]], suffix: str) -> str:
    if suffix == ".jsonl":
        return "".join(f"{msgspec.json.encode(record).decode()}\n" for record in records)
    return msgspec.json.format(msgspec.json.encode(records)).decode() + "\n"


def _markdown(title: str, messages: list[dict[str, Any]]) -> str:
    parts = [f"# {title or 'Conversation'}"]
    for message in messages:
        text = message_text(message).strip()
        if message["role"] not in _HEADINGS:
            continue
        parts.append(f"## {_HEADINGS[message['role']]}")
        if text:
            parts.append(_fenced(text) if message["role"] == "tool" else text)
        calls = message.get("tool_calls") or ()
        parts += [_fenced(f"{call['function']['name']} {call['function']['arguments']}") for call in calls]
    return "\n\n".join(parts) + "\n"


def _fenced(text: str) -> str:
    """The text as a block of code, with a fence that it does not have itself."""
    longest = max((len(found) for found in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def edit(conversation: Conversation, arguments: str) -> str:
    """Write the message in the user's editor."""
    conversation.need_screen("/edit").edit(arguments)
    return ""


def paste(conversation: Conversation, arguments: str) -> str:
    """Attach the image of the clipboard to the message."""
    conversation.need_screen("/paste").paste_image()
    return ""
