"""``hermes db``: the database that holds the journal, shown, migrated and copied."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.base.config import load_config
from hermes.base.config.schema.sections import JournalConfig
from hermes.base.errors import HermesError
from hermes.journal.store import schema
from hermes.journal.store.port import Store, open_store
from hermes.surfaces.cli import opened_home
from hermes.surfaces.cli.arguments import JSON, Action, Argument, CommandSpec
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.terminal import print_note
from hermes.surfaces.commands.text import plural

if TYPE_CHECKING:
    from hermes.journal.store.postgres.store import PostgresStore

_EXAMPLES = """
The address of a PostgreSQL database is the setting journal.url; ${NAME} in it is read from the environment or .env.

examples:
  hermes db status
  hermes config set journal.url 'postgresql://hermes:${DB_PASSWORD}@db.example.org/hermes'
  hermes db migrate                    create the tables, or upgrade them
  hermes db copy --to postgres         everything in the file of the home goes to journal.url
  hermes db copy --to file             and back
"""


def _status(_args: argparse.Namespace, home: Path) -> Report:
    config = load_config(home).config.journal
    newest, counts = len(schema.MIGRATIONS), dict[str, int]()
    with closing(open_store(home, config)) as store:
        version = schema_version(store)
        found: dict[str, object] = {
            "database": "postgres" if config.url else "file",
            "location": store.location,
            "schema": version,
            "newest_schema": newest,
        }
        # Looking at older tables must not change them.
        if version == newest:
            counts = {table: _count(store, table) for table in ("sessions", "turns", "events")}
            found |= counts
        if config.url and version == newest:
            found["runners"] = _count(store, "runners")
    rows = [("journal", store.location)]
    if version is None:
        rows += [("schema", "none yet: the first session makes the tables")]
    elif version != newest:
        rows += [("schema", f"{version}; this version of hermes needs {newest}: hermes db migrate")]
    else:
        records = ", ".join(plural(count, name.removesuffix("s")) for name, count in counts.items())
        rows += [("schema", f"{version}, up to date"), ("records", records)]
    if "runners" in found:
        rows += [("runners", f"{found['runners']:,} on all machines")]
    return Report(found, rows=[(f"{name:<8}", value) for name, value in rows])


def _migrate(_args: argparse.Namespace, home: Path) -> None:
    config = load_config(home).config.journal
    newest = len(schema.MIGRATIONS)
    with closing(open_store(home, config)) as store:
        before = schema_version(store)
        _prepare(store)
        if before == newest:
            print(f"{store.location}: schema {newest}, up to date")
        elif before is None:
            print(f"{store.location}: tables made, schema {newest}")
        else:
            print(f"{store.location}: migrated from schema {before} to {newest}")


def _copy(args: argparse.Namespace, home: Path) -> None:
    from hermes.journal.store.postgres.copying import copy_journal

    config = load_config(home).config.journal
    url: str = args.url or config.url
    if not url:
        raise HermesError("which database? set journal.url, or give --url postgresql://…")
    shared = JournalConfig(url=url, schema=config.schema)
    with closing(open_store(home)) as file, closing(open_store(home, shared)) as database:
        source, target = (file, database) if args.to == "postgres" else (database, file)
        if not source.exists():
            raise HermesError(f"there is nothing to copy: {source.location} does not exist")
        _prepare(target)
        copied = copy_journal(source, target, _print_progress)
        print(f"{plural(copied['sessions'], 'session')} copied from {source.location} to {target.location}")
    if args.to == "file" and config.url:
        print_note("the journal is still at journal.url; 'hermes config unset journal.url' uses the file from now on")
    elif args.to == "postgres" and not config.url:
        print_note("the file is still in use; set journal.url to use the database from now on")


def _print_progress(table: str, count: int) -> None:
    if count:
        print_note(f"{plural(count, 'row')} of {table}")


def schema_version(store: Store) -> int | None:
    """The version of the tables, which are not changed; None when there are none."""
    if not store.files():
        return _shared(store).found_version()
    from hermes.journal.store.sqlite.database import found_version

    return found_version(Path(store.location))


def _prepare(store: Store) -> None:
    """Make the tables, or bring them forward."""
    if store.files():
        store.write(lambda _: None)
    else:
        _shared(store).migrate()


def _shared(store: Store) -> PostgresStore:
    from hermes.journal.store.postgres.store import PostgresStore

    assert isinstance(store, PostgresStore)
    return store


def _count(store: Store, table: str) -> int:
    return store.read(lambda connection: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


COMMAND = CommandSpec(
    default="status",
    opened=opened_home,
    epilog=_EXAMPLES,
    actions=(
        Action("status", _status, "show where the journal is and what it holds (the default)").takes(JSON),
        Action("migrate", _migrate, "create the tables, or upgrade older ones"),
        Action("copy", _copy, "copy everything between the file of the home and PostgreSQL").takes(
            Argument(
                "--to", "where to copy it; there must be no journal yet", choices=("postgres", "file"), required=True
            ),
            Argument("--url URL", "the address of the database (default: journal.url)"),
        ),
    ),
)
