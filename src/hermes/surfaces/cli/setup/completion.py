"""``hermes completion``: prints a script that completes commands and options in bash, zsh or fish."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, cast

from hermes.surfaces.cli.arguments import Argument, CommandSpec
from hermes.surfaces.cli.commands import COMMANDS
from hermes.surfaces.cli.main import load_command

if TYPE_CHECKING:
    _SubParsers = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage]

_SHELLS = ("bash", "zsh", "fish")
_INSTALL = """\
bash: add  source <(hermes completion bash)  to ~/.bashrc
zsh:  add  source <(hermes completion zsh)  to ~/.zshrc, after compinit
fish: hermes completion fish > ~/.config/fish/completions/hermes.fish"""


class CommandOption(NamedTuple):
    """An option of a command: its spellings, its help, and what its value can be."""

    flags: tuple[str, ...]
    help: str
    takes_value: bool
    choices: tuple[str, ...] = ()


class CommandNode(NamedTuple):
    """A command or sub-command with its options, the values of its arguments as far as listed, and sub-commands."""

    path: tuple[str, ...]
    help: str
    options: list[CommandOption]
    words: list[str]
    children: list[CommandNode]

    def walk(self) -> Iterator[CommandNode]:
        """The command and everything below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def _print_script(args: argparse.Namespace) -> None:
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell](command_tree()), end="")


def command_tree() -> CommandNode:
    """All commands, read from their parsers."""
    children = [_node((name,), summary, load_command(name)[1]) for name, (_, summary) in COMMANDS.items()]
    return CommandNode((), "", [CommandOption(("--help", "-h"), "show the commands", False)], [], children)


def _node(path: tuple[str, ...], summary: str, parser: argparse.ArgumentParser) -> CommandNode:
    node = CommandNode(path, summary, [], [], [])
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
            subparsers = cast("_SubParsers", action)
            helps = {choice.dest: choice.help or "" for choice in subparsers._choices_actions}
            node.children.extend(
                _node((*path, name), helps.get(name, ""), sub) for name, sub in subparsers.choices.items()
            )
        elif action.option_strings:
            flags = tuple(flag for flag in action.option_strings if "_" not in flag)
            choices = tuple(map(str, action.choices or ()))
            text = "" if action.help in (None, argparse.SUPPRESS) else str(action.help).replace("%%", "%")
            node.options.append(CommandOption(flags, text, action.nargs != 0, choices))
        else:
            node.words.extend(map(str, action.choices or ()))
    return node


def _bash(tree: CommandNode) -> str:
    """Words by the path of the command; values of options are files unless there is a list of them."""
    cases: list[str] = []
    values: list[str] = []
    for node in tree.walk():
        names = [child.path[-1] for child in node.children]
        flags = [flag for option in node.options for flag in option.flags]
        words = shlex.quote(" ".join([*names, *node.words, *flags]))
        cases.append(f"    {shlex.quote(' '.join(node.path))}) words={words} ;;")
        for option in node.options:
            for flag in option.flags if option.takes_value else ():
                key = shlex.quote(" ".join((*node.path, flag)))
                values.append(f"    {key}) is_value=1; words={shlex.quote(' '.join(option.choices))} ;;")
    commands = " ".join(shlex.quote(" ".join(node.path)) for node in tree.walk() if node.path)
    return _BASH.format(cases="\n".join(cases), values="\n".join(values), commands=commands)


_BASH = """\
# bash completion of hermes; made by 'hermes completion bash'
_hermes() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
  local path="" words="" is_value="" word candidate index
  local known=({commands})
  for ((index = 1; index < COMP_CWORD; index++)); do
    word="${{COMP_WORDS[index]}}"
    for candidate in "${{known[@]}}"; do
      if [[ "$candidate" == "${{path:+$path }}$word" ]]; then path="$candidate"; break; fi
    done
  done
  case "${{path:+$path }}$previous" in
{values}
  esac
  if [[ -z "$is_value" ]]; then
    case "$path" in
{cases}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _hermes hermes
"""


def _zsh(tree: CommandNode) -> str:
    """The script of bash, by zsh's own support for such scripts."""
    return "autoload -U +X bashcompinit && bashcompinit\n" + _bash(tree)


def _fish(tree: CommandNode) -> str:
    lines = ["# fish completion of hermes; made by 'hermes completion fish'", _FISH.rstrip()]
    for node in tree.walk():
        condition = f"-n {shlex.quote('__hermes_at ' + shlex.quote(' '.join(node.path)))}"
        lines += [_fish_line(condition, f"-a {shlex.quote(child.path[-1])}", child.help) for child in node.children]
        lines += [_fish_line(condition, f"-a {shlex.quote(word)}", "") for word in node.words]
        for option in node.options:
            names = [f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags]
            if option.choices:
                names.append(f"-x -a {shlex.quote(' '.join(option.choices))}")
            elif option.takes_value:
                names.append("-r")
            lines.append(_fish_line(condition, " ".join(names), option.help))
    return "\n".join(lines) + "\n"


def _fish_line(condition: str, what: str, text: str) -> str:
    return " ".join(filter(None, ("complete -c hermes", condition, what, f"-d {shlex.quote(text)}" if text else "")))


_FISH = """\
function __hermes_at
    set -l path
    for word in (commandline -opc)[2..-1]
        if not string match -q -- '-*' $word
            set -a path $word
        end
    end
    test "$path" = "$argv[1]"
end
"""


COMMAND = CommandSpec(
    run=_print_script,
    arguments=(Argument("shell", "the shell that the script is for", choices=_SHELLS),),
    epilog=_INSTALL,
)
