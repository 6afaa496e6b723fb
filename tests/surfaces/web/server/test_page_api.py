"""The JSON of the page: lists, sessions, events, approvals, costs, plugins and comparisons, over a real socket."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from hermes.journal.questions import QuestionRow, Questions
from hermes.journal.sessions import Sessions
from hermes.journal.usage.plugins import PluginCalls, record_plugin_counters
from hermes.testing import failure, text, tool_call
from support.trace_runs import USAGE, Rig, delegated_children
from support.web_rig import page_over

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>&\"'"


def test_the_list_has_state_model_tokens_and_errors(rig: Rig) -> None:
    host = rig.host([text("One.", usage=USAGE), failure(401, "bad key")])
    first, second = host.new_session(), host.new_session()
    first.run("first")
    second.run("second")
    with page_over(rig.home) as page:
        lines = page.get("/api/sessions").json
        assert [(line["title"], line["state"]) for line in lines] == [("second", "failed"), ("first", "completed")]
        assert lines[0]["failed"] == 1
        assert "the key was refused" in lines[0]["error"]
        assert (lines[1]["read"], lines[1]["written"], lines[1]["model"]) == (100, 7, "scripted (custom)")
        assert [line["title"] for line in page.get("/api/sessions?state=failed").json] == ["second"]
        assert [line["title"] for line in page.get("/api/sessions?q=FIR").json] == ["first"]
        assert page.get("/api/sessions?q=%25").json == []
        before = lines[0]["updated"]
        assert [line["title"] for line in page.get(f"/api/sessions?before={before}").json] == ["first"]
        assert page.get("/api/sessions?state=none").status == 400
        assert page.get("/api/sessions?before=x").status == 400


def test_children_count_for_their_parent_and_are_not_listed(rig: Rig) -> None:
    session_id = delegated_children(rig).stored.id
    with page_over(rig.home) as page:
        (line,) = page.get("/api/sessions").json
        assert (line["id"], line["children"]) == (session_id, 2)
        found = page.get(f"/api/sessions/{session_id}").json
    assert len(found["rows"]) == 3
    assert line["calls"] == sum(row["kind"] == "model" for one in found["rows"] for row in one["rows"])


def test_a_session_that_is_gone_is_a_404_with_words(rig: Rig) -> None:
    rig.host([])
    with page_over(rig.home) as page:
        for path in ("/api/sessions/none", "/api/sessions/none/events/1"):
            answer = page.get(path)
            assert (answer.status, "none" in answer.json["error"]) == (404, True)
        assert page.get("/sessions/none").status == 404
        assert page.get("/api/sessions/none/events/x").status == 404


def test_events_are_listed_and_shown_and_downloaded(rig: Rig) -> None:
    host = rig.host([tool_call("read_file", {"path": "none"}), text("ok")])
    session = host.new_session()
    session.run("go")
    with page_over(rig.home) as page:
        events = page.get(f"/api/sessions/{session.id}/events").json
        assert [event[0] for event in events] == list(range(1, len(events) + 1))
        assert page.get(f"/api/sessions/{session.id}/events?after=3").json == events[3:]
        seq = next(event[0] for event in events if event[2] == "tool:1.0")
        detail = page.get(f"/api/sessions/{session.id}/events/{seq}").json
        assert (detail["kind"], detail["body"]["args"]) == ("step_done", {"path": "none"})
        download = page.get(f"/api/sessions/{session.id}/events/{seq}?whole=1")
        assert download.headers["content-disposition"] == f'attachment; filename="event-{seq}.json"'
        said = page.get(f"/api/sessions/{session.id}/messages").json
        assert said == [{"role": "user", "text": "go"}, {"role": "assistant", "text": "ok"}]


def test_markup_in_every_field_is_text(rig: Rig) -> None:
    host = rig.host([tool_call("read_file", {"path": HOSTILE}), text(HOSTILE)])
    session = host.new_session()
    session.run(HOSTILE)
    with page_over(rig.home) as page:
        for path in ("/", f"/sessions/{session.id}"):
            document = page.get(path).text
            assert "<script>alert" not in document
            assert "<img src=x" not in document
            assert document.count("</script>") == 2  # the data, and the page's own


def test_without_javascript_there_is_a_plain_table(rig: Rig) -> None:
    host = rig.host([tool_call("read_file", {"path": "none"}), text("ok")])
    session = host.new_session()
    session.run("Read it.")
    with page_over(rig.home) as page:
        address = f"{page.access.folder}/sessions/{session.id}"
        assert re.search(rf'<tr .*?completed.*?href="{address}">Read it.</a>.*?</tr>', page.get("/").text)
        assert "tool read_file" in page.get(f"/sessions/{session.id}").text


def test_without_javascript_the_list_is_filtered_and_has_older_parts(rig: Rig) -> None:
    host = rig.host([text("ok")] * 25)
    for number in range(25):
        session = host.new_session()
        session.run(f"Run {number}{ {7: ' needle', 24: ' & <b>'}.get(number, '') }")
        host.store.write(
            lambda connection, at=number, wanted=session.id: connection.execute(
                "UPDATE sessions SET updated_at = ? WHERE id = ?", (at + 1.5, wanted)
            )
        )
    with page_over(rig.home) as page:
        first = page.get("/").text
        assert re.findall(r">Run (\d+)", first) == [str(number) for number in range(24, 4, -1)]
        assert "Run 24 &amp; &lt;b&gt;</a>" in first and "Run 24 & <b>" not in first
        [older] = re.findall(r'href="([^"]+)">Older sessions', first)
        second = page.get(older.removeprefix(page.access.folder)).text
        assert re.findall(r">Run (\d+)", second) == [str(number) for number in range(4, -1, -1)]
        found = page.get("/?q=Run+Needle&state=").text
        assert re.findall(r">Run (\d+)", found) == ["7"]
        assert 'value="Run Needle"' in found
        assert "No session matches." in page.get("/?q=none").text


@pytest.mark.parametrize(("chosen", "shown"), [("dark", ' data-theme="dark"'), ("auto", ""), ('"><script>', "")])
def test_a_document_begins_in_the_colours_that_were_chosen(rig: Rig, chosen: str, shown: str) -> None:
    rig.host([])
    with page_over(rig.home) as page:
        cookies = f"{page.sign_in()}; hermes_theme={chosen}"
        assert f'<html lang="en"{shown}>' in page.request("GET", f"{page.access.folder}/", Cookie=cookies).text


def _ask(questions: Questions, session_id: str, turn_id: str, kind: Any = "approval") -> QuestionRow:
    row = QuestionRow(
        id=f"q_{kind}", session_id=session_id, turn_id=turn_id, key="tool:1.0", tool="terminal", digest="d",
        subject="rm -rf notes", rules=("recursive-delete",), description="deletes files", surface="owner", kind=kind,
    )  # fmt: skip
    assert questions.ask(row)
    return row


@pytest.fixture
def waiting(rig: Rig) -> tuple[Questions, str, str]:
    """A session whose turn runs, as far as the journal knows."""
    host = rig.host([text("ok")])
    session = host.new_session()
    turn_id = session.run("go").turn_id
    host.store.write(
        lambda connection: connection.execute("UPDATE turns SET state = 'running' WHERE id = ?", (turn_id,))
    )
    return Questions(host.store), session.id, turn_id


@pytest.mark.parametrize(("answer", "state"), [("once", "granted"), ("session", "granted"), ("deny", "denied")])
def test_an_approval_is_answered_once(waiting: tuple[Questions, str, str], home: Path, answer: str, state: str) -> None:
    questions, session_id, turn_id = waiting
    row = _ask(questions, session_id, turn_id)
    with page_over(home) as page:
        (shown,) = page.get("/api/approvals").json["waiting"]
        assert (shown["subject"], shown["why"], shown["title"]) == ("rm -rf notes", "deletes files", "go")
        assert page.get("/api/sessions").json[0]["waiting"] == 1
        assert page.post(f"/api/approvals/{row.id}", {"answer": "always"}).status == 400
        assert page.post(f"/api/approvals/{row.id}", {"answer": answer}).json == {"id": row.id, "answer": answer}
        again = page.post(f"/api/approvals/{row.id}", {"answer": "deny"})
        assert (again.status, again.json["error"]) == (400, f"this question does not wait any more: {answer}")
        assert page.get("/api/approvals").json["recent"][0]["reason"].endswith("by the owner, in the page")
    stored = questions.get(row.id)
    assert stored is not None and (stored.state, stored.answer) == (state, answer)


def test_a_question_of_the_model_takes_any_text_but_none(waiting: tuple[Questions, str, str], home: Path) -> None:
    questions, session_id, turn_id = waiting
    row = _ask(questions, session_id, turn_id, "clarify")
    with page_over(home) as page:
        assert page.post(f"/api/approvals/{row.id}", {"answer": " "}).status == 400
        assert page.post(f"/api/approvals/{row.id}", {"answer": "the second"}).status == 200
        assert page.post(f"/api/approvals/{row.id}", ["no object"]).status == 400
    stored = questions.get(row.id)
    assert stored is not None and (stored.state, stored.answer) == ("answered", "the second")


def test_costs_and_budgets(rig: Rig) -> None:
    host = rig.host([text("One.", usage=USAGE)])
    host.new_session().run("go")
    (rig.home / "config.yaml").write_text("budgets:\n  day:\n    calls: 4\n  turn:\n    usd: 2\n")
    with page_over(rig.home) as page:
        report = page.get("/api/costs?days=2").json
    assert (report["total"]["calls"], report["model"][0]["name"], report["day"][0]["prompt_tokens"]) == (
        1,
        "scripted",
        100,
    )
    assert report["plugin"][0]["name"] == "conversation"
    day, turn = report["budgets"]
    assert (day["limits"]["calls"], day["spent"]["calls"]) == (4, 1)
    assert (turn["limits"]["usd"], turn["spent"]) == (2, None)


def test_health_of_plugins(rig: Rig) -> None:
    host = rig.host([text("One.")])
    session = host.new_session()
    session.run("go")
    counters = [
        PluginCalls("watch", "post_tool_call", 10, 2, 0.5, "KeyError: 'x'"),
        PluginCalls("watch", "register", 1),
    ]
    record_plugin_counters(host.store, session.id, counters)
    (rig.home / "config.yaml").write_text("plugins:\n  enabled: [watch, unused]\n")
    with page_over(rig.home) as page:
        used, unused = page.get("/api/plugins").json
    assert (used["name"], used["calls"], used["failures"], used["last_error"]) == ("watch", 10, 2, "KeyError: 'x'")
    assert unused == {"name": "unused", "sessions": 0}


def test_two_runs_are_compared(rig: Rig) -> None:
    host = rig.host([text("One."), text("Two.")])
    sessions = [host.new_session(), host.new_session()]
    for session in sessions:
        session.run("go")
    with page_over(rig.home) as page:
        same = page.get(f"/api/compare?a={sessions[0].id}&b={sessions[0].id}").json
        other = page.get(f"/api/compare?a={sessions[0].id}&b={sessions[1].id}").json
        assert page.get("/api/compare?a=x").status == 400
        assert page.get(f"/api/compare?a=none&b={sessions[0].id}").status == 404
    assert same["count"] == 0
    assert any(line.strip().startswith("+") and "Two." in line for one in other["differences"] for line in one["lines"])


def test_a_journal_of_a_newer_version_is_explained(home: Path) -> None:
    home.mkdir()
    with sqlite3.connect(home / "state.db") as connection:
        connection.execute("PRAGMA user_version = 9999")
    connection.close()
    with page_over(home) as page:
        document = page.get("/")
        assert (document.status, "was written by a newer version" in document.text) == (503, True)
        assert "newer version" in page.get("/api/sessions").json["error"]


def test_an_empty_home_has_an_empty_page(home: Path) -> None:
    with page_over(home) as page:
        assert page.get("/").status == 200
        assert page.get("/api/costs").json["total"]["calls"] == 0
        assert page.get("/api/plugins").json == []
        assert page.get("/api/approvals").json == {"waiting": [], "recent": []}
        assert page.post("/api/chat", {"text": "Hello", "key": "1"}).json == {"error": "this page has no chat"}


def test_a_deleted_session_leaves_the_list(rig: Rig) -> None:
    host = rig.host([text("One.")])
    session = host.new_session()
    session.run("go")
    session.close()
    with page_over(rig.home) as page:
        assert len(page.get("/api/sessions").json) == 1
        Sessions(host.store).delete(session.id, host.runner)
        assert page.get("/api/sessions").json == []
