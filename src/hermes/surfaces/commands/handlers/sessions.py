"""Commands that move between sessions or name them: new, clear, sessions, resume, branch, title, quit."""

from __future__ import annotations

from hermes.base.errors import HermesError
from hermes.surfaces.commands.conversation import Conversation
from hermes.surfaces.commands.handlers.settings import mode_notice
from hermes.surfaces.commands.text import ago, columns, plural, positive, shortened

_LISTED = 10
#: Sessions that can be chosen by their title.
_CHOICES = 100
#: Longer numbers are the beginning of a session's id, which starts with a date.
_NUMBER_LENGTH = 3
_LONGEST_TITLE = 200


def new(conversation: Conversation, arguments: str) -> str:
    """Start a new session."""
    old = conversation.session
    conversation.start_new()
    way_back = f" Go back with /resume {old.id}" if conversation.host.sessions.turn_count(old.id) else ""
    return f"New session {conversation.session.id}.{way_back}"


def clear(conversation: Conversation, arguments: str) -> str:
    """Clear the screen and start a new session."""
    if not conversation.confirmed("Clear the screen and start a new session?"):
        return "Nothing was cleared."
    answer = new(conversation, arguments)
    conversation.surface.clear_screen()
    return answer


def sessions(conversation: Conversation, arguments: str) -> str:
    """List the sessions used last, with the numbers that ``/resume`` takes."""
    rows = conversation.host.sessions.list(limit=positive(arguments, "/sessions", _LISTED))
    conversation.listed = [row.id for row in rows]
    if not rows:
        return "There are no sessions yet."
    lines = columns(
        [
            (
                f"{number}{'*' if row.id == conversation.session_id else ' '}",
                row.id,
                ago(row.updated_at),
                plural(row.turns, "turn"),
                shortened(row.title, 30) or "(no title)",
            )
            for number, row in enumerate(rows, 1)
        ],
        width=conversation.width,
    )
    return "\n".join([*lines, "", "Continue one of them: /resume NUMBER"])


def resume(conversation: Conversation, arguments: str) -> str:
    """Continue another session: by its number in the list, the beginning of its id, or words of its title."""
    if not arguments:
        screen = conversation.surface.screen
        if screen is None or not session_choices(conversation):
            return sessions(conversation, "")
        screen.offer("/resume ")
        return ""
    session_id = conversation.host.sessions.get(_chosen(conversation, arguments)).id
    if session_id == conversation.session.id:
        return f"This is session {session_id} already."
    session = conversation.host.resume_session(session_id)
    conversation.switch_to(session)
    row = conversation.host.sessions.get(session_id)
    back = f"Back in session {session_id}: {shortened(row.title)} ({plural(row.turns, 'turn')}, in {session.cwd})"
    approvals = conversation.host.approvals
    return f"{back}\n{mode_notice(approvals, session)}" if approvals.modes.chosen(session_id) else back


def _chosen(conversation: Conversation, arguments: str) -> str:
    if not (arguments.isdecimal() and len(arguments) <= _NUMBER_LENGTH):
        return _by_title(conversation, arguments)
    known = conversation.listed or [row.id for row in conversation.host.sessions.list(limit=_LISTED)]
    number = int(arguments)
    if not 1 <= number <= len(known):
        raise HermesError(f"there is no session number {number}; /sessions lists them from 1 to {len(known)}")
    return known[number - 1]


def _by_title(conversation: Conversation, arguments: str) -> str:
    """The id of the only session whose title has these words; otherwise they are taken for an id."""
    known = conversation.host.sessions.list(limit=_CHOICES, principal="")
    if any(row.id.startswith(arguments) for row in known):
        return arguments
    found = [row for row in known if all(word in row.title.lower() for word in arguments.lower().split())]
    if len(found) > 1:
        conversation.listed = [row.id for row in found]
        named = "; ".join(f"{number}: {shortened(row.title, 30)}" for number, row in enumerate(found[:_LISTED], 1))
        raise HermesError(f"{len(found)} sessions have {arguments!r} in their title ({named}); /resume NUMBER")
    return found[0].id if found else arguments


def session_choices(conversation: Conversation) -> list[tuple[str, str, str]]:
    """The other sessions, newest first: id, title, and when and how long they were used."""
    return [
        (row.id, shortened(row.title) or "(no title)", f"{ago(row.updated_at)}, {plural(row.turns, 'turn')}")
        for row in conversation.host.sessions.list(limit=_CHOICES, principal="")
        if row.id != conversation.session_id
    ]


def branch(conversation: Conversation, arguments: str) -> str:
    """Copy the session and continue in the copy."""
    old = conversation.session
    copy = conversation.host.branch_session(old, shortened(arguments, _LONGEST_TITLE))
    conversation.switch_to(copy)
    title = conversation.host.sessions.get(copy.id).title
    return f"Branched into session {copy.id}: {shortened(title)}. The original is still there: /resume {old.id}"


def title(conversation: Conversation, arguments: str) -> str:
    """Show the title of the session, or change it."""
    session, known = conversation.session, conversation.host.sessions
    if not arguments:
        return conversation.title() or "The session has no title yet; its first message will name it."
    text = shortened(arguments, _LONGEST_TITLE)
    session.title = text
    if known.turn_count(session.id):
        known.rename(session.id, text)
    return f"Title: {text}"


def leave(conversation: Conversation, arguments: str) -> str:
    """Leave the prompt."""
    conversation.surface.quit()
    return ""
