"""Delivery of the answers of scheduled runs: to a chat through the outbox, into a file, or nowhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from hermes.base.config.files import write_atomically
from hermes.base.config.principals import make_private
from hermes.base.config.schema.sections import Config
from hermes.base.errors import HermesError
from hermes.journal.store.port import Store
from hermes.service.schedules.schedule import Schedule, ScheduleError, ScheduleRun
from hermes.service.schedules.timing import zone_of

#: An answer that is or begins with this is not delivered: there was nothing to report.
SILENT = "[SILENT]"

_NOWHERE = ("", "none", "local", "nowhere")
_FILE = "file:"
_CHAT = re.compile(r"([a-z][a-z0-9_-]{0,39})(?::([^\s:][^\s]*))?")
_LATER = "when the gateway runs"
ALLOWED = "allowed are none, file:PATH, PLATFORM (its home channel) and PLATFORM:CHAT, such as telegram:123456"


class ChatAddress(Struct, frozen=True):
    """A chat of a platform. ``chat`` may have a thread behind it: ``CHAT:THREAD``."""

    platform: str
    chat: str
    thread: str = ""


class AnswerOutbox(Protocol):
    """Takes messages that the gateway sends; the same key again is the same message."""

    def put(self, key: str, address: ChatAddress, text: str) -> bool:
        """Store a message for a chat. Whether a gateway runs that sends it now."""
        ...


def home_channels(config: Config) -> dict[str, str]:
    """The platforms that are set up, with their home channels."""
    return {name: platform.home_channel for name, platform in config.gateway.platforms.items()}


def parse_delivery(text: str, home_channels: Mapping[str, str]) -> str:
    """The stored form of a destination. ``home_channels`` are those of the platforms that are set up."""
    text = text.strip()
    if text.lower() in _NOWHERE:
        return ""
    if text.startswith(_FILE):
        if not text.removeprefix(_FILE).strip():
            raise ScheduleError(f"{text!r} names no file; {ALLOWED}")
        return text
    match = _CHAT.fullmatch(text)
    if match is None:
        raise ScheduleError(f"an answer cannot be delivered to {text!r}; {ALLOWED}")
    platform, chat = match[1], match[2] or ""
    if platform not in home_channels:
        known = ", ".join(sorted(home_channels)) or "none"
        raise ScheduleError(f"the platform {platform!r} is not set up in gateway.platforms (there: {known}); {ALLOWED}")
    chat = chat or home_channels[platform]
    if not chat:
        raise ScheduleError(
            f"the platform {platform!r} has no home channel; name a chat ({platform}:CHAT), or set "
            f"gateway.platforms.{platform}.home_channel"
        )
    return f"{platform}:{chat}"


def destination(wanted: str, here: str, config: Config, principal: str) -> str:
    """Where the answers go of a schedule that is made in a conversation, by default to its chat, ``here``.

    The owner's conversations may name other chats, those of a principal may not, and none may name a file.
    """
    if wanted in ("", "origin", here):
        return here
    if wanted.lower() in _NOWHERE:
        return ""
    if principal:
        raise ScheduleError("answers can be delivered to this chat only; leave deliver out")
    if wanted.startswith(_FILE):
        raise ScheduleError("deliver cannot be a file here; say in the prompt that the answer is to be written to it")
    return parse_delivery(wanted, home_channels(config))


def chat_of(deliver: str) -> ChatAddress | None:
    """The chat that a destination names, if it is one."""
    if not deliver or deliver.startswith(_FILE):
        return None
    platform, _, rest = deliver.partition(":")
    chat, _, thread = rest.partition(":")
    return ChatAddress(platform, chat, thread)


class _MessageSource(Struct):
    chat_id: str = ""
    thread_id: str | None = None


def chat_of_session(store: Store, session_id: str) -> str:
    """The destination of answers to the chat that a session is in, such as ``irc:#ops``; empty when it is in none."""
    query = "SELECT platform, source FROM gateway_chats WHERE session_id = ? ORDER BY last_at DESC LIMIT 1"
    row = store.read(lambda connection: connection.execute(query, (session_id,)).fetchone())
    if row is None:
        return ""
    source = msgspec.json.decode(row[1], type=_MessageSource)
    return f"{row[0]}:{source.chat_id}{f':{source.thread_id}' if source.thread_id else ''}"


def check_file(schedule: Schedule, now: float, refusal_to_write: Callable[[Path], str | None]) -> None:
    """Refuse a schedule whose answers are to be written to a protected file."""
    if schedule.deliver.startswith(_FILE) and refusal_to_write(path := _path(schedule, now)):
        raise ScheduleError(_protected(path))


def _path(schedule: Schedule, moment: float) -> Path:
    """The file for the answer of a run that was planned for that moment."""
    named = schedule.deliver.removeprefix(_FILE).strip()
    if "%" in named:
        named = datetime.fromtimestamp(moment, zone_of(schedule.zone)).strftime(named)
    return (Path(schedule.cwd) / Path(named).expanduser()).resolve()


def _protected(path: Path) -> str:
    return (
        f"answers cannot be written to {path}: it belongs to the system, or holds settings, keys or records of Hermes; "
        "name another file"
    )


def describe(deliver: str) -> str:
    """A destination in words."""
    return deliver or "nowhere: it is kept in the session"


class AnswerDelivery:
    """Delivers the answers of runs. Delivering one again, after a crash, changes nothing."""

    def __init__(self, outbox: AnswerOutbox | None, refusal_to_write: Callable[[Path], str | None]) -> None:
        self._outbox = outbox
        self._refusal = refusal_to_write

    def answer(self, schedule: Schedule, run: ScheduleRun, answer: str) -> str:
        """Deliver an answer; returns a note for the history. Raises ``HermesError`` when it cannot be delivered."""
        if answer.strip().startswith(SILENT):
            return "nothing to report"
        address = chat_of(schedule.deliver)
        if address is not None:
            is_sent = self._send(run, address, answer)
            return f"sent to {schedule.deliver}" if is_sent else f"to be sent to {schedule.deliver} {_LATER}"
        if schedule.deliver.startswith(_FILE):
            return f"written to {self._write(schedule, run, answer)}"
        return ""

    def failure(self, schedule: Schedule, run: ScheduleRun, error: str) -> str:
        """Report a failed run to the chat that waits for its answer. Principals do not see the words of an error."""
        address = chat_of(schedule.deliver)
        if address is None:
            return ""
        said = "" if schedule.principal else f": {error}"
        is_sent = self._send(run, address, f"The scheduled run “{schedule.name}” failed{said}")
        done = "failure reported" if is_sent else "failure to be reported"
        return f"{done} to {schedule.deliver}{'' if is_sent else f' {_LATER}'}"

    def _send(self, run: ScheduleRun, address: ChatAddress, text: str) -> bool:
        if self._outbox is None:
            raise HermesError(f"the answer for {address.platform} cannot be sent: this program has no outbox")
        return self._outbox.put(run.request_key, address, text)

    def _write(self, schedule: Schedule, run: ScheduleRun, answer: str) -> Path:
        path = _path(schedule, run.planned)
        if schedule.principal and not path.is_relative_to(Path(schedule.cwd).resolve()):
            raise HermesError(f"{path} is outside of the folder of {schedule.principal}; the answer was not written")
        if self._refusal(path):
            raise HermesError(_protected(path))
        make_private(path.parent)
        write_atomically(path, answer if answer.endswith("\n") else f"{answer}\n")
        return path
