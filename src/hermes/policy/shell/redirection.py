"""Redirections: the input of a command and the files it writes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermes.policy.shell.expander import text_of
from hermes.policy.shell.flow import Flow, text_flow
from hermes.policy.shell.marks import INLINE
from hermes.policy.shell.words import names

if TYPE_CHECKING:
    from tree_sitter import Node

    from hermes.policy.shell.reader import Shell

#: Node types that are words of a command.
WORDS = names(
    "word number string raw_string ansi_c_string translated_string concatenation simple_expansion expansion "
    "command_substitution process_substitution arithmetic_expansion brace_expression command_name regex "
    "extglob_pattern $ == =~ subscript test_operator variable_name"
)


@dataclass(slots=True)
class Redirects:
    """The effect of redirections on a command."""

    stdin: Flow | None = None
    writes: list[str] = field(default_factory=list[str])
    appended: set[str] = field(default_factory=set[str])
    #: Whether the output goes to a file instead of on.
    silent: bool = False
    #: Words behind a redirection's target: the parser counts them as targets, a shell as arguments.
    arguments: list[Node] = field(default_factory=list["Node"])


def read_redirects(shell: Shell, nodes: Iterable[Node]) -> Redirects:
    """All redirections of one command."""
    result = Redirects()
    for node in nodes:
        add_redirect(shell, node, result)
    return result


def add_redirect(shell: Shell, node: Node, result: Redirects) -> None:
    """Apply one redirection."""
    if node.type == "file_redirect":
        target, *rest = node.children_by_field_name("destination") or [None]
        result.arguments += filter(None, rest)
        operator = next((text_of(child) for child in node.children if not child.is_named), "")
        path = shell.expander.value(target) if target is not None else ""
        if path.startswith(INLINE):
            result.stdin = text_flow(path[1:] + "\n")
        elif operator == "<":
            result.stdin = shell.content_of(path)
            kind = shell.state.paths.secret_kind(path)
            if kind is not None:  # whatever reads it: most programs print what they read
                shell.report(kind, text_of(node))
        elif operator in (">&", "<&") and path.rstrip("-").isdecimal():
            result.silent = result.silent or (operator == ">&" and node.child_by_field_name("descriptor") is None)
        elif path and path != "-":
            _write(node, path, operator, result)


def _write(node: Node, path: str, operator: str, result: Redirects) -> None:
    result.writes.append(path)
    if operator in (">>", "&>>"):
        result.appended.add(path)
    descriptor = node.child_by_field_name("descriptor")
    if descriptor is None or text_of(descriptor) == "1":
        result.silent = path not in ("/dev/stdout", "/dev/fd/1", "/dev/tty")
