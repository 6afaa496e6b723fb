"""Live updates: every event of the journal reaches open pages, in order, once they have its number."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

import pytest

from hermes.journal.questions import QuestionRow, Questions
from hermes.journal.sessions import Sessions
from hermes.journal.store.port import home_store
from hermes.testing import RecordedRequest, text, tool_call
from hermes.tools.registry import Tool
from support.trace_runs import NO_PARAMETERS, Rig
from support.waiting import finish, wait_for, wait_until
from support.web_rig import LiveEvents, page_over


class Run:
    """A run with a tool that waits until it is let go."""

    def __init__(self, rig: Rig) -> None:
        self.started, self.may_end = threading.Event(), threading.Event()
        self.host = rig.host([tool_call("hold", {}), text("done")], toolsets=["hold"])
        self.host.tools.add(Tool("hold", "hold", "", NO_PARAMETERS, self._hold, "unsafe"))
        self.session = self.host.new_session()
        self._thread = threading.Thread(target=lambda: self.session.run("go"), daemon=True)

    def _hold(self, _args: object, _context: object) -> str:
        self.started.set()
        wait_for(self.may_end)
        return "{}"

    def start(self) -> None:
        self._thread.start()
        wait_for(self.started)

    def end(self) -> None:
        self.may_end.set()
        finish(self._thread.join)


@pytest.fixture
def run(rig: Rig) -> Run:
    return Run(rig)


def rows_until(events: LiveEvents, wanted: str, state: str) -> tuple[dict[str, Any], list[int]]:
    """Read rows until that one is in that state; all of them, and the numbers they came with."""
    rows: dict[str, Any] = {}
    numbers: list[int] = []
    while rows.get(wanted, {}).get("state") != state:
        event = events.next("rows")
        numbers.append(int(event["id"]))
        for one in event["data"]["rows"]:
            for row in one.get("rows", ()):
                rows[row["id"]] = {**rows.get(row["id"], {}), **row}
    return rows, numbers


def test_a_page_sees_a_run_as_it_happens(run: Run, rig: Rig) -> None:
    run.start()
    with page_over(rig.home) as page, closing(page.live(f"/api/sessions/{run.session.id}/live")) as events:
        rows, _ = rows_until(events, "0/tool:1.0", "running")
        assert rows["0"]["state"] == "running"
        run.end()
        rows, numbers = rows_until(events, "0", "ok")
        assert rows["0/tool:1.0"]["state"] == "ok"
        assert "0/model:2" in rows
    assert numbers == sorted(numbers)
    assert numbers[-1] == Sessions(run.host.store).events(run.session.id)[-1]["seq"]


def test_a_page_that_lost_its_connection_gets_what_it_missed_and_nothing_else(run: Run, rig: Rig) -> None:
    run.start()
    path = f"/api/sessions/{run.session.id}/live"
    with page_over(rig.home) as page:
        with closing(page.live(path)) as events:
            _, numbers = rows_until(events, "0/tool:1.0", "running")
        run.end()
        with closing(page.live(path, **{"Last-Event-ID": str(numbers[-1])})) as events:
            rows, _ = rows_until(events, "0", "ok")
        assert set(rows) == {"0", "0/tool:1.0", "0/model:2"}
        head = Sessions(run.host.store).events(run.session.id)[-1]["seq"]
        with closing(page.live(f"{path}?after={head}")) as events:
            first = events.next("rows")
        assert (first["id"], first["data"]["rows"]) == (str(head), [])


def test_the_list_shows_a_session_that_begins_and_ends(run: Run, rig: Rig) -> None:
    with page_over(rig.home) as page, closing(page.live("/api/live")) as events:
        assert events.next("sessions")["data"]["sessions"] == []
        run.start()
        states: list[str] = []
        ends = False
        while states[-1:] != ["completed"]:
            states += [line["state"] for line in events.next("sessions")["data"]["sessions"]]
            if states and not ends:
                ends = True
                run.end()
        assert states[0] == "running"


def test_a_question_and_its_answer_are_seen_without_an_event(run: Run, rig: Rig) -> None:
    run.start()
    questions = Questions(run.host.store)
    turn_id = run.host.store.read(lambda connection: connection.execute("SELECT id FROM turns").fetchone()[0])
    with page_over(rig.home) as page, closing(page.live(f"/api/sessions/{run.session.id}/live")) as events:
        rows_until(events, "0/tool:1.0", "running")
        row = QuestionRow("q_1", run.session.id, turn_id, "tool:1.0", "hold", "d", "hold {}", surface="owner")
        questions.ask(row)
        name = "0/tool:1.0/q_1"
        rows, _ = rows_until(events, name, "waiting")
        assert rows[name]["question"] == "q_1"
        assert page.get("/api/sessions").json[0]["state"] == "waiting"
        page.post("/api/approvals/q_1", {"answer": "once"})
        rows_until(events, name, "ok")
    run.end()


def test_a_session_that_is_deleted_while_it_is_open_ends_its_stream(rig: Rig) -> None:
    host = rig.host([text("ok")])
    session = host.new_session()
    session.run("go")
    session.close()
    with page_over(rig.home) as page:
        path = f"/api/sessions/{session.id}/live"
        with closing(page.live(path)) as events:
            events.next("rows")
            Sessions(host.store).delete(session.id, host.runner)
            events.next("gone")
            with pytest.raises(EOFError):
                events.next("rows")
        with closing(page.live(path)) as events:
            events.next("gone")


def test_children_of_an_open_session_arrive_live(rig: Rig) -> None:
    child_asked, may_answer = threading.Event(), threading.Event()

    def answer(request: RecordedRequest) -> Any:
        said = [message["content"] for message in request.messages if message["role"] == "user"]
        if said == ["go"]:
            done = any(message["role"] == "tool" for message in request.messages)
            return text("done") if done else tool_call("delegate_task", {"goal": "the child's part"})
        child_asked.set()
        wait_for(may_answer)
        return text("child done")

    host = rig.host(answer, toolsets=["delegation"])
    session = host.new_session()
    thread = threading.Thread(target=lambda: session.run("go"), daemon=True)
    thread.start()
    wait_for(child_asked)
    with page_over(rig.home) as page, closing(page.live(f"/api/sessions/{session.id}/live")) as events:
        seen: set[str] = set()
        while len(seen) < 2:
            seen |= {one["id"] for one in events.next("rows")["data"]["rows"]}
        may_answer.set()
        ended: set[str] = set()
        while ended != seen:
            for one in events.next("rows")["data"]["rows"]:
                ended |= {
                    one["id"] for row in one.get("rows", ()) if row["kind"] == "turn" and row.get("state") == "ok"
                }
    finish(thread.join)


def test_the_watcher_rests_while_no_page_is_open(run: Run, rig: Rig) -> None:
    run.start()
    with page_over(rig.home) as page:
        assert page.service.watcher.open_pages == 0
        with closing(page.live("/api/live")) as events:
            events.next("sessions")
            assert page.service.watcher.open_pages == 1
        run.end()  # the stream notices its end with the next message
        wait_until(lambda: page.service.watcher.open_pages == 0, "the end of the stream")


def test_a_change_of_any_connection_is_a_new_mark(rig: Rig) -> None:
    host = rig.host([text("ok")])
    with closing(home_store(rig.home)) as store:
        host.new_session().run("go")
        mark = store.change_mark()
        assert store.change_mark() == mark
        host.sessions.rename(host.sessions.list()[0].id, "another")
        assert store.change_mark() != mark
