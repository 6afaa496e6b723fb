"""Rules for databases: SQL and commands that delete data."""

from __future__ import annotations

import re

from hermes.policy.call import Call
from hermes.policy.rules.rule import Predicate, Rule, always
from hermes.policy.shell.words import names

_CLIENTS = (
    "psql mysql mariadb sqlite3 sqlite duckdb sqlcmd clickhouse-client clickhouse cockroach mycli pgcli usql isql "
    "osql bq snowsql trino presto cqlsh db2 sqlplus hive impala-shell beeline spark-sql dolt turso"
)
#: Longest statements that are searched.
_LONGEST = 20_000
_NOISE = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)
_DROP = re.compile(
    r"\bdrop\s+(?:table|database|schema|view|materialized|index|user|role|column|keyspace|collection|tablespace|owned|sequence|type|extension)\b"
    r"|\btruncate\b",
    re.IGNORECASE,
)
_DELETE = re.compile(r"\bdelete\s+from\s+[^;]*", re.IGNORECASE)
_WHERE = re.compile(r"\bwhere\b(?!\s*(?:1\s*=\s*1|true|1)\s*(?:;|$))", re.IGNORECASE)
_MONGO = re.compile(r"\.drop(?:Database|Indexes?)?\s*\(|(?:deleteMany|remove)\s*\(\s*(?:\{\s*\})?\s*\)")
_RIGHTS = re.compile(
    r"\bgrant\s+(?:all|super|[^;]*\bto\s+public\b|[^;]*\bwith\s+(?:grant|admin)\s+option)|\b(?:alter|create)\s+(?:user|role)\b[^;]*\b(?:superuser|createrole)\b"
    r"|\bset\s+password\b|\bidentified\s+by\b",
    re.IGNORECASE,
)
_UPDATE = re.compile(r"\bupdate\s+[\w.\"`]+\s+set\s+[^;]*", re.IGNORECASE)
_REDIS = names("flushall flushdb shutdown")
_TASKS = re.compile(
    r"db:(?:drop|reset|purge|truncate_all|schema:load|wipe|fresh)|migrate:(?:fresh|reset|refresh)|ecto\.(?:drop|reset)"
    r"|manage\.py (?:flush|reset_db)|prisma (?:migrate reset|db push --force-reset)"
)


def _statements(call: Call) -> str:
    words = [word.partition("=")[2] if word.startswith("--") else word for word in call.args]
    return ";\n".join([*words, call.stdin.text or ""])[:_LONGEST]


def _says(pattern: re.Pattern[str], noise: str = "''") -> Predicate:
    """Statements that the pattern occurs in, outside of comments and texts."""
    return lambda call: pattern.search(_NOISE.sub(noise, _statements(call))) is not None


def _on_all_rows(pattern: re.Pattern[str]) -> Predicate:
    """Statements of that form without a condition."""

    def applies(call: Call) -> bool:
        found = pattern.findall(_NOISE.sub("''", _statements(call)))
        return any(_WHERE.search(statement) is None for statement in found)

    return applies


def _redis_flushes(call: Call) -> bool:
    words = [*call.args, *(call.stdin.text or "").split()]
    return any(word.lower() in _REDIS for word in words)


RULES = (
    Rule(
        "sql-drop",
        "drops or empties part of a database",
        {
            _CLIENTS: _says(_DROP, " "),
            "mongo mongosh": lambda call: _MONGO.search(_statements(call)) is not None,
            "redis-cli valkey-cli keydb-cli": _redis_flushes,
            "dropdb dropuser": always,
            "mysqladmin mariadb-admin": lambda call: "drop" in call.args,
            "rails rake bundle php mix npx python prisma": lambda call: _TASKS.search(" ".join(call.args)) is not None,
        },
    ),
    Rule("sql-delete-all", "deletes every row of a table", {_CLIENTS: _on_all_rows(_DELETE)}),
    Rule("sql-update-all", "changes every row of a table", {_CLIENTS: _on_all_rows(_UPDATE)}),
    Rule("sql-rights", "gives a database user far-reaching rights", {_CLIENTS: _says(_RIGHTS)}),
)
