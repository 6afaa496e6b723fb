"""The source tree: folders and modules of bounded size, one meaning for each class name, pages that name real code."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import hermes

SOURCE = Path(hermes.__file__).parent

#: A folder shows at a glance what it holds. The top level and the commands of the CLI are lists of their own kind.
MOST_NAMES = 18
LONGER_LISTS = {".": 35, "cli": 20}
MOST_LINES = 600
MOST_FUNCTION_LINES = 80

#: Published names, which others chose.
PUBLISHED_TWICE = {"ProviderConfig", "ProviderError", "Session"}


@cache
def modules() -> dict[str, ast.Module]:
    """Every module by its path below the package."""
    paths = sorted(path for path in SOURCE.rglob("*.py") if "__pycache__" not in path.parts)
    return {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text()) for path in paths}


def test_folders_show_what_they_hold() -> None:
    names: dict[str, set[str]] = defaultdict(set)
    for path in modules():
        *folders, _ = parts = Path(path).parts
        for depth in range(len(folders) + 1):
            names["/".join(folders[:depth]) or "."].add(parts[depth])
    crowded = {
        folder: len(found - {"__init__.py", "__main__.py"})
        for folder, found in names.items()
        if len(found - {"__init__.py", "__main__.py"}) > LONGER_LISTS.get(folder, MOST_NAMES)
    }
    assert crowded == {}


def test_modules_are_not_too_long() -> None:
    lengths = {path: len((SOURCE / path).read_text().splitlines()) for path in modules()}
    assert {path: length for path, length in lengths.items() if length > MOST_LINES} == {}


def test_functions_fit_a_screen() -> None:
    long = {
        f"{path}:{node.name}": (node.end_lineno or 0) - node.lineno
        for path, module in modules().items()
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno > MOST_FUNCTION_LINES
    }
    assert long == {}


def test_a_class_name_means_one_thing() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, module in modules().items():
        for node in module.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    twice = {name: where for name, where in places.items() if len(where) > 1 and name not in PUBLISHED_TWICE}
    assert twice == {}


def test_module_docstrings_say_what_a_module_is() -> None:
    def opening(module: ast.Module) -> str:
        return (ast.get_docstring(module) or "").split(" ", 1)[0]

    riddles = ("", "What", "Which", "Whether", "How", "Where", "Who")
    assert {path for path, module in modules().items() if opening(module) in riddles} == set()


@pytest.mark.parametrize("page", ["architecture.md", "glossary.md"])
def test_the_code_that_pages_name_exists(page: str) -> None:
    text = (Path(__file__).parents[1] / "docs" / page).read_text()
    named = re.findall(r"`((?:[a-z0-9_]+/)+(?:[a-z0-9_]+\.py)?|[a-z_]+\.py)`", text)
    assert len(named) > 20
    assert [path for path in named if not (SOURCE / path).exists()] == []
