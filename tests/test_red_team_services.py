"""Red team on long-running surfaces: the API, platforms of the gateway, schedules, the page, workers of a cluster."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from hermes.base.config.schema.gateway import GatewayPlatformConfig
from hermes.base.http_server.listen_address import ListenAddress
from hermes.base.http_server.principals import read_principals
from hermes.host import Host
from hermes.journal.sessions import Sessions
from hermes.journal.store.port import Store
from hermes.service.dispatch.local import LocalDispatcher
from hermes.surfaces.cli.main import main
from hermes.surfaces.openai_api.serve import serve_until
from hermes.surfaces.web.chat import PLATFORM, PageChat, page_entry
from hermes.surfaces.web.service import PageService
from hermes.testing import ScriptedProvider
from support.api_rig import ServedApi
from support.chat_servers import free_port
from support.cluster_rig import ClusterRig
from support.configured import configured_host
from support.gateway_rig import GatewayRig
from support.red_team import SENTINELS, all_of_them, found_in, model, recorded, written
from support.schedule_rig import Rig
from support.served import ServerThread
from support.settled_turns import wait_turn
from support.waiting import HANG, wait_until
from support.web_rig import served

#: What a person might type by mistake.
SAID = f"My key is {SENTINELS['shell variable']}"


@pytest.fixture
def leak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with all secrets, which are in the shell's environment too."""
    for number, secret in enumerate(SENTINELS.values()):
        monkeypatch.setenv(f"SERVICE_{number}_TOKEN", secret)
    folder = tmp_path / "leaks"
    folder.mkdir()
    (folder / "leak.txt").write_text(all_of_them())
    return folder / "leak.txt"


@pytest.fixture
def provider(leak: Path, home: Path) -> Generator[ScriptedProvider]:
    with ScriptedProvider(model(leak, home)) as provider:
        yield provider


@contextmanager
def leaking(home: Path, workdir: Path, provider: ScriptedProvider, **sections: Any) -> Generator[Host]:
    options = {"allow_everything": True, "unattended": True, **sections.pop("options", {})}
    with configured_host(home, workdir, provider, options=options, **sections) as host:
        yield host


def check(out: dict[str, str], home: Path, provider: ScriptedProvider) -> None:
    """Nothing is in what came out, in the requests, and in the files of the home."""
    out |= {f"request {number}": json.dumps(one.body) for number, one in enumerate(provider.requests)}
    out |= {"journal": recorded(home), **dict(written(home))}
    assert {name: found for name, content in out.items() if (found := found_in(content))} == {}


@pytest.mark.slow
def test_nothing_leaves_through_the_api(home: Path, workdir: Path, provider: ScriptedProvider) -> None:
    out: dict[str, str] = {}
    with leaking(home, workdir, provider, options={"platform": "api_server"}) as host:
        known = read_principals(host.config, {}, host.redactor, "API_SERVER_KEY")
        thread = ServerThread(lambda stop, announce: serve_until(stop, host, ListenAddress(), known, announce))
        try:
            api = ServedApi(thread.wait_until_ready(), host)
            out["completion"] = api.chat(SAID).text
            out["stream"] = api.chat(SAID, stream=True).text
            response = api.post("/responses", {"input": SAID})
            out["response"] = response.text
            out["response, read"] = api.get(f"/responses/{response.json()['id']}").text
            out["response, streamed"] = api.post("/responses", {"input": SAID, "stream": True}).text
            run = api.post("/runs", {"input": SAID}).json()["run_id"]
            out["events"] = api.get(f"/runs/{run}/events").text
            out["run"] = api.get(f"/runs/{run}").text
            mistake = {"input": SAID, "session_id": SENTINELS["principal"], SENTINELS["auth.json"]: 1}
            out["mistake"] = api.post("/runs", mistake).text + api.get(f"/runs/{SENTINELS['principal']}").text
            out["health"] = "".join(api.get(path).text for path in ("/models", "/capabilities"))
        finally:
            thread.stop()
    for name in ("completion", "stream", "response", "response, read", "response, streamed", "events", "run"):
        assert "<redacted:" in out[name], name
    check(out, home, provider)


