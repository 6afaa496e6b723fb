"""The durable list of questions that wait for an answer: approvals of tool calls, and what the model asks a user.

Every surface uses this one list. Its life cycle, in calls::

    questions.ask(row)                  # stored before the question is shown
    questions.defer(id, deadline)       # the answer comes later: the turn is suspended, the process may end
    questions.pending(session_id=...)   # open questions of turns that have not ended
    questions.overdue(now)              # deferred questions whose deadline has passed
    questions.settled(ids)              # those that were answered or withdrawn since, perhaps by another process
    questions.answer(id, text)          # by anyone, from any process; the first answer counts
    questions.consume(id)               # an approved call starts: an approval is used once
    questions.withdraw(id, reason)      # closed without an answer
    questions.begin_telling(id)         # plugins that heard of the question hear how it ended; then ``end_telling``

Continuing the turn after ``answer`` (``Session.finish_open_turn``) runs the call again, which finds its answer with
``find`` and does not ask a second time. A question is bound to a session, a turn, a step key (``tool:n.i``) and the
digest of the exact call, so an answer never counts for another call.

=========  ============================================================  ==========================================
kind       ``answer``                                                    states
=========  ============================================================  ==========================================
approval   once, session, always, deny, timeout, smart_approve/_deny     pending, granted, denied, consumed, revoked
clarify    the user's text; empty when there was no answer in time       pending, answered, revoked
=========  ============================================================  ==========================================
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, Literal, cast

import msgspec
from msgspec.structs import astuple, replace

from hermes.base.errors import JournalError
from hermes.journal.bodies import clean_text
from hermes.journal.history.rows import FAMILY, ancestors
from hermes.journal.store.connection import JournalConnection, placeholders
from hermes.journal.store.port import Store

QuestionKind = Literal["approval", "clarify"]
QuestionState = Literal["pending", "granted", "denied", "answered", "consumed", "revoked"]
#: How far plugins were told of a question: they hear of it, they know it, they hear the answer, they know that.
Told = Literal["", "asked", "telling", "told"]

#: The surface of questions about the calls of others: the owner answers them with ``hermes approvals``.
OWNER = "owner"

#: The answers that let a call run. All others refuse it.
GRANTS = ("once", "session", "always", "smart_approve")

_NO_LIMIT = 2**62

#: The arguments of the call are stored with its step, whole.
_MAX_SUBJECT_CHARS = 65_536


def abridged(subject: str, limit: int, hint: str = ": 'hermes approvals pending' shows all of it") -> str:
    """A subject within about ``limit`` characters: its beginning, a note of what is left out, and its end.

    What is approved without being seen must at least be known to be there, and a long beginning must not hide the end.
    """
    left_out = len(subject) - limit
    if left_out <= 0:
        return subject
    tail = limit // 3
    note = f" … [{left_out:,} characters left out{hint}] … "
    return subject[: limit - tail] + note + subject[len(subject) - tail :]


class QuestionRow(msgspec.Struct, frozen=True):
    """One question and its answer."""

    id: str
    session_id: str
    turn_id: str
    #: The step that asked: ``tool:n.i``.
    key: str
    tool: str
    #: Of the tool and its exact arguments.
    digest: str
    #: What is shown: the command or call to approve, or the question itself.
    subject: str
    #: The rules that made an approval necessary.
    rules: tuple[str, ...] = ()
    description: str = ""
    #: Where the question was shown last: cli, a2a … ``OWNER`` waits for the owner's answer outside of a conversation.
    surface: str = ""
    kind: QuestionKind = "approval"
    #: Suggested answers of a clarify question.
    choices: tuple[str, ...] = ()
    state: QuestionState = "pending"
    answer: str | None = None
    #: Why it was answered like that, or withdrawn.
    reason: str = ""
    #: Of a deferred question: when it counts as unanswered, in seconds since the epoch.
    deadline: float | None = None
    created_at: float = 0.0
    answered_at: float | None = None
    consumed_at: float | None = None
    #: The caller whose session asks; empty is the owner of the home.
    principal: str = ""
    #: Who answered, where that is known; ``OWNER`` is the owner of the home.
    answered_by: str = ""
    #: Where it is asked, as plugins are told; empty when none listens.
    announced: str = ""
    told: Told = ""


_NAMES = QuestionRow.__struct_fields__
_COLUMNS = ", ".join(_NAMES)
_INSERT = f"INSERT INTO questions ({_COLUMNS}) VALUES ({', '.join('?' * len(_NAMES))})"
_SESSION_GRANT = "kind = 'approval' AND state = 'granted' AND answer = 'session'"
#: A question of a turn that runs. With the very words of an index of ``turns``, or SQLite reads every turn there ever
#: was.
PENDING = (
    "state = 'pending' AND turn_id IN (SELECT id FROM turns WHERE state = 'running' AND state IN ('queued', 'running'))"
)

_OF_FAMILY = f"session_id IN ({FAMILY.replace(':id', '?')}SELECT id FROM family)"


class Questions:
    """The questions of one journal. Thread-safe, and safe between processes."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # -- the life of a question ---------------------------------------------------------------------------------

    def ask(self, row: QuestionRow) -> bool:
        """Store a question. False when its session is not stored, so that no answer can be bound to it."""
        subject = abridged(clean_text(row.subject), _MAX_SUBJECT_CHARS, "")
        named = {name: clean_text(getattr(row, name)) for name in ("key", "tool", "description")}
        asked = replace(row, **named, subject=subject, created_at=time.time())

        def write(connection: JournalConnection) -> bool:
            query = "SELECT principal FROM sessions WHERE id = ?"
            session = connection.execute(query, (row.session_id,)).fetchone()
            if session is None:
                return False
            values = astuple(replace(asked, principal=row.principal or session[0]))
            connection.execute(_INSERT, list(map(_stored, values)))
            return True

        return self._store.write(write)

    def ask_again(self, question_id: str, surface: str, announced: str = "") -> None:
        """The open question is now shown at ``surface``: another party, or after the process that asked died."""
        told = "told = CASE told WHEN 'told' THEN '' ELSE told END"  # of the party that was asked before
        self._update_pending(question_id, f"surface = ?, announced = ?, {told}", surface, announced)

    def defer(self, question_id: str, deadline: float | None) -> None:
        """The answer comes later, until ``deadline``; None waits for ever."""
        self._update_pending(question_id, "deadline = ?", deadline)

    def answer(self, question_id: str, answer: str, reason: str = "", *, by: str = "") -> QuestionRow:
        """Answer a question; ``by`` is who does. The first answer counts: the row is returned as it is now."""
        text = clean_text(answer)
        approved = "granted" if text in GRANTS else "denied"
        values = (text, clean_text(reason), clean_text(by), time.time(), approved, question_id)

        def write(connection: JournalConnection) -> QuestionRow:
            connection.execute(
                "UPDATE questions SET answer = ?, reason = ?, answered_by = ?, answered_at = ?, "
                "state = CASE kind WHEN 'clarify' THEN 'answered' ELSE ? END WHERE id = ? AND state = 'pending'",
                values,
            )
            found = _select(connection, "id = ?", (question_id,))
            if not found:
                raise JournalError(
                    f"there is no approval {question_id!r}; 'hermes approvals list' shows those there are"
                )
            return found[0]

        return self._store.write(write)

    def withdraw(self, question_id: str, reason: str) -> None:
        """Close a question without an answer, which is not a refusal either."""
        self._update_pending(
            question_id, "state = 'revoked', reason = ?, answered_at = ?", clean_text(reason), time.time()
        )

    def consume(self, question_id: str) -> bool:
        """Use an approval up, once. False when it was used or revoked before: the call must not run on it."""
        query = "UPDATE questions SET state = 'consumed', consumed_at = ? WHERE id = ? AND state = 'granted'"
        values = (time.time(), question_id)
        return self._store.write(lambda connection: connection.execute(query, values).rowcount) == 1

    def _update_pending(self, question_id: str, changes: str, *values: object) -> None:
        query = f"UPDATE questions SET {changes} WHERE id = ? AND state = 'pending'"
        self._store.write(lambda connection: connection.execute(query, (*values, question_id)))

    # -- what plugins are told ----------------------------------------------------------------------------------

    # Noted before and after, so that a process that dies in between leaves a doubt rather than a gap.

    def begin_telling(self, question_id: str) -> Told:
        """Plugins are about to be told of the answer. Returns what was known of that before."""

        def write(connection: JournalConnection) -> Told:
            found = connection.execute("SELECT told FROM questions WHERE id = ?", (question_id,)).fetchone()
            query = "UPDATE questions SET told = 'telling' WHERE id = ? AND told != 'told'"
            connection.execute(query, (question_id,))
            return "" if found is None else found[0]

        return self._store.write(write)

    def end_telling(self, question_id: str, told: Told = "told") -> None:
        """Plugins were told of the answer; with ``asked`` of the question."""
        query = "UPDATE questions SET told = ? WHERE id = ?"
        self._store.write(lambda connection: connection.execute(query, (told, question_id)))

    def owed(self, session_id: str, turn_id: str) -> list[QuestionRow]:
        """The questions of a turn that plugins know of, without knowing the answer; the oldest first."""
        where = "session_id = ? AND turn_id = ? AND announced != '' AND told != 'told'"
        return self._store.read(lambda connection: _select(connection, where, (session_id, turn_id)))[::-1]

    # -- look-ups for calls -------------------------------------------------------------------------------------

    def find(self, *, session_id: str, turn_id: str, key: str, digest: str) -> QuestionRow | None:
        """The question of an earlier run of the step: still open, or with an answer that is not used up.

        An approval that timed out is asked again.
        """
        where = (
            "session_id = ? AND turn_id = ? AND key = ? AND digest = ? AND "
            "(state IN ('pending', 'granted', 'answered') OR (state = 'denied' AND answer != 'timeout'))"
        )
        values = (session_id, turn_id, key, digest)
        found = self._store.read(lambda connection: _select(connection, where, values, limit=1))
        return found[0] if found else None

    def session_rules(self, session_id: str) -> frozenset[str]:
        """The rules that are approved for the rest of a session."""
        where = f"session_id = ? AND {_SESSION_GRANT}"
        found = self._store.read(lambda connection: _select(connection, where, (session_id,)))
        return frozenset(rule for row in found for rule in row.rules)

    def is_kept(self, session_id: str, digest: str) -> bool:
        """Whether a call is approved for the rest of a session."""
        where = f"session_id = ? AND digest = ? AND {_SESSION_GRANT}"
        return bool(self._store.read(lambda connection: _select(connection, where, (session_id, digest), limit=1)))

    def ancestors(self, session_id: str) -> list[str]:
        """The sessions that delegated to this one, the nearest first."""
        return self._store.read(lambda connection: ancestors(connection, session_id))

    # -- look-ups for surfaces ----------------------------------------------------------------------------------

    def get(self, question_id: str) -> QuestionRow | None:
        """One question."""
        found = self._store.read(lambda connection: _select(connection, "id = ?", (question_id,)))
        return found[0] if found else None

    def pending(self, *, session_id: str = "", kind: QuestionKind | None = None) -> list[QuestionRow]:
        """The open questions of turns that have not ended, newest first: all, or those of a session or kind.

        The questions of a session are also those of the sessions it delegated to.
        """
        where, values = PENDING, list[str]()
        for condition, value in ((_OF_FAMILY, session_id), ("kind = ?", kind)):
            if value:
                where += f" AND {condition}"
                values.append(value)
        return self._store.read(lambda connection: _select(connection, where, values))

    def count_for_owner(self) -> int:
        """How many calls of others wait for the owner."""
        query = f"SELECT count(*) FROM questions WHERE surface = ? AND kind = 'approval' AND {PENDING}"
        return self._store.read(lambda connection: connection.execute(query, (OWNER,)).fetchone()[0])

    def settled(self, question_ids: Iterable[str]) -> list[str]:
        """Those of these questions that are no longer open."""
        named = tuple(map(clean_text, question_ids))
        if not named:
            return []
        query = f"SELECT id FROM questions WHERE state != 'pending' AND id IN ({placeholders(named)})"
        rows = self._store.read(lambda connection: connection.execute(query, named).fetchall())
        return [found for (found,) in rows]

    def overdue(self, now: float) -> list[QuestionRow]:
        """The deferred questions that were not answered by their deadline, newest first."""
        return self._store.read(lambda connection: _select(connection, f"{PENDING} AND deadline <= ?", (now,)))

    def grants(self) -> list[QuestionRow]:
        """The approvals for the rest of a session, newest first."""
        return self._store.read(lambda connection: _select(connection, _SESSION_GRANT, ()))

    def recent(self, limit: int) -> list[QuestionRow]:
        """The approvals answered last, newest first."""
        where = "kind = 'approval' AND answered_at IS NOT NULL"
        return self._store.read(lambda connection: _select(connection, where, (), limit=limit))

    def revoke(self, *, rule: str = "", approval_id: str = "", session_id: str = "") -> list[QuestionRow]:
        """Revoke approvals that are not used up, and open ones: all of them, or those that one of these names."""

        def write(connection: JournalConnection) -> list[QuestionRow]:
            found = [
                row
                for row in _select(connection, "kind = 'approval' AND state IN ('pending', 'granted')", ())
                if (not rule or rule in row.rules)
                and (not approval_id or row.id == approval_id)
                and (not session_id or row.session_id == session_id)
            ]
            query = (
                "UPDATE questions SET state = 'revoked', answered_at = coalesce(answered_at, ?) "
                "WHERE id = ? AND state IN ('pending', 'granted')"
            )
            connection.executemany(query, [(time.time(), row.id) for row in found])
            return found

        return self._store.write(write)


