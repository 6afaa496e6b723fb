"""``hermes_state``: upstream's columns of sessions and messages, and whose they are."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hermes.journal.sessions import Sessions
from hermes.testing import ScriptedProvider, text, tool_call
from support import HostFactory
from support.configured import write_plugin

READER = """
import sqlite3
import hermes_state
from hermes_state import SessionDB

def rows(raw):
    db = SessionDB(read_only=True)
    found = db._conn.execute(
        "SELECT s.source, s.message_count, m.role, m.content, m.tool_name FROM messages m "
        "JOIN sessions s ON s.id = m.session_id ORDER BY m.id").fetchall()
    hits = db._conn.execute("SELECT count(*) FROM messages_fts_trigram WHERE content MATCH 'elephant'").fetchone()[0]
    db._conn.execute("CREATE TEMP TABLE mine (id TEXT)")
    db.close()
    return [tuple(one) for one in found], hits

def path(raw):
    from hermes_state import DEFAULT_DB_PATH
    return DEFAULT_DB_PATH

def write(raw):
    db = SessionDB()
    try:
        db._conn.execute("DELETE FROM sessions")
    finally:
        db.close()

def one(raw):
    db = SessionDB()
    found = db.get_session(raw), db.session_count()
    db.close()
    return found

def register(ctx):
    for function in (rows, path, write, one):
        ctx.register_command(function.__name__, function)
"""


def test_plugins_read_the_sessions_with_upstreams_columns(make_host: HostFactory, home: Path) -> None:
    folder = home / "plugins" / "reader"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("")
    (folder / "__init__.py").write_text(READER)
    script = [tool_call("todo", {"todos": []}), text("An elephant."), text("Again.")]
    with ScriptedProvider(script) as provider:
        host = make_host(provider, plugins=["reader"])
        session = host.new_session()
        session.run("Which animal?")
        ask = {name: command.handler for name, command in host.plugins.commands.items()}
        found, hits = ask["rows"]("")
        assert [(one[0], one[1], one[2]) for one in found] == [
            ("cli", 4, "user"),
            ("cli", 4, "assistant"),
            ("cli", 4, "tool"),
            ("cli", 4, "assistant"),
        ]
        assert (found[0][3], found[3][3], hits) == ("Which animal?", "An elephant.", 1)
        path: Path = ask["path"]("")
        assert path.stat().st_mode & 0o777 == 0o600
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            ask["write"]("")
        row, count = ask["one"](session.id)
        assert (row["title"], row["tool_call_count"], row["input_tokens"] > 0, count) == (row["title"], 1, True, 1)

        session.run("And now?")
        assert len(ask["rows"]("")[0]) == 6  # it is brought up to date
        session.close()
        Sessions(host.store).delete(session.id, host.runner)
        assert ask["rows"]("") == ([], 0)
        assert b"elephant" not in path.read_bytes()
    host.close()
    assert not path.exists()


BY_FILE = """
import sqlite3
from pathlib import Path
from sqlite3 import Row, connect
from hermes_constants import get_hermes_home

QUERY = "SELECT m.content FROM messages m JOIN sessions s ON s.id = m.session_id ORDER BY m.id"

def read(raw):
    path = get_hermes_home() / "state.db"
    found = []
    for open_it in (
        lambda: sqlite3.connect(path),
        lambda: sqlite3.connect(str(path), timeout=2.0),
        lambda: sqlite3.connect(f"file:{path}?mode=ro", uri=True),
        lambda: connect(f"file:{path}", uri=True),
    ):
        opened = open_it()
        opened.row_factory = Row
        found.append([one["content"] for one in opened.execute(QUERY)])
        columns = {one["name"] for one in opened.execute("PRAGMA table_info(sessions)")}
        assert {"handoff_state", "compression_fallback_streak"} <= columns
        assert "api_content" in {one["name"] for one in opened.execute("PRAGMA table_info(messages)")}
        opened.close()
    return found

def own(raw):
    opened = sqlite3.connect(raw)
    assert isinstance(opened, sqlite3.Connection)
    opened.execute("CREATE TABLE mine (id TEXT)")
    opened.commit()
    opened.close()
    other = sqlite3.connect(":memory:")
    try:
        return other.execute("SELECT 1").fetchone()
    finally:
        other.close()

def register(ctx):
    ctx.register_command("read", read)
    ctx.register_command("own", own)
"""


def test_a_plugin_that_opens_the_file_of_the_home_reads_the_copy(make_host: HostFactory, home: Path) -> None:
    write_plugin(home, "opener", BY_FILE)
    with ScriptedProvider([text("An elephant.")]) as provider:
        host = make_host(provider, plugins=["opener"])
        host.new_session().run("What do you see?")
        assert host.plugins.commands["read"].handler("") == [["What do you see?", "An elephant."]] * 4
        mine = home / "elsewhere" / "state.db"
        mine.parent.mkdir()
        assert host.plugins.commands["own"].handler(str(mine)) == (1,)
    with closing(sqlite3.connect(mine)) as opened:
        assert opened.execute("SELECT name FROM sqlite_master").fetchall() == [("mine",)]
