"""Long questions: whoever decides sees the end of the call, hidden characters, and how much is left out."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater

from hermes.base.http_server.principals import Principal
from hermes.base.sanitize import Redactor
from hermes.host import Host
from hermes.journal.questions import QuestionRow, Questions
from hermes.surfaces.a2a.server.questions import prompt_message
from hermes.surfaces.cli.main import main
from hermes.surfaces.gateway.adapter import Platform, SessionSource
from hermes.surfaces.gateway.chats.questions import question_messages
from hermes.surfaces.mcp_server.service import AgentService
from hermes.surfaces.openai_api.runs.questions import shown_question
from hermes.surfaces.web.queries.approvals import waiting_questions
from hermes.testing import ScriptedProvider, text
from hermes.trace.clean import Cleaner
from journal.kit import start_turn
from support.configured import configured_host

#: The dangerous part is behind a long harmless one, and reads backwards where that is not shown.
LONG = "echo " + "a" * 3_000 + "\n\u202erm -r precious"
ENDING = "\\u202erm -r precious"


@pytest.fixture
def host(home: Path, workdir: Path) -> Generator[Host]:
    with ScriptedProvider(text("hi")) as provider, configured_host(home, workdir, provider) as host:
        with closing(host.store.new_runner()) as runner:
            start_turn(host.store, runner, "s1", turn_id="t1")
        row = QuestionRow("appr_0f3b6c1d9a7e", "s1", "t1", "tool:1.0", "terminal", "d", LONG, (), "deletes")
        assert Questions(host.store).ask(row)
        yield host


def question_of(host: Host) -> QuestionRow:
    [row] = Questions(host.store).pending()
    return row


def in_a_chat(host: Host) -> str:
    source = SessionSource(Platform("line"), "bob", user_id="bob")
    [message] = question_messages(question_of(host), "key", source, None, Redactor())
    assert json.dumps(message.details)  # for platforms with buttons
    return message.content


def to_a_caller_of_the_api(host: Host) -> str:
    return shown_question(question_of(host), Redactor())["summary"]


def to_a_caller_over_a2a(host: Host) -> str:
    updater = TaskUpdater(cast("EventQueue", None), "t", "c")  # only to make the message
    message = prompt_message(updater, question_of(host), Redactor())
    return message.parts[0].text


def to_a_client_over_mcp(host: Host) -> str:
    [shown] = AgentService(host).approvals(Principal(""))
    return shown["call"]


@pytest.mark.parametrize("shown", [in_a_chat, to_a_caller_of_the_api, to_a_caller_over_a2a, to_a_client_over_mcp])
def test_the_end_is_shown_and_what_is_left_out_is_said(host: Host, shown: Any) -> None:
    said = shown(host)
    assert "characters left out: 'hermes approvals pending' shows all of it]" in said
    assert ENDING in said and "\u202e" not in said and len(said) < 2_000


def test_the_page_and_the_list_of_the_owner_show_all_of_it(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    [waiting] = waiting_questions(host.store, Cleaner(Redactor()))["waiting"]
    assert waiting["subject"].endswith("aaa\n" + ENDING) and len(waiting["subject"]) > 3_000
    with closing(host):
        assert main(["approvals", "pending"]) == 0
    listed = capsys.readouterr().out
    assert listed.endswith(f"aaa\n  {ENDING}\n") and "a" * 3_000 in listed
