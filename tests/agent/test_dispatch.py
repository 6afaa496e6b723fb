"""Calls that plugins make are on record with the turn they belong to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes.journal.store.port import Store
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.testing import ScriptedProvider, text, tool_call
from hermes.trace.journal.session import session_record
from support import run_hermes, write_config
from support.configured import configured_host, write_plugin


def dispatched(store: Store) -> list[tuple[str, str]]:
    query = "SELECT kind, key FROM events WHERE kind LIKE 'dispatch%' ORDER BY seq"
    return store.read(lambda connection: connection.execute(query).fetchall())


@pytest.fixture
def calling(home: Path, workdir: Path) -> Any:
    """Runs a turn in which a plugin makes a call before the model is asked; gives the session."""

    def run(name: str, args: dict[str, Any]) -> str:
        with ScriptedProvider([text("done")]) as provider:
            host = configured_host(home, workdir, provider, options={"allow_everything": True})

            def call(**_: Any) -> None:
                host.services.dispatch_tool(name, args)

            host.hooks.subscribe("pre_api_request", "caller", call)
            session = host.new_session()
            session.run("go")
            host.close()
        return session.id

    return run


def test_what_changes_things_is_on_record_before_it_starts(calling: Any, workdir: Path, home: Path) -> None:
    session_id = calling("terminal", {"command": "touch made"})
    assert (workdir / "made").exists()
    store = SqliteStore(home / "state.db")
    (first, key), (second, same) = dispatched(store)
    assert (first, second) == ("dispatch_claimed", "dispatch_done") and key == same
    [turn] = session_record(store, session_id).turns
    [call] = turn.other_tools
    store.close()
    assert (call.name, call.args, call.status) == ("terminal", {"command": "touch made"}, "ok")


def test_what_only_reads_is_on_record_when_it_is_over(calling: Any, home: Path) -> None:
    calling("read_file", {"path": "missing"})
    store = SqliteStore(home / "state.db")
    assert [kind for kind, _ in dispatched(store)] == ["dispatch_done"]
    store.close()


def test_a_call_that_the_process_did_not_survive_is_not_forgotten(home: Path, workdir: Path) -> None:
    write_plugin(
        home,
        "deadly",
        "def register(ctx):\n"
        "    ctx.register_tool('end', 'ends', {'name': 'end', 'description': '', 'parameters': {'type': 'object'}},\n"
        "        lambda args, **_: ctx.dispatch_tool('terminal', {'command': 'touch begun; kill -9 $PPID'}))\n",
    )
    with ScriptedProvider([tool_call("end", {}), text("I look first.")]) as provider:
        write_config(
            home,
            provider.base_url,
            "plugins:\n  enabled: [deadly]\ntoolsets: [ends, terminal]\nterminal: {sandbox: 'off'}\n",
        )
        run_hermes("chat", "--yolo", "-q", "go", home=home, cwd=workdir)
        assert (workdir / "begun").exists()
        store = SqliteStore(home / "state.db")
        assert [kind for kind, _ in dispatched(store)] == ["dispatch_claimed"]
        store.close()
        shown = run_hermes("trace", "show", home=home, cwd=workdir).stdout
        assert 'terminal {"command":"touch b' in shown
        done = run_hermes("chat", "--yolo", "--continue", home=home, cwd=workdir)
    assert done.returncode == 0 and "I look first." in done.stdout
    assert run_hermes("trace", "verify", "--all", home=home, cwd=workdir).returncode == 0
