"""The source tree: folders and modules of bounded size, one meaning for each class name, pages that name real code."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import hermes

SOURCE = Path(hermes.__file__).parent

#: A folder shows at a glance what it holds: about a dozen names.
MOST_NAMES = 14
#: The first folder: the kernel, what it stands on, the tools, the surfaces, and what ships with it.
MOST_NAMES_IN_THE_FIRST = 16
MOST_LINES = 600
MOST_FUNCTION_LINES = 80
MOST_BRANCHES = 15
#: Functions that are above it, to be divided.
MORE_BRANCHES = {
    "journal/store/postgres/pipeline.py": "_read",
}
_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """What the tests want to know of a module, so that its syntax tree need not be kept."""

    lines: int
    #: The first word of its docstring.
    opening: str
    classes: tuple[str, ...]
    #: The lines of each function.
    functions: tuple[tuple[str, int], ...]
    #: The paths through each function: the statements that branch, and each further operand of ``and`` and ``or``.
    branches: tuple[tuple[str, int], ...]


@cache
def modules() -> dict[str, ModuleFacts]:
    """Every module by its path below the package."""
    paths = sorted(path for path in SOURCE.rglob("*.py") if "__pycache__" not in path.parts)
    return {path.relative_to(SOURCE).as_posix(): facts(path.read_text()) for path in paths}


def facts(text: str) -> ModuleFacts:
    module = ast.parse(text)
    classes = (node.name for node in module.body if isinstance(node, ast.ClassDef))
    functions = [node for node in statements(module) if isinstance(node, _FUNCTIONS)]
    return ModuleFacts(
        lines=len(text.splitlines()),
        opening=(ast.get_docstring(module) or "").split(" ", 1)[0],
        classes=tuple(classes),
        functions=tuple((node.name, (node.end_lineno or 0) - node.lineno) for node in functions),
        branches=tuple((node.name, 1 + branches(node)) for node in functions),
    )


def branches(node: ast.AST) -> int:
    """The branches of a function, without those of functions and classes inside it."""
    inner = [child for child in ast.iter_child_nodes(node) if not isinstance(child, (*_FUNCTIONS, ast.ClassDef))]
    operands = sum(len(child.values) - 1 for child in inner if isinstance(child, ast.BoolOp))
    return operands + sum(isinstance(child, _BRANCHES) for child in inner) + sum(map(branches, inner))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements inside a node, at any depth; expressions, of which there are many more, hold none."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner: list[ast.AST] | ast.AST = getattr(node, block, [])
        for child in inner if isinstance(inner, list) else ():  # the body of a lambda is an expression
            yield child
            yield from statements(child)


def test_folders_show_what_they_hold() -> None:
    names: dict[str, set[str]] = defaultdict(set)
    for path in modules():
        *folders, _ = parts = Path(path).parts
        for depth in range(len(folders) + 1):
            names["/".join(folders[:depth]) or "."].add(parts[depth])
    crowded = {
        folder: len(found - {"__init__.py", "__main__.py"})
        for folder, found in names.items()
        if len(found - {"__init__.py", "__main__.py"}) > (MOST_NAMES if folder != "." else MOST_NAMES_IN_THE_FIRST)
    }
    assert crowded == {}


def test_modules_are_not_too_long() -> None:
    assert {path: module.lines for path, module in modules().items() if module.lines > MOST_LINES} == {}


def test_functions_fit_a_screen() -> None:
    found = {f"{path}:{name}": lines for path, module in modules().items() for name, lines in module.functions}
    assert len(found) > 1_000
    assert {name: lines for name, lines in found.items() if lines > MOST_FUNCTION_LINES} == {}


def test_functions_have_few_branches() -> None:
    """As the linter counts them, and the operands of ``and`` and ``or`` too."""
    above = {
        path: name for path, module in modules().items() for name, found in module.branches if found > MOST_BRANCHES
    }
    assert {path: name for path, name in above.items() if MORE_BRANCHES.get(path) != name} == {}


def test_no_literal_is_unpacked() -> None:
    """``f(*(a, b), c)`` hides the names of arguments only to keep them on one line."""
    literals = (ast.Tuple, ast.List)
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Starred) and isinstance(node.value, literals)
    ]
    assert found == []


def test_a_class_name_means_one_thing() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, module in modules().items():
        for name in module.classes:
            places[name].append(path)
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert twice == {}


def test_module_docstrings_say_what_a_module_is() -> None:
    riddles = ("", "What", "Which", "Whether", "How", "Where", "Who")
    assert {path for path, module in modules().items() if module.opening in riddles} == set()


@pytest.mark.parametrize("page", ["architecture.md", "glossary.md"])
def test_the_code_that_pages_name_exists(page: str) -> None:
    text = (Path(__file__).parents[1] / "docs" / page).read_text()
    named = re.findall(r"`((?:[a-z0-9_]+/)+(?:[a-z0-9_]+\.py)?|[a-z_]+\.py)`", text)
    assert len(named) > 20
    assert [path for path in named if not (SOURCE / path).exists()] == []


def test_sql_on_the_tables_of_the_journal_is_in_the_journal() -> None:
    """Whoever changes a table or a record finds all that reads it in one folder."""
    tables = (
        "events|turns|messages|blobs|blob_uses|sessions|model_calls|outside_calls|all_calls|plugin_calls|questions|"
        "runners|submissions|search_docs|search_pending"
    )
    statement = re.compile(rf"\b(?:FROM|INTO|UPDATE|JOIN)\s+(?:\w+\.)?(?:{tables})\b")
    #: Databases of their own, with tables of the same names.
    others = {"tools/files/checkpoints/store.py", "surfaces/a2a/server/store/takeover.py"}
    elsewhere = [path for path in modules() if not path.startswith("journal/") and path not in others]
    assert [path for path in elsewhere if statement.search((SOURCE / path).read_text())] == []
    assert statement.search((SOURCE / "journal/events.py").read_text())


def test_no_hint_installs_a_package_of_the_public_index_by_our_name() -> None:
    """That name belongs to another program there; ``hermes install EXTRA`` and ``pip install .`` do not look it up."""
    root = Path(__file__).parents[1]
    texts = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "docs").glob("*.1"), *SOURCE.rglob("*.py")]
    installs = re.compile(r"(?:pip|pipx|uv)3?\s+(?:pip\s+|tool\s+)?install\b[^\n`]*\bhermes-agent\b")
    assert [str(path.relative_to(root)) for path in texts if installs.search(path.read_text())] == []
