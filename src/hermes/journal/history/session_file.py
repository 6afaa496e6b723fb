"""Session file: sessions and messages of one caller as a small SQLite database with upstream's columns.

Plugins that read upstream's ``state.db`` themselves read this one. It is a copy, brought up to date when it is asked
for, and writing to it changes nothing else.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from hermes.journal.bodies import to_json, unpack
from hermes.journal.history.rows import messages_of, turns_of
from hermes.journal.sessions import SessionRow, Sessions
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store

#: Upstream's columns. What has no counterpart here is empty.
_TABLES = """
    CREATE TABLE IF NOT EXISTS sessions (
        id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, session_key TEXT, chat_id TEXT, chat_type TEXT,
        thread_id TEXT, display_name TEXT, origin_json TEXT, expiry_finalized INTEGER DEFAULT 0, model TEXT,
        model_config TEXT, system_prompt TEXT, parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL,
        end_reason TEXT, message_count INTEGER DEFAULT 0, tool_call_count INTEGER DEFAULT 0,
        input_tokens INTEGER DEFAULT 0, output_tokens INTEGER DEFAULT 0, cache_read_tokens INTEGER DEFAULT 0,
        cache_write_tokens INTEGER DEFAULT 0, reasoning_tokens INTEGER DEFAULT 0, cwd TEXT, git_branch TEXT,
        git_repo_root TEXT, billing_provider TEXT, billing_base_url TEXT, billing_mode TEXT, estimated_cost_usd REAL,
        actual_cost_usd REAL, cost_status TEXT, cost_source TEXT, pricing_version TEXT, title TEXT,
        api_call_count INTEGER DEFAULT 0, handoff_state TEXT, handoff_platform TEXT, handoff_error TEXT,
        compression_failure_cooldown_until REAL, compression_failure_error TEXT,
        compression_fallback_streak INTEGER NOT NULL DEFAULT 0, profile_name TEXT,
        rewind_count INTEGER NOT NULL DEFAULT 0, archived INTEGER NOT NULL DEFAULT 0, last_active REAL NOT NULL
    );
    CREATE TABLE IF NOT EXISTS messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        role TEXT NOT NULL, content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, effect_disposition TEXT,
        timestamp REAL NOT NULL, token_count INTEGER, finish_reason TEXT, reasoning TEXT, reasoning_content TEXT,
        reasoning_details TEXT, codex_reasoning_items TEXT, codex_message_items TEXT, platform_message_id TEXT,
        api_content TEXT, observed INTEGER DEFAULT 0, active INTEGER NOT NULL DEFAULT 1,
        compacted INTEGER NOT NULL DEFAULT 0
    );
    CREATE INDEX IF NOT EXISTS idx_messages_session ON messages (session_id, timestamp);
    CREATE VIRTUAL TABLE IF NOT EXISTS messages_fts USING fts5 (content);
    CREATE VIRTUAL TABLE IF NOT EXISTS messages_fts_trigram USING fts5 (content, tokenize = 'trigram');
    CREATE TRIGGER IF NOT EXISTS messages_added AFTER INSERT ON messages BEGIN
        INSERT INTO messages_fts (rowid, content) VALUES (new.id, coalesce(new.content, ''));
        INSERT INTO messages_fts_trigram (rowid, content) VALUES (new.id, coalesce(new.content, ''));
    END;
    CREATE TRIGGER IF NOT EXISTS messages_removed AFTER DELETE ON messages BEGIN
        DELETE FROM messages_fts WHERE rowid = old.id;
        DELETE FROM messages_fts_trigram WHERE rowid = old.id;
    END;
"""
_KNOWN = "SELECT id, last_active FROM sessions"
_NO_LIMIT = 2**31


def write_session_file(store: Store, path: Path, principal: str) -> None:
    """Bring the file up to date: sessions that changed are written anew, and those that are gone removed."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    rows = {row.id: row for row in Sessions(store).list(limit=_NO_LIMIT, children=True, principal=principal)}
    if path.exists() and not _known(path).keys() <= rows.keys():
        path.unlink()  # an index keeps words of what was deleted; a new file has none of them
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("PRAGMA foreign_keys = ON")
        file.executescript(_TABLES)
        known = dict(file.execute(_KNOWN).fetchall())
        for row in rows.values():
            if known.get(row.id) != row.updated_at:
                file.execute("DELETE FROM sessions WHERE id = ?", (row.id,))
                _add(file, row, store.read(lambda connection, row=row: _messages(connection, row.id)))


def session_in_file(file: sqlite3.Connection, session_id: str) -> dict[str, Any] | None:
    """One session by its columns. The connection gives rows with names."""
    row = file.execute("SELECT * FROM sessions WHERE id = ?", (session_id,)).fetchone()
    return None if row is None else dict(row)


def count_in_file(file: sqlite3.Connection) -> int:
    """How many sessions the file has."""
    return file.execute("SELECT count(*) FROM sessions").fetchone()[0]


def _known(path: Path) -> dict[str, float]:
    with closing(sqlite3.connect(path)) as file:
        return dict(file.execute(_KNOWN).fetchall())


def _messages(connection: JournalConnection, session_id: str) -> list[tuple[float, dict[str, Any]]]:
    """The messages of turns that were not undone, with the time at which their turn began."""
    turns = {turn.ordinal: turn for turn in turns_of(connection, session_id)}
    found: list[tuple[float, dict[str, Any]]] = []
    for one in messages_of(connection, session_id):
        turn = turns.get(one.turn)
        if turn is None or not turn.undone:
            found.append((0.0 if turn is None else turn.started_at, unpack(connection, one.body)))
    return found


def _add(file: sqlite3.Connection, row: SessionRow, messages: list[tuple[float, dict[str, Any]]]) -> None:
    calls = sum(len(message.get("tool_calls") or ()) for _, message in messages)
    values: dict[str, Any] = {
        "id": row.id,
        "source": row.platform,
        "user_id": row.principal or None,
        "model": row.model,
        "parent_session_id": row.parent_id or row.branched_from,
        "started_at": row.created_at,
        "ended_at": None if row.state in ("queued", "running") else row.updated_at,
        "message_count": len(messages),
        "tool_call_count": calls,
        "input_tokens": row.input_tokens,
        "output_tokens": row.output_tokens,
        "cwd": row.cwd,
        "billing_provider": row.provider,
        "estimated_cost_usd": row.cost_usd,
        "title": row.title or None,
        "last_active": row.updated_at,
    }
    _insert(file, "sessions", values)
    for started_at, message in messages:
        # Messages of a turn keep their order by id.
        _insert(file, "messages", {"session_id": row.id, "timestamp": started_at or row.created_at, **_fields(message)})


def _fields(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    calls = message.get("tool_calls")
    reasoning = message.get("reasoning") or message.get("reasoning_content")
    return {
        "role": message.get("role", ""),
        "content": content if content is None or isinstance(content, str) else to_json(content),
        "tool_call_id": message.get("tool_call_id"),
        "tool_calls": to_json(calls) if calls else None,
        "tool_name": message.get("name") or message.get("tool_name"),
        "finish_reason": message.get("finish_reason"),
        "reasoning": reasoning if isinstance(reasoning, str) else None,
    }


def _insert(file: sqlite3.Connection, table: str, values: dict[str, Any]) -> None:
    marks = ", ".join("?" * len(values))
    file.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", list(values.values()))
