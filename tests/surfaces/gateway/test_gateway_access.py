"""Users of platforms: closed by default, pairing codes, roles, commands, approvals and questions by message."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from hermes.base.errors import HermesError
from hermes.journal.questions import Questions
from hermes.journal.store.port import Store, home_store
from hermes.surfaces.gateway.store import users as users_module
from hermes.surfaces.gateway.store.users import CODE_ALPHABET, MAX_PENDING, GatewayUsers
from hermes.testing import RecordedRequest, by_step, text, tool_call
from support.gateway_rig import GatewayRig, SwitchedProvider
from support.waiting import wait_until

#: A call that needs approval.
DANGEROUS = {"command": "rm -r precious"}


def runs_dangerous_calls(request: RecordedRequest) -> Any:
    if request.last_user_text.startswith("clean"):
        return by_step(tool_call("terminal", DANGEROUS), text("Cleaned."))(request)
    return text(f"Answer to {request.last_user_text}")


def code_in(message: str) -> str:
    found = re.search(r"approve (\w{8})\b", message)
    assert found is not None, message
    return found[1]


def tool_results(rig: GatewayRig) -> str:
    return str(
        [message for request in rig.provider.requests for message in request.messages if message["role"] == "tool"]
    )


# -- pairing ---------------------------------------------------------------------------------------------------------


def test_a_stranger_gets_a_code_and_is_let_in_by_the_owner(rig: GatewayRig) -> None:
    running = rig.start(line={"allowed_users": []})
    client = rig.client()
    code = code_in(client.ask("let me in", "bob"))
    assert len(code) == 8 and set(code) <= set(CODE_ALPHABET)
    assert len(rig.provider.requests) == 0
    client.accepted(client.say("hello?", "bob"))  # one code in 10 minutes
    client.accepted(client.say("hello", "#room", type="group", user="bob"))  # no codes in groups
    GatewayUsers(running.host.store).approve(f" {code.lower()[:4]}-{code.lower()[4:]} ")
    wait_until(lambda: running.gateway.access.sender(_source("bob")) is not None, "bob being in")
    assert client.ask("hello", "bob") == "Answer to hello"
    assert client.texts("#room") == [] and len(client.texts("bob")) == 2
    GatewayUsers(running.host.store).revoke("line", "bob")
    wait_until(lambda: running.gateway.access.sender(_source("bob")) is None, "bob being out")


def _source(user: str) -> Any:
    from hermes.surfaces.gateway.adapter import Platform, SessionSource

    return SessionSource(Platform("line"), user, user_id=user)


def test_without_pairing_strangers_hear_nothing(rig: GatewayRig) -> None:
    rig.start(line={"allowed_users": []}, pairing=False)
    client = rig.client()
    client.accepted(client.say("let me in", "bob"))
    assert client.ask("hello") == "Answer to hello"
    assert client.texts("bob") == []


@pytest.fixture
def store(home: Any) -> Any:
    with closing(home_store(home)) as store:
        yield store


def test_codes_are_few_short_lived_and_stored_as_digests(
    store: Store, home: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000_000.0]
    monkeypatch.setattr(users_module.time, "time", lambda: now[0])
    users = GatewayUsers(store)
    codes = [users.request("line", f"u{number}", "", "c") for number in range(MAX_PENDING + 1)]
    assert [code is not None for code in codes] == [True] * MAX_PENDING + [False]
    assert users.request("other", "u9", "", "c") is not None
    assert users.request("line", "u0", "", "c") is None
    now[0] += 601
    second = users.request("line", "u0", "", "c")
    assert second is not None and second != codes[0]
    with closing(sqlite3.connect(home / "state.db")) as connection:
        kept = str(connection.execute("SELECT * FROM gateway_pairings").fetchall())
    assert all(code not in kept for code in [*codes, second] if code)
    now[0] += 3_601
    with pytest.raises(HermesError, match="no request has this code"):
        users.approve(second)
    assert users.pending() == []


def test_strangers_cannot_keep_others_from_a_code(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000_000.0]
    monkeypatch.setattr(users_module.time, "time", lambda: now[0])
    users = GatewayUsers(store)
    for number in range(MAX_PENDING):
        now[0] += 1
        assert users.request("line", f"stranger{number}", "", "c") is not None
    assert users.request("line", "bob", "", "c") is None, "each of them has ten minutes"
    now[0] += 601
    for number in range(MAX_PENDING):  # those who wait ask again, and again
        assert users.request("line", f"stranger{number}", "", "c") is not None
    now[0] += 1
    code = users.request("line", "bob", "Bob", "c")
    assert code is not None, "asking again makes no one newer"
    waiting = [request.user_id for request in users.pending()]
    assert len(waiting) == MAX_PENDING and "stranger0" not in waiting
    for number in range(MAX_PENDING + 5):  # others come: bob's place is safe for ten minutes
        users.request("line", f"more{number}", "", "c")
    assert users.approve(code).user_id == "bob"


def test_wrong_codes_lock_approving(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000_000.0]
    monkeypatch.setattr(users_module.time, "time", lambda: now[0])
    users = GatewayUsers(store)
    code = users.request("line", "bob", "Bob", "c")
    assert code is not None
    for _ in range(5):
        with pytest.raises(HermesError, match="no request has this code"):
            users.approve("AAAAAAAA")
    with pytest.raises(HermesError, match="locked for 60 more minutes"):
        users.approve(code)
    now[0] += 3_601
    code = users.request("line", "bob", "Bob", "c")
    assert code is not None and users.approve(code, "approver").role == "approver"


class Greeter:
    """A plugin with a command."""

    @staticmethod
    def register(ctx: Any) -> None:
        def greet(raw: str) -> str:
            return f"Hello {raw}"

        ctx.register_command("greet", greet)


class Observer:
    """Notes the hooks about the identity of sessions: name and reason, the old id, the new one."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []

    def register(self, ctx: Any) -> None:
        ctx.register_hook("on_session_finalize", self.finalized)
        ctx.register_hook("on_session_reset", self.reset)

    def finalized(self, reason: str, old_session_id: str, new_session_id: str) -> None:
        self.seen.append((f"on_session_finalize:{reason}", old_session_id, new_session_id))

    def reset(self, reason: str, old_session_id: str, new_session_id: str) -> None:
        self.seen.append((f"on_session_reset:{reason}", old_session_id, new_session_id))


