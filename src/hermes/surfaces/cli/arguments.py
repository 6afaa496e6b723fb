"""Commands declared as data, the parser that is made of them, and the arguments that several commands share."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Self

from hermes.surfaces.cli.terminal import print_error, terminal_width

_HIGHEST_PORT = 65_535
_UNITS = {"h": 3_600, "d": 86_400, "w": 604_800}

#: Words that people try -> names that commands have for it.
_OTHER_WORDS = {
    word: names
    for words, names in (
        (("install", "new", "create"), ("add", "new", "install")),
        (("uninstall", "delete", "remove", "rm"), ("remove", "delete", "revoke", "logout")),
        (("ls",), ("list",)),
        (("get", "view", "info"), ("show", "info", "status")),
        (("start", "launch"), ("run", "serve")),
    )
    for word in words
}

if TYPE_CHECKING:
    from hermes.surfaces.cli.report import Report

    _SubParsersAction = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage]
else:
    _SubParsersAction = argparse._SubParsersAction


class Argument:
    """An option or a positional argument, written as the help shows it: ``-o, --output FILE``, or ``name NAME``."""

    def __init__(self, spec: str, help: str, **options: Any) -> None:  # noqa: A002  (as argparse calls it)
        *others, last = spec.split(", ")
        last, _, metavar = last.partition(" ")
        self._names = (*others, last)
        self._options = {"metavar": metavar, "help": help, **options} if metavar else {"help": help, **options}

    def add_to(self, parser: Any) -> None:
        """Declare it."""
        parser.add_argument(*self._names, **self._options)


class OneOf:
    """Arguments that exclude each other."""

    def __init__(self, *arguments: Argument, required: bool = False) -> None:
        self._arguments, self._required = arguments, required

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Declare them."""
        group = parser.add_mutually_exclusive_group(required=self._required)
        for argument in self._arguments:
            argument.add_to(group)


def flag(spec: str, help: str, **options: Any) -> Argument:  # noqa: A002
    """An option that is given or not."""
    return Argument(spec, help, action="store_true", **options)


def repeatable(spec: str, help: str, **options: Any) -> Argument:  # noqa: A002
    """An option that may be given several times: a list."""
    return Argument(spec, help, action="append", default=[], **options)


class Action:
    """One of the things that a command does: ``hermes COMMAND NAME``."""

    def __init__(
        self,
        name: str,
        #: Gets the arguments and, where the command opens something, that. As text, ``module:function`` below
        #: ``hermes.cli``, it is imported when it is called. Its result is a report, an exit code, or nothing.
        run: Callable[..., Report | int | None] | str,
        help: str,  # noqa: A002  (as argparse calls it)
        *,
        aliases: tuple[str, ...] = (),
        epilog: str = "",
        #: What the arguments hold beside what is given.
        defaults: Mapping[str, Any] | None = None,
        #: For an action that has actions itself.
        actions: tuple[Action, ...] = (),
    ) -> None:
        self.name, self.run, self.help, self.aliases = name, run, help, aliases
        self.epilog, self.defaults, self.actions = epilog, defaults or {}, actions
        self.arguments: tuple[Argument | OneOf, ...] = ()

    def takes(self, *arguments: Argument | OneOf) -> Self:
        """The same action with these arguments."""
        self.arguments = arguments
        return self


class CommandSpec:
    """What a command declares: its actions, or the function that runs it without one, and its arguments."""

    def __init__(
        self,
        *,
        actions: tuple[Action, ...] = (),
        #: The action that is meant when none is given.
        default: str = "",
        run: Callable[..., Report | int | None] | str = "",
        arguments: tuple[Argument | OneOf, ...] = (),
        epilog: str = "",
        #: Opens what every action uses, and closes it afterwards.
        opened: Callable[[Any], AbstractContextManager[Any]] | None = None,
    ) -> None:
        self.actions, self.default, self.run = actions, default, run
        self.arguments, self.epilog, self.opened = arguments, epilog, opened


def make_parser(command: CommandSpec, prog: str, summary: str) -> CommandParser:
    """The parser of a command."""
    parser = CommandParser(prog=prog, description=summary)
    parser.set_defaults(run_action=command.run)
    _declare(parser, command.arguments, command.epilog)
    if command.actions:
        made = _add_actions(parser, command.actions, is_needed=not (command.default or command.run))
        if command.default:
            parser.set_defaults(**vars(made[command.default].parse_args([])))
    return parser


def _add_actions(
    parser: CommandParser, actions: Iterable[Action], *, is_needed: bool
) -> dict[str, argparse.ArgumentParser]:
    listed = parser.add_subparsers(metavar="ACTION", required=is_needed)
    for action in actions:
        made = listed.add_parser(action.name, help=action.help, aliases=action.aliases)
        made.set_defaults(run_action=action.run, **action.defaults)
        _declare(made, action.arguments, action.epilog)
        if action.actions:
            _add_actions(made, action.actions, is_needed=True)
    return listed.choices


def _declare(parser: argparse.ArgumentParser, arguments: Iterable[Argument | OneOf], epilog: str) -> None:
    parser.epilog = epilog or None
    if "\n" in epilog:
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
    for argument in arguments:
        argument.add_to(parser)


