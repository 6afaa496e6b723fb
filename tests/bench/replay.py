"""A recorded run once more: against the original at the latency of a real model, and what the record of it costs."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from hermes.base.config import Config
from hermes.base.config.schema.sections import AgentConfig, ModelConfig
from hermes.host import Host
from hermes.journal.bodies import body_digest, pack, pack_shared
from hermes.journal.events import next_link
from hermes.journal.store.port import Store
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.record.replay.replay import ReplayResult, replay
from hermes.testing import ScriptedProvider, text, tool_call

from .server import note_name
from .table import TIMES, Row
from .workspace import Workspace

STEPS = 40
LATENCY_SECONDS = 0.2
LEAST_SPEED = 50.0
MOST_STEP_MS = 1.0
MOST_EVENT_MS = 0.05
MOST_EVENT_BYTES = 150
REPEAT = 12
#: The size of a request whose digest is made for an event, and how long a digest is in a row.
_REQUEST_BYTES = 20_000
_DIGEST_BYTES = 64


def measure(workspace: Workspace) -> list[Row]:
    """The speed of a replay and its CPU per step; then time and bytes that the record adds to an event."""
    home = workspace.folder / "recorded"
    session_id, config = _record(home, workspace.notes)
    best = float("inf")
    with closing(SqliteStore(home / "state.db")) as store:
        fastest = _replay(store, session_id, workspace, config)  # the first one pays for what is loaded on first use
        for _ in range(workspace.repeat or REPEAT):
            result = _replay(store, session_id, workspace, config)
            fastest = min(fastest, result, key=lambda one: one.seconds)
            best = min(best, result.cpu_seconds)
    speed = fastest.recorded_seconds / fastest.seconds
    per_step = best / fastest.steps * 1e3
    path = home / "state.db"
    added_ms, added_bytes = _added_ms(path, workspace.repeat or REPEAT), _added_bytes(path)
    what = f"replay of {STEPS} steps"
    return [
        Row(
            f"{what}, against the run with a model that takes {LATENCY_SECONDS * 1e3:g} ms",
            speed,
            None,
            TIMES,
            f"≥ {LEAST_SPEED:g}{TIMES}",
            speed >= LEAST_SPEED,
        ),
        Row(f"{what}, CPU per step", per_step, None, "ms", f"≤ {MOST_STEP_MS:g} ms", per_step <= MOST_STEP_MS),
        Row(
            "what a replay needs of an event, time to write",
            added_ms,
            None,
            "ms",
            f"≤ {MOST_EVENT_MS:g} ms",
            added_ms <= MOST_EVENT_MS,
        ),
        Row(
            "the same, size",
            added_bytes,
            None,
            "bytes",
            f"≤ {MOST_EVENT_BYTES} bytes",
            added_bytes <= MOST_EVENT_BYTES,
        ),
    ]


def _record(home: Path, folder: Path) -> tuple[str, Config]:
    """A turn that reads a file in every step, with a model that takes its time."""
    replies = [
        tool_call("read_file", {"path": note_name(number)}, delay=LATENCY_SECONDS) for number in range(STEPS - 1)
    ]
    with ScriptedProvider([*replies, text("Done.", delay=LATENCY_SECONDS)]) as provider:
        config = Config(
            model=ModelConfig(provider="custom", base_url=provider.base_url, api_key="bench-key", default="scripted"),
            agent=AgentConfig(api_max_retries=0),
        )
        with Host(home, config, cwd=folder, env={}) as host:
            session = host.new_session()
            session.run("Read them all.")
    return session.id, config


def _replay(store: Store, session_id: str, workspace: Workspace, config: Config) -> ReplayResult:
    result = replay(store, session_id, workspace.folder / "elsewhere", config)
    assert result.identical and result.steps == STEPS, result.differences
    return result


def _added_ms(path: Path, repeat: int) -> float:
    """The time for the chain of every event, and for the digest and the parameters of those of a model."""
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT seq, turn_id, kind, key, effect, body, at, epoch FROM events ORDER BY seq"
        events = connection.execute(query).fetchall()
        session_id: str = connection.execute("SELECT id FROM sessions").fetchone()[0]
        request, parameters = b"x" * _REQUEST_BYTES, {"parameters": '{"model":"scripted","stream":true}'}

        def chain() -> None:
            link = b""
            for seq, turn_id, kind, key, effect, body, at, epoch in events:
                link = next_link(link, seq, turn_id, kind, key, effect, body_digest(body), at, epoch)

        calls = [body for _, _, _, key, _, body, _, _ in events if key.startswith("model:")]

        def with_request() -> None:
            for body in calls:
                hashlib.sha256(request).hexdigest()
                pack_shared(connection, session_id, body, parameters)

        def without() -> None:
            for body in calls:
                pack(connection, session_id, body)

        added = _best(chain, repeat) + _best(with_request, repeat) - _best(without, repeat)
        connection.rollback()
    return added / len(events) * 1e3


def _best(work: Callable[[], None], repeat: int) -> float:
    best = float("inf")
    for _ in range(repeat):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


def _added_bytes(path: Path) -> float:
    """The bytes of the chain, of the digests of requests and of the references to parameters, over all events."""
    with closing(sqlite3.connect(path)) as connection:
        events: int = connection.execute("SELECT count(*) FROM events").fetchone()[0]
        chains: int = connection.execute("SELECT sum(length(chain)) FROM events").fetchone()[0]
        models = "FROM events WHERE key LIKE 'model:%' AND kind = 'step_done'"
        calls: int = connection.execute(f"SELECT count(*) {models}").fetchone()[0]
        environment: int = connection.execute(
            "SELECT sum(length(data)) FROM blobs WHERE data LIKE '{\"hermes\":%' OR data LIKE '{\"model\":%'"
        ).fetchone()[0]
    digest = len('"request_sha256":"",') + _DIGEST_BYTES
    reference = len('"$shared":"",') + _DIGEST_BYTES
    return (chains + calls * (digest + reference) + environment) / events