# -- commands --------------------------------------------------------------------------------------------------------


def test_commands_of_users_and_of_the_owner(rig: GatewayRig) -> None:
    rig.start(plugins=[Greeter])
    client = rig.client()
    assert "State" in client.ask("/status")
    assert "is for the owner" in client.ask("/config", "bob")
    assert "is for the owner" in client.ask("/greet you", "bob")
    assert client.ask("/greet you") == "Hello you"
    assert "there is no command /nonsense" in client.ask("/nonsense")
    assert client.ask("/etc/hosts is a file") == "Answer to /etc/hosts is a file"
    assert client.ask("/stop") == "The agent is not working."
    assert len(rig.provider.requests) == 1


def test_the_help_lists_what_its_reader_may_use(rig: GatewayRig) -> None:
    rig.start(plugins=[Greeter], user_commands=["/greet"])
    client = rig.client()
    owner, user = client.ask("/help"), client.ask("/help", "bob")
    assert "/config" in owner and "/greet" in owner and "/paste" not in owner
    assert "/new" in user and "/greet" in user and "/config" not in user


def test_a_plugin_command_can_be_opened_to_users(rig: GatewayRig) -> None:
    rig.start(plugins=[Greeter], user_commands=["greet"])
    assert rig.client().ask("/greet@hermes you", "bob") == "Hello you"


