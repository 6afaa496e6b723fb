"""Past conversations as a tool: found by words, listed, read around a message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes.host import Host
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, text, tool_call
from support.configured import configured_host, tool_answers

#: What was said in earlier conversations, oldest first.
PAST = [
    ("How do I water the orchid?", "Once a week, the orchid hates wet feet."),
    ("What does a pangolin eat?", "Ants. Ask about the orchid tomorrow."),
    ("Plan the garden party", "Orchid bouquet, lemonade, lanterns."),
]


class Library:
    """A host with a past, whose model does what the test says."""

    def __init__(self, home: Path, workdir: Path) -> None:
        self.next: list[ScriptedReply] = []
        self.provider = ScriptedProvider(self._reply)
        self._home, self._workdir = home, workdir
        self.ids: list[str] = []

    def _reply(self, request: RecordedRequest) -> ScriptedReply:
        known = dict(PAST).get(request.last_user_text)
        return text(known) if known else self.next.pop(0)

    def open(self) -> Host:
        host = configured_host(self._home, self._workdir, self.provider)
        for question, _ in PAST:
            session = host.new_session()
            session.run(question)
            self.ids.append(session.id)
        return host

    def search(self, host: Host, message: str = "search", **args: Any) -> dict[str, Any]:
        self.next = [tool_call("session_search", args), text("ok")]
        session = host.new_session()
        session.run(message)
        return tool_answers(host, session.id)[0]


def test_the_best_matches_are_found(home: Path, workdir: Path) -> None:
    library = Library(home, workdir)
    with library.provider, library.open() as host:
        found = library.search(host, query="orchid", limit=2)
        assert (found["success"], found["mode"], found["count"], found["more_sessions"]) == (True, "discover", 2, 1)
        everything = library.search(host, query="orchid", limit=10)
    assert {result["session_id"] for result in everything["results"]} == set(library.ids)
    by_id = {result["session_id"]: result for result in everything["results"]}
    first = by_id[library.ids[0]]
    assert first["title"] == "How do I water the orchid?" and first["turns"] == 1
    assert {match["role"] for match in first["matches"]} == {"user", "assistant"}
    assert all("[orchid]" in match["snippet"].lower() for match in first["matches"])


def test_sorting_and_filtering(home: Path, workdir: Path) -> None:
    library = Library(home, workdir)
    with library.provider, library.open() as host:
        newest = library.search(host, query="orchid", sort="newest", limit=10)
        oldest = library.search(host, query="orchid", sort="oldest", limit=10)
        asked = library.search(host, query="orchid", role_filter="user")
        within = library.search(host, query="orchid", session_id=library.ids[1])
        nothing = library.search(host, query="zeppelin")
    assert [result["session_id"] for result in newest["results"]] == library.ids[::-1]
    assert [result["session_id"] for result in oldest["results"]] == library.ids
    assert [result["session_id"] for result in asked["results"]] == [library.ids[0]]
    assert [result["session_id"] for result in within["results"]] == [library.ids[1]]
    assert (nothing["success"], nothing["results"], nothing["count"]) == (True, [], 0)


def test_the_conversation_in_hand_is_not_found(home: Path, workdir: Path) -> None:
    library = Library(home, workdir)
    with library.provider, library.open() as host:
        found = library.search(host, "anything about a pangolin or an orchid?", query="pangolin")
    assert [result["session_id"] for result in found["results"]] == [library.ids[1]]


def test_what_a_child_said_is_found_under_its_parent(home: Path, workdir: Path) -> None:
    library = Library(home, workdir)
    with library.provider, library.open() as host:
        library.next = [
            tool_call("delegate_task", {"goal": "find the zeppelin"}),
            text("A zeppelin, moored."),
            text("k"),
        ]
        parent = host.new_session()
        parent.run("ask somebody")
        found = library.search(host, query="zeppelin moored")
    [result] = found["results"]
    assert (result["session_id"], result["title"]) == (parent.id, "ask somebody")
    [match] = result["matches"]
    assert match["child_session_id"] != parent.id and "moored" in match["snippet"]


def test_without_arguments_the_latest_are_listed(home: Path, workdir: Path) -> None:
    library = Library(home, workdir)
    with library.provider, library.open() as host:
        found = library.search(host, limit=2)
    assert (found["mode"], found["count"]) == ("browse", 2)
    assert [result["title"] for result in found["results"]] == [PAST[2][0], PAST[1][0]]


def test_a_conversation_is_read_around_a_message(home: Path, workdir: Path) -> None:
    library = Library(home, workdir)
    with library.provider, library.open() as host:
        library.next = [text(f"answer {n}") for n in range(10)]
        session = host.new_session()
        for number in range(10):
            session.run(f"question {number}")
        [hit] = library.search(host, query='"answer 4"')["results"][0]["matches"]
        around = library.search(host, session_id=session.id, around_message_id=hit["message_id"], window=1)
        start = library.search(host, session_id=session.id[:-2], window=1)
    assert [message["content"] for message in around["results"]] == ["question 4", "answer 4", "question 5"]
    assert [message.get("anchor", False) for message in around["results"]] == [False, True, False]
    assert (around["mode"], around["messages_before"], around["messages_after"]) == ("scroll", 8, 9)
    assert around["session"]["session_id"] == session.id
    assert [message["content"] for message in start["results"]] == ["question 0", "answer 0", "question 1"]


def test_long_messages_are_cut_and_calls_are_named(home: Path, workdir: Path) -> None:
    (workdir / "long.txt").write_text("word " * 2_000)
    library = Library(home, workdir)
    with library.provider, library.open() as host:
        library.next = [tool_call("read_file", {"path": "long.txt"}), text("y" * 5_000)]
        session = host.new_session()
        session.run("read it")
        found = library.search(host, session_id=session.id)
    user, call, result, answer = found["results"]
    assert user["content"] == "read it" and call["tool_calls"] == ["read_file"]
    assert len(result["content"]) < 600 and len(answer["content"]) < 2_100 and "more characters" in answer["content"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"query": "!?"}, "at least one word"),
        ({"session_id": "nope"}, "no session 'nope'"),
        ({"query": "x", "session_id": "nope"}, "no session 'nope'"),
        ({"around_message_id": 3}, "needs the session_id"),
    ],
)
def test_what_cannot_be_found_says_so(home: Path, workdir: Path, args: dict[str, Any], words: str) -> None:
    library = Library(home, workdir)
    with library.provider, library.open() as host:
        found = library.search(host, **args)
        missing = library.search(host, session_id=library.ids[0], around_message_id=99_999)
    assert found["success"] is False and words in found["error"]
    assert "no message 99999" in missing["error"]


def test_undone_turns_are_not_shown(home: Path, workdir: Path) -> None:
    library = Library(home, workdir)
    with library.provider, library.open() as host:
        library.next = [text("first zeppelin"), text("second zeppelin")]
        session = host.new_session()
        session.run("one")
        session.run("two")
        session.undo()
        found = library.search(host, query="zeppelin")
        read = library.search(host, session_id=session.id)
    assert len(found["results"][0]["matches"]) == 1
    assert [message["content"] for message in read["results"]] == ["one", "first zeppelin"]
