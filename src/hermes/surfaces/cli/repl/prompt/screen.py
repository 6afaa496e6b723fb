"""Full-screen prompt: the input stays at the bottom, output appears above it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import DynamicCompleter, ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import vi_navigation_mode
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style

from hermes.agent.events import TurnResult
from hermes.base.errors import HermesError
from hermes.contract.events import ToolStarted, TurnEvent
from hermes.host import Host
from hermes.surfaces.cli.chat.notifier import Notifier
from hermes.surfaces.cli.chat.theme import theme_for
from hermes.surfaces.cli.failures import EXIT_OUTPUT_CLOSED, EXIT_TERMINATED, OUTPUT_LOST, silence_output
from hermes.surfaces.cli.repl.dialogue import Dialogue
from hermes.surfaces.cli.repl.prompt.history import PromptHistory
from hermes.surfaces.cli.repl.prompt.layout import prompt_keys, prompt_layout
from hermes.surfaces.cli.repl.prompt.pasted import PastedBlocks
from hermes.surfaces.cli.repl.questions import PromptQuestion
from hermes.surfaces.cli.repl.status_line import status_line
from hermes.surfaces.cli.terminal import column_wrapped, fitted, one_line, page, plain, shows_unicode, word_wrapped

if TYPE_CHECKING:
    from hermes.surfaces.cli.repl.prompt.completion import PromptCompleter
    from hermes.surfaces.cli.repl.turn_view import TurnView

# The prompt is drawn first: what a key or the first message needs is imported then, or by ``_warm_up``.

T = TypeVar("T")

log = logging.getLogger("hermes.surfaces.cli.repl")

#: Interval of redraws while something runs, and the shortest interval of any redraws.
_TICK_SECONDS = 0.1
_MIN_REDRAW_SECONDS = 0.03
#: How many queued messages are shown.
_MOST_WAITING_SHOWN = 3


class Screen:
    """A display that owns the terminal. Only the thread that runs it draws."""

    #: Set before it runs, and before any turn does.
    dialogue: Dialogue

    def __init__(self, host: Host, stdout: TextIO) -> None:
        settings = host.config.display
        self._theme = theme = theme_for(settings.theme, os.environ)
        self.unicode = shows_unicode(stdout.encoding, os.environ.get("TERM"))
        self._host = host
        self._stdout = stdout
        self._notifier = Notifier(settings)
        self._pasted = PastedBlocks()
        #: Whether another program has the terminal: output waits until it is back.
        self._is_lent = False
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
        )
        self._history = self._buffer.history
        self._application: Application[None] = Application(
            layout=prompt_layout(self._buffer, label=self._label, live=self._live, status=self._status),
            key_bindings=prompt_keys(self._buffer, self),
            style=Style.from_dict(dict(theme.prompt_styles)),
            include_default_pygments_style=False,
            color_depth=ColorDepth.DEPTH_4_BIT if theme.has_colour else ColorDepth.DEPTH_1_BIT,
            editing_mode=EditingMode.VI if settings.keys == "vi" else EditingMode.EMACS,
            output=self._output,
            erase_when_done=True,
            min_redraw_interval=_MIN_REDRAW_SECONDS,
            terminal_size_polling_interval=None,
        )

    def run(self) -> None:
        """Show the prompt until ``end``."""
        with self._captured():
            try:
                self._runner.run(self._run())
            except (EOFError, OSError):  # the terminal is gone
                silence_output()
                self.dialogue.leave(EXIT_TERMINATED, "terminated")
                self.dialogue.over.wait()

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._runner.close()
        self._pasted.close()

    # -- display; called by any thread --------------------------------------------------------------------------

    @property
    def screen(self) -> Screen:
        return self

    @property
    def width(self) -> int:
        return self._output.get_size().columns

    def event(self, event: TurnEvent) -> None:
        if isinstance(event, ToolStarted):
            self._view.look_ahead(event, self.dialogue.conversation.session.cwd)
        self._post(lambda: self._print(self._sized_view().take(event)))

    def turn_ended(self, result: TurnResult) -> None:
        def show() -> None:
            self._print(f"{self._sized_view().end(result)}\n{self._notifier.signal('the answer is there')}")

        self._post(show)

    def message(self, text: str) -> None:
        first, *rest = plain(text).split("\n")
        shown = f"{first} ..." if rest else first
        self._post(lambda: self._print(self._view.dim(fitted(f"> {shown}", self.width)) + "\n"))

    def say(self, text: str) -> None:
        self._post(lambda: self._print_wrapped(plain(text)))

    def note(self, text: str) -> None:
        self._post(lambda: self._print_wrapped(plain(text), self._view.dim))

    def error(self, text: str) -> None:
        self._post(lambda: self._print_wrapped(f"Error: {one_line(text)}", self._view.red))

    def copy(self, text: str) -> None:
        from hermes.surfaces.cli.repl.prompt.desktop import copy_sequence, copy_with_program

        sequence = copy_sequence(text)
        if not copy_with_program(text) and sequence is None:
            raise HermesError(
                f"{len(text):,} characters are too many for the terminal; /export FILE writes the session"
            )
        if sequence is not None:  # also reaches the clipboard on the other side of SSH
            self._post(lambda: self._write(sequence))

    def edit(self, text: str) -> None:
        def start() -> None:
            if text:
                self._buffer.set_document(Document(text))
            self.open_editor()

        self._post(start)

    def offer(self, line: str) -> None:
        def start() -> None:
            self._buffer.set_document(Document(line))
            self._buffer.start_completion()

        self._post(start)

    def paste_image(self) -> None:
        from hermes.surfaces.cli.repl.prompt.desktop import clipboard_image

        placeholder = self._pasted.add_image(clipboard_image())
        self._post(lambda: self._buffer.insert_text(placeholder + " "))

    def restore_input(self, text: str) -> None:
        def restore() -> None:
            if not self._buffer.text and self._question is None:
                self._buffer.set_document(Document(text))

        self._post(restore)

    def changed(self) -> None:
        self._post(self._refresh)

    def clear(self) -> None:
        def clear() -> None:
            self._flush()
            self._application.renderer.clear()
            self._application.invalidate()

        self._post(clear)

    def end(self) -> None:
        self._post(self._exit)

    # -- key actions --------------------------------------------------------------------------------------------

    def send(self) -> None:
        """Show what was typed, placeholders as they are, and hand the whole text on."""
        text = self._buffer.text
        if self._question is None and text.strip():
            self._history.append_string(self._pasted.expand(text))
        self._buffer.reset()
        self._notifier.work_begins()
        if text.strip():
            first, *rest = plain(text).split("\n")
            self._print_wrapped("\n".join([f"{self._label()}{first}", *(f"  {line}" for line in rest)]))
        self.dialogue.enter(self._pasted.expand(text))

    def paste(self, text: str) -> None:
        self._buffer.insert_text(self._pasted.fold(text))

    def paste_picture(self) -> None:
        def paste() -> None:
            try:
                self.paste_image()
            except HermesError as error:
                self.note(str(error))

        self._host.workers.submit(paste)  # the program that reads it may take its time

    def delete_placeholder(self) -> bool:
        found = self._pasted.placeholder_before(self._buffer.document.text_before_cursor)
        self._buffer.delete_before_cursor(len(found))
        return bool(found)

    def open_editor(self) -> None:
        if not self._is_lent:
            self._application.create_background_task(self._edit())

    async def _edit(self) -> None:
        from hermes.surfaces.cli.repl.prompt.desktop import edited_text

        before = self._pasted.expand(self._buffer.text)
        try:
            text = await self._lend(lambda: edited_text(before))
        except HermesError as error:
            self.error(str(error))
        else:
            self._buffer.set_document(Document(text))

    def ctrl_c(self) -> None:
        if self._buffer.text and self._question is None:
            self._buffer.reset()
        else:
            self.dialogue.ctrl_c()

    def show_output(self) -> None:
        lines = self._sized_view().last_result()
        if lines is None:
            self._print(self._view.dim("No tool was called yet.") + "\n")
            return
        lines = lines or [self._view.dim("  (no output)")]
        if len(lines) <= self._output.get_size().rows - 4:
            self._print("\n".join(lines) + "\n")
        else:
            self._application.create_background_task(self._lend(lambda: page(lines)))

    async def _lend(self, work: Callable[[], T]) -> T:
        """Run a program that uses the terminal; output of the agent waits meanwhile."""
        self._is_lent = True
        try:
            return await run_in_terminal(work, in_executor=True)
        finally:
            self._is_lent = False
            self._flush()

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

    def _print_wrapped(self, text: str, paint: Callable[[str], str] = str) -> None:
        """Print lines that are broken at words where the terminal ends."""
        rows = column_wrapped(text, self.width)
        self._print("".join(f"{paint(row) if row else row}\n" for row in rows))

    def _write(self, sequence: str) -> None:
        """Send an escape sequence that prints nothing."""
        if sequence:
            self._output.write_raw(sequence)
            self._output.flush()

    def _flush(self) -> None:
        if self._is_lent:
            return
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
        dialogue = self.dialogue
        if not dialogue.is_working and self._has_view:
            self._print(self._view.break_off())
        self._show_question(dialogue.questions.current)
        mark = ("✳ " if self.unicode else "* ") if dialogue.is_working else ""
        title = f"{mark}{dialogue.facts.title or dialogue.conversation.session.cwd.name} - hermes"
        self._write(self._notifier.title(title))
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
            self._print_wrapped(question.text)
            self._print(self._notifier.signal("a question waits"))
        elif self._draft is not None:
            self._buffer.set_document(self._draft)

    def _tick(self) -> None:
        """Redraw regularly while something runs."""
        self._ticking = self.dialogue.is_working or self._question is not None
        if self._ticking:
            self._application.invalidate()
            self._loop.call_later(_TICK_SECONDS, self._tick)

    def _exit(self) -> None:
        with contextlib.suppress(OSError):  # the terminal is gone
            self._flush()
            self._write(self._notifier.restore_title())
        self._is_over = True
        if self._application.is_running and not self._application.is_done:
            self._application.exit()

    # -- content ------------------------------------------------------------------------------------------------

    @cached_property
    def _view(self) -> TurnView:
        from hermes.surfaces.cli.repl.turn_view import TurnView

        host = self._host
        return TurnView(host.redactor, theme=self._theme, unicode=self.unicode, declaration=host.tools.declaration)

    @property
    def _has_view(self) -> bool:
        """Whether anything was shown yet."""
        return "_view" in self.__dict__

    def _sized_view(self) -> TurnView:
        self._view.width = self.width
        return self._view

    def _label(self) -> str:
        return "> " if self._question is None else self._question.label

    def _live(self) -> list[str]:
        """The changing lines between the output and the prompt."""
        dialogue, columns = self.dialogue, self.width
        rows = max(self._output.get_size().rows // 2, 2)
        is_asking = self._question is not None
        lines: list[str] = []
        if self._has_view:
            lines = self._sized_view().live(rows, is_stopping=dialogue.turns.is_stopping, is_asking=is_asking)
        waiting = [one_line(text) for text in dialogue.turns.waiting]
        lines += [fitted(f"  queued: {text}", columns) for text in waiting[:_MOST_WAITING_SHOWN]]
        if self._question is not None:
            lines += word_wrapped(self._question.hint, columns)
        return lines[-rows:]

    def _status(self) -> str:
        is_normal = self._application.editing_mode == EditingMode.VI and vi_navigation_mode()
        mode = ("NORMAL · " if self.unicode else "NORMAL | ") if is_normal else ""
        return mode + status_line(self.dialogue.facts, self.width - len(mode), unicode=self.unicode)

    def _completer(self) -> PromptCompleter:
        from hermes.surfaces.cli.repl.prompt.completion import PromptCompleter, argument_choices, commands_to_complete

        here = self.dialogue.conversation
        return PromptCompleter(
            lambda: commands_to_complete(here), here.session.cwd, lambda name: argument_choices(here, name)
        )

    # -- running ------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        loop = self._loop
        loop.set_exception_handler(self._handle_failure)
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.dialogue.leave, EXIT_TERMINATED, "terminated")
        loop.call_soon(self._refresh)
        if not self._is_over:
            self._application.after_render += self._warm_up_once
            with self._sigint_as_key():
                await self._application.run_async(set_exception_handler=False, handle_sigint=False)

    @contextlib.contextmanager
    def _sigint_as_key(self) -> Generator[None]:
        """Make SIGINT of another process a key press. prompt_toolkit would do so, too, but load ctypes for it."""
        before = signal.getsignal(signal.SIGINT)
        self._loop.add_signal_handler(signal.SIGINT, lambda: self._application.key_processor.send_sigint())
        try:
            yield
        finally:
            self._loop.remove_signal_handler(signal.SIGINT)
            if before is not None:
                signal.signal(signal.SIGINT, before)

    def _warm_up_once(self, application: Application[None]) -> None:
        """Prepare for the first message as soon as the prompt is there."""
        application.after_render -= self._warm_up_once
        self._host.workers.submit(self._warm_up)

    def _warm_up(self) -> None:
        """Import in advance what the first message and the first command need."""
        from hermes.surfaces.cli.repl.markdown.stream import MarkdownStream
        from hermes.surfaces.cli.repl.prompt.completion import commands_to_complete

        for name in ("hermes.agent.turn", "hermes.surfaces.cli.repl.turn_view", "hermes.models.wires.choice"):
            import_module(name)
        MarkdownStream(80, True).feed("- *text*\n\n")
        commands_to_complete(self.dialogue.conversation)

    def _handle_failure(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError):
            log.info("the screen is lost: %s", error)
            self.dialogue.leave(EXIT_OUTPUT_CLOSED, OUTPUT_LOST)
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


class CapturedStream(io.TextIOBase):
    """Replaces stdout or stderr while a screen is drawn: passes on complete lines, made safe to print."""

    def __init__(self, real: TextIO, show: Callable[[str], None]) -> None:
        super().__init__()
        self._real = real
        self._show = show
        self._partial = ""
        self._lock = threading.Lock()

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]  (a property, as in TextIOWrapper)
        """All text can be shown."""
        return "utf-8"

    def fileno(self) -> int:
        """The real descriptor: child processes write to the terminal."""
        return self._real.fileno()

    def isatty(self) -> bool:
        """False: it does not support cursor control."""
        return False

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        with self._lock:
            *whole, self._partial = (self._partial + text).split("\n")
        if whole:
            self._show("".join(f"{plain(line)}\n" for line in whole))
        return len(text)

    def flush(self) -> None:
        """Nothing to do: only complete lines are passed on."""

    def finish(self) -> None:
        """Show an incomplete last line."""
        if self._partial:
            self.write("\n")