def test_a_shared_chat_does_not_move_into_a_session_of_the_owner(rig: GatewayRig) -> None:
    """Everyone in the room would have the owner's memory, files and rights."""
    running = rig.start(group_sessions_per_user=False)
    client = rig.client()
    client.ask("the key is under the mat")
    [private] = [row.id for row in running.host.sessions.list() if not row.principal]
    room = {"type": "group", "user": "alice"}
    client.ask("hello", "#room", **room)
    assert "belongs to another principal" in client.ask(f"/resume {private}", "#room", **room)
    client.ask("what is under the mat?", "#room", type="group", user="bob")
    assert "the key is" not in str(rig.provider.requests[-1].messages)


def test_new_ends_a_session_and_begins_another(rig: GatewayRig) -> None:
    observer = Observer()
    rig.start(plugins=[observer])
    client = rig.client()
    client.ask("first")
    assert client.ask("/new").startswith("New session")
    client.ask("second")
    assert "Answer to first" not in str(rig.provider.requests[1].messages)
    (finalized, old, _), (reset, old_again, new) = observer.seen
    assert (finalized, reset, old) == ("on_session_finalize:new_session", "on_session_reset:new_session", old_again)
    assert new != old


def test_idle_sessions_end(rig: GatewayRig) -> None:
    observer = Observer()
    running = rig.start(plugins=[observer])
    client = rig.client()
    client.ask("first")
    gateway = running.gateway
    wait_until(lambda: not gateway._chats, "the chat being idle")  # pyright: ignore[reportPrivateUsage]
    assert gateway.expire_idle() == 0
    gateway.config.idle_timeout = 0.000001
    assert gateway.expire_idle() == 1
    assert gateway.expire_idle() == 0
    gateway.config.idle_timeout = 3_600
    client.ask("second")
    assert [name for name, *_ in observer.seen] == [
        "on_session_finalize:session_expired",
        "on_session_reset:session_expired",
    ]
    assert "Answer to first" not in str(rig.provider.requests[1].messages)


# -- approvals and questions -----------------------------------------------------------------------------------------


def test_the_owner_is_asked_in_the_chat(rig: GatewayRig, provider: SwitchedProvider) -> None:
    provider.script = runs_dangerous_calls
    (rig.workdir / "precious").mkdir()
    rig.start()
    client = rig.client()
    question = client.ask("clean up")
    assert "rm -r precious" in question and "/approve" in question
    client.say("/approve")
    assert sorted(client.hear(3)[1:]) == ["Approved.", "Cleaned."]
    assert not (rig.workdir / "precious").exists()


def test_a_denied_call_does_not_run(rig: GatewayRig, provider: SwitchedProvider) -> None:
    provider.script = runs_dangerous_calls
    (rig.workdir / "precious").mkdir()
    rig.start()
    client = rig.client()
    client.ask("clean up")
    client.say("/deny not today")
    assert sorted(client.hear(3)[1:]) == ["Cleaned.", "Denied."]
    assert "not today" in tool_results(rig)
    assert (rig.workdir / "precious").exists()


def test_a_denial_without_words_quotes_none(rig: GatewayRig, provider: SwitchedProvider) -> None:
    provider.script = runs_dangerous_calls
    rig.start()
    client = rig.client()
    client.ask("clean up")
    client.say("/deny")
    client.hear(3)
    assert "The user denied this call (by alice on line)." in tool_results(rig)


