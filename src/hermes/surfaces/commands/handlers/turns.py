"""Commands about turns: history, retry, init, undo, compress, stop, queue, steer, approve, deny."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest, Choice
from hermes.base.errors import HermesError
from hermes.journal.bodies import message_text
from hermes.surfaces.commands.conversation import Conversation
from hermes.surfaces.commands.text import plural, positive, shortened
from hermes.tools.files.checkpoints.port import CheckpointPort

if TYPE_CHECKING:
    from hermes.tools.files.checkpoints.restore import PlannedFile, RestorePlan

_SHOWN = 10
#: Files that are named in a question or an answer.
_FILES_NAMED = 8
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
    restored = _undo_files(conversation, undone[0].ordinal, files) if undone else ""
    return f"Took back {plural(len(undone), 'turn')}:\n{said}\n{restored}".rstrip()


def _undo_arguments(arguments: str) -> tuple[str, str]:
    """The number of turns, and what to do with files: ``files``, ``keep``, or empty to ask."""
    words = arguments.lower().split()
    files = next((word for word in words if word in ("files", "keep")), "")
    return " ".join(word for word in words if word != files), files


def _undo_files(conversation: Conversation, turn: int, choice: str) -> str:
    """Restore the files as they were before a turn.

    ``choice`` is ``files`` or ``keep``; when it is empty, a person is asked, and without one files stay.
    """
    checkpoints = conversation.host.runtime.checkpoints
    if checkpoints is None or choice == "keep":
        return "Files that changed meanwhile stay changed."
    try:
        return _restore(conversation, checkpoints, turn, choice)
    except HermesError as error:
        return f"The files stay as they are: {error}"


def _restore(conversation: Conversation, checkpoints: CheckpointPort, turn: int, choice: str) -> str:
    session, surface = conversation.session, conversation.surface
    found = checkpoints.before_turn(session.id, turn, session.principal)
    if found is None:
        return ""
    from hermes.tools.files.checkpoints.restore import plan_restore, restore

    store = checkpoints.recorder.store_of(session.principal)
    plan = plan_restore(store, found, conversation.host.home)
    safe, conflicts = plan.restorable(with_conflicts=False), plan.conflicts
    if not safe and not conflicts:
        kept = _named(plan, plan.unrestorable)
        return f"Not restored, because the content was not kept: {kept}." if kept else ""
    how = f"hermes checkpoints restore {found.id}"
    # Where no person is, every question is answered with yes: nothing may depend on one.
    if not choice and conversation.host.responders.get(session.id) is None:
        return f"{plural(len(safe) + len(conflicts), 'changed file')} can be restored with: {how}"
    chosen: list[PlannedFile] = []
    if safe and (choice == "files" or surface.confirm(f"Restore: {_named(plan, safe)}?")):
        chosen += safe
    lost = "Changed after that turn, so your own changes would be lost. Restore too"
    if conflicts and not choice and surface.confirm(f"{lost}: {_named(plan, conflicts)}?"):
        chosen += conflicts
    if not chosen:
        return f"Files stay changed. Restore them later with: {how}"
    report = restore(store, plan, chosen)
    undo = f"'hermes checkpoints restore {report.undo_id}' undoes it."
    lines = [f"Restored {plural(len(report.restored), 'file')}; {undo}"]
    lines += [f"  not restored: {path}: {reason}" for path, reason in report.failed]
    left = [file for file in plan.files if file not in chosen]
    return "\n".join([*lines, *([f"Left as they are: {_named(plan, left)}."] if left else [])])


def _named(plan: RestorePlan, files: Sequence[PlannedFile]) -> str:
    more = len(files) - _FILES_NAMED
    return ", ".join(map(plan.name, files[:_FILES_NAMED])) + (f" and {more} more" if more > 0 else "")


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
