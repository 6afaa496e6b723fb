"""One connection serves every step of a turn, its children and side jobs; children at work together have their own."""

from __future__ import annotations

from hermes.base.scope import Scope
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, text, tool_call
from support import HostFactory


def test_steps_children_and_side_jobs_share_a_connection(make_host: HostFactory) -> None:
    script = {
        "go": [
            tool_call("todo", {}),
            tool_call("delegate_task", {"goal": "help"}),
            tool_call("delegate_task", {"goal": "help"}),
            text("done"),
        ],
        "again": text("done again"),
    }

    def answer(request: RecordedRequest) -> ScriptedReply:
        if "help" in request.last_user_text:
            return text("helped")
        replies = script[request.last_user_text]
        return replies[request.step] if isinstance(replies, list) else replies

    with ScriptedProvider(answer) as provider:
        host = make_host(provider)
        session = host.new_session()
        assert session.run("go").answer == "done"
        assert session.run("again").answer == "done again"
        assert host.new_session().run("again").answer == "done again"
        title = host.side.ask(
            "title", [{"role": "user", "content": "again"}], scope=Scope(), main=host.models.conversation().endpoints
        )
        assert title.content == "done again"
        assert len(provider.requests) == 9
        assert provider.connections == 1


def test_children_at_work_together_do_not_wait_for_each_other(make_host: HostFactory) -> None:
    """The slow child is answered last; the quick ones are through long before."""

    def answer(request: RecordedRequest) -> ScriptedReply:
        if "slow" in request.last_user_text:
            return text("slow", delay=1.0)
        if "quick" in request.last_user_text:
            return text("quick")
        tasks = [{"goal": "slow"}, {"goal": "quick one"}, {"goal": "quick two"}]
        return tool_call("delegate_task", {"tasks": tasks}) if request.step == 0 else text("done")

    with ScriptedProvider(answer) as provider:
        host = make_host(provider)
        assert host.new_session().run("go").answer == "done"
        arrivals = {request.last_user_text: request.arrived for request in provider.requests if request.step == 0}
        assert provider.connections <= 3
    last = max(request.arrived for request in provider.requests)
    children = [arrived for question, arrived in arrivals.items() if question != "go"]
    assert len(children) == 3
    assert last - max(children) > 0.5
