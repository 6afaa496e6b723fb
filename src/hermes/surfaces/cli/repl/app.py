"""The interactive prompt: chooses the display, greets, and returns the exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from hermes.agent.session import Session
from hermes.base.errors import HermesError
from hermes.base.version import __version__
from hermes.host import Host
from hermes.surfaces.cli.failures import NO_MESSAGE
from hermes.surfaces.cli.repl.dialogue import Dialogue
from hermes.surfaces.cli.terminal import (
    can_draw,
    one_line,
    plain,
    print_warnings,
    say_about_sandbox,
    shows_unicode,
    terminal_width,
    word_wrapped,
)
from hermes.surfaces.commands.text import plural


def run_repl(
    host: Host, opened: Callable[[], Session], *, notices: Sequence[str] = (), chooses_session: bool = False
) -> int:
    """Run the prompt until the user leaves or the input ends; returns the exit code.

    ``chooses_session``: the user is asked at once which session to continue.
    """
    if not sys.stdin:
        raise HermesError(NO_MESSAGE)
    if not can_draw("stdin", "stdout"):
        return _run_plain(host, opened, notices, chooses_session=chooses_session)
    from hermes.surfaces.cli.repl.prompt.postponed import postpone_unused

    postpone_unused()
    from hermes.surfaces.cli.repl.prompt.screen import Screen

    with Screen(host, sys.stdout) as screen:
        screen.dialogue = dialogue = Dialogue(host, screen, opened, attended=True)
        _greet(dialogue, notices)
        if chooses_session:
            dialogue.enter("/resume")
        screen.run()
    return _farewell(dialogue)


def _run_plain(host: Host, opened: Callable[[], Session], notices: Sequence[str], *, chooses_session: bool) -> int:
    from hermes.surfaces.cli.repl.prompt.plain import PlainPrompt

    prompt = PlainPrompt(sys.stdin, sys.stdout, host.redactor)
    dialogue = Dialogue(host, prompt, opened, attended=prompt.is_interactive)
    if prompt.is_interactive:
        _greet(dialogue, notices)
    else:
        print_warnings(notices, str)
    if chooses_session:
        dialogue.enter("/resume")
    prompt.run(dialogue)
    if prompt.is_interactive:
        return _farewell(dialogue)
    if not prompt.any_line and not dialogue.exit_code:
        raise HermesError(NO_MESSAGE)
    return dialogue.exit_code or 0


def _greet(dialogue: Dialogue, notices: Sequence[str]) -> None:
    """Print the version, model and session, the warnings, and the last messages of a resumed session."""
    session = dialogue.conversation.session
    dot = " · " if shows_unicode(sys.stderr.encoding, os.environ.get("TERM")) else " | "
    facts = (f"hermes {__version__}", session.models.endpoints[0].model, f"session {session.id}", "/help")
    print("\n".join(word_wrapped(one_line(dot.join(facts)), terminal_width(80))), file=sys.stderr)
    instructions = session.instructions
    if instructions is not None and instructions.files:
        names = ", ".join(file.name for file in instructions.files)
        print(one_line(f"project instructions: {names}"), file=sys.stderr)
    print_warnings([*notices, *([] if instructions is None else instructions.notices)], str)
    say_about_sandbox(dialogue.host.confinements, dialogue.note)
    dialogue.mention_waiting()
    if session.messages():
        from hermes.surfaces.commands.dispatch import run_command
        from hermes.surfaces.commands.handlers.settings import mode_notice

        if dialogue.host.approvals.modes.chosen(session.id):
            print(mode_notice(dialogue.host.approvals, session), file=sys.stderr)
        print(plain(run_command(dialogue.conversation, "/history 2").text), file=sys.stderr)
        dialogue.offer_to_finish()


def _farewell(dialogue: Dialogue) -> int:
    session_id = dialogue.conversation.session.id
    if sys.stderr.isatty():  # read by a person
        if dialogue.turns.waiting:
            print(f"{plural(len(dialogue.turns.waiting), 'message')} not sent:", file=sys.stderr)
        for text in dialogue.turns.waiting:
            print(f"  {one_line(text)}", file=sys.stderr)
        if dialogue.host.sessions.turn_count(session_id):
            print(f"Continue with: hermes chat --resume {session_id}", file=sys.stderr)
    return dialogue.exit_code or 0
