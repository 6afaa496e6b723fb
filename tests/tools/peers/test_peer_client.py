"""A call to another agent: what it says, what it asks, and what happens when the line is bad."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from a2a.types import Task

from hermes.tools.peers.addresses import Peer
from hermes.tools.peers.client import PeerCallOptions, PeerClient, connect_peer
from hermes.tools.peers.failures import PeerError
from hermes.tools.peers.hops import hops_scope
from hermes.tools.peers.reply import PeerReply, PeerUpdate
from hermes.trace.parent import joined
from support.a2a_echo import Remote, serving_echo
from support.waiting import HANG, wait_until

OPTIONS = PeerCallOptions(timeout=60)


def call(
    remote: Remote,
    work: Callable[[PeerClient], Awaitable[PeerReply]],
    options: PeerCallOptions = OPTIONS,
    token: str = "",
) -> PeerReply:
    """What the work makes of a connection to the agent."""

    async def main() -> PeerReply:
        async with connect_peer(Peer("echo", remote.url, token, is_trusted=True), options) as client:
            return await work(client)

    return asyncio.run(main())


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_is_the_same_however_it_comes(binding: str, stream: bool) -> None:
    with serving_echo(Remote(bindings=(binding,))) as remote:
        reply = call(remote, lambda client: client.send("echo one two three"), replace(OPTIONS, stream=stream))
    assert (reply.text, reply.state) == ("one two three ", "completed")
    assert reply.task_id and reply.context_id
    assert remote.hops == [1]


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
def test_an_agent_of_the_older_protocol_is_called_too(binding: str) -> None:
    async def work(client: PeerClient) -> PeerReply:
        asked = await client.send("approval")
        assert asked.is_approval
        return await client.answer(asked.task_id, "deny")

    with serving_echo(Remote(bindings=(binding,), version="0.3")) as remote:
        assert call(remote, lambda client: client.send("echo one two")).text == "one two "
        assert call(remote, work).text == "you said deny "
        with pytest.raises(PeerError, match="echo"):
            call(remote, lambda client: client.get("nothing"))


def test_what_comes_is_told_piece_by_piece() -> None:
    told: list[PeerUpdate] = []
    with serving_echo() as remote:
        reply = call(remote, lambda client: client.send("echo one two", on_update=told.append))
    assert [update.text for update in told if update.text] == ["one ", "two "]
    assert [update.status for update in told if update.status] == ["thinking"]
    assert reply.status == ""


def test_an_agent_that_cannot_stream_is_asked_now_and_then() -> None:
    async def work(client: PeerClient) -> PeerReply:
        sending = asyncio.create_task(client.send("wait"))
        await asyncio.to_thread(remote.working.wait, 5)
        remote.release.set()
        return await sending

    with serving_echo(Remote(streaming=False)) as remote:
        reply = call(remote, work)
    assert (reply.text, reply.state) == ("so far, and the rest", "completed")


def test_a_single_message_is_an_answer_too() -> None:
    with serving_echo() as remote:
        reply = call(remote, lambda client: client.send("just a message"))
    assert (reply.text, reply.state, reply.task_id) == ("a message", "completed", "")


def test_an_answer_in_the_status_alone_is_not_lost() -> None:
    with serving_echo() as remote:
        assert call(remote, lambda client: client.send("status all is well")).text == "all is well"


def test_whole_numbers_stay_whole() -> None:
    task = Task(id="t")
    task.metadata.update({"steps": 2, "cost": 0.5, "usage": {"tokens": [10, 1.5]}})
    reply = PeerReply()
    reply.take_task(task)
    assert repr(reply.metadata["usage"]) == "{'tokens': [10, 1.5]}"
    assert repr((reply.metadata["steps"], reply.metadata["cost"])) == "(2, 0.5)"


def test_a_failure_keeps_its_reason() -> None:
    with serving_echo() as remote:
        reply = call(remote, lambda client: client.send("fail no luck"))
    assert (reply.state, reply.status, reply.text) == ("failed", "no luck", "")


def test_a_question_is_answered_on_the_same_task() -> None:
    async def work(client: PeerClient) -> PeerReply:
        asked = await client.send("ask which one?")
        assert asked.waits and not asked.is_approval and asked.status == "which one?"
        answered = await client.answer(asked.task_id, "the red one")
        assert (answered.task_id, answered.context_id) == (asked.task_id, asked.context_id)
        return answered

    with serving_echo() as remote:
        assert call(remote, work).text == "you said the red one "
    assert remote.answers == [("the red one",)]


def test_an_approval_is_answered_with_its_id() -> None:
    async def work(client: PeerClient) -> PeerReply:
        asked = await client.send("approval")
        assert asked.is_approval and asked.status == "May I?" and asked.question["summary"] == "rm -r notes"
        return await client.answer(asked.task_id, "approve")

    with serving_echo() as remote:
        assert call(remote, work).state == "completed"
    assert remote.answers == [("approve", {"approval_id": "a-1", "choice": "approve"})]


def test_what_waits_for_nothing_is_not_answered() -> None:
    async def work(client: PeerClient) -> PeerReply:
        done = await client.send("echo hello")
        return await client.answer(done.task_id, "more")

    with serving_echo() as remote, pytest.raises(PeerError, match="waits for no answer: it is completed"):
        call(remote, work)


@pytest.mark.parametrize("stream", [True, False])
def test_a_call_that_is_cancelled_cancels_the_remote_task(stream: bool) -> None:
    told: list[PeerUpdate] = []

    async def work(client: PeerClient) -> PeerReply:
        sending = asyncio.create_task(client.send("wait", on_update=told.append))
        # From its first update, or from the answer before its first poll, it knows the id of the task.
        await asyncio.to_thread(wait_until, lambda: told if stream else len(remote.headers) > 1)
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sending
        assert remote.cancelled.is_set()
        return PeerReply()

    with serving_echo() as remote:
        call(remote, work, replace(OPTIONS, stream=stream))


def test_a_task_can_be_looked_at_and_cancelled() -> None:
    async def work(client: PeerClient) -> PeerReply:
        asked = await client.send("ask what?")
        assert (await client.get(asked.task_id)).state == "input-required"
        return await client.cancel(asked.task_id)

    with serving_echo() as remote:
        assert call(remote, work).state == "canceled"


@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_a_stream_that_breaks_is_taken_up_again(after: int) -> None:
    async def work(client: PeerClient) -> PeerReply:
        sending = asyncio.create_task(client.send("wait", on_update=told.append))
        await asyncio.to_thread(remote.working.wait, HANG)
        if after <= 2:
            await asyncio.to_thread(wait_until, lambda: not remote.cut_after)  # it has asked again
        remote.release.set()
        return await sending

    told: list[PeerUpdate] = []
    with serving_echo(Remote(cut_after=[after, 1])) as remote:
        reply = call(remote, work)
    assert (reply.text, reply.state) == ("so far, and the rest", "completed")
    assert "".join(update.text for update in told) == reply.text


def test_a_stream_that_breaks_before_the_task_is_known_fails() -> None:
    with serving_echo(Remote(cut_after=[0])) as remote, pytest.raises(PeerError, match="connection"):
        call(remote, lambda client: client.send("echo hello"))


def test_an_agent_that_never_answers_is_given_up() -> None:
    with serving_echo() as remote:
        with pytest.raises(PeerError, match=r"echo was silent for 1\.5 s"):
            call(remote, lambda client: client.send("wait"), replace(OPTIONS, timeout=1.5))
        assert remote.cancelled.is_set()


def test_a_server_that_only_listens_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        remote = Remote(url=f"http://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(PeerError, match=r"echo was silent for 0\.2 s"):
            call(remote, lambda client: client.send("x"), replace(OPTIONS, timeout=0.2))


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(PeerError, match=r"echo cannot be reached.*is it running"):
        call(Remote(url=url), lambda client: client.send("x"))


@pytest.mark.parametrize("header", ["authorization", "x-api-key"])
def test_the_token_goes_into_the_header_that_the_card_asks_for(header: str) -> None:
    with serving_echo(Remote(token="open-sesame-123", header=header)) as remote:
        assert call(remote, lambda client: client.send("echo hi"), token="open-sesame-123").text == "hi "
        with pytest.raises(PeerError, match="echo wants a token") as failure:
            call(remote, lambda client: client.send("echo hi"), token="wrong-token-456")
    assert "wrong-token-456" not in str(failure.value)


def test_the_token_is_not_for_another_server() -> None:
    with serving_echo() as other, serving_echo(Remote(card_url=other.url, token="open-sesame-123")) as remote:
        with pytest.raises(PeerError, match=f"sends callers to {other.url}/, another server"):
            call(remote, lambda client: client.send("echo hi"), token="open-sesame-123")
        assert other.headers == []


def test_a_card_that_leads_into_the_private_network_is_not_followed() -> None:
    with serving_echo() as inside, serving_echo(Remote(card_url=inside.url)) as remote:
        with pytest.raises(PeerError, match=r"127\.0\.0\.1 is in a private network"):
            call(remote, lambda client: client.send("echo hi"))
        assert inside.headers == []


def test_an_agent_without_a_known_transport() -> None:
    with serving_echo(Remote(bindings=("OTHER",))) as remote, pytest.raises(PeerError, match="offers OTHER; known"):
        call(remote, lambda client: client.send("x"))


def test_a_server_that_is_no_agent() -> None:
    with serving_echo() as remote:
        remote.url += "/elsewhere"
        with pytest.raises(PeerError, match=r"status 404.*is that the address of an A2A agent"):
            call(remote, lambda client: client.send("x"))


def test_an_unknown_task() -> None:
    with serving_echo() as remote, pytest.raises(PeerError, match=r"echo refused: .*not found"):
        call(remote, lambda client: client.get("nothing"))


def test_the_trace_of_the_turn_goes_along() -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with serving_echo() as remote:
        with joined(parent, "vendor=1"):
            call(remote, lambda client: client.send("echo hi"))
        assert {headers.get("traceparent") for headers in remote.headers} == {parent}
        assert remote.headers[0]["tracestate"] == "vendor=1"


def test_the_current_span_goes_along() -> None:
    from opentelemetry.sdk.trace import TracerProvider

    tracer = TracerProvider().get_tracer("test")
    with serving_echo() as remote, tracer.start_as_current_span("work") as span:
        call(remote, lambda client: client.send("echo hi"))
        trace_id = f"{span.get_span_context().trace_id:032x}"
        assert remote.headers[0]["traceparent"].startswith(f"00-{trace_id}-")


def test_a_circle_of_agents_ends() -> None:
    with serving_echo() as remote:
        with hops_scope(3):
            call(remote, lambda client: client.send("echo hi"))
        with hops_scope(4), pytest.raises(PeerError, match=r"a2a\.max_hops allows 4.*circle"):
            call(remote, lambda client: client.send("echo hi"))
    assert remote.hops == [4]
