"""Secrets in a turn: raw for hooks, as the contract says; masked for the model, the record, listeners and results."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.base.scope import Scope
from hermes.contract.events import TextDelta, TurnEvent
from hermes.host import Host
from hermes.journal.sessions import Sessions
from hermes.testing import ScriptedProvider, text, tool_call
from support.configured import configured_host, tool_answers

SECRET = "Zk9x7Qm2-Lp4Wn8Rt5Yv3Ub6"
MARK = "<redacted:LAB_KEY>"
ENCODED = base64.b64encode(f"the key: {SECRET}".encode()).decode()


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch, workdir: Path) -> None:
    monkeypatch.setenv("LAB_KEY", SECRET)
    (workdir / "notes").write_text(f"plain {SECRET}\nencoded {ENCODED}\n")


def recorded(host: Host, session_id: str) -> str:
    return msgspec.json.encode(Sessions(host.store).export(session_id)).decode()


def test_hooks_get_the_raw_result_and_everyone_else_a_mark(home: Path, workdir: Path) -> None:
    seen: list[dict[str, Any]] = []
    deltas: list[str] = []

    def listen(event: TurnEvent) -> None:
        if isinstance(event, TextDelta):
            deltas.append(event.text)

    def watch(**fields: Any) -> None:
        seen.append(fields)

    script = [tool_call("read_file", {"path": "notes"}), text(f"It is {SECRET}, in full.", chunks=12)]
    with ScriptedProvider(script) as provider, configured_host(home, workdir, provider) as host:
        host.hooks.subscribe("post_tool_call", "test", watch)
        session = host.new_session()
        result = session.run(f"My key is {SECRET}.", listener=listen)
        [answer] = tool_answers(host, session.id)
        journal = recorded(host, session.id)
    assert SECRET in seen[0]["result"] and ENCODED in seen[0]["result"]
    assert answer["content"].count(MARK) == 2
    sent = msgspec.json.encode([request.body for request in provider.requests]).decode()
    for shown in (sent, journal, result.answer, "".join(deltas)):
        assert SECRET not in shown and ENCODED not in shown
    assert result.answer == "".join(deltas) == f"It is {MARK}, in full."
    assert f"My key is {MARK}." in sent


def test_a_tool_runs_with_what_the_model_wrote_and_the_record_has_a_mark(home: Path, workdir: Path) -> None:
    command = f"printf %s {SECRET} | wc -c"
    with (
        ScriptedProvider([tool_call("terminal", {"command": command}), text("done")]) as provider,
        configured_host(home, workdir, provider) as host,
    ):
        session = host.new_session()
        session.run("go")
        [answer] = tool_answers(host, session.id)
        journal = recorded(host, session.id)
    assert answer["output"].strip() == str(len(SECRET))
    assert SECRET not in journal and MARK in journal


def test_a_conversation_continues_without_its_secrets(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = [tool_call("read_file", {"path": "notes"}), text("seen"), text("again")]
    with ScriptedProvider(script) as provider:
        with configured_host(home, workdir, provider) as host:
            session_id = host.new_session().run("read").session_id
        monkeypatch.delenv("LAB_KEY")
        with configured_host(home, workdir, provider) as host:
            assert host.resume_session(session_id).run("go on").answer == "again"
    assert SECRET not in msgspec.json.encode(provider.requests[-1].body).decode()
    assert MARK in msgspec.json.encode(provider.requests[-1].body).decode()


def test_a_side_job_is_asked_without_secrets(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider([text("hello"), text("a summary")]) as provider,
        configured_host(home, workdir, provider) as host,
    ):
        session = host.new_session()
        session.run("hi")
        main = session.models.endpoints
        message = {"role": "user", "content": f"Summarise {SECRET}"}
        host.side.ask("compression", [message], scope=Scope(session_id=session.id), main=main)
    assert SECRET not in msgspec.json.encode(provider.requests[-1].body).decode()
    assert MARK in msgspec.json.encode(provider.requests[-1].body).decode()
