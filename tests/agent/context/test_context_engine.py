"""Long conversations go on: real hosts, a scripted model over HTTP, and a journal that keeps every word."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.context.plan import SUMMARY_MARK, is_summary, pairing_problem
from hermes.agent.context.tokens import estimate
from hermes.agent.session import Session
from hermes.base.config.schema.sections import ModelProviderConfig, ProviderQuirksConfig
from hermes.base.errors import HermesError, Interrupted
from hermes.base.scope import Interrupt
from hermes.host import Host
from hermes.journal.bodies import to_json
from hermes.journal.store.connection import JournalConnection
from hermes.testing import ScriptedProvider, failure, hanging, text, tool_call
from hermes.testing.scripted.replies import ScriptedReply
from hermes.testing.scripted.script import RecordedRequest
from hermes.trace.verify.session import verify
from support import HostFactory, run_hermes, write_config
from support.waiting import finish

SUMMARY = "They planned a trip to Wales."
PARAGRAPH = "Nobody expects so many words about so little. " * 80  # about 900 tokens


def is_side_job(request: RecordedRequest) -> bool:
    return request.messages[0]["content"].startswith("You condense")


def script(answer: Callable[[RecordedRequest], ScriptedReply | str]) -> Callable[[RecordedRequest], Any]:
    """A model that writes summaries when asked to, and otherwise answers."""
    return lambda request: text(SUMMARY) if is_side_job(request) else answer(request)


def small(
    make_host: HostFactory,
    provider: ScriptedProvider,
    window: int = 16_000,
    *,
    merge_user: bool | None = False,
    **options: Any,
) -> Host:
    """A host whose model has a small window and few tools. Messages are sent as they are recorded, unless asked for."""
    host = make_host(provider, toolsets=["file"], **options)
    host.config.model.context_length = window
    host.config.providers["custom"] = ModelProviderConfig(quirks=ProviderQuirksConfig(merge_user=merge_user))
    return host


def talk(session: Session, turns: int = 10) -> None:
    for number in range(turns):
        assert session.run(f"Message {number}. {PARAGRAPH}").status == "completed"


def side_jobs(provider: ScriptedProvider) -> list[RecordedRequest]:
    return [request for request in provider.requests if is_side_job(request)]


def conversation_requests(provider: ScriptedProvider) -> list[RecordedRequest]:
    return [request for request in provider.requests if not is_side_job(request)]


def steps(host: Host, session_id: str) -> list[str]:
    return [event["key"] for event in host.sessions.events(session_id) if event["kind"] == "step_done"]


def check_whole(host: Host, session_id: str) -> None:
    assert verify(host.sessions.export(session_id)) == []


# -- when ---------------------------------------------------------------------------------------------------------


def test_what_the_server_counts_decides(make_host: HostFactory) -> None:
    counted = 20

    def answer(_request: RecordedRequest) -> ScriptedReply:
        return text("Good.", usage={"prompt_tokens": counted, "completion_tokens": 2})

    with ScriptedProvider(script(answer)) as provider:
        session = small(make_host, provider).new_session()
        talk(session)
        assert side_jobs(provider) == []  # an estimate would have been above half of 16,000 long ago
        counted = 7_995
        session.run("Short.")
        assert side_jobs(provider) == []
        session.run("A few words more.")
        assert len(side_jobs(provider)) == 1


def test_a_full_window_is_compacted_before_the_next_request(make_host: HostFactory) -> None:
    with ScriptedProvider(script(lambda _: text("Good.", usage=None))) as provider:
        host = small(make_host, provider)
        session = host.new_session()
        talk(session)
    assert len(side_jobs(provider)) == 1
    last = conversation_requests(provider)[-1].messages
    summaries = [message for message in last if is_summary(message)]
    assert len(summaries) == 1 and SUMMARY in summaries[0]["content"]
    assert last[1]["content"].startswith("Message 0.")  # the start stays word for word
    assert last[-1]["content"].startswith("Message 9.")
    assert session.messages() == [*last[1:], {"role": "assistant", "content": "Good."}]
    assert all(estimate(request.messages) < 9_000 for request in provider.requests)
    assert len(host.sessions.messages(session.id)) == 20  # nothing is lost
    check_whole(host, session.id)
    status = session.window.status()
    assert (status["context_length"], status["compression_count"]) == (16_000, 1)


def test_roles_take_turns_at_a_server_that_is_not_known(make_host: HostFactory) -> None:
    with ScriptedProvider(script(lambda _: text("Good.", usage=None))) as provider:
        talk(small(make_host, provider, merge_user=None).new_session())
    assert len(side_jobs(provider)) == 1
    for request in conversation_requests(provider):
        roles = [message["role"] for message in request.messages[1:]]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]


def test_another_process_sees_what_the_model_saw(make_host: HostFactory) -> None:
    with ScriptedProvider(script(lambda _: text("Good.", usage=None))) as provider:
        host = small(make_host, provider)
        session = host.new_session()
        talk(session)
        other = small(make_host, provider).sessions.context(session.id)
        session.close()
        resumed = host.resume_session(session.id)
        assert resumed.messages() == other == session.messages()
        resumed.run("And now?")
    assert conversation_requests(provider)[-1].messages[1:-1] == session.messages()


def test_it_can_be_switched_off(make_host: HostFactory) -> None:
    with ScriptedProvider(script(lambda _: text("Good.", usage=None))) as provider:
        host = small(make_host, provider)
        host.config.compression.enabled = False
        session = host.new_session()
        talk(session)
        assert side_jobs(provider) == []
        assert session.compress().messages_after < 20  # asked for, it is done all the same


# -- inside a turn ------------------------------------------------------------------------------------------------


def test_a_long_turn_makes_room_again_and_again_and_never_forgets_its_task(
    make_host: HostFactory, workdir: Path
) -> None:
    (workdir / "page.txt").write_text("A page of the manual. " * 150)

    def answer(request: RecordedRequest) -> ScriptedReply:
        if len(conversation_requests(provider)) > 40:
            return text("All read.", usage=None)
        return tool_call("read_file", {"path": "page.txt"}, call_id=f"call_{request.number}", usage=None)

    with ScriptedProvider(script(answer)) as provider:
        host = small(make_host, provider, window=12_000)
        host.config.tool_loop_guardrails.enabled = False
        session = host.new_session()
        result = session.run("Count the pages of the manual.")
    assert (result.status, result.answer) == ("completed", "All read.")
    assert len(side_jobs(provider)) > 2
    for request in conversation_requests(provider):
        assert pairing_problem(request.messages[1:]) is None
        assert sum(map(is_summary, request.messages)) <= 1
        assert any("Count the pages of the manual." in str(message["content"]) for message in request.messages)
        assert estimate(request.messages) < 12_000
    # Each summary takes over the one before.
    assert all(SUMMARY in request.messages[1]["content"] for request in side_jobs(provider)[1:])
    assert session.messages() == host.sessions.context(session.id)
    assert len(host.sessions.messages(session.id)) == 2 + 2 * 40
    check_whole(host, session.id)


def test_what_a_hook_added_to_the_message_stays_with_it(make_host: HostFactory) -> None:
    def remember(**_payload: Any) -> str:
        return "The user is called Ada."

    histories: list[list[dict[str, Any]]] = []

    def watch(conversation_history: list[dict[str, Any]], **_payload: Any) -> None:
        histories.append(conversation_history)

    with ScriptedProvider(script(lambda _: text("Good.", usage=None))) as provider:
        host = small(make_host, provider)
        host.hooks.subscribe("pre_llm_call", "memory", remember)
        host.hooks.subscribe("pre_api_request", "watcher", watch)
        session = host.new_session()
        talk(session)
    assert len(side_jobs(provider)) == 1
    for request, seen in zip(conversation_requests(provider), histories, strict=True):
        assert to_json(request.messages).count("called Ada") == 1
        assert request.messages[-1]["content"].endswith("called Ada.")
        assert seen == request.messages
    assert "called Ada" not in to_json(session.messages())


# -- what the provider finds too long -----------------------------------------------------------------------------


def too_long() -> ScriptedReply:
    return failure(400, "maximum context length is 4096 tokens", code="context_length_exceeded")


IN_WORDS = "This model's maximum context length is 6000 tokens. However, you requested 9000 tokens."


@pytest.mark.parametrize(
    "refusal", [too_long(), failure(400, IN_WORDS, code="invalid_request_error"), failure(422, IN_WORDS)]
)
def test_a_request_that_is_too_long_is_made_shorter_and_sent_again(
    make_host: HostFactory, refusal: ScriptedReply
) -> None:
    def answer(request: RecordedRequest) -> ScriptedReply:
        return refusal if estimate(request.messages) > 6_000 else text("Good.", usage=None)

    with ScriptedProvider(script(answer)) as provider:
        host = make_host(provider, toolsets=["file"])  # whose window is thought to be 128,000
        session = host.new_session()
        talk(session, 10)
    assert len(side_jobs(provider)) >= 1
    keys = [key for key in steps(host, session.id) if key.startswith("compact:")]
    assert keys and all(key == "compact:1.1" for key in keys)
    assert session.messages() == host.sessions.context(session.id)
    check_whole(host, session.id)


def test_a_window_that_is_smaller_than_thought_is_found_out_once(make_host: HostFactory) -> None:
    refusals: list[int] = []

    def answer(request: RecordedRequest) -> ScriptedReply:
        if estimate(request.messages) <= 12_000:
            return text("Good.", usage=None)
        refusals.append(request.number)
        return too_long()

    with ScriptedProvider(script(answer)) as provider:
        host = make_host(provider, toolsets=["file"])
        session = host.new_session()
        talk(session, 30)
    assert len(refusals) == 1
    assert 12_000 <= session.window.status()["context_length"] < 16_000
    assert "compact:1" in steps(host, session.id)


def test_a_provider_that_is_never_content_ends_the_turn_after_three_tries(make_host: HostFactory) -> None:
    replies = iter(["Good."] * 6)

    def answer(_request: RecordedRequest) -> ScriptedReply:
        return text(reply) if (reply := next(replies, "")) else too_long()

    with ScriptedProvider(script(answer)) as provider:
        host = make_host(provider, toolsets=["file"])
        session = host.new_session()
        talk(session, 6)
        before = len(conversation_requests(provider))
        result = session.run("And now?")
        assert result.status == "failed" and result.error is not None
        assert "longer than the model takes" in result.error
        sizes = [estimate(request.messages) for request in conversation_requests(provider)[before:]]
        assert 2 <= len(sizes) <= 4
        assert sizes == sorted(sizes, reverse=True)
    check_whole(host, session.id)


def test_a_model_that_cannot_summarise_does_not_stop_the_work(
    make_host: HostFactory, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(request: RecordedRequest) -> ScriptedReply:
        return failure(500, "out of order") if is_side_job(request) else text("Good.", usage=None)

    with ScriptedProvider(answer) as provider:
        host = small(make_host, provider)
        host.config.auxiliary.transient_retries = 0
        session = host.new_session()
        talk(session)
    summary = next(filter(is_summary, conversation_requests(provider)[-1].messages))
    assert "Message 5." in summary["content"]
    assert next(record for record in caplog.records if "without a model" in record.message).levelname == "WARNING"
    check_whole(host, session.id)


def test_an_interrupt_ends_a_summary_under_way(make_host: HostFactory) -> None:
    interrupt = Interrupt()

    def answer(request: RecordedRequest) -> ScriptedReply:
        if is_side_job(request):
            interrupt.cancel("stop")
            return hanging()
        return text("Good.", usage=None)

    with ScriptedProvider(answer) as provider:
        host = small(make_host, provider)
        session = host.new_session()
        talk(session, 7)
        results = finish(lambda: [session.run(PARAGRAPH, interrupt=interrupt) for _ in range(3)])
    assert [result.status for result in results][-1] == "interrupted"
    assert not any(key.startswith("compact:") for key in steps(host, session.id))


# -- crashes ------------------------------------------------------------------------------------------------------


def test_a_recorded_compaction_is_not_made_again(make_host: HostFactory) -> None:
    with ScriptedProvider(script(lambda _: text("Good.", usage=None))) as provider:
        host = small(make_host, provider)
        session = host.new_session()
        while not side_jobs(provider):
            session.run(PARAGRAPH)
        asked = conversation_requests(provider)[-1].messages
        with closing(sqlite3.connect(host.store.location)) as connection, connection:
            [turn] = connection.execute("SELECT turn_id FROM events WHERE key = 'compact:1'").fetchone()
            connection.execute("DELETE FROM events WHERE seq > (SELECT seq FROM events WHERE key = 'compact:1')")
            connection.execute("DELETE FROM messages WHERE step > 0 AND turn = (SELECT max(turn) FROM messages)")
            connection.execute("UPDATE turns SET state = 'running', answer = NULL WHERE id = ?", (turn,))
        session.close()
        result = host.resume_session(session.id).finish_open_turn()
    assert result is not None and result.answer == "Good."
    assert len(side_jobs(provider)) == 1
    assert conversation_requests(provider)[-1].messages == asked


@pytest.mark.slow
def test_a_turn_killed_around_its_compaction_goes_on(make_host: HostFactory, home: Path, workdir: Path) -> None:
    with ScriptedProvider(script(lambda _: text("Good.", usage=None))) as provider:
        host = make_host(provider)
        session = host.new_session()
        talk(session, 7)
        host.close()
        write_config(home, provider.base_url, "compression: {threshold: 0.25}\n")
        compacted = 0
        for point in range(5, 40):
            own = home.parent / f"home-{point}"
            shutil.copytree(home, own)
            extra = "  context_length: 24000\n"
            config = (own / "config.yaml").read_text().replace("agent:", f"{extra}agent:")
            (own / "config.yaml").write_text(config)
            provider.requests.clear()
            arguments = ("chat", "--resume", session.id, "-Q", "-q", "next")
            run = run_hermes(*arguments, home=own, cwd=workdir, env={"HERMES_CRASH_AT": str(point)})
            if run.returncode == 0:
                break
            assert run.returncode == -signal.SIGKILL, run.stderr
            with closing(sqlite3.connect(own / "state.db")) as connection:
                keys = [key for (key,) in connection.execute("SELECT key FROM events WHERE kind = 'step_done'")]
            jobs = len(side_jobs(provider))
            again = run_hermes("chat", "--resume", session.id, "-Q", home=own, cwd=workdir)
            assert (again.returncode, again.stdout) == (0, "Good.\n"), (point, again.stderr)
            if "compact:1" in keys:
                compacted += 1
                assert len(side_jobs(provider)) == jobs, point
        else:
            pytest.fail("the turn has more crash points than expected")
    assert compacted >= 2


# -- very long conversations --------------------------------------------------------------------------------------


def lengthen(host: Host, session_id: str, turns: int) -> None:
    """Add finished turns to a session that has one."""

    def write(connection: JournalConnection) -> None:
        for number in range(1, turns + 1):
            connection.execute(
                "INSERT INTO turns (id, session_id, ordinal, task_id, request_key, state, loop_version, first_seq, "
                "started_at) VALUES (?, ?, ?, '', ?, 'completed', 1, 1, 0)",
                (f"turn-{number}", session_id, number, f"key-{number}"),
            )
            messages = (
                {"role": "user", "content": f"Question {number}?"},
                {"role": "assistant", "content": "Yes. " * 40},
            )
            for step, message in enumerate(messages):
                connection.execute(
                    "INSERT INTO messages (session_id, turn, step, position, role, body) VALUES (?, ?, ?, 0, ?, ?)",
                    (session_id, number, step, message["role"], to_json(message)),
                )

    host.store.write(write)


def test_a_conversation_of_5000_messages_goes_on(make_host: HostFactory) -> None:
    with ScriptedProvider(script(lambda _: text("Good.", usage=None))) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("Begin.")
        lengthen(host, session.id, 2_499)
        session.close()
        resumed = host.resume_session(session.id)
        assert len(resumed.messages()) == 5_000
        assert resumed.run("Go on.").status == "completed"
        assert 1 <= len(side_jobs(provider)) <= 8
        assert all(estimate(request.messages) < 128_000 for request in provider.requests)
        resumed.close()
        provider.requests.clear()
        again = host.resume_session(session.id)
        assert again.messages() == resumed.messages()
        assert len(again.messages()) < 500
        assert again.run("And on.").status == "completed"
    assert side_jobs(provider) == []
    assert len(host.sessions.messages(session.id)) == 5_004
    exported = [record for record in host.sessions.export(session.id) if record["record"] == "message"]
    assert len(exported) == 5_004


# -- on demand ----------------------------------------------------------------------------------------------------


def test_compressing_on_demand_is_on_record(make_host: HostFactory) -> None:
    with ScriptedProvider(script(lambda _: text("Good."))) as provider:
        host = make_host(provider, toolsets=["file"])
        session = host.new_session()
        talk(session, 6)
        report = session.compress("the dates")
        assert (report.messages_before, report.messages_after) == (12, len(session.messages()))
        assert report.after_tokens < report.before_tokens / 2
        assert "the dates" in side_jobs(provider)[0].messages[1]["content"]
        session.close()
        resumed = host.resume_session(session.id)
        assert resumed.messages() == session.messages()
        assert resumed.run("Go on.").status == "completed"
        assert SUMMARY in to_json(conversation_requests(provider)[-1].messages)
    kinds = [event["kind"] for event in host.sessions.events(session.id)]
    assert kinds.count("compacted") == 1
    assert len(host.sessions.messages(session.id)) == 14
    assert resumed.messages() == host.sessions.context(session.id)
    check_whole(host, session.id)


def test_nothing_to_compress_is_said(make_host: HostFactory) -> None:
    with ScriptedProvider(script(lambda _: text("Good."))) as provider:
        session = make_host(provider).new_session()
        with pytest.raises(HermesError, match="no message yet"):
            session.compress()
        session.run("Hello.")
        with pytest.raises(HermesError, match="would not be shorter"):
            session.compress()
        assert session.run("Still there?").status == "completed"


def test_an_interrupted_compression_changes_nothing(make_host: HostFactory) -> None:
    interrupt = Interrupt()

    def answer(request: RecordedRequest) -> ScriptedReply:
        if is_side_job(request):
            interrupt.cancel("stop")
            return hanging()
        return text("Good.")

    with ScriptedProvider(answer) as provider:
        host = make_host(provider, toolsets=["file"])
        session = host.new_session()
        talk(session, 5)
        before = list(session.messages())
        with pytest.raises(Interrupted):
            session.compress(interrupt=interrupt)
        assert session.messages() == before == host.sessions.context(session.id)
        assert session.run("Still there?").status == "completed"


def test_taking_back_a_turn_that_was_condensed_takes_the_summary_back(make_host: HostFactory) -> None:
    with ScriptedProvider(script(lambda _: text("Good."))) as provider:
        host = make_host(provider, toolsets=["file"])
        session = host.new_session()
        talk(session, 6)
        full = list(session.messages())
        session.compress()
        session.run("One more.")
        session.undo()
        assert is_summary(session.messages()[0]) or any(map(is_summary, session.messages()))
        session.undo()
        assert session.messages() == full[:-2]
        session.compress()
        assert SUMMARY_MARK in to_json(session.messages())
        assert session.messages() == host.sessions.context(session.id)


def test_memory_may_add_to_the_summary(make_host: HostFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedProvider(script(lambda _: text("Good."))) as provider:
        host = make_host(provider, toolsets=["file"])
        session = host.new_session()
        talk(session, 5)

        def remember(messages: list[dict[str, Any]]) -> str:
            return f"Ada wrote {len(messages)} messages."

        monkeypatch.setattr(host.runtime.memory, "before_compress", remember)
        session.compress()
    assert "Ada wrote 10 messages." in side_jobs(provider)[0].messages[1]["content"]
