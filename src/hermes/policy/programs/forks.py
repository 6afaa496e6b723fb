"""Functions that multiply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.policy.shell.expander import text_of

if TYPE_CHECKING:
    from tree_sitter import Node


def multiplies(body: Node, name: str) -> bool:
    """Whether a function starts itself more than once in a pipeline, or in the background."""
    waiting = [body]
    while waiting:
        node = waiting.pop()
        children = node.children
        if node.type == "pipeline" and sum(_calls(child, name) for child in children) > 1:
            return True
        if any(child.type == "&" and at and _calls(children[at - 1], name) for at, child in enumerate(children)):
            return True
        waiting += node.named_children
    return False


def _calls(node: Node, name: str) -> bool:
    if node.type == "command":
        called = node.child_by_field_name("name")
        return called is not None and text_of(called) == name
    return any(_calls(child, name) for child in node.named_children if child.type != "function_definition")