@pytest.mark.slow
def test_nothing_leaves_through_platforms(
    home: Path, workdir: Path, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBHOOK_SECRET_BUILD", SENTINELS["principal"])
    port = free_port()
    route = {"prompt": "Build {name} failed", "deliver": "line:#builds"}
    others = {"webhook": GatewayPlatformConfig(extra={"port": port, "routes": {"build": route}})}
    rig = GatewayRig(home, workdir, provider)
    try:
        rig.start(platforms=("line", "webhook"), others=others, options={"allow_everything": True})
        client = rig.client()
        wait_until(lambda: "webhook" in rig.running[0].gateway.adapters, "the platform of webhooks")
        client.ask(SAID)
        client.ask(SAID, "bob")
        refused = _post_signed(port, json.dumps({"name": SENTINELS["langfuse"]}).encode())
        client.hear(1, "#builds")
        client.ask("/status")
        client.ask("/history")
        client.ask(f"/approve {SENTINELS['auth.json']}")
        client.ask(f"/{SENTINELS['auth.json']}")
    finally:
        rig.close()
    out = {"received": json.dumps(client.received), "refused": refused}
    assert "<redacted:" in "".join(client.texts("#builds")) and "<redacted:" in "".join(client.texts("bob"))
    check(out, home, provider)


def _post_signed(port: int, body: bytes) -> str:
    sent_at = str(int(time.time()))
    digest = hmac.new(SENTINELS["principal"].encode(), f"msg_1.{sent_at}.".encode() + body, hashlib.sha256).digest()
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": sent_at,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
    request = urllib.request.Request(f"http://127.0.0.1:{port}/webhooks/build", body, headers)
    with urllib.request.urlopen(request, timeout=HANG) as response:
        return response.read().decode()


@pytest.mark.slow
def test_nothing_leaves_through_schedules(
    home: Path, workdir: Path, provider: ScriptedProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    with leaking(home, workdir, provider) as host:
        rig = Rig(host)
        report = workdir / "reports" / "today.md"
        for name in ("first", "second", "third"):
            assert main(["cron", "add", "every 1h", SAID, "--name", name, "--cwd", str(workdir)]) == 0
        first, second, third = (rig.schedules.get(name) for name in ("first", "second", "third"))
        rig.schedules.edit(first, deliver=f"file:{report}")
        rig.schedules.edit(second, deliver="irc:#room")
        rig.schedules.edit(third, deliver=f"file:{home / 'state.db'}")
        rig.now = max(one.next_fire or 0.0 for one in (first, second, third))
        reports = rig.tick(1)
        assert len(reports) == 3
        chats = repr(rig.outbox.messages)
        said = "".join(f"{one.answer}{one.error}{one.delivery}" for one in reports)
    for command in (
        ["cron", "list"],
        ["cron", "list", "--json"],
        ["cron", "show", first.id],
        ["cron", "show", third.id],
    ):
        main(command)
    captured = capsys.readouterr()
    assert "<redacted:" in report.read_text() and "<redacted:" in chats
    out = {"file": report.read_text(), "chats": chats, "reports": said, "commands": captured.out + captured.err}
    check(out, home, provider)


@pytest.mark.slow
def test_nothing_leaves_through_the_page_and_its_file(
    home: Path, workdir: Path, provider: ScriptedProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    out: dict[str, str] = {}
    with leaking(home, workdir, provider, options={"platform": "web"}) as host:
        dispatcher = LocalDispatcher(host, entries={PLATFORM: page_entry(host)}, platforms=[PLATFORM])
        service = PageService(host.store, host.runner, host.home, host.redactor, PageChat(host, dispatcher))
        with served(service) as page:
            live = page.live("/api/live")
            session_id = page.post("/api/chat", {"text": SAID, "key": "1"}).json["session"]
            streamed = page.live(f"/api/sessions/{session_id}/live")
            wait_until(lambda: getattr(host.sessions.last_turn(session_id), "answer", None), "the answer")
            paths = [f"/api/sessions/{session_id}{one}" for one in ("", "/events", "/messages")]
            paths += ["/", f"/sessions/{session_id}", "/approvals", "/costs", "/plugins", "/api/sessions"]
            paths += ["/api/approvals", "/api/costs", "/api/plugins", f"/api/compare?a={session_id}&b={session_id}"]
            for path in paths:
                out[path] = page.get(path).text
            for number, *_ in page.get(f"/api/sessions/{session_id}/events").json:
                out[f"event {number}"] = page.get(f"/api/sessions/{session_id}/events/{number}").text
            out["unknown"] = page.get(f"/api/sessions/{quote(SENTINELS['langfuse'], safe='')}").text
        out["live"] = live.rest() + streamed.rest()
    main(["trace", "html", session_id, "-o", str(workdir / "run.html")])
    out["file"] = (workdir / "run.html").read_text()
    captured = capsys.readouterr()
    out["command"] = captured.out + captured.err
    assert "redacted:" in out["file"] and "<redacted:" in out[f"/api/sessions/{session_id}/messages"]
    check(out, home, provider)


def test_the_address_of_a_database_is_not_in_its_errors(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = SENTINELS["database address"]
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "1")
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(
        json.dumps({"journal": {"url": f"postgresql://me:{secret}@127.0.0.1:1/x?password={secret}"}})
    )
    said = ""
    for command in (["sessions", "list"], ["db", "status"], ["doctor"], ["config", "show"], ["approvals", "pending"]):
        main(command)
        captured = capsys.readouterr()
        said += captured.out + captured.err
    assert "127.0.0.1" in said
    assert found_in(said) == []
    assert {name: found for name, content in written(home) if (found := found_in(content))} == {}


def everything_in(store: Store) -> str:
    """All sessions of a journal, as they are stored."""
    sessions = Sessions(store)
    return "".join(
        msgspec.json.encode(sessions.export(row.id)).decode() for row in sessions.list(limit=100, children=True)
    )


@pytest.mark.slow
def test_nothing_leaves_through_workers_and_their_database(
    tmp_path: Path, postgres_url: str, leak: Path, provider: ScriptedProvider
) -> None:
    rig = ClusterRig(tmp_path / "cluster", postgres_url, provider)
    try:
        rig.start_workers(1, env={"HERMES_LOG_LEVEL": "DEBUG"})
        dispatcher = rig.dispatcher()
        turn = dispatcher.submit(rig.request(SAID, request_key="1"))
        result = repr(wait_turn(dispatcher, turn.turn_id, timeout=HANG).result)
        rows = ""
        for schema, table in rig.query(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema = 'hermes'"
        ):
            rows += "".join(str(row[0]) for row in rig.query(f'SELECT t::text FROM "{schema}"."{table}" t'))
        stored = everything_in(rig.host().store)
    finally:
        rig.close()
    assert "<redacted:" in result and "<redacted:" in stored
    out = {"result": result, "rows": rows, "journal": stored, **dict(written(rig.home))}
    assert {name: found for name, content in out.items() if (found := found_in(content))} == {}
