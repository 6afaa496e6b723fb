"""The queue and its driver are used by their public names: a new release of a package cannot break them silently."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import hermes

_SOURCE = Path(hermes.__file__).parent
_OWN = ("self", "cls")
#: ``os._exit`` is documented, in spite of its name.
_DOCUMENTED = ("_exit",)


def _private_uses(source: str) -> Iterator[tuple[int, str]]:
    """Attributes with a leading underscore of objects that are not the method's own."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            if node.attr not in _DOCUMENTED and not (isinstance(node.value, ast.Name) and node.value.id in _OWN):
                yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names = [getattr(node, "module", None) or "", *(one.name for one in node.names)]
            yield from (
                (node.lineno, name)
                for name in names
                if any(part.startswith("_") and not part.startswith("__") for part in name.split("."))
            )


def test_no_private_name_of_another_object_is_used() -> None:
    folders = (_SOURCE / "dispatch", _SOURCE / "journal" / "store" / "postgres")
    found = [
        f"{path.relative_to(_SOURCE)}:{line}: {name}"
        for folder in folders
        for path in sorted(folder.rglob("*.py"))
        for line, name in _private_uses(path.read_text())
    ]
    assert found == []


def test_private_names_are_recognised() -> None:
    source = "from dbos._queue import Queue\ninstance._sys_db.get_queue = 1\nself._own = queue._workers\ncls.__name__\n"
    assert sorted(name for _, name in _private_uses(source)) == ["_sys_db", "_workers", "dbos._queue"]
