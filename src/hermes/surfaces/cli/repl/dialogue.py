"""Input handling of the prompt: turns typed lines into commands, turns and answers."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
from hermes.agent.events import TurnResult
from hermes.agent.session import Session
from hermes.base.config import load_env_file
from hermes.base.errors import HermesError
from hermes.base.scope import Interrupt
from hermes.contract.events import ReasoningDelta, ToolEnded, TurnEvent, TurnStarted
from hermes.host import Host
from hermes.journal.bodies import message_text
from hermes.journal.questions import Questions
from hermes.surfaces.cli.failures import EXIT_INTERRUPTED, EXIT_OUTPUT_CLOSED, OUTPUT_LOST
from hermes.surfaces.cli.repl.questions import PromptQuestion, PromptQuestions
from hermes.surfaces.cli.repl.status_line import StatusFacts, conversation_facts, shown_mode
from hermes.surfaces.cli.repl.turn_queue import QueuedTurn, TurnQueue
from hermes.surfaces.cli.terminal import one_line
from hermes.surfaces.commands.conversation import Conversation
from hermes.surfaces.commands.surface import TerminalScreen, UserMessage
from hermes.surfaces.commands.text import plural


class Display(Protocol):
    """Output of the prompt: a screen, or plain lines. All methods may be called by any thread."""

    @property
    def screen(self) -> TerminalScreen | None:
        """Itself, when it can place text anywhere."""
        return None

    def event(self, event: TurnEvent) -> None:
        """Show an event of the running turn."""

    def turn_ended(self, result: TurnResult) -> None:
        """The turn ended."""

    def message(self, text: str) -> None:
        """Show a message that waited and is answered now."""

    def say(self, text: str) -> None:
        """Show the answer of a command."""

    def note(self, text: str) -> None:
        """Show a remark about the prompt itself."""

    def error(self, text: str) -> None:
        """Show an error."""

    def restore_input(self, text: str) -> None:
        """Put a message that was not accepted back into the prompt, where it is gone from it."""

    def changed(self) -> None:
        """Redraw: the question, the queue or the running turn changed."""

    def clear(self) -> None:
        """Clear the screen, where it is one."""

    def end(self) -> None:
        """The prompt is over."""


log = logging.getLogger("hermes.surfaces.cli.repl")

#: The reason of a turn that Ctrl-C stopped.
BY_KEY = "keyboard interrupt"

#: A second Ctrl-C within this time leaves.
_AGAIN_SECONDS = 2.0
#: Time limits for a turn to end when the user leaves, before and after a forced stop.
_LEAVE_SECONDS = 1.5
_HURRY_SECONDS = 1.0


class Dialogue:
    """The controller of one prompt.

    Input is handled in order on one thread, so the prompt never blocks; turns run on another, so commands work during a
    turn. The answer to a question goes directly to the thread that asked.
    """

    is_live = True

    def __init__(self, host: Host, display: Display, opened: Callable[[], Session], *, attended: bool) -> None:
        """Without ``attended`` no questions are asked."""
        self.host = host
        self.show_reasoning = False
        stored = Questions(host.store)
        self.questions = PromptQuestions(display.changed, lambda approval_id: bool(stored.settled([approval_id])))
        self.conversation = Conversation(host, opened(), self)
        self.facts = StatusFacts()
        #: Set when the user leaves.
        self.exit_code: int | None = None
        #: Set when leaving is done, or took too long.
        self.over = threading.Event()
        #: How many messages got no answer.
        self.unanswered = 0
        self._display = display
        self._attended = attended
        self.turns = TurnQueue(host.workers, self._run_turn, self._changed)
        #: What is to be done on the thread of the input.
        self._inbox: queue.Queue[Callable[[], None]] = queue.Queue()
        self._leaving = threading.Lock()
        #: Interrupt of the running command.
        self._command: Interrupt | None = None
        #: Whether that command is one of the user's shell.
        self._is_in_shell = False
        #: Interrupts of the shell commands that have not begun.
        self._waiting_commands: list[Interrupt] = []
        #: Output of shell commands that the next message brings along.
        self._for_next_message: list[str] = []
        #: The last turn was left by a process that died, and the user has not said what to do with it.
        self._is_undecided = False
        self._last_ctrl_c = -_AGAIN_SECONDS
        #: How many waiting calls of callers were mentioned last.
        self._mentioned = 0
        if attended:
            host.responders.attach(self.conversation.session.id, self.questions)
        host.services.take_message = self.take_message
        self._changed()
        threading.Thread(target=self._serve, name="hermes-input", daemon=True).start()

    # -- user input; never blocks -------------------------------------------------------------------------------

    def enter(self, text: str) -> None:
        """Handle a typed line."""
        question = self.questions.current
        if (question is not None and self._answers(question, text)) or not text.strip():
            return
        interrupt = Interrupt()
        if self._is_for_shell(text):
            self._waiting_commands.append(interrupt)
        self._inbox.put(lambda: self._handle(text, interrupt))

    def ctrl_c(self) -> None:
        """Stop the running turn or command; the second time in a row, leave."""
        now = time.monotonic()
        is_second = now - self._last_ctrl_c < _AGAIN_SECONDS or self.turns.is_stopping
        self._last_ctrl_c = now
        if self.exit_code is not None:
            self._display.end()
        elif is_second:
            self.leave(EXIT_INTERRUPTED, insist=True)
        elif self.is_idle:
            self._display.note("Press Ctrl-C again to quit, or use /quit or Ctrl-D.")
        else:
            if not self._is_in_shell:
                self.turns.stop(BY_KEY)
            self._stop_command()
            for waiting in tuple(self._waiting_commands):
                waiting.cancel(BY_KEY)

    def leave(self, code: int, reason: str = BY_KEY, *, insist: bool = False) -> None:
        """Stop everything, then end the display."""
        with self._leaving:
            is_first = self.exit_code is None
            if is_first:
                self.exit_code = code
        self.turns.close(reason, insist=insist)
        self._stop_command()
        if is_first:
            threading.Thread(target=self._finish_leaving, name="hermes-leaving", daemon=True).start()

    def offer_to_finish(self) -> None:
        """Ask whether to continue the last turn, when it has no answer, before what is typed is handled."""
        self._inbox.put(self._offer_to_finish)

    def note(self, text: str) -> None:
        """Show a remark about the prompt itself."""
        self._display.note(text)

    def mention_waiting(self) -> None:
        """Show how many calls of callers wait for the owner, when there are more than were shown last."""
        count = Questions(self.host.store).count_for_owner() if self._attended else 0
        if count > self._mentioned:
            verb = "waits" if count == 1 else "wait"
            self._display.note(f"{plural(count, 'call')} of callers {verb} for your approval: hermes approvals pending")
        self._mentioned = count

    @property
    def is_idle(self) -> bool:
        """Whether all input is handled and no turn is running."""
        return not self.turns.is_working and not self._inbox.unfinished_tasks

    def take_message(self, text: str) -> bool:
        """Answer a message of a plugin, as soon as what was typed before is handled. False when the user leaves."""
        if self.exit_code is not None:
            return False
        self._inbox.put(lambda: self.run(text))
        return True

    # -- surface of the commands --------------------------------------------------------------------------------

    @property
    def screen(self) -> TerminalScreen | None:
        return self._display.screen

    @property
    def is_working(self) -> bool:
        return self.turns.is_working

    @property
    def queued(self) -> int:
        return len(self.turns.waiting)

    def run(self, message: UserMessage) -> None:
        self.turns.add(self._queued_turn(message))

    def queue(self, text: str) -> None:
        self.turns.add(self._queued_turn(self._with_attachments(text)))
        self._changed()

    def steer(self, text: str) -> bool:
        return self.is_working and self.conversation.session.steer(text)

    def stop(self, reason: str) -> None:
        self.turns.stop(reason)

    def interrupt(self) -> Interrupt:
        return self._command or Interrupt()

    def pending_approval(self) -> ApprovalRequest | None:
        question = self.questions.current
        return None if question is None else question.request

    def answer_approval(self, answer: ApprovalAnswer) -> None:
        question = self.questions.current
        if question is not None and question.request is not None:
            question.settle(answer)

    def confirm(self, question: str) -> bool:
        return not self._attended or bool(self.questions.decide(question, self.interrupt()))

    def decide(self, question: str) -> bool | None:
        return self.questions.decide(question, self.interrupt()) if self._attended else None

    def clear_screen(self) -> None:
        self._display.clear()

    def quit(self) -> None:
        self.leave(0, "the user left")

    # -- the input thread ---------------------------------------------------------------------------------------

    def step_mode(self) -> None:
        """Change to the next permission mode."""
        from hermes.surfaces.commands.handlers.settings import mode_notice

        session = self.conversation.session
        self.host.approvals.modes.step(session.id)
        self.facts = replace(self.facts, mode=shown_mode(self.host, session))
        self._display.note(mode_notice(self.host.approvals, session))
        self._display.changed()

    def _serve(self) -> None:
        while True:
            work = self._inbox.get()
            try:
                if self.exit_code is None:
                    work()
            except HermesError as error:
                self._display.error(self.host.redactor.redact(str(error)))
            except BaseException as error:  # the next line must still be read
                self._report(error)
            finally:
                self._inbox.task_done()
                self._changed()

    def _handle(self, text: str, interrupt: Interrupt) -> None:
        if self._is_command(text):
            self._run_command(text)
            return
        if self._is_for_shell(text):
            self._run_in_shell(text.strip()[1:].strip(), interrupt)
            return
        if self._is_undecided:
            self._offer_to_finish()
        if self._is_undecided:
            self._display.restore_input(text)
            return
        try:
            message = self._with_attachments(text)
        except HermesError:  # such as a file that is not there: to be corrected, not typed again
            self._display.restore_input(text)
            raise
        if self.turns.add(self._queued_turn(message)):
            self._display.note(
                f"Queued ({plural(self.queued, 'message')} waiting). Use /steer to reach the running turn."
            )

    def _is_command(self, text: str) -> bool:
        from hermes.surfaces.commands.dispatch import is_command  # not needed until something is typed

        return is_command(self.host, text)

    def _run_command(self, line: str) -> None:
        from hermes.surfaces.commands.dispatch import run_command

        before = self.conversation.session
        self._command = Interrupt()
        try:
            answer = run_command(self.conversation, line)
        finally:
            self._command = None
        if answer.text:
            self._display.say(answer.text)
        if answer.error:
            self._display.error(answer.error)
        if self.conversation.session is not before:
            self._for_next_message.clear()
            self._offer_to_finish()

    def _is_for_shell(self, text: str) -> bool:
        """Whether a line is a command for the shell. A pipe has none."""
        return self._attended and text.lstrip().startswith("!")

    def _run_in_shell(self, command: str, interrupt: Interrupt) -> None:
        from hermes.surfaces.cli.repl.prompt.desktop import run_shell_command, user_environment

        # From here on Ctrl-C reaches it as the running command, before that as a waiting one.
        self._command, self._is_in_shell = interrupt, True
        try:
            self._waiting_commands.remove(interrupt)
            if interrupt.cancelled:
                self._display.note(f"Not run: {one_line(command)}")
                return
            if not command:
                raise HermesError("the command is missing: !ls shows the files, for example")
            environment = user_environment(load_env_file(self.host.home))
            cwd = self.conversation.session.cwd
            finished = run_shell_command(command, cwd, environment, interrupt, self._display.say)
        finally:
            self._command, self._is_in_shell = None, False
        self._for_next_message.append(finished.as_context())
        how = f"exit code {finished.exit_code}; " if finished.exit_code else ""
        self._display.note(f"({how}the agent gets this with your next message)")

    def _answers(self, question: PromptQuestion[object], text: str) -> bool:
        """Whether the text answers a question. Commands work beside one.

        A yes-or-no question is put off by a command, and a message is a no.
        """
        is_for_us = self._is_command(text) or self._is_for_shell(text)
        if is_for_us and not question.takes_messages:
            return False
        if is_for_us:
            self._stop_command()
        else:
            try:
                question.reply(text)
                return True
            except HermesError as error:
                if not question.takes_messages:
                    self._display.error(str(error))
                    return True
        question.refuse()
        return False

    def _offer_to_finish(self) -> None:
        """Ask about a turn without an answer. Without a clear answer it is asked again before the next message."""
        session = self.conversation.session
        state = session.unfinished_turn() if self._attended else None
        self._is_undecided = False
        if state is None or (state == "interrupted" and self._was_stopped_by_user()):
            return
        how = {"interrupted": "was interrupted", "failed": "failed"}.get(state, "has no answer yet")
        self._command = interrupt = Interrupt()
        try:
            wanted = self.questions.decide(f"The last turn {how}. Continue it?", interrupt)
        finally:
            self._command = None
        if wanted:
            finish = self.conversation.session.finish_open_turn
            self.turns.add(QueuedTurn("", lambda stop: finish(listener=self._listen, interrupt=stop)))
        elif state == "running" and interrupt.cancelled:
            self._is_undecided = True
        elif state == "running":
            session.abandon_open_turn("the user did not continue it")

    def _was_stopped_by_user(self) -> bool:
        from hermes.surfaces.commands.handlers.turns import BY_COMMAND

        turn = self.host.sessions.last_turn(self.conversation.session.id)
        return turn is not None and turn.error in (BY_KEY, BY_COMMAND)

    def _with_attachments(self, text: str) -> UserMessage:
        """The message with the images and the text of the files that it names."""
        from hermes.agent.images.attachments import split_images, with_images
        from hermes.surfaces.cli.chat.message import expand_mentions

        cwd = self.conversation.session.cwd
        text, files = expand_mentions(text, cwd)
        if files:
            self._display.note(f"Added {', '.join(files)}.")
        rest, parts = split_images(text, cwd)
        if parts:
            self._display.note(f"{plural(len(parts), 'image')} attached.")
        rest = "\n\n".join([rest, *self._for_next_message])
        self._for_next_message.clear()
        return with_images(rest, parts)

    # -- the turn's thread --------------------------------------------------------------------------------------

    def _queued_turn(self, message: UserMessage) -> QueuedTurn:
        def run(interrupt: Interrupt) -> TurnResult:
            return self.conversation.session.run(message, listener=self._listen, interrupt=interrupt)

        return QueuedTurn(message_text({"content": message}), run)

    def _run_turn(self, queued: QueuedTurn, interrupt: Interrupt) -> None:
        completed = False
        if queued.waited:
            self._display.message(queued.text)
        self.conversation.session.can_withdraw_text = self._attended
        try:
            result = queued.run(interrupt)
            if result is not None:
                completed = result.status in ("completed", "incomplete")
                self._display.turn_ended(result)
        except OSError:
            self.leave(EXIT_OUTPUT_CLOSED, OUTPUT_LOST)
        except HermesError as error:
            self._display.error(self.host.redactor.redact(str(error)))
            self._display.restore_input(queued.text)
        except BaseException as error:  # the prompt must survive any failure
            self._report(error)
        self.unanswered += not completed
        self.mention_waiting()

    def _listen(self, event: TurnEvent) -> None:
        if isinstance(event, ReasoningDelta) and not self.show_reasoning:
            return
        try:
            self._display.event(event)
        except OSError:
            self.leave(EXIT_OUTPUT_CLOSED, OUTPUT_LOST)
        except Exception:  # a display failure must not fail the turn
            log.warning("an event of the turn could not be shown", exc_info=True)
        if isinstance(event, TurnStarted | ToolEnded):
            self._refresh()

    # -- any thread ---------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        self._refresh()
        self._display.changed()

    def _refresh(self) -> None:
        try:
            self.facts = conversation_facts(self.conversation)
        except HermesError:  # the journal cannot be read; its next user reports that
            self.facts = replace(self.facts, queued=self.queued)

    def _report(self, error: BaseException) -> None:
        if isinstance(error, SystemExit):
            self._display.error(f"a plugin tried to end the program (sys.exit({error.code!r})); /quit ends it")
            return
        log.error("unexpected failure at the prompt", exc_info=error)
        self._display.error(self.host.redactor.redact(f"{type(error).__name__}: {error} (details: hermes logs)"))

    def _stop_command(self) -> None:
        command = self._command
        if command is not None:
            command.cancel(BY_KEY)

    def _finish_leaving(self) -> None:
        if not self.turns.wait_until_idle(_LEAVE_SECONDS):
            self.turns.close(BY_KEY, insist=True)
            self.turns.wait_until_idle(_HURRY_SECONDS)
        with self._inbox.all_tasks_done:
            self._inbox.all_tasks_done.wait_for(lambda: not self._inbox.unfinished_tasks, _HURRY_SECONDS)
        self.over.set()
        self._display.end()
