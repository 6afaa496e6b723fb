"""The principal of a session: stored with its first turn, kept by resuming, branching and delegating."""

from __future__ import annotations

from hermes.testing import ScriptedProvider, text, tool_call
from support import HostFactory


def test_a_session_keeps_its_principal_through_delegation_resuming_and_branching(make_host: HostFactory) -> None:
    script = [tool_call("delegate_task", {"goal": "look"}), text("looked"), text("done")]
    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        session = host.new_session(principal="bob")
        assert session.run("go").status == "completed"
        rows = host.sessions.list(children=True)
        assert [row.principal for row in rows] == ["bob", "bob"]
        assert host.branch_session(session).principal == "bob"

        again = make_host(provider)
        assert again.resume_session(session.id).principal == "bob"


def test_the_owner_is_the_principal_of_every_other_session(make_host: HostFactory) -> None:
    with ScriptedProvider([text("hello")]) as provider:
        host = make_host(provider)
        host.new_session().run("hi")
        assert [row.principal for row in host.sessions.list()] == [""]
