"""A cluster whose database is full, and one that is restored from a dump."""

from __future__ import annotations

import contextlib
import random
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes.base.errors import JournalUnavailable
from hermes.journal.history.inspection import inspect_session
from hermes.testing import RecordedRequest, ScriptedProvider, by_step, text, tool_calls
from hermes.trace.verify.session import verify
from support.cluster_rig import ClusterRig, answer_of
from support.postgres_server import PostgresServer
from support.settled_turns import wait_turn
from support.small_disk import small_disk
from support.waiting import HANG, wait_until

pytestmark = pytest.mark.slow

#: A text that needs new pages, also when it is compressed.
_LARGE = "".join(random.Random(7).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=60_000))


class Model:
    """Works in two steps; the second one of ``hold`` waits for the gate."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.asked: list[str] = []

    def __call__(self, request: RecordedRequest) -> Any:
        said = request.last_user_text
        self.asked.append(said)
        command = ("terminal", {"command": f"echo {said.split()[-1]} >> effects.log"})
        if said.startswith("hold"):
            return by_step(tool_calls([command]), text(f"{_LARGE} {said}", hold=self.gate))(request)
        return by_step(tool_calls([command]), text(f"Answer to {said}"))(request)


def _fill(path: Path) -> None:
    """Use all the space of a disk."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4_096))


def test_turns_wait_while_the_disk_of_the_database_is_full(own_postgres: PostgresServer, tmp_path: Path) -> None:
    model, folder = Model(), own_postgres.folder / "small"
    with small_disk(folder, "64m"), ScriptedProvider(model) as provider:
        own_postgres.give(folder)
        with psycopg.connect(own_postgres.url(), autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{folder}'".encode())
            connection.execute(b"CREATE DATABASE small TABLESPACE small")
        rig = ClusterRig(tmp_path, own_postgres.url("small"), provider, slots=2)
        try:
            surface = rig.dispatcher()
            rig.start_workers(1)
            turn = surface.submit(rig.request("hold one", "s1")).turn_id
            wait_until(lambda: model.asked.count("hold one") == 2, "the turn waits for the model")
            filler = folder / "filler"
            _fill(filler)
            with pytest.raises(JournalUnavailable, match="no space left on the disk of the server"):
                surface.submit(rig.request(_LARGE + _LARGE, "s2"))
            model.gate.set()
            failures = own_postgres.log().count("could not extend file")
            wait_until(lambda: own_postgres.log().count("could not extend file") > failures + 2, "commits fail")
            filler.unlink()
            assert answer_of(wait_turn(surface, turn, timeout=HANG)) == f"{_LARGE} hold one"
            # It waited where it was: no model was asked again, no command ran again, and what was refused is not there.
            assert model.asked == ["hold one"] * 2
            assert (rig.cwd / "effects.log").read_text().split() == ["one"]
            assert answer_of(wait_turn(surface, surface.submit(rig.request("then two", "s2")).turn_id)).endswith(
                "then two"
            )
            host = rig.host()
            assert [verify(inspect_session(host.store, session)) for session in ("s1", "s2")] == [[], []]
            assert [count for (count,) in rig.query("SELECT count(*) FROM turns")] == [2]
        finally:
            model.gate.set()
            rig.close()
            with psycopg.connect(own_postgres.url(), autocommit=True) as connection:
                connection.execute(b"DROP DATABASE small WITH (FORCE)")


def test_a_restored_dump_continues_what_was_open(own_postgres: PostgresServer, tmp_path: Path) -> None:
    model, dump = Model(), own_postgres.data / "hermes.dump"
    with ScriptedProvider(model) as provider:
        before = ClusterRig(tmp_path, own_postgres.url(), provider, slots=2)
        try:
            surface = before.dispatcher()
            (worker,) = before.start_workers(1)
            done = surface.submit(before.request("done", "s1")).turn_id
            answer_of(wait_turn(surface, done, timeout=HANG))
            held = surface.submit(before.request("hold", "s2")).turn_id
            behind = surface.submit(before.request("behind", "s2")).turn_id
            wait_until(lambda: model.asked.count("hold") == 2, "the turn waits for the model")
            own_postgres.run("pg_dump", "--format=custom", f"--file={dump}", own_postgres.url())
            worker.kill()
        finally:
            before.close()
        own_postgres.run("createdb", f"--maintenance-db={own_postgres.url()}", "restored")
        own_postgres.run("pg_restore", "--exit-on-error", f"--dbname={own_postgres.url('restored')}", str(dump))
        model.gate.set()
        after = ClusterRig(tmp_path, own_postgres.url("restored"), provider, slots=2)
        try:
            surface = after.dispatcher()
            after.start_workers(1)
            said = [answer_of(wait_turn(surface, turn, timeout=HANG)).split()[-1] for turn in (done, held, behind)]
            assert said == ["done", "hold", "behind"]
            # What had been recorded was not done again.
            assert (after.cwd / "effects.log").read_text().split() == ["done", "hold", "behind"]
            host = after.host()
            assert [verify(inspect_session(host.store, session)) for session in ("s1", "s2")] == [[], []]
            assert {found.session_id for found in host.store.search_index().search("behind")} == {"s2"}
        finally:
            after.close()
