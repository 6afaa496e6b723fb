"""Rules for databases: SQL and commands that delete data."""

from __future__ import annotations

import re

from hermes.policy.call import Call, without_version
from hermes.policy.rules.rule import REDIRECTED, Predicate, Rule, always, any_of, with_arguments
from hermes.policy.rules.targets import written_paths
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
_MONGO = re.compile(
    r"\.drop(?:Database|Indexes?)?\s*\(|(?:deleteMany|remove)\s*\(\s*(?:\{\s*\})?\s*\)|updateMany\s*\(\s*\{\s*\}"
)
_RIGHTS = re.compile(
    r"\bgrant\s+(?:all|super|[^;]*\bto\s+public\b|[^;]*\bwith\s+(?:grant|admin)\s+option)|\b(?:alter|create)\s+(?:user|role)\b[^;]*\b(?:superuser|createrole)\b"
    r"|\bset\s+password\b|\bidentified\s+by\b",
    re.IGNORECASE,
)
_UPDATE = re.compile(r"\bupdate\s+[\w.\"`]+\s+set\s+[^;]*", re.IGNORECASE)
_REDIS = names("flushall flushdb shutdown slaveof replicaof debug")
_REDIS_SETTINGS = re.compile(r"\bconfig\s+set\s+(?:dir|dbfilename|requirepass|protected-mode|save)\b", re.IGNORECASE)
#: Files of databases; names and folders that say that one is for trying things out, or a copy.
_DATABASE_FILE = re.compile(r"\.(?:db|db3|sqlite3?|rdb|mdb|duckdb|ibd)$", re.IGNORECASE)
_SPARE = re.compile(
    r"(?:^|[/_.-])(?:tests?|tmp|temp|scratch|caches?|dev|backups?|bak|cop(?:y|ies)|samples?|examples?|fixtures?|demo|mock|old|new"
    r"|snapshots?|out|output|build|dist|coverage|thumbs)(?:[/_.-]|$)",
    re.IGNORECASE,
)


def _replaces_file(call: Call) -> bool:
    """A file of a database that is emptied, deleted, or replaced by another."""
    written = written_paths(call)
    if call.program in ("mv", "gmv"):
        written = call.options.operands[-1:]
    paths = [path for path in (*call.writes, *written) if _DATABASE_FILE.search(path)]
    return any(not _SPARE.search(path) and not call.paths.is_disposable(path) for path in paths)


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
    return any(word.lower() in _REDIS for word in words) or _REDIS_SETTINGS.search(" ".join(words[:12])) is not None


#: Words by which a migration tool goes back, or puts other data in the place of what is there.
_BACK = re.compile(
    r"(?:^|[\s:.])(?:downgrade|rollback\S*|revert\S*|undo\S*|down-to|redo|reset|clean|drop\S*|purge|nuke|wipe|fresh|refresh"
    r"|migration:(?:revert|down)|db:migrate:undo\S*|restore|load_?data|flush|schema:(?:load|drop)|truncate\S*)(?:\s|$)",
    re.IGNORECASE,
)
#: Tools for which one of these words, anywhere, changes a database; and the word that may precede it.
_MIGRATORS = (
    "alembic flask knex sequelize sequelize-cli typeorm flyway liquibase goose dbmate sqlx diesel atlas supabase "
    "prisma rails rake artisan doctrine phinx umi dbt evolve yoyo aerich piccolo mikro-orm drizzle-kit node-pg-migrate "
    "db-migrate migrate-mongo ecto mix sqitch bytebase refinery sea-orm-cli hasura edgedb gel"
)
_RUNNERS = names("npx bunx pnpx yarn pnpm bundle poetry uv php python dotnet uvx pipx")
_MIGRATOR_NAMES = names(_MIGRATORS) | names("manage.py migrate mongorestore ef django-admin")
_LOSES_DATA = names("--accept-data-loss --allow-data-loss --force-reset --drop-schema")
_DOWN = names("down --down")


