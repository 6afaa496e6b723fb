"""The page in a real browser: live timeline, answers, keyboard, phone width, dark and light, hostile content."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from hermes.base.errors import HermesError
from hermes.host import Host
from hermes.journal.sessions import Sessions
from hermes.service.dispatch.local import LocalDispatcher
from hermes.surfaces.web.chat import PLATFORM, PageChat, page_entry
from hermes.surfaces.web.service import PageService
from hermes.testing import failure, text, tool_call
from hermes.testing import tool_calls as calls
from hermes.tools.registry import Tool
from support.browser import PHONE, WIDE, chromium, expect, opened
from support.trace_runs import NO_PARAMETERS, USAGE, Rig, delegated_children
from support.waiting import finish, wait_for, wait_until
from support.web_rig import Page, page_over, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser
else:
    Browser = Any

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("chromium")]

#: Turn, delegate_task, child, its model call.
DEEPEST_ROW = ".list-row[aria-level='4']"
HOSTILE = "<script>window.hit=1</script><img src=x onerror='window.hit=1'>"


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with chromium() as found:
        yield found


@contextmanager
def chatting(host: Host) -> Generator[Page]:
    dispatcher = LocalDispatcher(host, entries={PLATFORM: page_entry(host)}, platforms=[PLATFORM])
    service = PageService(host.store, host.runner, host.home, host.redactor, PageChat(host, dispatcher))
    with served(service) as page:
        yield page


#: The elements of a view with their classes and texts.
OUTLINE = """(root) => [...root.querySelectorAll("#app *")].filter((one) => !one.closest("noscript")).map((one) =>
    [one.localName, one.className, one.getAttribute("href"), one.children.length ? "" : one.textContent].join(" "))"""
#: Keeps the first row that the document had.
KEEP_FIRST_ROW = """new MutationObserver(() => { window.firstRow ??= document.querySelector(".session"); })
    .observe(document, { childList: true, subtree: true })"""


def test_the_document_shows_the_list_and_the_script_takes_it_over(browser: Browser, rig: Rig) -> None:
    delegated_children(rig)
    failing = rig.host([failure(400, HOSTILE)], retries=0)
    with suppress(HermesError):
        failing.new_session().run(HOSTILE)
    with page_over(rig.home) as page, opened(browser, "about:blank") as tab:
        tab.add_init_script(KEEP_FIRST_ROW)
        tab.route("**/first.js", lambda route: route.abort())
        tab.goto(page.url)
        tab.wait_for_selector("text=go")
        drawn = tab.evaluate(f"({OUTLINE})(document)")
        assert len([line for line in drawn if line.startswith("tr session")]) == 2
        assert any("failed" in line for line in drawn)
        tab.unroute("**/first.js")
        tab.reload()
        wait_until(lambda: page.service.watcher.open_pages == 1, "the script")
        assert tab.evaluate(f"({OUTLINE})(document)") == drawn
        assert tab.evaluate("window.firstRow.isConnected")


def test_the_cookie_is_sent_to_no_other_port(browser: Browser, rig: Rig) -> None:
    seen: list[str] = []

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Cookie", ""))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    rig.host([])
    with page_over(rig.home) as page, opened(browser, page.url) as tab, HTTPServer(("127.0.0.1", 0), Other) as other:
        tab.wait_for_selector("text=No sessions yet")
        wait_until(lambda: page.service.watcher.open_pages == 1, "the script")
        tab.click(".theme")
        thread = threading.Thread(target=other.serve_forever, daemon=True)
        thread.start()
        try:
            tab.goto(f"http://127.0.0.1:{other.server_port}/")
        finally:
            other.shutdown()
            finish(thread.join)
        assert seen and all("hermes_page" not in cookies for cookies in seen)
        assert "hermes_theme=light" in seen[0]
        # The address without the folder leads a browser that is signed in back to it.
        tab.goto(f"{page.server}/")
        tab.wait_for_selector("text=No sessions yet")
        assert tab.url == f"{page.base}/"


def test_a_filter_stays_when_one_comes_back(browser: Browser, rig: Rig) -> None:
    host = rig.host([text("ok"), text("ok")])
    for title in ("Read the log.", "Write the docs."):
        host.new_session().run(title)
    with page_over(rig.home) as page, opened(browser, page.url) as tab:
        tab.fill(".filters input", "docs")
        expect(tab.locator(".session")).to_have_count(1)
        tab.click(".session a")
        tab.wait_for_selector(".wf-row.model")
        tab.go_back()
        expect(tab.locator(".session .title")).to_have_text(["Write the docs."])
        tab.reload()
        expect(tab.locator(".session .title")).to_have_text(["Write the docs."])
        expect(tab.locator(".filters input")).to_have_value("docs")


def test_a_run_is_drawn_while_it_happens(browser: Browser, rig: Rig) -> None:
    started, may_end = threading.Event(), threading.Event()

    def hold(_args: object, _context: object) -> str:
        started.set()
        wait_for(may_end)
        return '{"done": true}'

    host = rig.host([tool_call("hold", {"for": "a while"}), text("All done.")], toolsets=["hold"])
    host.tools.add(Tool("hold", "hold", "", NO_PARAMETERS, hold, "unsafe"))
    session = host.new_session()
    thread = threading.Thread(target=lambda: session.run("Hold on."), daemon=True)
    with page_over(rig.home) as page, opened(browser, page.url) as tab:
        tab.wait_for_selector("text=No sessions yet")
        thread.start()
        tab.click("text=Hold on.")  # it appeared by itself
        tab.wait_for_selector(".wf-row.tool.is-running")
        expect(tab.locator(".session-head .state")).to_have_text("running")
        wait_for(started)
        may_end.set()
        finish(thread.join)
        tab.wait_for_selector(".session-head .state.completed")
        expect(tab.locator(".list-row .wf-name")).to_have_text(
            ["Hold on.", "scripted (custom)", "hold", "scripted (custom)"]
        )
        expect(tab.locator(".bar.running")).to_have_count(0)
        expect(tab.locator(".first-token")).to_have_count(2)


def test_children_retries_and_failures_are_drawn(browser: Browser, rig: Rig) -> None:
    session_id = delegated_children(rig).stored.id
    host = rig.host([failure(500, "overloaded"), text("ok")], retries=1)
    retried = host.new_session()
    retried.run("Try twice.")
    with page_over(rig.home) as page, opened(browser, page.url) as tab:
        tab.goto(f"{page.base}/sessions/{session_id}")
        tab.wait_for_selector(DEEPEST_ROW)
        tab.goto(f"{page.base}/sessions/{retried.id}")
        tab.wait_for_selector(".bar .failed-try")
        expect(tab.locator(".wf-row.model .wf-note")).to_contain_text("1 retry")


def test_an_unknown_outcome_is_red(browser: Browser, rig: Rig) -> None:
    host = rig.host(
        [tool_call("terminal", {"command": "true"}), text("ok")], toolsets=["terminal"], allow_everything=True
    )
    session = host.new_session()
    session.run("go")
    host.store.write(
        lambda connection: connection.execute(
            'UPDATE events SET body = replace(replace(body, \'"status":"ok"\', \'"status":"error"\'), '
            "'\"error_type\":null', '\"error_type\":\"unknown_outcome\"') WHERE kind = 'step_done' AND key = 'tool:1.0'"
        )
    )
    with page_over(rig.home) as page, opened(browser, page.url) as tab:
        tab.click(".session a")
        tab.click(".wf-row.is-unknown")
        expect(tab.locator(".wf-row.is-unknown .wf-note")).to_have_text("outcome unknown")
        expect(tab.locator(".bar.unknown")).to_have_count(1)
        expect(tab.locator(".detail .problem")).to_contain_text("may or may not have taken effect")


def test_details_are_shown_and_copied(browser: Browser, rig: Rig) -> None:
    host = rig.host([tool_call("read_file", {"path": "missing.txt"}), text("ok")])
    host.new_session().run("go")
    with page_over(rig.home) as page, opened(browser, page.url) as tab:
        tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
        tab.click(".session a")
        tab.click(".wf-row.tool")
        part = tab.locator(".part", has_text="Arguments")
        part.get_by_role("button").click()
        tab.wait_for_function(
            "async (wanted) => await navigator.clipboard.readText() === wanted", arg='{\n  "path": "missing.txt"\n}'
        )
        tab.keyboard.press("Escape")
        expect(tab.locator(".detail")).to_have_count(0)


def test_everything_works_with_the_keyboard(browser: Browser, rig: Rig) -> None:
    delegated_children(rig)
    with page_over(rig.home) as page, opened(browser, page.url) as tab:
        tab.wait_for_selector(".session")
        for _ in range(30):
            tab.keyboard.press("Tab")
            if tab.evaluate("document.activeElement.closest('.session a') !== null"):
                break
        tab.keyboard.press("Enter")
        tab.wait_for_selector(DEEPEST_ROW)
        for _ in range(30):
            tab.keyboard.press("Tab")
            if tab.evaluate("document.activeElement.getAttribute('role') === 'tree'"):
                break
        rows = tab.locator(".list-row")
        all_rows = rows.count()
        tab.keyboard.press("ArrowDown")
        expect(tab.locator(".list-row.selected")).to_have_attribute("id", "row-0")
        tab.keyboard.press("ArrowDown")
        expect(tab.locator(".list-row.selected")).to_have_attribute("id", "row-1")
        tab.wait_for_selector(".detail .part")
        tab.keyboard.press("Home")
        tab.keyboard.press("ArrowLeft")
        expect(rows).to_have_count(1)
        tab.keyboard.press("ArrowRight")
        expect(rows).to_have_count(all_rows)
        tab.keyboard.press("Escape")
        expect(tab.locator(".detail")).to_have_count(0)


def test_markup_in_every_field_is_only_text(browser: Browser, rig: Rig) -> None:
    host = rig.host([tool_call("read_file", {"path": HOSTILE}), text(HOSTILE)])
    session = host.new_session()
    session.run(HOSTILE)
    with page_over(rig.home) as page, opened(browser, page.url) as tab:
        tab.wait_for_selector(".session")
        tab.click(".session a")
        for place in range(4):
            tab.locator(".list-row").nth(place).click()
            tab.wait_for_selector(".detail .part")
        for path in (f"/sessions/{session.id}?tab=chat", f"/sessions/{session.id}?tab=events", "/costs", "/approvals"):
            tab.goto(page.base + path)
            tab.wait_for_selector("main")
        assert tab.evaluate("window.hit") is None


def test_a_question_is_answered_in_the_page_and_the_answer_is_read_there(browser: Browser, rig: Rig) -> None:
    (rig.workdir / "old").mkdir()
    script = [tool_call("terminal", {"command": "rm -r old"}), text("It is removed now.")]
    host = rig.host(script, platform=PLATFORM, toolsets=["terminal"])
    with chatting(host) as page, opened(browser, page.url) as tab:
        tab.fill(".composer textarea", "Remove the old folder.")
        tab.keyboard.press("Enter")
        tab.wait_for_selector(".open-question")
        expect(tab.locator(".open-question pre")).to_have_text("terminal: rm -r old")
        expect(tab.locator(".top .badge")).to_have_text("1")
        tab.click("text=Timeline")
        tab.wait_for_selector(".bar.approval.waiting")
        tab.click("text=Allow once")
        tab.wait_for_selector(".bar.approval.ok")
        tab.click("text=Conversation")
        tab.wait_for_selector("text=It is removed now.")
        tab.wait_for_selector(".session-head .state.completed")
    assert not (rig.workdir / "old").exists()


def test_a_session_deleted_while_it_is_open_stays_readable(browser: Browser, rig: Rig) -> None:
    host = rig.host([text("ok")])
    session = host.new_session()
    session.run("go")
    session.close()
    with page_over(rig.home) as page, opened(browser, page.url) as tab:
        tab.click(".session a")
        tab.wait_for_selector(".wf-row.model")
        Sessions(host.store).delete(session.id, host.runner)
        tab.wait_for_selector("text=This session was deleted.")
        tab.locator(".list-row").nth(1).click()
        expect(tab.locator(".detail .problem")).to_contain_text("it may have been deleted")
        tab.click(".brand")
        tab.wait_for_selector("text=No sessions yet")


def test_the_page_connects_again_and_gets_what_it_missed(browser: Browser, rig: Rig) -> None:
    host = rig.host([text("First."), text("Second.")])
    session = host.new_session()
    session.run("One.")
    with page_over(rig.home) as page, opened(browser, page.url) as tab:
        tab.click(".session a")
        tab.wait_for_selector(".wf-row.model")
        watcher = page.service.watcher
        wait_until(lambda: watcher.open_pages == 1, "the stream")
        watcher.disconnect()
        session.run("Two.")
        expect(tab.locator(".wf-row.turn")).to_have_count(2, timeout=60_000)


def test_a_browser_that_is_signed_out_says_so_and_continues_when_it_is_back(browser: Browser, rig: Rig) -> None:
    host = rig.host([text("First."), text("Second.")])
    session = host.new_session()
    session.run("One.")
    with page_over(rig.home) as page, opened(browser, page.url) as tab:
        tab.click(".session a")
        tab.wait_for_selector(".wf-row.model")
        watcher = page.service.watcher
        wait_until(lambda: watcher.open_pages == 1, "the stream")
        cookies = tab.context.cookies()
        tab.context.clear_cookies()
        watcher.disconnect()
        expect(tab.locator(".top-problem")).to_contain_text("signed out")
        expect(tab.locator(".figures [role=status]")).to_have_text("connecting…")
        session.run("Two.")
        tab.context.add_cookies(cookies)  # pyright: ignore[reportArgumentType]  (what it gave is what it takes)
        expect(tab.locator(".wf-row.turn")).to_have_count(2, timeout=60_000)


def test_a_server_that_is_away_is_said_and_asked_again(browser: Browser, rig: Rig) -> None:
    host = rig.host([text("First.")])
    session = host.new_session()
    session.run("One.")
    with page_over(rig.home) as page, opened(browser, page.url) as tab:
        tab.click(".session a")
        tab.wait_for_selector(".wf-row.model")
        tab.context.set_offline(True)
        tab.click(".brand")
        expect(tab.locator(".top-problem")).to_contain_text("cannot be reached")
        tab.context.set_offline(False)
        expect(tab.locator(".session .title")).to_have_text(["One."])
        expect(tab.locator(".top-problem")).to_have_count(0)


@pytest.mark.parametrize("path", ["/costs", "/approvals", "/plugins", "/compare", "/sessions/none"])
def test_no_placeholder_stays_in_a_view(browser: Browser, rig: Rig, path: str) -> None:
    rig.host([])
    with page_over(rig.home) as page, opened(browser, page.url) as tab:
        tab.goto(page.base + path)
        tab.wait_for_selector("main")
        expect(tab.locator("text=Loading…")).to_have_count(0)
        expect(tab.locator("#app > *")).to_have_count(2)


def test_ten_thousand_events_have_few_elements(browser: Browser, rig: Rig) -> None:
    host = rig.host([text("ok")])
    session = host.new_session()
    session.run("go")
    turn_id = host.store.read(lambda connection: connection.execute("SELECT id FROM turns").fetchone()[0])
    body = (
        '{"id":"c","name":"read_file","args":{"path":"f"},"result":"x","status":"ok","error_type":null,"duration_ms":5}'
    )
    rows = [(session.id, seq, turn_id, f"tool:{seq}.0", body, 1e9 + seq) for seq in range(100, 10_100)]

    def write(connection: Any) -> None:
        connection.executemany(
            "INSERT INTO events (session_id, seq, turn_id, kind, key, effect, body, at) "
            "VALUES (?, ?, ?, 'step_done', ?, 'pure', ?, ?)",
            rows,
        )
        connection.execute("UPDATE sessions SET head_seq = 10099 WHERE id = ?", (session.id,))

    host.store.write(write)
    with page_over(rig.home) as page, opened(browser, page.url) as tab:
        tab.goto(f"{page.base}/sessions/{session.id}")
        tab.wait_for_selector(".list-row")
        assert tab.locator(".list-row").count() < 100
        tab.focus(".list")
        tab.keyboard.press("End")
        expect(tab.locator(".list-row.selected")).to_have_attribute("id", "row-10001")
        assert tab.locator(".list-row").count() < 100
        tab.click("text=Events")
        tab.wait_for_selector(".event-row")
        assert tab.locator(".list-row").count() < 100


@pytest.mark.parametrize(("size", "colours"), [(WIDE, "light"), (PHONE, "dark")], ids=["wide", "phone"])
def test_nothing_is_wider_than_the_window(browser: Browser, rig: Rig, size: tuple[int, int], colours: str) -> None:
    session_id = delegated_children(rig).stored.id
    with page_over(rig.home) as page, opened(browser, page.url, size, colours) as tab:
        for path in ("/costs", "/compare", f"/sessions/{session_id}"):
            tab.goto(page.base + path)
            tab.wait_for_selector("main")
            assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(20, 21, 27)" if colours == "dark" else "rgb(247, 247, 249)")
        tab.locator(".list-row").nth(1).click()
        box = tab.locator(".detail").bounding_box()
        assert box is not None and box["width"] == (480 if size == WIDE else size[0])
        tab.keyboard.press("Escape")
        tab.click(".theme")
        expect(tab.locator("html")).to_have_attribute("data-theme", "light")
        tab.click(".theme")
        expect(tab.locator("html")).to_have_attribute("data-theme", "dark")


def test_without_javascript_there_are_tables(browser: Browser, rig: Rig) -> None:
    host = rig.host([tool_call("read_file", {"path": "none"}), text("ok")])
    host.new_session().run("Read it.")
    with page_over(rig.home) as page, opened(browser, page.url, javascript=False) as tab:
        tab.click("td a")
        expect(tab.locator("table")).to_contain_text("tool read_file")


def test_a_file_shows_a_session_without_a_server(browser: Browser, rig: Rig) -> None:
    from hermes.surfaces.cli.main import main

    (rig.workdir / "a").write_text("x")
    host = rig.host(
        [calls([("read_file", {"path": HOSTILE}), ("read_file", {"path": "a"})], usage=USAGE), text(HOSTILE)]
    )
    session = host.new_session()
    session.run(HOSTILE)
    target = rig.workdir / "run.html"
    assert main(["trace", "html", session.id, "-o", str(target)]) == 0
    with ExitStack() as stack:
        tab = stack.enter_context(opened(browser, target.as_uri()))
        asked: list[str] = []
        tab.on("request", lambda request: asked.append(request.url))
        tab.reload()
        tab.wait_for_selector(".wf-row.tool")
        tab.locator(".wf-row.tool").first.click()
        expect(tab.locator(".part", has_text="Arguments")).to_contain_text(HOSTILE)
        assert tab.evaluate("window.hit") is None
        assert asked == [target.as_uri()]


def test_costs_plugins_and_comparison_have_their_views(browser: Browser, rig: Rig) -> None:
    host = rig.host([text("One.", usage=USAGE), text("Two.", usage=USAGE)])
    sessions = [host.new_session(), host.new_session()]
    for number, session in enumerate(sessions):
        session.run(f"Run {number}.")
    (rig.home / "config.yaml").write_text("budgets:\n  day:\n    calls: 4\nplugins:\n  enabled: [unused]\n")
    with page_over(rig.home) as page, opened(browser, page.url) as tab:
        for place in range(2):
            tab.locator(".session input").nth(place).check()
        tab.click("text=Compare the two")
        tab.wait_for_selector(".diff .added")
        tab.click("nav >> text=Costs")
        tab.wait_for_selector(".meter")
        expect(tab.locator(".budget p")).to_have_text("2 calls of 4 calls")
        expect(tab.locator(".day")).to_have_count(1)
        tab.click("nav >> text=Plugins")
        tab.wait_for_selector("text=not used yet")
        tab.go_back()
        tab.wait_for_selector(".meter")
