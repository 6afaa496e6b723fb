"""The tables of the journal on PostgreSQL.

A new database begins with the tables as SQLite has them after its first seven migrations; from there on both take the
same steps. A test compares the columns.
"""

from __future__ import annotations

import contextlib

from hermes.base.errors import JournalError, JournalTooNew
from hermes.journal.store import schema
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.postgres.dialect import PostgresConnection, translate_migration
from hermes.journal.store.postgres.pool import quoted
from hermes.journal.store.sqlite.database import empty_journal

#: The migration of SQLite that the beginning corresponds to.
BEGINNING = 7
#: The lock of those who create or change the tables; any number will do.
_MIGRATION_LOCK = 7_305_808_120

#: What SQLite does without, or in words of its own: a number for each row, some indexes, and this view.
_DIFFERENT = """
    ALTER TABLE sessions ADD COLUMN rowid bigint GENERATED ALWAYS AS IDENTITY;
    ALTER TABLE events ADD COLUMN rowid bigint GENERATED ALWAYS AS IDENTITY;
    ALTER TABLE questions ADD COLUMN rowid bigint GENERATED ALWAYS AS IDENTITY;
    CREATE INDEX sessions_of_parent ON sessions (parent_id) WHERE parent_id IS NOT NULL;
    CREATE INDEX events_by_row ON events (rowid);
    CREATE INDEX blob_uses_by_blob ON blob_uses (sha256);
    CREATE VIEW steps AS
        SELECT DISTINCT ON (session_id, turn_id, key)
               session_id, turn_id, key, effect, substr(kind, 6) AS state, seq AS result_seq
        FROM events WHERE effect IS NOT NULL ORDER BY session_id, turn_id, key, seq DESC;
"""

#: What the journal's statements use and SQLite has by itself.
_FUNCTIONS = """
    CREATE FUNCTION instr(text, text) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN strpos($1, $2);
    CREATE FUNCTION date(double precision, text, text) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
        RETURN to_char(to_timestamp($1), 'YYYY-MM-DD');
"""

#: The search, which SQLite has in a file of its own: messages whose words are still to be added, and the words.
_SEARCH = """
    CREATE TABLE search_pending (message_id bigint PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE);
    CREATE TABLE search_docs (
        message_id bigint PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
        session_id text NOT NULL,
        role       text NOT NULL,
        text       text NOT NULL,
        words      tsvector NOT NULL
    );
    CREATE INDEX search_words ON search_docs USING gin (words);
    CREATE FUNCTION note_for_search() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO search_pending VALUES (new.id);
        RETURN NULL;
    END $$;
    CREATE TRIGGER messages_added AFTER INSERT ON messages FOR EACH ROW
        WHEN (new.role IN ('user', 'assistant')) EXECUTE FUNCTION note_for_search();
"""

#: The processes that may hold sessions. A runner lives while it holds its advisory lock; see ``runner.py``.
_RUNNERS = """
    CREATE TABLE runners (
        id         text PRIMARY KEY,
        host       text NOT NULL,
        pid        bigint NOT NULL,
        started_at double precision NOT NULL,
        beat_at    double precision NOT NULL    -- by the clock of the database
    );
"""


def stored_version(connection: JournalConnection) -> int | None:
    """The version of the tables; None when there are none."""
    if connection.execute("SELECT to_regclass('schema_version')").fetchone()[0] is None:
        return None
    row = connection.execute("SELECT version FROM schema_version").fetchone()
    return None if row is None else row[0]


def _first_tables() -> list[str]:
    """The tables, indexes and views of SQLite after its first migrations, as it writes them down itself."""
    query = "SELECT sql FROM sqlite_master WHERE sql <> '' AND name NOT IN ('steps', 'sqlite_sequence') ORDER BY rowid"
    with contextlib.closing(empty_journal(BEGINNING)) as connection:
        return [translate_migration(sql) for (sql,) in connection.execute(query).fetchall()]


def prepare(connection: PostgresConnection, name: str, location: str, *, migrate: bool = False) -> int:
    """Make the tables where there are none, and refuse those of another version. Returns the version that was found.

    ``migrate`` brings older tables forward.
    """
    known = len(schema.MIGRATIONS)
    found = stored_version(connection)
    if found is not None and found > known:
        raise JournalTooNew(
            f"{location} was written by a newer version of hermes (schema {found}, this one knows {known}); "
            f"upgrade hermes. Nothing was changed."
        )
    if found == known:
        return known
    if found is not None and not migrate:
        raise JournalError(
            f"{location} has schema {found}, this version of hermes needs {known}: stop the older processes and run "
            f"'hermes db migrate'"
        )
    with connection.raw.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(?)", (_MIGRATION_LOCK,))
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(name)}")
        found = stored_version(connection)  # another process may have been faster
        if found is None:
            for script in (*_first_tables(), _DIFFERENT, _FUNCTIONS, _SEARCH, _RUNNERS):
                connection.command(script.encode())
            connection.command(b"CREATE TABLE schema_version (version bigint); INSERT INTO schema_version VALUES (0)")
        for number in range(max(found or 0, BEGINNING), known):
            connection.command(translate_migration(schema.MIGRATIONS[number]).encode())
        connection.execute("UPDATE schema_version SET version = ?", (known,))
    return found or 0