def has_pending(connection: JournalConnection, session_id: str) -> bool:
    """Whether a turn of the session, or of one that it delegated to, waits for an answer."""
    return bool(_select(connection, f"{PENDING} AND {_OF_FAMILY}", (session_id,), limit=1))


def count_pending(connection: JournalConnection) -> int:
    """How many questions of running turns wait for an answer."""
    return connection.execute(f"SELECT count(*) FROM questions WHERE {PENDING}").fetchone()[0]


def count_unanswered(connection: JournalConnection) -> int:
    """How many approvals have no answer, also those of turns that ended."""
    query = "SELECT count(*) FROM questions WHERE kind = 'approval' AND state = 'pending'"
    return connection.execute(query).fetchone()[0]


def question_states(connection: JournalConnection, ids: Sequence[str]) -> list[tuple[str, str, QuestionState]]:
    """The session, the id and the state of every question of these sessions."""
    query = f"SELECT session_id, id, state FROM questions WHERE session_id IN ({placeholders(ids)})"
    return connection.execute(query, ids).fetchall()


def questions_of(connection: JournalConnection, session_id: str) -> list[QuestionRow]:
    """The questions of a session, open or answered, in their order."""
    return _select(connection, "session_id = ?", (session_id,))[::-1]


def _select(
    connection: JournalConnection, where: str, values: Sequence[object], *, limit: int = _NO_LIMIT
) -> list[QuestionRow]:
    query = f"SELECT {_COLUMNS} FROM questions WHERE {where} ORDER BY created_at DESC, rowid DESC LIMIT ?"
    return [_row(found) for found in connection.execute(query, (*values, limit))]


def _row(values: tuple[Any, ...]) -> QuestionRow:
    named = dict(zip(_NAMES, values, strict=True))
    for name in ("rules", "choices"):
        named[name] = tuple(msgspec.json.decode(named[name], type=list[str]))
    return QuestionRow(**named)


def _stored(value: Any) -> Any:
    """A value as its column has it: several texts as JSON."""
    if not isinstance(value, tuple):
        return value
    return msgspec.json.encode(list(map(clean_text, cast("tuple[str, ...]", value)))).decode()
