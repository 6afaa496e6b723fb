"""Variable assignments, and variables whose values other programs run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hermes.policy.rules.machine.persistence import hides_history, loads_code
from hermes.policy.shell.expander import text_of
from hermes.policy.shell.flow import NOTHING, Flow
from hermes.policy.shell.marks import UNKNOWN, is_known
from hermes.policy.shell.state import Value
from hermes.policy.shell.words import names

if TYPE_CHECKING:
    from tree_sitter import Node

    from hermes.policy.shell.reader import Shell

#: Variables whose value other programs run as a command.
_RUN_VARIABLES = names(
    "GIT_SSH_COMMAND GIT_SSH GIT_EDITOR GIT_PAGER GIT_SEQUENCE_EDITOR GIT_EXTERNAL_DIFF GIT_ASKPASS SSH_ASKPASS "
    "SUDO_ASKPASS EDITOR VISUAL PAGER MANPAGER BROWSER PROMPT_COMMAND LESSOPEN LESSCLOSE RSYNC_RSH CVS_RSH FCEDIT "
    "PS0 PS1 PS4 ENV BASH_ENV"
)


#: Variables that would change this agent's own safeguards.
_OWN_SETTING = re.compile(r"YOLO|MODE|APPROV|ACCEPT_HOOKS|TRUST")


def assign(shell: Shell, node: Node, _stdin: Flow) -> Flow:
    """``name=value``, ``name+=value``, ``name=(…)`` and ``name[i]=value``."""
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    known: Value = ""
    if value is not None:
        is_array = value.type == "array"
        known = shell.expander.words(value.named_children) if is_array else shell.expander.value(value)
    if name is None or name.type == "subscript":
        # One member of an array: the array is not followed any further.
        for child in name.named_children if name is not None else ():
            shell.walk(child)
            shell.state.variables[text_of(child)] = UNKNOWN
        return NOTHING
    append = any(child.type == "+=" for child in node.children)
    shell.state.assign(text_of(name), known, append=append)
    if isinstance(known, str):
        _run_assigned(shell, text_of(name), known, text_of(node))
    return NOTHING


def assign_for_now(shell: Shell, node: Node) -> tuple[str, Value | None]:
    """Apply an assignment before a command, which holds for that command only; returns the hidden values."""
    name = node.child_by_field_name("name")
    key = text_of(name) if name is not None else ""
    hidden = shell.state.variables.pop(key, None)
    assign(shell, node, NOTHING)
    return key, hidden


def restore(shell: Shell, name: str, value: Value | None) -> None:
    """Restore the values hidden by an assignment before a command."""
    if value is None:
        shell.state.variables.pop(name, None)
    else:
        shell.state.variables[name] = value


def declare(shell: Shell, node: Node, stdin: Flow) -> Flow:
    """``export``, ``declare`` and similar."""
    reference = False
    for child in node.named_children:
        if child.type == "variable_assignment":
            assign(shell, child, stdin)
            name = child.child_by_field_name("name")
            if reference and name is not None:
                shell.state.variables[text_of(name)] = UNKNOWN
            continue
        word = shell.expander.value(child)
        reference = reference or (word.startswith("-") and "n" in word)
        name_text, equals, value = word.partition("=")
        if equals:
            shell.state.assign(name_text, value)
            _run_assigned(shell, name_text, value, text_of(node))
    return NOTHING


def unset(shell: Shell, node: Node, _stdin: Flow) -> Flow:
    """An unset variable is empty."""
    for child in node.named_children:
        shell.state.variables[text_of(child)] = ""
        if hides_history(text_of(child), ""):
            shell.report("wipe-logs", text_of(node))
    return NOTHING


def _run_assigned(shell: Shell, name: str, value: str, source: str) -> None:
    """Report a variable that other programs run, or that would disable the agent's own safeguards."""
    if name.startswith("HERMES_") and _OWN_SETTING.search(name) and value not in ("", "0", "false"):
        shell.report("own-runtime", source)
    if loads_code(name, value):
        shell.report("load-code", source)
    if hides_history(name, value):
        shell.report("wipe-logs", source)
    if name in _RUN_VARIABLES and is_known(value) and (" " in value or value.startswith("$(")):
        shell.read_apart(value)
    if name in ("ENV", "BASH_ENV") and (text := shell.content_of(value).text):
        shell.read_apart(text)
