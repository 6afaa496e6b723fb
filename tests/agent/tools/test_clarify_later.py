"""A question whose answer comes later: the turn stays open without a trace of the call, and runs it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
from hermes.base.errors import TurnSuspended
from hermes.base.scope import Interrupt
from hermes.host import Host
from hermes.journal.questions import Questions
from hermes.testing import ScriptedProvider, by_step, text, tool_call, tool_calls
from hermes.tools.registry import Tool
from support import HostFactory
from support.configured import tool_answers


class Later:
    """A person who answers as soon as the test has an answer for them."""

    surface = "test"
    deadline = 2e9

    def __init__(self) -> None:
        self.reply: str | None = None

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        raise AssertionError("nothing here needs an approval")

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        if self.reply is None:
            raise TurnSuspended(self.deadline)
        return self.reply


def tool_events(host: Host, session_id: str) -> list[str]:
    query = "SELECT key FROM events WHERE session_id = ? AND key LIKE 'tool:%' AND kind <> 'call_waits'"
    return [row[0] for row in host.store.read(lambda connection: connection.execute(query, (session_id,)).fetchall())]


@pytest.mark.parametrize("before", [(), ("todo",)])
def test_the_call_is_not_on_record_until_it_is_answered(make_host: HostFactory, before: tuple[str, ...]) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [*((name, {}) for name in before), ("clarify", {"question": "Why?"})]
    script = by_step(tool_calls(calls), text("ok"))
    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        session, person = host.new_session(), Later()
        host.responders.attach(session.id, person)
        with pytest.raises(TurnSuspended):
            session.run("go")
        assert host.sessions.list()[0].state == "running"
        assert f"tool:1.{len(before)}" not in tool_events(host, session.id)
        person.reply = "because"
        result = session.finish_open_turn()
        assert result is not None and (result.status, result.answer) == ("completed", "ok")
        assert tool_answers(host, session.id)[-1]["user_response"] == "because"
        assert len(provider.requests) == 2


def test_an_answer_in_the_journal_is_used_without_asking_again(make_host: HostFactory) -> None:
    with ScriptedProvider(by_step(tool_call("clarify", {"question": "Why?"}), text("ok"))) as provider:
        host = make_host(provider)
        session, person = host.new_session(), Later()
        host.responders.attach(session.id, person)
        with pytest.raises(TurnSuspended):
            session.run("go")
        questions = Questions(host.store)
        [row] = questions.pending(session_id=session.id)
        assert (row.kind, row.subject, row.surface, row.deadline) == ("clarify", "Why?", "test", person.deadline)
        assert questions.overdue(person.deadline) == [row]
        questions.answer(row.id, "because")
        host.responders.detach(session.id)
        result = session.finish_open_turn()
        assert result is not None and result.status == "completed"
        assert tool_answers(host, session.id)[-1]["user_response"] == "because"


def test_a_call_that_may_not_run_twice_cannot_ask(make_host: HostFactory) -> None:
    def ask(_args: Any, _context: Any) -> str:
        raise TurnSuspended  # as a question does that it would have to put to somebody

    with ScriptedProvider(by_step(tool_call("launch", {}), text("ok"))) as provider:
        host = make_host(provider)
        empty: dict[str, Any] = {"type": "object", "properties": {}}
        tool = Tool("launch", "clarify", "Launches.", empty, ask, "unsafe")
        host.tools.add(tool)
        session = host.new_session()
        session.offered = [*session.offered, tool]
        result = session.run("go")
        assert (result.status, result.answer) == ("completed", "ok")
        told = msgspec.json.decode(provider.requests[-1].messages[-1]["content"])
        assert "cannot be asked in the middle of this call" in told["error"]