def test_approvals_of_users_go_to_the_owner(rig: GatewayRig, provider: SwitchedProvider) -> None:
    provider.script = runs_dangerous_calls
    rig.start()
    client = rig.client()
    client.ask("hello")  # the owner's chat is known from now on
    assert "waits for the owner" in client.ask("clean up", "bob")
    [asked] = client.hear(2)[1:]
    assert asked.startswith("bob on line asks") and "rm -r precious" in asked
    short = re.search(r"/approve (\w{8})", asked)
    assert short is not None
    assert "Only the owner" in client.ask(f"/approve {short[1]}", "bob")
    assert "Only the owner" in client.ask("/approve", "eve")
    for bare in ("/approve", "/deny", "/deny not today"):  # it might be meant for a question that is over
        refused = client.ask(bare)
        assert refused.startswith(f"No approval of this chat waits. Waiting: {short[1]} (terminal)"), refused
    unknown = client.ask("/approve zzzzzz")
    assert unknown.startswith(f"No approval zzzzzz waits. Waiting: {short[1]} (terminal)\nAnswer /approve"), unknown
    assert client.ask(f"/approve {short[1]}") == "Approved."
    assert client.hear(3, "bob")[2] == "Cleaned."
    assert client.ask(f"/approve {short[1]}").startswith("No approval")


def test_the_owner_may_answer_elsewhere(rig: GatewayRig, provider: SwitchedProvider) -> None:
    provider.script = runs_dangerous_calls
    rig.start()
    client = rig.client()
    client.ask("clean up", "bob")
    with closing(home_store(rig.home)) as store:  # as hermes approvals does
        questions = Questions(store)
        [question] = questions.pending()
        questions.answer(question.id, "deny", "from the terminal")
    assert client.hear(2, "bob")[1] == "Cleaned."
    assert "from the terminal" in tool_results(rig)


def test_an_approver_answers_in_the_own_chat(rig: GatewayRig, provider: SwitchedProvider) -> None:
    provider.script = runs_dangerous_calls
    rig.start(line={"approvers": ["bob"]})
    client = rig.client()
    assert "/approve" in client.ask("clean up", "bob")
    client.say("/approve", "bob")
    assert sorted(client.hear(3, "bob")[1:]) == ["Approved.", "Cleaned."]


def test_an_approver_answers_nothing_of_other_chats_and_nothing_for_good(
    rig: GatewayRig, provider: SwitchedProvider
) -> None:
    """The id of a question is no secret: in a group everyone reads it."""
    provider.script = runs_dangerous_calls
    (rig.workdir / "precious").mkdir()
    running = rig.start(line={"approvers": ["bob"]})
    client = rig.client()
    client.ask("clean up")  # the owner's own
    client.ask("clean up", "eve")  # a user's, which waits for the owner
    questions = Questions(running.host.store)
    wait_until(lambda: len(questions.pending()) == 2, "both questions")
    for question in questions.pending():
        assert client.ask(f"/approve {question.id}", "bob").startswith("No approval")
    assert client.ask("/approve", "bob") == "No approval waits."
    assert "Only the owner" in client.ask("/approve always", "bob")
    assert len(questions.pending()) == 2 and (rig.workdir / "precious").exists()
    client.ask("clean up", "bob")
    assert "Only the owner" in client.ask("/approve always", "bob")
    client.say("/approve session", "bob")
    client.wait(lambda one: "Cleaned." in one.texts("bob"), "the end of bob's turn")
    assert running.host.config.command_allowlist == []


def test_in_a_shared_chat_an_approver_answers_only_for_the_own_messages_and_only_once(
    rig: GatewayRig, provider: SwitchedProvider
) -> None:
    """The session belongs to all in the room: neither the owner's call nor a grant for it is the approver's."""
    provider.script = runs_dangerous_calls
    running = rig.start(line={"approvers": ["bob", "carl"]}, group_sessions_per_user=False)
    client = rig.client()
    room: dict[str, Any] = {"chat": "#room", "type": "group"}
    questions = Questions(running.host.store)

    def waits() -> str:
        wait_until(lambda: len(questions.pending()) == 1, "the question")
        return questions.pending()[0].id

    client.ask("clean up", user="alice", **room)  # the owner's message, in the room
    question = waits()
    for attempt in ("/approve", "/deny", f"/approve {question}", f"/deny {question}"):
        assert client.ask(attempt, user="bob", **room).startswith("Only the owner")
    assert [one.id for one in questions.pending()] == [question]
    client.say("/deny", user="alice", **room)
    client.wait(lambda one: "Cleaned." in one.texts("#room"), "the end of the owner's turn")

    client.ask("clean it", user="bob", **room)
    question = waits()
    assert client.ask("/approve", user="carl", **room).startswith("Only the owner")
    assert "others share" in client.ask("/approve session", user="bob", **room)
    assert [one.id for one in questions.pending()] == [question]
    client.say("/approve", user="bob", **room)
    client.wait(lambda one: one.texts("#room").count("Cleaned.") == 2, "the end of bob's turn")
    answers = [(one.answer, one.surface) for one in reversed(questions.recent(10))]
    assert answers == [("deny", "gateway"), ("once", "gateway")]


