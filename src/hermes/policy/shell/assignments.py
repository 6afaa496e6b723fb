"""Variable assignments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.policy.programs.variables import set_variable
from hermes.policy.rules.machine.persistence import hides_history
from hermes.policy.shell.expander import text_of
from hermes.policy.shell.flow import NOTHING, PROGRAM, Flow
from hermes.policy.shell.marks import TOKEN, UNKNOWN
from hermes.policy.shell.state import Value

if TYPE_CHECKING:
    from tree_sitter import Node

    from hermes.policy.shell.reader import Shell


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
        set_variable(shell, text_of(name), known, text_of(node))
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
    reference = printed = False
    for child in node.named_children:
        if child.type == "variable_assignment":
            assign(shell, child, stdin)
            name = child.child_by_field_name("name")
            if reference and name is not None:
                shell.state.variables[text_of(name)] = UNKNOWN
            continue
        word = shell.expander.value(child)
        reference = reference or (word.startswith("-") and "n" in word)
        printed = printed or (word.startswith("-") and "p" in word)
        shell.evaluate([word])
        name_text, equals, value = word.partition("=")
        if equals:
            shell.state.assign(name_text, value)
            set_variable(shell, name_text, value, text_of(node))
    return PROGRAM.tainted(TOKEN) if printed else NOTHING


def unset(shell: Shell, node: Node, _stdin: Flow) -> Flow:
    """An unset variable is empty."""
    for child in node.named_children:
        shell.state.variables[text_of(child)] = ""
        if hides_history(text_of(child), ""):
            shell.report("wipe-logs", text_of(node))
    return NOTHING
