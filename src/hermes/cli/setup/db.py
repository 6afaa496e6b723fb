"""``hermes db``: the database that holds the journal, shown, migrated and copied."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.cli.terminal import print_json, print_note
from hermes.commands.text import plural
from hermes.config import apply_env, hermes_home, load_config, load_env_file
from hermes.config.schema.sections import JournalConfig
from hermes.errors import HermesError
from hermes.journal.store import schema
from hermes.journal.store.port import Store, open_store

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


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.set_defaults(action=_status, json=False)
    actions = parser.add_subparsers(metavar="ACTION")
    status = actions.add_parser("status", help="show where the journal is and what it holds (the default)")
    status.add_argument("--json", action="store_true", help="print one JSON document")
    status.set_defaults(action=_status)
    migrating = actions.add_parser("migrate", help="create the tables, or upgrade older ones")
    migrating.set_defaults(action=_migrate)
    copying = actions.add_parser("copy", help="copy everything between the file of the home and PostgreSQL")
    copying.add_argument(
        "--to", choices=("postgres", "file"), required=True, help="where to copy it; there must be no journal yet"
    )
    copying.add_argument("--url", metavar="URL", help="the address of the database (default: journal.url)")
    copying.set_defaults(action=_copy)


def run(args: argparse.Namespace) -> int:
    """Run the chosen action."""
    home = hermes_home()
    apply_env(load_env_file(home))
    return args.action(args, home, load_config(home).config.journal)


def _status(args: argparse.Namespace, home: Path, config: JournalConfig) -> int:
    newest, counts = len(schema.MIGRATIONS), dict[str, int]()
    with closing(open_store(home, config)) as store:
        version = _version(store, config)
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
    if args.json:
        print_json(found)
        return 0
    print(f"journal   {found['location']}")
    if version is None:
        print("schema    none yet: the first session makes the tables")
    elif version != newest:
        print(f"schema    {version}; this version of hermes needs {newest}: hermes db migrate")
    else:
        print(f"schema    {version}, up to date")
        print("records   " + ", ".join(plural(count, name.removesuffix("s")) for name, count in counts.items()))
        if "runners" in found:
            print(f"runners   {found['runners']:,} on all machines")
    return 0


def _migrate(_: argparse.Namespace, home: Path, config: JournalConfig) -> int:
    newest = len(schema.MIGRATIONS)
    with closing(open_store(home, config)) as store:
        before = _version(store, config)
        _prepare(store)
        if before == newest:
            print(f"{store.location}: schema {newest}, up to date")
        elif before is None:
            print(f"{store.location}: tables made, schema {newest}")
        else:
            print(f"{store.location}: migrated from schema {before} to {newest}")
    return 0


def _copy(args: argparse.Namespace, home: Path, config: JournalConfig) -> int:
    from hermes.journal.store.postgres.copying import copy_journal

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
    return 0


def _print_progress(table: str, count: int) -> None:
    if count:
        print_note(f"{plural(count, 'row')} of {table}")


def _version(store: Store, config: JournalConfig) -> int | None:
    """The version of the tables, which are not changed; None when there are none."""
    if config.url:
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
