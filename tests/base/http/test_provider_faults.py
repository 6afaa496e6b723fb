"""Everything servers do wrong, direct and from an event loop: the right class, a plain message, no key shown."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hermes.base.errors import ProviderError
from hermes.models.endpoint import Timeouts
from hermes.models.reply import Completion, IncompleteReply, normalise
from hermes.models.wires.wire import Delta, TextDelta
from hermes.testing import FAULTS, Fault, FaultServer, cuts, recorded, text
from support import HostFactory

Ask = Callable[..., Completion]

KEY = "sk-test-0123456789abcdef"
#: For servers that fall silent, and for those that never do.
BRIEF = Timeouts(connect=60, first_byte=1, between_chunks=1, total=60)
BRIEF_IN_ALL = Timeouts(connect=60, first_byte=60, between_chunks=60, total=1)
#: For all others: whatever is slow then is the machine.
PATIENT = Timeouts(connect=60, first_byte=60, between_chunks=60, total=60)

FAILING = [name for name, fault in FAULTS.items() if fault.reason]
HARMLESS = [name for name, fault in FAULTS.items() if not fault.reason]


@pytest.mark.parametrize("name", FAILING)
def test_it_ends_in_the_right_class_and_keeps_what_arrived(ask: Ask, name: str) -> None:
    fault = FAULTS[name]
    deltas: list[Delta] = []
    with FaultServer(fault) as server, pytest.raises(ProviderError) as caught:
        brief = BRIEF_IN_ALL if fault.says == "in all" else BRIEF
        ask(server.base_url, timeouts=brief if fault.reason == "timeout" else PATIENT, on_delta=deltas.append)
    error = caught.value
    assert (error.reason, fault.says in str(error)) == (fault.reason, True), f"{error.reason}: {error}"
    assert KEY not in str(error) and KEY not in repr(error)
    assert "\n" not in str(error)
    assert fault.keeps.startswith("".join(delta.text for delta in deltas if isinstance(delta, TextDelta)))
    assert (error.partial.content if isinstance(error, IncompleteReply) else "") == fault.keeps


@pytest.mark.parametrize("name", HARMLESS)
def test_it_is_an_answer_all_the_same(ask: Ask, name: str) -> None:
    with FaultServer(name) as server:
        reply = normalise(ask(server.base_url))
    calls = [(call.id, call.arguments) for call in reply.tool_calls]
    expected = {
        "same_tool_ids": [("same", '{"path":"a"}'), ("same_2", '{"path":"b"}')],
        "broken_arguments": [("call_1", '{"path": ')],
    }
    assert calls == expected.get(name, [])
    assert reply.content == ("" if calls else "All of it.")


@pytest.mark.parametrize("name", ["second_answer", "length_too_short"])
def test_what_follows_an_answer_is_not_taken_for_the_next(ask: Ask, name: str) -> None:
    good = FAULTS["early_hints"]
    with FaultServer(name, good, good) as server:
        try:
            ask(server.base_url)
        except ProviderError as error:
            assert error.reason == "truncated"
        assert normalise(ask(server.base_url)).content == "All of it."
        assert normalise(ask(server.base_url)).content == "All of it."
        assert server.connections == 2


def test_a_connection_lost_at_every_byte(ask: Ask) -> None:
    whole = recorded(text("one two"))
    head = whole.index(b"\r\n\r\n") + 4
    last_word = whole.index(b'"two"') + len(b'"two"')
    finished = whole.index(b'"finish_reason":"stop"')
    faults = list(cuts(whole))
    with FaultServer(*faults) as server:
        for at in range(len(faults)):
            try:
                reply = normalise(ask(server.base_url))
            except ProviderError as error:
                assert at < finished + 40, f"byte {at}: {error}"
                assert error.reason == ("connection" if at < head else "truncated"), f"byte {at}: {error}"
                kept = error.partial.content if isinstance(error, IncompleteReply) else ""
                assert "one two".startswith(kept)
                assert kept == "one two" or at <= last_word + 60
            else:
                assert at > finished
                assert reply.content == "one two"
        assert server.connections == len(faults)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_takes_no_key_along(ask: Ask, status: int) -> None:
    with FaultServer("early_hints") as other:
        target = f"{other.base_url}/chat/completions"
        answer = f"HTTP/1.1 {status} Moved\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n"
        redirect = Fault("redirect", "To a server that listens.", (answer.encode(),), "keep")
        with FaultServer(redirect) as server, pytest.raises(ProviderError) as caught:
            ask(server.base_url)
        assert f"redirects to {target} (HTTP {status})" in str(caught.value)
        assert caught.value.status_code == status
        assert other.connections == 0


# -- through a whole host -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["half_chunk", "reset", "bad_utf8", "error_midway", "chunked_garbage"])
def test_the_journal_keeps_what_arrived(make_host: HostFactory, name: str) -> None:
    with FaultServer(name) as server:
        host = make_host(server)
        session = host.new_session()
        result = session.run("Hello")
        records = host.sessions.events(session.id)
    assert result.status == "failed"
    [failed] = [record for record in records if record["kind"] == "attempt_failed"]
    assert failed["body"]["reason"] == FAULTS[name].reason
    assert failed["body"]["partial"]["content"] == FAULTS[name].keeps
    assert "test-key" not in repr(records) + str(result.error)


def test_a_turn_goes_on_after_tool_calls_that_make_no_sense(make_host: HostFactory) -> None:
    with FaultServer("same_tool_ids", "broken_arguments", "early_hints") as server:
        result = make_host(server).new_session().run("Hello")
    assert result.answer == "All of it."
    assert [call.status for call in result.tool_calls] == ["error", "error", "error"]
