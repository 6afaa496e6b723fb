# ruff: noqa: T201  (it is for the terminal of a person who runs a command)
"""``hermes_cli.setup`` and ``hermes_cli.cli_output``: what a plugin's own setup command prints and asks."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from hermes.plugins.compat.machine.helpers import is_truthy_value


class Colors:
    """Escape sequences of colours."""

    RESET = "\033[0m"
    BOLD = "\033[1m"
    DIM = "\033[2m"
    RED = "\033[31m"
    GREEN = "\033[32m"
    YELLOW = "\033[33m"
    BLUE = "\033[34m"
    MAGENTA = "\033[35m"
    CYAN = "\033[36m"


def should_use_color() -> bool:
    """Whether colours help: not in a file or a pipe, nor where ``NO_COLOR`` is set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def color(text: str, *codes: str) -> str:
    """The text in these colours, where there are any."""
    return f"{''.join(codes)}{text}{Colors.RESET}" if codes and should_use_color() else text


def print_header(title: str) -> None:
    """Begin a section."""
    print(f"\n{color(title, Colors.CYAN, Colors.BOLD)}")


def print_info(text: str) -> None:
    print(color(f"  {text}", Colors.DIM))


def print_success(text: str) -> None:
    print(color(f"✓ {text}", Colors.GREEN))


def print_warning(text: str) -> None:
    print(color(f"⚠ {text}", Colors.YELLOW))


def print_error(text: str) -> None:
    print(color(f"✗ {text}", Colors.RED))


def is_interactive_stdin() -> bool:
    """Whether a person can answer."""
    return sys.stdin is not None and sys.stdin.isatty()  # pyright: ignore[reportUnnecessaryComparison]


def masked_secret_prompt(question: str) -> str:
    """Ask for a text that is not shown."""
    from getpass import getpass

    return getpass(question)


def prompt(question: str, default: str | None = None, password: bool = False) -> str:
    """A person's answer, or the default; the program ends when there is none to be had."""
    shown = color(f"{question} [{default}]: " if default else f"{question}: ", Colors.YELLOW)
    try:
        answer = masked_secret_prompt(shown) if password else input(shown)
    except (EOFError, KeyboardInterrupt):
        print()
        sys.exit(1)
    return answer.strip() or default or ""


def prompt_or_empty(question: str, default: str | None = None, password: bool = False) -> str:
    """The same; nothing when there is no answer to be had."""
    try:
        return prompt(question, default, password)
    except SystemExit:
        return ""


def prompt_yes_no(question: str, default: bool = True) -> bool:
    """Whether the person says yes; the default when no one can answer."""
    if is_truthy_value(os.environ.get("HERMES_NONINTERACTIVE")):
        return default
    while True:
        try:
            answer = input(color(f"{question} [{'Y/n' if default else 'y/N'}]: ", Colors.YELLOW)).strip().lower()
        except EOFError:
            print()
            return default
        except KeyboardInterrupt:
            print()
            sys.exit(1)
        if not answer:
            return default
        if answer in ("y", "yes", "n", "no"):
            return answer.startswith("y")
        print_error("Answer y or n.")


def prompt_choice(question: str, choices: Sequence[str], default: int = 0, description: str | None = None) -> int:
    """The number of the choice that the person makes, from 0."""
    print(color(question, Colors.YELLOW))
    if description:
        print_info(description)
    for number, choice in enumerate(choices, 1):
        print(f"  {number}. {choice}")
    while True:
        answer = prompt("Number", str(default + 1))
        if answer.isdecimal() and 1 <= int(answer) <= len(choices):
            return int(answer) - 1
        print_error(f"Answer with a number from 1 to {len(choices)}.")


def prompt_checklist(title: str, items: Sequence[str], pre_selected: Sequence[int] | None = None) -> list[int]:
    """The numbers of the items that the person chooses, from 0."""
    print(color(title, Colors.YELLOW))
    for number, item in enumerate(items, 1):
        print(f"  {number}. {item}")
    usual = ", ".join(str(index + 1) for index in pre_selected or ())
    while True:
        words = prompt("Numbers, with commas between them", usual).replace(",", " ").split()
        if all(word.isdecimal() and 1 <= int(word) <= len(items) for word in words):
            return sorted({int(word) - 1 for word in words})
        print_error(f"Answer with numbers from 1 to {len(items)}.")
