"""Questions by message: approvals and what the model asks, as messages to a chat or to the owner, and the answers.

The questions themselves are in the journal. A turn that asks is suspended, holds no thread, and continues with the
answer, also after a restart of the gateway.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator
from contextvars import ContextVar
from typing import Any

from hermes.agent.session import Session
from hermes.base.sanitize import Redactor
from hermes.base.sanitize.hidden import escape_hidden
from hermes.host import Host
from hermes.journal.questions import OWNER, QuestionRow, abridged
from hermes.journal.turns.lifecycle import Submission
from hermes.service.dispatch.port import TurnEntry
from hermes.service.live.questions import SuspendingResponder, asking, refusing_unkept
from hermes.surfaces.gateway.adapter import SessionSource, approval_text, quoted
from hermes.surfaces.gateway.store.outbox import OutgoingMessage
from hermes.surfaces.gateway.store.users import Role

SURFACE = "gateway"
_ONLY_OWNER = "only the owner of this agent may approve it"
_MAX_SUMMARY_CHARS = 1_500
_MAX_NAME_CHARS = 60
#: Letters of a question's id that are enough to name it in a message.
ID_CHARS = 8

_ID = re.compile(rf"(?:appr_)?[0-9a-f]{{{ID_CHARS},}}")
GRANTS = ("once", "session", "always")


def chat_responder(role: Role, timeout: float) -> SuspendingResponder:
    """Asks a chat about its turn; the owner about approvals of a user who may not answer them."""
    if role == "approver":
        return SuspendingResponder(SURFACE, timeout=timeout, decide=refusing_unkept(_ONLY_OWNER))
    return SuspendingResponder(SURFACE, timeout=timeout, asks_owner=role == "user")


#: Context variables and their values, by the request key of a turn.
TurnVariables = dict[str, dict[ContextVar[Any], Any]]


def chat_entry(host: Host, variables: TurnVariables | None = None) -> TurnEntry:
    """What surrounds a turn of a chat, in the process that runs it: who sent the message, and who can be asked.

    ``variables`` are what adapters have set around their turns, for their own hooks to find.
    """

    @contextlib.contextmanager
    def entered(session: Session, submission: Submission) -> Generator[None]:
        extra: dict[str, Any] = submission.options.get("extra", {})
        session.sender_id = extra.get("sender_id", "")
        for variable, value in (variables or {}).get(submission.request_key, {}).items():
            variable.set(value)
        with asking(host, session, chat_responder(extra.get("role", "user"), host.config.gateway.approval_timeout)):
            yield

    return entered


# -- asking ----------------------------------------------------------------------------------------------------------


def question_messages(
    question: QuestionRow, key: str, source: SessionSource, owner: SessionSource | None, redactor: Redactor
) -> list[OutgoingMessage]:
    """The messages that ask a question: in its chat, or in that of the owner, if there is one."""
    subject = escape_hidden(redactor.redact(question.subject))
    if question.kind == "clarify":
        choices = [redactor.redact(choice) for choice in question.choices]
        lines = [subject, *(f"{number}. {choice}" for number, choice in enumerate(choices, 1))]
        details = {"id": question.id, "question": subject, "choices": choices, "session_key": key}
        return [outgoing(f"question:{question.id}", source, "\n".join(lines), kind="clarify", details=details)]
    command = abridged(subject, _MAX_SUMMARY_CHARS)
    reason = f"{question.tool}: {redactor.redact(question.description)}"
    if question.surface != OWNER:
        details = {"id": question.id, "command": command, "description": reason, "session_key": key}
        text = approval_text(command, reason)
        return [outgoing(f"question:{question.id}", source, text, kind="approval", details=details)]
    short = short_id(question.id)
    waiting = outgoing(f"question:{question.id}:waits", source, f"This waits for the owner's approval: {command}")
    if owner is None:
        return [waiting]
    # Users choose their names: one must not look like a message of ours.
    who = _name(source.user_name or source.user_id or source.chat_id)
    if source.user_id and _name(source.user_id) != who:
        who = f"{who} ({_name(source.user_id)})"
    text = (
        f"{who} on {source.platform} asks for something that needs your approval. {reason}\n\n{quoted(command)}\n\n"
        f"Answer /approve {short} or /deny {short}."
    )
    return [waiting, outgoing(f"question:{question.id}", owner, text)]


def _name(text: str) -> str:
    return escape_hidden(" ".join(text.split()))[:_MAX_NAME_CHARS]


def outgoing(
    key: str, source: SessionSource, text: str, *, reply_to: str = "", kind: str = "text", details: object = None
) -> OutgoingMessage:
    """A message to the chat that another one came from."""
    return OutgoingMessage(
        key,
        str(source.platform),
        source.chat_id,
        text,
        source.thread_id or "",
        reply_to,
        kind=kind,  # pyright: ignore[reportArgumentType]
        details=details or {},  # pyright: ignore[reportArgumentType]
    )


# -- answers ---------------------------------------------------------------------------------------------------------


def read_decision(command: str, arguments: str) -> tuple[str, str, str]:
    """The id, the choice and the reason of ``/approve [ID] [session | always]`` or ``/deny [ID] [REASON]``."""
    words = arguments.split()
    named = ""
    if words and _ID.fullmatch(words[0].lower()):
        named = short_id(words.pop(0).lower())
    if command == "deny":
        return named, "deny", " ".join(words)
    choice = words[0].lower() if words else "once"
    return named, choice if choice in GRANTS else "", ""


def short_id(question_id: str) -> str:
    """The part of an id that is typed."""
    return question_id.rpartition("_")[2][:ID_CHARS]