def test_a_command_does_not_look_like_another_question(rig: GatewayRig, provider: SwitchedProvider) -> None:
    planted = "rm -r a\n\nAnswer /approve 12345678 or /deny 12345678.\n\nalice on line asks: ls"
    provider.script = by_step(tool_call("terminal", {"command": planted}), text("done"))
    rig.start(line={"approvers": ["carol"], "home_channel": "alice"})
    client = rig.client()
    client.ask("clean", "bob", user="bob\u202e\nx")
    asked = client.hear(1)[0]
    assert asked.startswith("bob\\u202e x on line asks")
    assert [line for line in asked.split("\n\n") if line.startswith("Answer")] == [asked.split("\n\n")[-1]]
    assert "\n> Answer /approve 12345678 or" in asked and "\n> alice on line asks: ls" in asked
    assert "\n> Answer /approve 12345678 or" in client.ask("clean", "carol")


def test_a_question_to_the_owner_shows_who_asks_and_that_it_is_cut(rig: GatewayRig, provider: SwitchedProvider) -> None:
    long = {"command": "echo " + "a" * 2_000 + "; rm -r precious"}
    provider.script = lambda request: (
        by_step(tool_call("terminal", long), text("Cleaned."))(request)
        if request.last_user_text == "clean"
        else text("Other.")
    )
    rig.start()
    client = rig.client()
    client.ask("hello")  # the owner's chat is known from now on
    client.ask("clean", "bob", name="alice on line\n\nMay this run?\n\nls")
    [asked] = client.hear(2)[1:]
    assert asked.startswith("alice on line May this run? ls (bob) on line asks")
    assert "characters left out: 'hermes approvals pending' shows all of it" in asked
    assert "a; rm -r precious\n" in asked, "a long beginning must not hide the end"


def test_no_answer_in_time_is_a_denial(rig: GatewayRig, provider: SwitchedProvider) -> None:
    provider.script = runs_dangerous_calls
    (rig.workdir / "precious").mkdir()
    rig.start(approval_timeout=0.05)
    client = rig.client()
    client.say("clean up")
    assert client.hear(2)[1] == "Cleaned."
    assert (rig.workdir / "precious").exists()


def test_a_question_of_the_model_is_answered_by_message(rig: GatewayRig, provider: SwitchedProvider) -> None:
    ask = tool_call("clarify", {"question": "Which colour?", "choices": ["red", "blue"]})
    provider.script = lambda request: (
        by_step(ask, text("Painted."))(request) if request.last_user_text == "paint" else text("Other.")
    )
    rig.start()
    client = rig.client()
    assert client.ask("paint") == "Which colour?\n1. red\n2. blue"
    client.say("2")
    assert client.hear(2)[1] == "Painted."
    assert '"user_response":"blue"' in tool_results(rig).replace(" ", "").replace("\\", "")


def test_a_waiting_turn_is_stopped(rig: GatewayRig, provider: SwitchedProvider) -> None:
    provider.script = runs_dangerous_calls
    rig.start()
    client = rig.client()
    client.ask("clean up")
    assert client.ask("/stop") == "Stopped."
    assert client.ask("hello") == "Answer to hello"
    assert "Cleaned." not in client.texts()
