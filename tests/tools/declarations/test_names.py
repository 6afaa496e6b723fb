"""Nothing decides by the name of a tool: what a tool does is what it declares."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import hermes
from hermes.tools.declarations.builtin import DECLARED

SOURCE = Path(hermes.__file__).parent
#: Where tools are made, and where plugins of upstream meet names that they know.
EXEMPT = ("tools/", "agent/tools/", "plugins/compat/", "testing/", "policy/")
#: What holds the name of a tool, as far as the name of a variable tells.
TOOL_NAME = re.compile(r"(?:.*_)?(?:name|tool|called)")
QUOTED = re.compile("[\"'](?:" + "|".join(DECLARED) + ")[\"']")


def names_in(node: ast.AST) -> set[str]:
    """The names of built-in tools that an expression lists."""
    items: list[ast.expr] = [node] if isinstance(node, ast.Constant) else []
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        items = node.elts
    elif isinstance(node, ast.Dict):
        items = [key for key in node.keys if key is not None]
    elif isinstance(node, ast.Call) and node.args and getattr(node.func, "id", "") in ("frozenset", "set", "tuple"):
        return names_in(node.args[0])
    return {str(item.value) for item in items if isinstance(item, ast.Constant) and item.value in DECLARED}


def decisions(tree: ast.AST) -> Iterator[int]:
    """Lines that compare the name of a tool with a literal, match it, or hold a table of names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            words = [getattr(side, "attr", getattr(side, "id", "")) for side in sides]
            if any(map(TOOL_NAME.fullmatch, words)) and any(map(names_in, sides)):
                yield node.lineno
        elif isinstance(node, ast.Dict | ast.Set | ast.Tuple | ast.List) and len(names_in(node)) > 1:
            yield node.lineno
        elif isinstance(node, ast.MatchValue) and isinstance(node.value, ast.Constant) and node.value.value in DECLARED:
            yield node.value.lineno


def test_no_code_decides_by_the_name_of_a_tool() -> None:
    found: list[str] = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith(EXEMPT) or not QUOTED.search(text := path.read_text()):
            continue
        found += (f"{name}:{line}" for line in decisions(ast.parse(text)))
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        'tool.name == "terminal"',
        '"todo" != event.tool_name',
        'name in ("read_file", "other")',
        '_HARMLESS = frozenset({"delegate_task", "todo"})',
        'KINDS = {"read_file": "read", "patch": "edit"}',
        'match name:\n    case "terminal":\n        pass',
    ],
)
def test_such_code_is_found(code: str) -> None:
    assert list(decisions(ast.parse(code)))


def test_other_code_is_not() -> None:
    assert not list(decisions(ast.parse('kind == "clarify"; run("terminal", {"memory": 1}); name == "other"')))
