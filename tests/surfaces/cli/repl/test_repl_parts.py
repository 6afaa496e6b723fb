"""The parts of the prompt by themselves: questions, lines, the view of a turn."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
from hermes.agent.events import TurnResult, TurnStatus
from hermes.base.errors import HermesError, Interrupted
from hermes.base.sanitize import Redactor
from hermes.base.sanitize.hidden import escape_hidden
from hermes.base.scope import Interrupt
from hermes.contract.events import (
    AttemptAnswered,
    AttemptFailed,
    ReasoningDelta,
    RetryScheduled,
    TextDelta,
    TurnStarted,
)
from hermes.models.costs.usage import Usage
from hermes.surfaces.cli.chat.theme import DARK, NO_COLOUR
from hermes.surfaces.cli.repl.prompt.plain import LineReader
from hermes.surfaces.cli.repl.prompt.screen import CapturedStream
from hermes.surfaces.cli.repl.questions import PromptQuestions, approval_question, clarifying_question, yes_or_no
from hermes.surfaces.cli.repl.turn_view import TurnView
from hermes.surfaces.cli.terminal import cells, word_wrapped
from support.events import some, tool_ended, tool_started


def request(subject: str = "rm -rf x", *, timeout: float = 60, can_be_kept: bool = True) -> ApprovalRequest:
    return ApprovalRequest(
        id="appr_1",
        session_id="s",
        tool_call_id="c",
        tool="terminal",
        args={"command": subject},
        subject=subject,
        description="deletes a folder",
        rules=("recursive-delete",),
        timeout=timeout,
        can_be_kept=can_be_kept,
    )


class TestQuestions:
    @pytest.mark.parametrize(
        ("typed", "answer"),
        [
            ("o", ApprovalAnswer("once")),
            (" YES ", ApprovalAnswer("once")),
            ("session", ApprovalAnswer("session")),
            ("a", ApprovalAnswer("always")),
            ("d", ApprovalAnswer("deny")),
            ("no, too risky", ApprovalAnswer("deny", "too risky")),
            ("no too risky", ApprovalAnswer("deny", "too risky")),
            ("a better way is git rm", ApprovalAnswer("deny", "a better way is git rm")),
            ("use git rm instead", ApprovalAnswer("deny", "use git rm instead")),
            ("o really", None),
            ("yes, but not the last one", None),
            ("", None),
            ("ok", None),
        ],
    )
    def test_only_a_clear_word_allows_a_call_and_other_words_are_the_reason_of_a_refusal(
        self, typed: str, answer: ApprovalAnswer | None
    ) -> None:
        question = approval_question(request())
        if answer is None:
            with pytest.raises(HermesError, match=r"answer o \(once\)"):
                question.reply(typed)
        else:
            question.reply(typed)
        assert question.answer == answer

    def test_what_can_only_be_allowed_once_is_not_kept(self) -> None:
        question = approval_question(request(can_be_kept=False))
        assert "session" not in question.hint
        with pytest.raises(HermesError, match="only be allowed once"):
            question.reply("s")
        question.reply("o")
        assert question.answer == ApprovalAnswer("once")

    def test_it_is_said_what_session_and_always_cover(self) -> None:
        text = approval_question(request()).text
        assert "[s] allows all calls under the rule recursive-delete in this session" in text
        assert "[a] in all sessions, until 'hermes approvals revoke recursive-delete'." in text
        assert "[a]" not in approval_question(request(can_be_kept=False)).text

    def test_the_command_is_shown_whole_and_what_is_invisible_is_spelt_out(self) -> None:
        text = approval_question(request("password=x;rm -rf y\necho \x1b[2K\u202eevil\udc80")).text
        assert "    password=x;rm -rf y\n    echo \\x1b[2K\\u202eevil\\udc80\n" in text
        assert "deletes a folder (recursive-delete)" in text

    @given(st.text())
    def test_nothing_invisible_gets_through(self, text: str) -> None:
        assert all(character.isprintable() or character in "\n\t" for character in escape_hidden(text))

    def test_questions_come_one_after_the_other(self) -> None:
        questions, answers = PromptQuestions(lambda: None), dict[str, object]()
        interrupt = Interrupt()

        def ask(text: str) -> None:
            answers[text] = questions.answer(text, ["yes", "no"], interrupt)

        first, second = (threading.Thread(target=ask, args=(text,)) for text in ("first", "second"))
        first.start()
        _wait_until(lambda: questions.current is not None)
        second.start()
        assert questions.current is not None and "first" in questions.current.text
        questions.current.reply("2")
        first.join(60)
        _wait_until(lambda: questions.current is not None and questions.current.seconds_left() is None)
        assert questions.current is not None and "second" in questions.current.text
        questions.current.reply("my own words")
        second.join(60)
        assert answers == {"first": "no", "second": "my own words"}
        assert questions.current is None

    def test_a_person_at_the_prompt_has_no_time_limit(self) -> None:
        questions = PromptQuestions(lambda: None)
        answers: list[ApprovalAnswer] = []
        asking = threading.Thread(target=lambda: answers.append(questions.approve(request(timeout=0.01), Interrupt())))
        asking.start()
        _wait_until(lambda: questions.current is not None)
        assert questions.current is not None and questions.current.seconds_left() is None
        asking.join(0.2)  # longer than the limit
        assert asking.is_alive()
        questions.current.reply("o")
        asking.join(60)
        assert answers == [ApprovalAnswer("once")]

    def test_an_answer_from_elsewhere_ends_a_question(self) -> None:
        answered: set[str] = set()
        questions = PromptQuestions(lambda: None, answered.__contains__)
        asking = threading.Thread(target=lambda: questions.approve(request(), Interrupt()))
        asking.start()
        _wait_until(lambda: questions.current is not None)
        answered.add(request().id)
        asking.join(60)
        assert not asking.is_alive()
        assert questions.current is None

    def test_time_and_interrupts_end_a_question(self) -> None:
        class Limited(PromptQuestions):
            _has_time_limit = True

        questions = Limited(lambda: None)
        assert questions.approve(request(timeout=0.05), Interrupt()) == ApprovalAnswer("timeout")
        interrupt = Interrupt()
        interrupt.cancel()
        with pytest.raises(Interrupted):
            questions.approve(request(), interrupt)
        assert questions.decide("sure?", interrupt) is None
        assert questions.current is None

    def test_yes_is_said_in_full_or_not_at_all(self) -> None:
        with pytest.raises(HermesError):
            yes_or_no("sure?").reply("perhaps")
        for typed, answer in (("y", True), ("YES", True), ("n", False), ("", False)):
            question = yes_or_no("sure?")
            question.reply(typed)
            assert question.answer is answer

    def test_a_number_beyond_the_choices_is_an_answer_of_its_own(self) -> None:
        question = clarifying_question("How many?", ["one", "two"])
        question.reply("12")
        assert question.answer == "12"


@pytest.fixture
def pipe() -> Generator[tuple[LineReader, int]]:
    reader, writer = os.pipe()
    lines = LineReader(reader)
    yield lines, writer
    lines.close()
    os.close(reader)


class TestLines:
    def test_lines_come_whole_and_the_last_one_without_its_end(self, pipe: tuple[LineReader, int]) -> None:
        lines, writer = pipe
        os.write(writer, b"one\r\ntw")
        assert lines.wait() == "one"
        os.write(writer, "ö\nthree".encode())
        os.close(writer)
        found = list[str]()
        with pytest.raises(EOFError):
            while True:
                line = lines.wait()
                found += [] if line is None else [line]
        assert found == ["twö", "three"]

    def test_a_wait_can_be_ended(self, pipe: tuple[LineReader, int]) -> None:
        lines, writer = pipe
        lines.wake()
        assert lines.wait() is None
        os.write(writer, b"line\n")
        lines.wake()
        assert lines.wait(for_line=False) is None, "what is there stays for later"
        assert lines.wait() == "line"
        os.close(writer)

    def test_a_signal_that_another_thread_receives_ends_a_wait(self, pipe: tuple[LineReader, int]) -> None:
        lines, writer = pipe
        ended = threading.Event()
        before = signal.signal(signal.SIGUSR1, lambda _number, _frame: None)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})

        def receive() -> None:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
            if not ended.wait(30):
                os.write(writer, b"waited in vain\n")

        try:
            with lines.woken_by_signals():
                for _ in range(20):
                    ended.clear()
                    receiver = threading.Thread(target=receive)
                    receiver.start()
                    assert lines.wait() is None
                    ended.set()
                    receiver.join()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
            signal.signal(signal.SIGUSR1, before)
        os.close(writer)


def result(status: TurnStatus = "completed", answer: str = "", error: str | None = None) -> TurnResult:
    return TurnResult("s", "t", status, answer, error, Usage(request_count=1), "m", "p", 1, [], 1.0)


def view(*, colour: bool = False, unicode: bool = True) -> TurnView:
    """The view of a turn that has just begun."""
    shown = TurnView(
        Redactor(("hunter2-hunter2",)), theme=DARK if colour else NO_COLOUR, unicode=unicode, clock=lambda: 10.0
    )
    assert shown.live(5) == [] and shown.break_off() == ""
    shown.take(some(TurnStarted, turn_id="t"))
    return shown


class TestTurnView:
    def test_whole_blocks_stay_and_the_rest_is_live(self) -> None:
        shown = view()
        assert shown.live(5) == ["⠋ working  0.0 s"]
        assert shown.take(TextDelta("Hello **you**.\n\nAnd ")) == "Hello you.\n"
        assert shown.live(5) == ["And ", "⠋ working  0.0 s"]
        assert shown.end(result(answer="Hello **you**.\n\nAnd ")) == "\nAnd\n"
        assert shown.live(5) == []

    def test_tools_run_live_and_leave_a_line(self) -> None:
        shown = view()
        assert shown.take(TextDelta("Let me see.")) == ""
        assert shown.take(some(AttemptAnswered, finish_reason="tool_calls")) == "Let me see.\n"
        assert shown.take(tool_started("c", "terminal", {"command": "echo hunter2-hunter2"})) == ""
        assert shown.live(5)[0].startswith("⠋ terminal echo ") and "hunter2-hunter2" not in shown.live(5)[0]
        assert shown.live(1, is_stopping=True) == ["⠋ stopping  0.0 s"]
        finished = tool_ended("c", "terminal", {"command": "true"}, "ok", 20, None)
        assert shown.take(finished) == "✓ terminal true  20 ms\n"
        assert shown.end(result(answer="Done.")) == "Done.\n"

    def test_a_reason_that_does_not_fit_is_below_its_call_and_wrapped_at_words(self) -> None:
        shown = view()
        reason = "This call needs approval (recursive-delete: deletes a directory tree) and no one can give it."
        refused = tool_ended("c", "terminal", {"command": "rm -rf notes"}, "blocked", 0, reason)
        shown.width = 60
        first, *rest = shown.take(refused).splitlines()
        assert first == "✗ terminal rm -rf notes  0 ms"
        assert " ".join(line.strip() for line in rest) == f"blocked: {reason}"
        assert all(line.startswith("  ") and len(line) <= 60 for line in rest)

        short = tool_ended("c", "read_file", {"path": "a"}, "blocked", 0, "a is private")
        assert shown.take(short) == "✗ read_file a  0 ms  blocked: a is private\n"

    def test_an_answer_that_a_plugin_replaced_is_shown_as_it_is_on_record(self) -> None:
        shown = view()
        shown.take(TextDelta("draft\n\n"))
        assert shown.end(result(answer="final")) == "final\n"

    @pytest.mark.parametrize(
        ("status", "last"),
        [("interrupted", "[interrupted]\n"), ("failed", "Error: no hunter2-hunter2\nUse /retry to try again.\n")],
    )
    def test_partial_text_is_kept_and_marked(self, status: TurnStatus, last: str) -> None:
        shown = view()
        shown.take(TextDelta("Partial"))
        text = shown.end(result(status, error="no hunter2-hunter2"))
        assert text == f"Partial\n{last}".replace("hunter2-hunter2", "<redacted>")

    def test_failed_attempts_and_reasoning_have_lines_of_their_own(self) -> None:
        shown = view(colour=True)
        assert shown.take(ReasoningDelta("I think\nthat")) == "\x1b[2mI think\x1b[0m\n"
        assert shown.take(some(AttemptFailed, error={"message": "too\nbusy"})) == "\x1b[2mthat\x1b[0m\n"
        shown.take(RetryScheduled("p", "m", 2.0, 1, 3))
        assert "too busy; trying again in 2 s (1 of 3)" in shown.live(5)[-1]
        shown.take(RetryScheduled("p", "m", 0.2, 2, 3))
        assert "trying again in 1 s (2 of 3)" in shown.live(5)[-1], "never 0 s"
        assert shown.take(TextDelta("x")) == ""
        assert "trying again" not in shown.live(5)[-1], "the answer is there"
        assert shown.break_off() == "x\n"

    @pytest.mark.parametrize("width", [40, 50, 80, 200])
    def test_a_long_reason_leaves_room_for_the_countdown(self, width: int) -> None:
        shown = view()
        shown.width = width
        shown.take(some(AttemptFailed, error={"message": "the server failed: " + "busy " * 50}))
        shown.take(RetryScheduled("p", "m", 59.0, 1, 3))
        [line] = shown.live(5)
        assert "trying again in 59 s (1 of 3)" in line and cells(line) <= width
        assert ("the server" in line) is (width >= 80)

    def test_ascii_is_enough(self) -> None:
        shown = view(unicode=False)
        assert shown.live(3)[0].isascii()

    @given(st.text(), st.integers(min_value=2, max_value=30))
    def test_wrapped_rows_fit_and_lose_nothing_but_blanks(self, text: str, width: int) -> None:
        rows = word_wrapped(text, width)
        assert all(cells(row) <= width for row in rows)
        assert "".join(rows).replace(" ", "") == text.expandtabs(4).replace("\n", "").replace(" ", "")

    def test_lines_break_at_words_and_keep_their_indent(self) -> None:
        assert word_wrapped("deletes a directory tree", 12) == ["deletes a", "directory", "tree"]
        assert word_wrapped("  1. one two\n\nthree", 9) == ["  1. one", "  two", "", "three"]
        assert word_wrapped("recursive-delete", 8) == ["recursiv", "e-delete"]


def test_what_others_print_comes_in_whole_harmless_lines() -> None:
    shown = list[str]()
    stream = CapturedStream(sys.__stdout__ or io.StringIO(), shown.append)
    print("half", end="", file=stream)
    assert shown == []
    print(" and half\x1b[2J\nnext", end="", file=stream)
    stream.finish()
    assert shown == ["half and half\n", "next\n"]
    assert not stream.isatty() and stream.encoding == "utf-8"


def _wait_until(condition: Callable[[], bool]) -> None:
    given_up = threading.Event()
    timer = threading.Timer(10, given_up.set)
    timer.start()
    try:
        while not condition():
            assert not given_up.wait(0.005)
    finally:
        timer.cancel()
        timer.join()
