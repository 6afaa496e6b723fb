"""What a run shows of attempts that fail: one line that counts down, and text that is withdrawn."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import get_args

import pytest

from hermes.base.errors import ProviderError
from hermes.base.sanitize import Redactor
from hermes.base.scope import Interrupt
from hermes.contract.events import RetryScheduled, TextDelta, TextWithdrawn, TurnEvent
from hermes.models.endpoint import Endpoint
from hermes.models.retry import Failure, Send, Sleep, attempts, retry
from hermes.surfaces.cli.chat.output import EVENT_FIELDS, TextOutput
from hermes.surfaces.cli.chat.rendering import WITHDRAWN
from hermes.testing import ScriptedProvider, failure, text
from support import run_hermes, write_config

BROKEN = text("Half of what I wanted to say", truncate_after=600)


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def retrying(home: Path, base_url: str) -> None:
    write_config(home, base_url)
    config = (home / "config.yaml").read_text()
    (home / "config.yaml").write_text(config.replace("api_max_retries: 0", "api_max_retries: 1"))


def test_text_of_a_broken_answer_is_withdrawn_where_events_are_shown(home: Path, workdir: Path) -> None:
    with ScriptedProvider([BROKEN, text("Whole.")]) as provider:
        retrying(home, provider.base_url)
        done = run_hermes("chat", "--stream-json", "-q", "go", home=home, cwd=workdir)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [event["type"] for event in events if event["type"] != "text"]
    assert kinds == [
        *("session", "turn_started", "model_failed", "text_withdrawn", "retry_scheduled", "model_answered", "result")
    ]
    told = next(event for event in events if event["type"] == "retry_scheduled")
    assert (told["retry"], told["max_retries"], told["model"]) == (1, 1, "scripted")
    assert (done.returncode, events[-1]["answer"]) == (0, "Whole.")


def test_what_is_in_a_pipe_cannot_be_taken_back(home: Path, workdir: Path) -> None:
    with ScriptedProvider([BROKEN, text("Whole.")]) as provider:
        retrying(home, provider.base_url)
        done = run_hermes("chat", "-q", "go", home=home, cwd=workdir)
    assert done.returncode == 1 and done.stdout.startswith("Half of") and len(provider.requests) == 1


def test_a_rate_limit_that_is_waited_for_gives_no_advice_to_wait(home: Path, workdir: Path) -> None:
    with ScriptedProvider([failure(429, headers={"retry-after-ms": "10"}), text("Done.")]) as provider:
        retrying(home, provider.base_url)
        done = run_hermes("chat", "-q", "go", home=home, cwd=workdir)
    assert done.stdout == "Done.\n"
    assert done.stderr.startswith("! custom: rate limited; trying again in 0.1 s (1 of 1)\n")


def test_a_terminal_shows_one_line_that_counts_down(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout, stderr = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    output = TextOutput(stdout, Redactor())
    assert output.can_withdraw
    output.event(TextDelta("Half"))
    output.event(TextWithdrawn())
    for left, is_first in ((3.0, True), (2.0, False), (1.0, False)):
        output.event(RetryScheduled("p", "m", left, 1, 3, is_first=is_first))
    output.event(TextDelta("Whole."))
    assert stderr.getvalue().split("\r") == [
        f"{WITHDRAWN}\n",
        *(f"… trying again in {left} s (1 of 3)\x1b[K" for left in (3, 2, 1)),
        "\x1b[K",
    ]
    assert stdout.getvalue() == "Half\nWhole."


def test_elsewhere_a_long_wait_is_mentioned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    output = TextOutput(io.StringIO(), Redactor())
    assert not output.can_withdraw
    for left, is_first in ((0.4, True), (12.0, True), (11.0, False)):
        output.event(RetryScheduled("p", "m", left, 2, 3, is_first=is_first))
    assert stderr.getvalue() == "… trying again in 12 s (2 of 3)\n"


def test_a_wait_is_reported_when_it_begins() -> None:
    endpoint, seen = Endpoint("http://h/v1", "m"), list[tuple[int, int]]()

    def attempt(send: Send) -> str | Failure:
        return "answer" if send.number == 3 else Failure(ProviderError("busy", reason="overloaded", retry_after=0.01))

    def on_wait(wait: Sleep, left: float) -> None:
        assert wait.endpoint is endpoint and left <= wait.seconds
        seen.append((wait.retry, wait.max_retries))

    assert retry(attempts([endpoint], 2), Interrupt(), attempt, on_wait) == "answer"
    assert list(dict.fromkeys(seen)) == [(1, 2), (2, 2)]


def test_a_failure_is_shown_once_with_its_retry_and_not_again_for_each_attempt(home: Path, workdir: Path) -> None:
    with ScriptedProvider([failure(503, "busy"), failure(503, "busy"), text("Whole.")]) as provider:
        write_config(home, provider.base_url)
        config = (home / "config.yaml").read_text()
        (home / "config.yaml").write_text(config.replace("api_max_retries: 0", "api_max_retries: 2"))
        done = run_hermes("chat", "-q", "go", home=home, cwd=workdir)
    first, second, _ = done.stderr.splitlines()
    assert "busy" in first and first.startswith("! ") and first.endswith("(1 of 2)")
    assert "busy" in second and second.endswith("(2 of 2)")


def test_a_failure_that_lasts_is_one_error(home: Path, workdir: Path) -> None:
    with ScriptedProvider([failure(401, "wrong key")]) as provider:
        write_config(home, provider.base_url)
        done = run_hermes("chat", "-q", "go", home=home, cwd=workdir)
    assert done.returncode == 1 and done.stderr.count("wrong key") == 1


def test_every_event_of_a_turn_has_a_document() -> None:
    assert set(EVENT_FIELDS) == set(get_args(TurnEvent))
