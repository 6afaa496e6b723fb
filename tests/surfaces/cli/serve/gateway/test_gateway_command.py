"""``hermes gateway status``, ``retry`` and ``pair``: what they show, change and refuse."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from hermes.base.config.files import write_private_document
from hermes.journal.store.port import Store, home_store
from hermes.surfaces.cli.main import main
from hermes.surfaces.gateway.adapter import MessageEvent, Platform, SessionSource
from hermes.surfaces.gateway.store.inbox import ChatRow, Inbox
from hermes.surfaces.gateway.store.outbox import Outbox, OutgoingMessage
from hermes.surfaces.gateway.store.users import GatewayUsers
from support import start_hermes, write_config
from support.gateway_rig import add_line_platform


@pytest.fixture
def store(home: Path) -> Generator[Store]:
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text("gateway: {platforms: {irc: {}, matrix: {enabled: false}}}\n")
    with closing(home_store(home)) as store:
        yield store


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["gateway", *words])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_the_status_without_a_gateway(store: Store, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said, _ = run(capsys, "status")
    assert status == 0
    assert said == "The gateway does not run. Start it with: hermes gateway run\n  platforms: irc\n"
    # The process of a gateway that was killed is gone.
    write_private_document(home / "gateway.json", {"pid": 2**22 + 1, "started_at": 1.0, "written_at": 1.0})
    assert run(capsys, "status")[1].startswith("The gateway does not run.")
    (home / "config.yaml").unlink()
    assert "No platform is configured" in run(capsys, "status")[1]


def test_the_status_of_a_running_gateway(store: Store, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed = {"name": "irc", "label": "IRC", "state": "waiting", "error": "lost\x1b[2J", "restarts": 3, "since": 1.0}
    document = {"pid": os.getpid(), "started_at": 1.0, "written_at": 2.0, "platforms": [failed]}
    write_private_document(home / "gateway.json", document)
    status, said, _ = run(capsys, "status")
    assert status == 0 and f"process {os.getpid()}" in said
    assert "  irc  waiting, restarted 3 times: lost" in said and "\x1b" not in said


def test_messages_that_wait_are_named_with_the_reason(
    store: Store, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outbox = Outbox(store)
    outbox.add(*(OutgoingMessage(f"k{number}", "irc", "#room", "text") for number in range(2)))
    outbox.add(OutgoingMessage("other", "irc", "#other", "text"))
    first, second, _ = outbox.claim(["irc"])
    due = time.time() + 300
    outbox.settle([(first.number, "waiting", "not here", "", due), (second.number, "waiting", "", "", due)])
    outbox.settle_claims()
    assert (
        "2 messages wait to be sent, which happens when the gateway runs:\n"
        "  irc #room: 2 messages, tried 1 time (not here)\n"
    ) in run(capsys, "status")[1]
    document = {"pid": os.getpid(), "started_at": 1.0, "written_at": 2.0}
    write_private_document(home / "gateway.json", document)
    said = run(capsys, "status")[1]
    assert "2 messages wait to be sent:\n" in said and "(not here), next attempt in " in said
    assert "  irc  not run: left out with --platform, or configured since the gateway was started" in said
    [waiting] = json.loads(run(capsys, "status", "--json")[1])["waiting"]
    assert (waiting["platform"], waiting["chat_id"], waiting["messages"]) == ("irc", "#room", 2)


@pytest.mark.slow
def test_platforms_that_cannot_be_run_or_connected_are_named(
    home: Path, workdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_config(home, "http://127.0.0.1:9/v1")
    add_line_platform(home, home / "nosuchdir" / "port")
    with (home / "config.yaml").open("a") as config:
        config.write("    webhook: {extra: {routes: {build: {prompt: Why}}}}\n  api: {enabled: false}\n")
    gateway = start_hermes("gateway", "run", home=home, cwd=workdir, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert gateway.stdout is not None and gateway.stderr is not None
    try:
        warnings = [gateway.stderr.readline(), gateway.stderr.readline()]
        assert "platform webhook: gateway.platforms.webhook.extra.routes.build" in warnings[0], warnings
        assert "(hermes config set WEBHOOK_SECRET_BUILD)" in warnings[0]
        assert warnings[1].startswith("Warning: platform line is not connected: FileNotFoundError: "), warnings
        assert "; it is tried again" in warnings[1]
        said = run(capsys, "status")[1]
        assert "  line  waiting" in said or "  line  starting" in said
        assert "  webhook  failed: gateway.platforms.webhook.extra.routes.build" in said
        (home / "nosuchdir").mkdir()
        assert gateway.stderr.readline() == "Platform line is connected.\n"
        gateway.send_signal(signal.SIGTERM)
        output, errors = gateway.communicate(timeout=60)
        assert (gateway.returncode, output, errors) == (0, "Gateway: line\n", "")
    finally:
        gateway.kill()
        gateway.communicate()


def test_messages_that_were_not_sent_are_listed_and_sent_again(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    outbox, inbox = Outbox(store), Inbox(store)
    outbox.add(*(OutgoingMessage(f"k{number}", "irc", "#room", f"text {number}\x1b]0;x\x07") for number in range(3)))
    first, second, third = outbox.claim(["irc"])
    outbox.settle([(first.number, "sent", "", "id", 0.0), (second.number, "failed", "too long", "", 0.0)])
    outbox.settle_claims()
    row = ChatRow("agent:main:irc:dm:bob", "irc", "irc:bob", "s1", "{}", 1.0)
    event = MessageEvent("x", source=SessionSource(Platform("irc"), "bob"), message_id="m1")
    for delivery in ("m1", "m2"):
        assert inbox.accept(row, delivery, event, is_new=True) is not None
    inbox.finish(1, state="dead", error="it was tried 5 times")

    status, said, _ = run(capsys, "status")
    assert status == 0 and "\x1b" not in said
    assert "1 message has no answer yet." in said and "it was tried 5 times" in said
    assert f"{second.number}  failed  irc #room: text 1" in said and "(too long)" in said
    assert f"{third.number}  unknown  irc #room: text 2" in said
    status, said, _ = run(capsys, "status", "--json")
    found = json.loads(said)
    assert (found["running"], found["configured"], found["open"]) == (False, ["irc"], 1)
    assert {one["number"]: one["state"] for one in found["undelivered"]} == {
        second.number: "failed",
        third.number: "unknown",
    }

    status, said, _ = run(capsys, "retry", str(third.number))
    assert (status, said) == (0, f"Message {third.number} to #room is sent again by the gateway.\n")
    assert [one.number for one in outbox.claim(["irc"])] == [third.number]
    status, _, said = run(capsys, "retry", str(first.number))
    assert status == 1 and f"message {first.number} is sent" in said and "hermes gateway status" in said
    status, _, said = run(capsys, "retry", "99")
    assert status == 1 and "is not in the outbox" in said


def test_users_are_let_in_and_no_longer(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "pair", "list")[1] == "No user was let in, and none asks for it.\n"
    users = GatewayUsers(store)
    code = users.request("irc", "bob!b@h", "Bob\x1b[31m\nhermes gateway pair approve", "bob")
    assert code is not None
    status, said, _ = run(capsys, "pair", "list")
    assert status == 0 and "bob!b@h" in said and "asked 0 min ago" in said
    assert code not in said and "\x1b" not in said and len(said.splitlines()) == 1
    status, _, said = run(capsys, "pair", "approve", "AAAAAAAA")
    assert status == 1 and "no request has this code" in said and users.all() == []
    status, said, _ = run(capsys, "pair", "approve", code.lower(), "--approver")
    assert status == 0 and "is let in as approver" in said
    status, said, _ = run(capsys, "pair", "add", "IRC", "eve!e@h", "--owner")
    assert (status, said) == (0, "eve!e@h on irc is let in as owner.\n")
    found = json.loads(run(capsys, "pair", "list", "--json")[1])
    assert {one["user_id"]: one["role"] for one in found["users"]} == {"bob!b@h": "approver", "eve!e@h": "owner"}
    assert found["requests"] == []
    assert run(capsys, "pair", "revoke", "irc", "bob!b@h")[0] == 0
    status, said, _ = run(capsys, "pair", "revoke", "irc", "bob!b@h")
    assert status == 1 and "was not let in" in said
    assert [one.user_id for one in users.all()] == ["eve!e@h"]


def test_no_platform_is_an_error_that_says_what_to_do(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, said = run(capsys, "run", "--platform", "discord", "--no-api")
    assert status == 1 and "gateway.platforms.discord" in said and "irc, matrix" in said
