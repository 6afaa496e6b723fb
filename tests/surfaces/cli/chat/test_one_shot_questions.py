"""The question of a single run may be answered elsewhere: in the page, or with ``hermes approvals approve``."""

from __future__ import annotations

import os
import pty
import sys
import threading
from pathlib import Path

import pytest

from hermes.journal.questions import Questions
from hermes.surfaces.cli.chat import command
from hermes.surfaces.cli.chat.output import TextOutput
from hermes.testing import ScriptedProvider, text, tool_call
from support.configured import configured_host, tool_answers
from support.waiting import HANG, wait_until


def test_an_answer_that_is_given_elsewhere_counts(home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workdir / "precious").mkdir()
    writing, reading = pty.openpty()
    stdin = os.fdopen(reading)
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.setattr(command, "can_prompt", lambda: True)
    script = [tool_call("terminal", {"command": "rm -r precious"}), text("Done.")]
    with ScriptedProvider(script) as provider, configured_host(home, workdir, provider) as host:
        session = host.new_session()
        questions = command._questions(host, TextOutput.__new__(TextOutput))  # pyright: ignore[reportPrivateUsage]
        assert questions is not None
        questions._before_showing = lambda: None  # pyright: ignore[reportPrivateUsage]
        host.responders.attach(session.id, questions)
        run = threading.Thread(target=session.run, args=("clean up",), daemon=True)
        run.start()
        stored = Questions(host.store)
        wait_until(lambda: questions.current is not None, "the question")
        [waiting] = stored.pending()
        stored.answer(waiting.id, "once", "by the page")
        run.join(HANG)
        assert not run.is_alive(), "the run waits for its own terminal"
        assert tool_answers(host, session.id)[0]["exit_code"] == 0
    assert not (workdir / "precious").exists()
    wait_until(lambda: all(one.name != "hermes-questions" for one in threading.enumerate()), "the end of its reader")
    stdin.close()
    os.close(writing)
