"""Commands about turns: history, retry, init, undo, compress, stop, queue, steer, approve, deny."""

from __future__ import annotations

from typing import Any, cast

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest, Choice
from hermes.base.errors import HermesError
from hermes.journal.bodies import message_text
from hermes.surfaces.commands.conversation import Conversation
from hermes.surfaces.commands.text import plural, positive, shortened

_SHOWN = 10
_LONGEST_MESSAGE = 1_000
_SPEAKERS = {"user": "You", "assistant": "Assistant"}
#: The reason of a turn that ``/stop`` stopped.
BY_COMMAND = "stopped by /stop"
_GRANTS = ("once", "session", "always")


def history(conversation: Conversation, arguments: str) -> str:
    """Show the last messages, without tool results."""
    count = positive(arguments, "/history", _SHOWN)
    everything = conversation.host.sessions.messages(conversation.session.id)
    said = [message for message in everything if message["role"] in _SPEAKERS]
    if not said:
        return "Nothing was said yet."
    earlier = len(said) - count
    head = [f"({plural(earlier, 'message')} before these)"] if earlier > 0 else []
    return "\n\n".join([*head, *map(_message_lines, said[-count:])])


def _message_lines(message: dict[str, Any]) -> str:
    text = message_text(message).strip()
    if len(text) > _LONGEST_MESSAGE:
        text = f"{text[:_LONGEST_MESSAGE]}… ({len(text) - _LONGEST_MESSAGE:,} more characters)"
    calls = [
        f"  > {call['function']['name']} {shortened(call['function']['arguments'], 60)}"
        for call in message.get("tool_calls") or ()
    ]
    return "\n".join(filter(None, [f"{_SPEAKERS[message['role']]}:", text, *calls]))


def undo(conversation: Conversation, arguments: str) -> str:
    """Take the last turns back."""
    number, files = _undo_arguments(arguments)
    count = positive(number, "/undo", 1)
    turns = _turn_count(conversation)
    if not turns:
        raise HermesError("there is nothing to take back: this session has no turns")
    count = min(count, turns)
    what = "the last turn" if count == 1 else f"the last {count} turns"
    if not conversation.confirmed(f"Take back {what}?"):
        return "Nothing was taken back."
    undone = conversation.session.undo(count)
    said = "\n".join(f"  {shortened(message_text(turn.message), 70)}" for turn in undone)
    from hermes.surfaces.commands.handlers.checkpoints import undo_files

    restored = undo_files(conversation, undone[0].ordinal, files) if undone else ""
    return f"Took back {plural(len(undone), 'turn')}:\n{said}\n{restored}".rstrip()


def _undo_arguments(arguments: str) -> tuple[str, str]:
    """The number of turns, and what to do with files: ``files``, ``keep``, or empty to ask."""
    words = arguments.lower().split()
    files = next((word for word in words if word in ("files", "keep")), "")
    return " ".join(word for word in words if word != files), files


def _turn_count(conversation: Conversation) -> int:
    # From the journal: another process may have continued the session.
    session_id = conversation.session.id
    return conversation.host.sessions.get(session_id).turns if conversation.host.sessions.turn_count(session_id) else 0


def retry(conversation: Conversation, arguments: str) -> str:
    """Take the last turn back and ask the same again."""
    undone = conversation.session.undo()
    if not undone:
        raise HermesError("there is nothing to ask again: this session has no turns")
    [turn] = undone
    conversation.surface.run(turn.message["content"])
    return f"Asking again: {shortened(message_text(turn.message), 60)}"


_INIT = (
    "Look at this project (its files, build and test commands, conventions) and write an AGENTS.md in its root folder: "
    "what a new engineer or agent must know to work here. At most 60 lines: what the project is, how to build, test "
    "and check it (commands that exist here), where things are, conventions that are not obvious. Do not repeat what "
    "is easy to see. If there is an AGENTS.md, improve it instead of replacing what is right in it."
)


def init(conversation: Conversation, arguments: str) -> str:
    """Have the agent write the instructions of the project."""
    conversation.surface.run(f"{_INIT}\n\n{arguments}".strip())
    return "Asking the agent to write AGENTS.md. New sessions will read it."


def compress(conversation: Conversation, arguments: str) -> str:
    """Summarise old messages."""
    report = conversation.session.compress(arguments, interrupt=conversation.surface.interrupt())
    return (
        f"Compressed {plural(report.messages_before, 'message')} ({report.before_tokens:,} tokens) "
        f"into {report.messages_after:,} ({report.after_tokens:,} tokens). The whole conversation stays in the journal."
    )


# -- while the agent works -------------------------------------------------------------------------------------------


def stop(conversation: Conversation, arguments: str) -> str:
    """Stop the agent."""
    if not conversation.surface.is_working:
        return "The agent is not working."
    conversation.surface.stop(BY_COMMAND)
    return "Stopping."


def queue(conversation: Conversation, arguments: str) -> str:
    """Queue a message for when the agent is done."""
    text = _required(arguments, "/queue")
    surface = conversation.surface
    if not surface.is_working:
        surface.run(text)
        return ""
    surface.queue(text)
    return f"Queued ({plural(surface.queued, 'message')} waiting)."


def steer(conversation: Conversation, arguments: str) -> str:
    """Send a message to the agent while it works; it gets it before its next step."""
    text = _required(arguments, "/steer")
    if conversation.surface.steer(text):
        return "The agent gets it before its next step."
    return queue(conversation, text)


def _required(arguments: str, command: str) -> str:
    if not arguments:
        raise HermesError(f"the text is missing: {command} TEXT")
    return arguments


def approve(conversation: Conversation, arguments: str) -> str:
    """Allow the call that waits: this once, for the session, or always."""
    choice = arguments.lower() or "once"
    if choice not in _GRANTS:
        raise HermesError(f"/approve takes once, session or always, not {arguments!r}")
    request = _waiting(conversation)
    if choice != "once" and not request.can_be_kept:
        raise HermesError("this call can only be allowed once: /approve once")
    conversation.surface.answer_approval(ApprovalAnswer(cast("Choice", choice)))
    how_long = {"once": "this once", "session": "for this session", "always": "from now on"}[choice]
    return f"Allowed {how_long}: {shortened(request.subject, 60)}"


def deny(conversation: Conversation, arguments: str) -> str:
    """Refuse the call that waits; the agent gets the reason."""
    request = _waiting(conversation)
    conversation.surface.answer_approval(ApprovalAnswer("deny", arguments))
    return f"Refused: {shortened(request.subject, 60)}"


def _waiting(conversation: Conversation) -> ApprovalRequest:
    request = conversation.surface.pending_approval()
    if request is None:
        raise HermesError("no call waits for approval")
    return request
