"""The search of a PostgreSQL journal: the words of messages in a ``tsvector`` with a GIN index.

Words are added before a search, as with a file: what no one searches costs nothing but a number in a table. They are
taken from the text as SQLite takes them, letters and digits without case and accents, so that both find the same.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hermes.journal.bodies import message_text, unpack
from hermes.journal.history.search import Hit, SearchIndex, SearchScope
from hermes.journal.store.connection import JournalConnection, placeholders

if TYPE_CHECKING:
    from hermes.journal.store.postgres.store import PostgresStore

_BATCH = 2_000
#: The words of a longer text do not fit.
_MOST_CHARS = 200_000
#: How many words a snippet has, and how many of them stand before the first match.
_SNIPPET_WORDS, _WORDS_BEFORE = 16, 4
_ORDERS = {
    "relevance": "ts_rank(d.words, q.query) DESC, d.message_id",
    "newest": "d.message_id DESC",
    "oldest": "d.message_id",
}
_WORD = re.compile(r"[^\W_]+")


class PostgresSearchIndex(SearchIndex):
    """Full-text search by the database itself."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def _find(self, terms: list[str], scope: SearchScope) -> list[Hit]:
        wanted = list(map(_words, terms))
        self._catch_up()
        conditions, values = ["d.words @@ q.query", "t.undone = 0"], list[object]()
        for condition, value in (("d.role = ?", scope.role or None), ("s.principal = ?", scope.principal)):
            if value is not None:
                conditions.append(condition)
                values.append(value)
        for sign, ids in (("IN", scope.only), ("NOT IN", scope.without or None)):
            if ids is not None:
                conditions.append(f"d.session_id {sign} ({placeholders(ids) or 'NULL'})")
                values.extend(ids)
        expression = " && ".join("phraseto_tsquery('simple', ?)" for _ in wanted)
        statement = (
            f"SELECT d.message_id, d.session_id, d.role, d.text, s.title, s.updated_at FROM search_docs d "
            f"CROSS JOIN (SELECT {expression} AS query) AS q JOIN messages m ON m.id = d.message_id "
            "JOIN sessions s ON s.id = d.session_id "
            "JOIN turns t ON t.session_id = m.session_id AND t.ordinal = m.turn "
            f"WHERE {' AND '.join(conditions)} ORDER BY {_ORDERS[scope.order]} LIMIT ?"
        )
        phrases = [" ".join(words) for words in wanted]
        rows: list[Any] = self._store.read(
            lambda connection: connection.execute(statement, (*phrases, *values, scope.limit)).fetchall()
        )
        return [
            Hit(session_id, title, found_role, _snippet(text, wanted), updated_at, message_id)
            for message_id, session_id, found_role, text, title, updated_at in rows
        ]

    def forget(self, session_ids: Iterable[str]) -> None:
        """The words of a message are deleted with it."""

    def _catch_up(self) -> None:
        """Add the words of the messages that came since the last search, a bounded batch per transaction."""
        pending = "SELECT EXISTS (SELECT 1 FROM search_pending)"
        while self._store.read(lambda connection: connection.execute(pending).fetchone()[0]):
            self._store.write(_add_words)


def _add_words(connection: JournalConnection) -> None:
    rows = connection.execute(
        "SELECT m.id, m.session_id, m.role, m.body FROM messages m WHERE m.id IN (SELECT message_id FROM "
        "search_pending ORDER BY message_id LIMIT ? FOR UPDATE) ORDER BY m.id FOR KEY SHARE",
        (_BATCH,),
    ).fetchall()
    docs: list[tuple[object, ...]] = []
    for message_id, session_id, role, body in rows:
        text = message_text(unpack(connection, body))
        words = " ".join(_words(text[:_MOST_CHARS]))
        if words:
            docs.append((message_id, session_id, role, text, words))
    connection.executemany(
        "INSERT INTO search_docs (message_id, session_id, role, text, words) "
        "VALUES (?, ?, ?, ?, to_tsvector('simple', ?)) ON CONFLICT DO NOTHING",
        docs,
    )
    connection.executemany("DELETE FROM search_pending WHERE message_id = ?", [(row[0],) for row in rows])


def _words(text: str) -> list[str]:
    return [_folded(word) for word in _WORD.findall(text)]


def _folded(word: str) -> str:
    """A word without case and accents."""
    if word.isascii():
        return word.lower()
    return "".join(c for c in unicodedata.normalize("NFD", word.lower()) if not unicodedata.combining(c))


def _snippet(text: str, terms: list[list[str]]) -> str:
    """The words around the first match, with the matches in brackets."""
    places = list(_WORD.finditer(text))
    words = [_folded(place[0]) for place in places]
    marked: dict[int, int] = {}
    for term in terms:
        for start in range(len(words) - len(term) + 1):
            if words[start : start + len(term)] == term:
                marked.setdefault(start, start + len(term) - 1)
    first = min(marked, default=0)
    begin = max(0, min(first - _WORDS_BEFORE, len(words) - _SNIPPET_WORDS))
    end = min(begin + _SNIPPET_WORDS, len(words)) - 1
    pieces, at = list[str](), 0 if begin == 0 else places[begin].start()
    for start, stop in sorted(marked.items()):
        if start >= begin and stop <= end and places[start].start() >= at:
            pieces += (text[at : places[start].start()], "[", text[places[start].start() : places[stop].end()], "]")
            at = places[stop].end()
    pieces.append(text[at:] if end == len(words) - 1 else text[at : places[end].end()])
    return f"{' … ' if begin else ''}{''.join(pieces)}{' … ' if end < len(words) - 1 else ''}"