def _goes_back(call: Call) -> bool:
    """A migration tool that goes back, called directly or by a runner of packages."""
    if not {"--help", "-h", "--dry-run", "--sql", "status", "--version"}.isdisjoint(call.args):
        return False
    words = [word for word in call.args if not word.startswith("-")]
    if without_version(call.program) in _RUNNERS:
        at = next((at for at, word in enumerate(words[:3]) if word.rpartition("/")[2] in _MIGRATOR_NAMES), None)
        if at is None:
            return False
        words = words[at + 1 :]
    if not _LOSES_DATA.isdisjoint(call.args):
        return True
    line = " ".join(word for word in words[:4] if " " not in word)
    return _BACK.search(line) is not None or not _DOWN.isdisjoint(words[:2]) or words[-1:] == ["zero"]


#: Programs that put a copy in the place of what is there, with the words that say so; none: every use.
_RESTORES: dict[str, Predicate] = {
    "pg_restore mongorestore pg_rewind cbrestore": with_arguments,
    "pgbackrest barman wal-g velero restic borg duplicity kopia rman xtrabackup mariabackup influx influxd etcdctl "
    "cockroach tiup dolt neonctl couchbase-cli": any_of(
        "restore recover backup-fetch --copy-back --move-back rollback prune forget del delete"
    ),
    "sqlite3 sqlite": lambda call: any(re.match(r"\.(?:restore|clone|recover)\b", word) for word in call.args),
    "redis-cli valkey-cli keydb-cli": any_of("--pipe restore RESTORE"),
    "aws gcloud az doctl": lambda call: re.search(r"(?:^|[ -])restore\b", " ".join(call.args[:6])) is not None,
    "kafka-topics kafka-topics.sh kafka-delete-records kafka-delete-records.sh": any_of("--delete --offset-json-file"),
    "rabbitmqctl rabbitmqadmin": any_of("purge_queue delete_queue delete_vhost reset force_reset purge delete"),
    "migrate": lambda call: not {"down", "drop", "force"}.isdisjoint(call.args),
}
_FROM_FILE = names("psql mysql mariadb sqlcmd cockroach clickhouse-client cqlsh sqlplus mongosh mongo")


def _runs_unread_file(call: Call) -> bool:
    """Statements from a file or program that were not read: what they do is not known."""
    if not _NO_STATEMENTS.isdisjoint(call.args):
        return False
    if call.stdin.origin in ("file", "program", "decoded", "remote") and call.stdin.text is None:
        return call.program in _FROM_FILE
    files = call.values("f", "file", "input-file") if call.program in ("psql", "cqlsh", "sqlcmd") else []
    return any(path not in call.read_files for path in files)


_NO_STATEMENTS = names("-c -e --command --execute -l --list -V --version --help")


RULES = (
    Rule(
        "sql-drop",
        "drops or empties part of a database",
        {
            _CLIENTS: _says(_DROP, " "),
            "mongo mongosh": lambda call: _MONGO.search(_statements(call)) is not None,
            "redis-cli valkey-cli keydb-cli": _redis_flushes,
            "dropdb dropuser": always,
            "pg_resetwal mysql_install_db": with_arguments,
            "mongoimport": any_of("--drop"),
            "truncate cp gcp mv gmv dd gdd rm grm unlink shred install": _replaces_file,
            REDIRECTED: _replaces_file,
            "mysqladmin mariadb-admin": lambda call: "drop" in call.args,
            "rails rake bundle php mix npx python prisma": lambda call: _TASKS.search(" ".join(call.args)) is not None,
        },
    ),
    Rule(
        "database-rollback",
        "restores, rolls back or replaces data of a database",
        {
            " ".join((_MIGRATORS, *_RUNNERS)): _goes_back,
            **_RESTORES,
            " ".join(_FROM_FILE): _runs_unread_file,
        },
    ),
    Rule("sql-delete-all", "deletes every row of a table", {_CLIENTS: _on_all_rows(_DELETE)}),
    Rule("sql-update-all", "changes every row of a table", {_CLIENTS: _on_all_rows(_UPDATE)}),
    Rule("sql-rights", "gives a database user far-reaching rights", {_CLIENTS: _says(_RIGHTS)}),
)