def execute(command: CommandSpec, args: argparse.Namespace) -> int:
    """Run what the arguments ask for, print its report, and return the exit code."""
    run = args.run_action
    if isinstance(run, str):
        from importlib import import_module

        module, _, name = run.partition(":")
        run = getattr(import_module(f"hermes.cli.{module}"), name)
    if command.opened is None:
        return _concluded(run(args), args)
    with command.opened(args) as opened:
        return _concluded(run(args, opened), args)


def _concluded(result: Report | int | None, args: argparse.Namespace) -> int:
    if result is None or isinstance(result, int):
        return result or 0
    return result.show(as_json=getattr(args, "json", False))


class CommandParser(argparse.ArgumentParser):
    """An ``ArgumentParser`` that accepts only full option names, in sub-commands too."""

    def __init__(self, *args: Any, **options: Any) -> None:
        # An abbreviation that works today would mean something else once an option is added.
        options.setdefault("allow_abbrev", False)
        super().__init__(*args, **options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The arguments; an unknown one is an error that names the option that was probably meant.

        Sub-commands are parsed by this method too, so that the error names theirs.
        """
        words: list[str] | None = None if args is None else list(args)
        line: list[str] = []
        # A parser with a line takes the words behind -- as they are: a command line of another program.
        if words is not None and "--" in words and self.get_default("line") is not None:
            at = words.index("--")
            words, line = words[:at], words[at + 1 :]
        found, unknown = super().parse_known_args(words, namespace)
        if line:
            found.line = line
        option = next((word for word in unknown if word.startswith("-")), None)
        if option is not None:
            hint = _suggestion(option.partition("=")[0], self._option_string_actions, otherwise="")
            self.error(f"unknown option {option!r}{hint}")
        if unknown:
            self.error(f"unexpected argument: {' '.join(unknown)}")
        return found, unknown

    def add_subparsers(self, **options: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Actions whose help is a sentence: the line of the list, unless something else is given."""
        return super().add_subparsers(action=_Actions, **options)

    def error(self, message: str) -> NoReturn:
        """Print the error and where the help is, without the whole usage, and exit with 2."""
        if message.endswith(" required: ACTION"):
            actions = next(action for action in self._actions if isinstance(action, _Actions))
            message = f"an action is missing; allowed: {', '.join(actions.choices)}"
        end = "" if message.endswith("?") else "."
        print_error(f"{message}{end} See '{self.prog} --help'.")
        self.exit(2)

    def _get_formatter(self) -> argparse.HelpFormatter:
        # Made for every argument. Told no width, it imports shutil, and with it all kinds of compression, to find one.
        make: Any = self.formatter_class
        return make(prog=self.prog, width=terminal_width(80) - 2)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = None if action.choices is None else [str(choice) for choice in action.choices]
        if choices is not None and value not in action.choices:  # pyright: ignore[reportOperatorIssue]
            hint = _suggestion(str(value), choices, otherwise=f"allowed: {', '.join(choices)}")
            noun = str(action.metavar or action.dest).lower()
            what = f"{action.option_strings[-1]}: unknown value" if action.option_strings else f"unknown {noun}"
            raise argparse.ArgumentError(None, f"{what} {value!r}{hint}")


class _Actions(_SubParsersAction):
    def add_parser(self, name: str, **options: Any) -> argparse.ArgumentParser:
        text = str(options.get("description") or options.get("help") or "")
        if text:
            options["description"] = f"{text[0].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
        return super().add_parser(name, **options)


def _suggestion(word: str, known: Iterable[str], *, otherwise: str) -> str:
    from hermes.base.errors import did_you_mean, nearest

    names = list(known)
    close = nearest(word, [*names, *_OTHER_WORDS])
    if close not in names:
        word = next((name for name in names if name in _OTHER_WORDS.get(close, ())), word)
    return did_you_mean(word, names, otherwise=otherwise)


def port_number(text: str) -> int:
    """A port of TCP; 0 is none, or any free one."""
    if not text.isdecimal() or int(text) > _HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0 to {_HIGHEST_PORT})")
    return int(text)


def _whole_number(least: int, text: str) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"found {text!r}; allowed: a whole number, {least} or more")
    return int(text)


positive_number = partial(_whole_number, 1)
count = partial(_whole_number, 0)


def seconds(text: str) -> float:
    """A duration in seconds, above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"found {text!r}; a number of seconds above 0 is expected")
    return value


def moment(text: str) -> float:
    """A time in the past: a duration such as ``7d``, a date, or ``all`` for the beginning."""
    if text == "all":
        return 0.0
    number, unit = text[:-1], text[-1:]
    if unit in _UNITS and number.isdecimal() and len(number) < 6:
        return time.time() - int(number) * _UNITS[unit]
    from datetime import datetime

    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        allowed = "a duration such as 12h, 7d or 4w, a date such as 2026-11-01, or all"
        raise argparse.ArgumentTypeError(f"found {text!r}; allowed: {allowed}") from None


JSON = flag("--json", "print one JSON document")
VERBOSE = flag("-v, --verbose", "show the log on stderr")
PLUGIN = repeatable("--plugin KEY", "load this plugin too (repeatable)")
#: Which model answers, for commands that serve.
MODEL = (
    Argument("--provider", "provider to use instead of the configured one", default=""),
    Argument("-m, --model", "model to use instead of the configured one", default=""),
)
SINCE = Argument(
    "--since WHEN", "start, such as 12h, 7d, 4w or a date, or 'all' (default: 30d)", type=moment, default="30d"
)
HOST = Argument("--host", "address to listen on (default: 127.0.0.1); any other needs tokens", default="127.0.0.1")
