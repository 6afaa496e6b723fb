"""Imports within the package, those for types and those inside functions included, make no large circles."""

from __future__ import annotations

import ast
from pathlib import Path

import hermes

_ROOT = Path(hermes.__file__).parent
#: Modules that refer to each other are read together, so there may only be so many of them.
_MOST_FILES = 4
#: Folders with a larger circle, and how large it is. None may grow, and none may be added.
_LARGER = {
    "hermes.base.config": 5,
    "hermes.journal.store": 6,
    "hermes.plugins": 9,
    "hermes.policy": 13,
}


def _modules() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in _ROOT.rglob("*.py"):
        parts = path.relative_to(_ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _imports(path: Path, modules: dict[str, Path]) -> set[str]:
    """The modules that a file names, wherever in it."""
    named: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            named.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            inner = {f"{node.module}.{alias.name}" for alias in node.names} & modules.keys()
            named.update(inner)
            if len(inner) < len(node.names):
                named.add(node.module)
    return named & modules.keys()


def _circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The groups of modules that can all be reached from each other (Tarjan's algorithm, without recursion)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []
    for start in graph:
        if start in number:
            continue
        number[start] = lowest[start] = len(number)
        stack.append(start)
        work = [(start, iter(sorted(graph[start])))]
        while work:
            module, following = work[-1]
            other = next(following, None)
            if other is not None:
                if other not in number:
                    number[other] = lowest[other] = len(number)
                    stack.append(other)
                    work.append((other, iter(sorted(graph[other]))))
                elif other in stack:
                    lowest[module] = min(lowest[module], number[other])
                continue
            work.pop()
            if work:
                above = work[-1][0]
                lowest[above] = min(lowest[above], lowest[module])
            if lowest[module] == number[module]:
                at = stack.index(module)
                groups.append(sorted(stack[at:]))
                del stack[at:]
    return groups


def _allowed(circle: list[str]) -> int:
    return max((most for folder, most in _LARGER.items() if _is_in(circle, folder)), default=_MOST_FILES)


def _is_in(circle: list[str], folder: str) -> bool:
    return all(module.startswith(f"{folder}.") for module in circle)


def test_no_circle_of_imports_spans_more_than_a_few_files() -> None:
    modules = _modules()
    circles = _circles({name: _imports(path, modules) for name, path in modules.items()})
    large = [circle for circle in circles if len(circle) > _allowed(circle)]
    assert not large, "\n".join(", ".join(circle) for circle in large)
