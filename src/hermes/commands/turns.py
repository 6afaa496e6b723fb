"""Commands about what was said: history, retry, undo, compress."""

from __future__ import annotations

from typing import Any

from hermes.commands.conversation import Conversation
from hermes.commands.wording import plural, positive, shortened
from hermes.errors import HermesError
from hermes.journal.bodies import message_text

_SHOWN = 10
_LONGEST_MESSAGE = 1_000
_WHO = {"user": "You", "assistant": "Assistant"}


def history(conversation: Conversation, arguments: str) -> str:
    """Show the last messages, without what tools answered."""
    count = positive(arguments, "/history", _SHOWN)
    everything = conversation.host.sessions.messages(conversation.session.id)
    said = [message for message in everything if message["role"] in _WHO]
    if not said:
        return "Nothing was said yet."
    earlier = len(said) - count
    head = [f"({plural(earlier, 'message')} before these)"] if earlier > 0 else []
    return "\n\n".join([*head, *map(_told, said[-count:])])


def _told(message: dict[str, Any]) -> str:
    words = message_text(message).strip()
    if len(words) > _LONGEST_MESSAGE:
        words = f"{words[:_LONGEST_MESSAGE]}… ({len(words) - _LONGEST_MESSAGE:,} more characters)"
    calls = [
        f"  > {call['function']['name']} {shortened(call['function']['arguments'], 60)}"
        for call in message.get("tool_calls") or ()
    ]
    return "\n".join(filter(None, [f"{_WHO[message['role']]}:", words, *calls]))


def undo(conversation: Conversation, arguments: str) -> str:
    """Take the last turns back."""
    count = positive(arguments, "/undo", 1)
    standing = _standing_turns(conversation)
    if not standing:
        raise HermesError("there is nothing to take back: this session has no turns")
    count = min(count, standing)
    what = "the last turn" if count == 1 else f"the last {count} turns"
    if not conversation.confirmed(f"Take back {what}? Files that changed meanwhile stay changed."):
        return "Nothing was taken back."
    undone = conversation.session.undo(count)
    said = "\n".join(f"  {shortened(message_text(message), 70)}" for message in undone)
    return f"Took back {plural(len(undone), 'turn')}:\n{said}\nFiles that changed meanwhile stay changed."


def _standing_turns(conversation: Conversation) -> int:
    # Asked of the journal: another process may have gone on with the session.
    session_id = conversation.session.id
    return conversation.host.sessions.get(session_id).turns if conversation.host.sessions.turn_count(session_id) else 0


def retry(conversation: Conversation, arguments: str) -> str:
    """Take the last turn back and ask the same again."""
    undone = conversation.session.undo()
    if not undone:
        raise HermesError("there is nothing to ask again: this session has no turns")
    [message] = undone
    conversation.surface.run(message["content"])
    return f"Asking again: {shortened(message_text(message), 60)}"


def compress(conversation: Conversation, arguments: str) -> str:
    """Shorten what the model sees of the conversation."""
    report = conversation.session.compress(arguments, interrupt=conversation.surface.interrupt())
    return (
        f"Compressed {plural(report.messages_before, 'message')} ({report.before_tokens:,} tokens) "
        f"into {report.messages_after:,} ({report.after_tokens:,} tokens). The whole conversation stays on record."
    )
