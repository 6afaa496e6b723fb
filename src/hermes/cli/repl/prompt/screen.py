"""Full-screen prompt: the input stays at the bottom, output appears above it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Generator
from typing import Any, TextIO

from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import DynamicCompleter, ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

from hermes.agent.events import TurnResult
from hermes.cli.chat.tool_details import whole_result
from hermes.cli.failures import EXIT_OUTPUT_CLOSED, EXIT_TERMINATED, OUTPUT_LOST, silence_output
from hermes.cli.repl.dialogue import Dialogue
from hermes.cli.repl.markdown.stream import MarkdownStream
from hermes.cli.repl.prompt.completion import CommandWords, PromptCompleter
from hermes.cli.repl.prompt.history import PromptHistory
from hermes.cli.repl.prompt.layout import prompt_keys, prompt_layout, prompt_style
from hermes.cli.repl.prompt.streams import CapturedStream
from hermes.cli.repl.questions import PromptQuestion
from hermes.cli.repl.status_line import status_line
from hermes.cli.repl.turn_view import TurnView, folded
from hermes.cli.terminal import fitted, one_line, page, plain, shows_unicode
from hermes.contract.events import TurnEvent
from hermes.host import Host

log = logging.getLogger("hermes.cli.repl")

#: Interval of redraws while something runs, and the shortest interval of any redraws.
_TICK_SECONDS = 0.1
_MIN_REDRAW_SECONDS = 0.03
#: How many queued messages are shown.
_MOST_WAITING_SHOWN = 3


class Screen:
    """A display that owns the terminal. Only the thread that runs it draws."""

    def __init__(self, host: Host, stdout: TextIO) -> None:
        colour = not os.environ.get("NO_COLOR")
        self.unicode = shows_unicode(stdout.encoding, os.environ.get("TERM"))
        self._host = host
        self._stdout = stdout
        self._view = TurnView(host.redactor, colour=colour, unicode=self.unicode)
        self._dialogue: Dialogue | None = None
        # Created first: output before the loop runs waits in it.
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._above: list[str] = []
        self._ticking = False
        self._is_over = False
        self._question: PromptQuestion[Any] | None = None
        #: The unsent input when a question appeared.
        self._draft: Document | None = None
        self._output = Vt100_Output.from_pty(stdout, term=os.environ.get("TERM"))
        # Cursor position requests cost a round trip per redraw, and some terminals never answer.
        self._output.enable_cpr = False
        self._buffer = Buffer(
            multiline=True,
            history=PromptHistory(host.home / "history", host.redactor),
            completer=ThreadedCompleter(DynamicCompleter(self._completer)),
            complete_while_typing=True,
            accept_handler=self._accept,
        )
        self._application: Application[None] = Application(
            layout=prompt_layout(self._buffer, label=self._label, live=self._live, status=self._status),
            key_bindings=prompt_keys(self._buffer, self),
            style=prompt_style(colour),
            color_depth=ColorDepth.DEPTH_4_BIT if colour else ColorDepth.DEPTH_1_BIT,
            output=self._output,
            erase_when_done=True,
            min_redraw_interval=_MIN_REDRAW_SECONDS,
            terminal_size_polling_interval=None,
        )

    def run(self, dialogue: Dialogue) -> None:
        """Show the prompt until ``end``."""
        self._dialogue = dialogue
        with self._captured():
            try:
                self._runner.run(self._run(dialogue))
            except (EOFError, OSError):  # the terminal is gone
                silence_output()
                dialogue.leave(EXIT_TERMINATED, "terminated")
                dialogue.over.wait()

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._runner.close()

    # -- display; called by any thread --------------------------------------------------------------------------

    @property
    def screen(self) -> Screen:
        return self

    @property
    def width(self) -> int:
        return self._columns

    def event(self, event: TurnEvent) -> None:
        self._post(lambda: self._print(self._sized_view().take(event)))

    def turn_ended(self, result: TurnResult) -> None:
        self._post(lambda: self._print(f"{self._sized_view().end(result)}\n"))

    def say(self, text: str) -> None:
        self._post(lambda: self._print(f"{plain(text)}\n"))

    def note(self, text: str) -> None:
        self._post(lambda: self._print(f"{self._view.dim(plain(text))}\n"))

    def error(self, text: str) -> None:
        self._post(lambda: self._print(self._view.red(f"Error: {one_line(text)}") + "\n"))

    def restore_input(self, text: str) -> None:
        self._post(lambda: self._restore_input(text))

    def changed(self) -> None:
        self._post(self._refresh)

    def clear(self) -> None:
        self._post(self._clear)

    def end(self) -> None:
        self._post(self._exit)

    # -- key actions --------------------------------------------------------------------------------------------

    def send(self) -> None:
        if self._question is None:
            self._buffer.validate_and_handle()
        else:
            text = self._buffer.text
            self._buffer.reset()
            self._enter(text)

    def ctrl_c(self) -> None:
        if self._buffer.text and self._question is None:
            self._buffer.reset()
        elif self._dialogue is not None:
            self._dialogue.ctrl_c()

    def ctrl_d(self) -> None:
        if self._dialogue is not None:
            self._dialogue.quit()

    def shift_tab(self) -> None:
        if self._dialogue is not None:
            self._dialogue.step_mode()

    def show_output(self) -> None:
        event = self._view.last_call
        if event is None:
            self._print(self._view.dim("No tool was called yet.") + "\n")
            return
        lines = self._sized_view().painted(whole_result(event)) or [self._view.dim("  (no output)")]
        if len(lines) <= self._output.get_size().rows - 4:
            self._print("\n".join(lines) + "\n")
        else:
            self._application.create_background_task(self._page(lines))

    async def _page(self, lines: list[str]) -> None:
        await run_in_terminal(lambda: page(lines), in_executor=True)

    def _accept(self, buffer: Buffer) -> bool:
        self._enter(buffer.text)
        return False

    def _enter(self, text: str) -> None:
        if text.strip():
            first, *rest = plain(text).split("\n")
            self._print("\n".join([f"{self._label()}{first}", *(f"  {line}" for line in rest)]) + "\n")
        if self._dialogue is not None:
            self._dialogue.enter(text)

    # -- drawing ------------------------------------------------------------------------------------------------

    def _post(self, work: Callable[[], None]) -> None:
        """Run something on the drawing thread."""
        with contextlib.suppress(RuntimeError):  # the prompt has ended
            self._loop.call_soon_threadsafe(work)

    def _print(self, text: str) -> None:
        """Put text above the prompt; batches what arrives together."""
        if not text:
            self._application.invalidate()
            return
        self._above.append(text)
        if len(self._above) == 1:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        text, self._above = "".join(self._above), []
        if not text:
            return
        is_drawn = self._application.is_running
        if is_drawn:
            self._application.renderer.erase()
        self._output.write_raw(text)
        self._output.flush()
        if is_drawn:
            # Redraw now: the prompt would be missing until the next regular redraw.
            self._application.render_counter += 1  # invalidates prompt_toolkit's caches
            with set_app(self._application):
                self._application.renderer.render(self._application, self._application.layout)

    def _refresh(self) -> None:
        """Redraw after a change of the dialogue."""
        dialogue = self._dialogue
        if dialogue is None:
            return
        if not dialogue.is_working:
            self._print(self._view.break_off())
        self._show_question(dialogue.questions.current)
        self._application.invalidate()
        if not self._ticking:
            self._tick()

    def _show_question(self, question: PromptQuestion[Any] | None) -> None:
        """Set the unsent input aside while a question is open: half a message must not become its answer."""
        if question is self._question:
            return
        if self._question is None:
            self._draft = self._buffer.document
        self._question = question
        self._buffer.reset()
        if question is not None:
            self._print(f"{question.text}\n")
        elif self._draft is not None:
            self._buffer.set_document(self._draft)

    def _tick(self) -> None:
        """Redraw regularly while something runs."""
        dialogue = self._dialogue
        self._ticking = dialogue is not None and (dialogue.is_working or self._question is not None)
        if self._ticking:
            self._application.invalidate()
            self._loop.call_later(_TICK_SECONDS, self._tick)

    def _restore_input(self, text: str) -> None:
        if not self._buffer.text and self._question is None:
            self._buffer.set_document(Document(text))

    def _clear(self) -> None:
        self._flush()
        self._application.renderer.clear()
        self._application.invalidate()

    def _exit(self) -> None:
        with contextlib.suppress(OSError):  # the terminal is gone
            self._flush()
        self._is_over = True
        if self._application.is_running and not self._application.is_done:
            self._application.exit()

    # -- content ------------------------------------------------------------------------------------------------

    def _sized_view(self) -> TurnView:
        self._view.width = self._columns
        return self._view

    @property
    def _columns(self) -> int:
        return self._output.get_size().columns

    def _label(self) -> str:
        return "> " if self._question is None else self._question.label

    def _live(self) -> list[str]:
        """The changing lines between the output and the prompt."""
        dialogue, columns = self._dialogue, self._columns
        if dialogue is None:
            return []
        rows = max(self._output.get_size().rows // 2, 2)
        is_asking = self._question is not None
        lines = self._sized_view().live(rows, is_stopping=dialogue.is_stopping, is_asking=is_asking)
        waiting = [one_line(text) for text in dialogue.waiting]
        lines += [fitted(f"  queued: {text}", columns) for text in waiting[:_MOST_WAITING_SHOWN]]
        if self._question is not None:
            left = self._question.seconds_left()
            countdown = "" if left is None else f" ({left:.0f} s left)"
            lines += folded(self._question.hint + countdown, columns)
        return lines[-rows:]

    def _status(self) -> str:
        return "" if self._dialogue is None else status_line(self._dialogue.facts, self._columns, unicode=self.unicode)

    def _completer(self) -> PromptCompleter | None:
        dialogue = self._dialogue
        if dialogue is None:
            return None
        return PromptCompleter(lambda: _command_words(dialogue), dialogue.conversation.session.cwd)

    # -- running ------------------------------------------------------------------------------------------------

    async def _run(self, dialogue: Dialogue) -> None:
        loop = self._loop
        loop.set_exception_handler(self._handle_failure)
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, dialogue.leave, EXIT_TERMINATED, "terminated")
        loop.call_soon(self._refresh)
        self._host.workers.submit(lambda: _warm_up(dialogue))
        if not self._is_over:
            await self._application.run_async(set_exception_handler=False)

    def _handle_failure(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and self._dialogue is not None:
            log.info("the screen is lost: %s", error)
            self._dialogue.leave(EXIT_OUTPUT_CLOSED, OUTPUT_LOST)
        else:
            log.error("the screen: %s", context.get("message"), exc_info=error)

    @contextlib.contextmanager
    def _captured(self) -> Generator[None]:
        """Show output of plugins above the prompt."""
        before = sys.stdout, sys.stderr
        streams = [CapturedStream(stream, lambda text: self._post(lambda: self._print(text))) for stream in before]
        sys.stdout, sys.stderr = streams  # pyright: ignore[reportAttributeAccessIssue]  (text streams, if not TextIO)
        try:
            yield
        finally:
            for stream in streams:
                stream.finish()
            sys.stdout, sys.stderr = before


def _warm_up(dialogue: Dialogue) -> None:
    """Import in advance what the first message and the first command need."""
    MarkdownStream(80, True).feed("- *text*\n\n")
    _command_words(dialogue)


def _command_words(dialogue: Dialogue) -> list[CommandWords]:
    """The commands for completion."""
    from hermes.commands.completion import argument_candidates
    from hermes.commands.table import all_commands  # imports every command

    return [
        CommandWords(
            command.name, command.summary, command.aliases, argument_candidates(dialogue.conversation, command)
        )
        for command in all_commands(dialogue.host)
    ]
