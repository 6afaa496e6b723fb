"""Questions to the person at the terminal: asked on stderr, answered on stdin, Enter alone leaves."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hermes.cli.model.names import is_among, nearest_model
from hermes.cli.terminal import one_line, plain

#: More than this do not fit on a screen.
_MOST_SHOWN = 20


def say(text: str = "") -> None:
    """A line for the person."""
    print(plain(text), file=sys.stderr, flush=True)


def ask(label: str) -> str:
    """What the person types, without blanks around it; empty when they have nothing to say."""
    print(plain(label), end="", file=sys.stderr, flush=True)
    try:
        line = sys.stdin.readline()
    except KeyboardInterrupt:
        print(file=sys.stderr)  # the cursor still stands behind the question
        raise
    if not line.endswith("\n"):
        print(file=sys.stderr)
    return line.strip()


def choose(options: Sequence[str], names: Sequence[str] = ()) -> int | None:
    """Which of the options, by number or name, the person picks; None when they leave."""
    width = len(str(len(options)))
    for number, option in enumerate(options, 1):
        say(f"  {number:>{width}}. {option}")
    while True:
        typed = ask("Number or name (Enter alone leaves it): " if names else "Number (Enter alone leaves it): ")
        if not typed:
            return None
        if typed.isdecimal() and 1 <= int(typed) <= len(options):
            return int(typed) - 1
        if typed in names:
            return names.index(typed)
        say(f"{one_line(typed, 60)!r} is none of them; type a number from 1 to {len(options)}.")


def choose_model(models: Sequence[str], default: str = "") -> str | None:
    """Which model the person wants; None when they leave. A part of a name shows those that have it."""
    shown: Sequence[str] = models if len(models) <= _MOST_SHOWN else ()
    _show_models(shown, len(models))
    insisted = ""
    takes = f"Enter takes {default}" if default else "Enter alone leaves it"
    while True:
        typed = ask(f"Model: a number, a name or a part of one ({takes}): " if models else f"Model ({takes}): ")
        if not typed:
            return default or None
        if typed.isdecimal() and 1 <= int(typed) <= len(shown):
            return shown[int(typed) - 1]
        if not models or is_among(typed, models) or typed == insisted:
            return typed
        found = [name for name in models if typed.lower() in name.lower()]
        if found:
            shown = found[:_MOST_SHOWN]
            _show_models(shown, len(found))
            continue
        insisted, near = typed, nearest_model(typed, models)
        hint = f"; did you mean {near}?" if near else "."
        say(f"{one_line(typed, 80)} is not listed{hint} Type it again to take it all the same.")


def _show_models(shown: Sequence[str], count: int) -> None:
    width = len(str(len(shown)))
    for number, name in enumerate(shown, 1):
        say(f"  {number:>{width}}. {name}")
    if count > len(shown):
        say(f"  ({count} models{', these are the first' if shown else ''}; a part of a name narrows them down)")
