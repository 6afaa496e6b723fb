"""Changes ``config.yaml`` in place: comments and order stay, and a change that would break the file is refused."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.tokens import CommentToken

from hermes.base.config.check import check
from hermes.base.config.document import parse_document
from hermes.base.config.files import config_path, locked, write_atomically
from hermes.base.config.load import read_text
from hermes.base.config.messages import KeyPath, describe, dotted
from hermes.base.config.schema.sections import Config
from hermes.base.errors import ConfigError

#: A dotted key: parts may be quoted when they hold dots themselves.
_PART = re.compile(r'"([^"]+)"|([^."]+)')
#: What the library notes about a line that has none, in the places it uses.
_NO_REMARKS: list[Any] = [None, None, None, None]
#: Where a file already uses another spelling of a setting, that line is the one to change.
_SPELLINGS: dict[KeyPath, tuple[str, ...]] = {
    ("model", "default"): ("model", "name"),
    ("model", "base_url"): ("api_base",),
}


def edit_config(home: Path, dotted_key: str, value: Any) -> None:
    """Set one value. Raises ``ConfigError``, with the file untouched, when it would not be allowed there."""
    edit_together(home, {dotted_key: value})


def unset_config(home: Path, dotted_key: str) -> bool:
    """Remove one value from the file, so that its default applies. False when the file does not have it."""
    path = split_key(dotted_key)
    removed: list[bool] = []
    _change(home, lambda document: removed.append(_take_out(document, path)))
    return removed[0]


def edit_together(home: Path, put: Mapping[str, Any], *, remove: Iterable[str] = ()) -> None:
    """Remove some values and set others in one step: all of it is written, or nothing is."""
    gone = [split_key(dotted_key) for dotted_key in remove]
    new = [(split_key(dotted_key), value) for dotted_key, value in put.items()]

    def change(document: CommentedMap) -> None:
        for path in gone:
            _take_out(document, path)
        for path, value in new:
            if path == ("model",) and isinstance(value, str):
                path = ("model", "default")  # what a plain name means there; the rest of the section stays
            parent = _parent(document, path)
            _put(parent, _existing_name(parent, path), value)

    _change(home, change)


def edit_list(home: Path, dotted_key: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> list[str]:
    """Add items to a list and remove others from it; returns the list as it is now."""
    path = split_key(dotted_key)
    result: list[str] = []

    def change(document: CommentedMap) -> None:
        parent = _parent(document, path)
        current = parent.get(path[-1])
        if current is None:
            current = CommentedSeq(_default_list(path))
        if not isinstance(current, list):
            raise ConfigError(f"{dotted_key}: found {describe(current, path)}; allowed: a list")
        items = cast("list[Any]", current)
        for unwanted in remove:
            while unwanted in items:
                items.remove(unwanted)
        items.extend(item for item in dict.fromkeys(add) if item not in items)
        if items or path[-1] in parent:
            parent[path[-1]] = items
        result.extend(items)

    _change(home, change)
    return result


def replace_config(home: Path, before: str, after: str) -> None:
    """Replace the whole text, unless it has changed since it was read."""
    with locked(home):
        path = config_path(home)
        if (read_text(path) or "") != before:
            raise ConfigError(f"{path}: was changed by someone else meanwhile; nothing was replaced")
        write_atomically(path, after)


def split_key(dotted_key: str) -> KeyPath:
    """``providers."my.host".base_url`` as its parts; ``[0]`` and ``.0`` both name the first item of a list."""
    text = re.sub(r"\[(\d+)\]", r".\1", dotted_key)
    parts = tuple(quoted or bare for quoted, bare in _PART.findall(text))
    if not parts or not re.fullmatch(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))*", text):
        raise ConfigError(f"{dotted_key!r} is not a key; allowed: names joined by dots, such as agent.max_turns")
    return parts


def _change(home: Path, change: Callable[[CommentedMap], None]) -> None:
    with locked(home):
        path = config_path(home)
        before = read_text(path) or ""
        after = _changed_text(before, path, change)
        if after != before:
            _refuse_new_mistakes(before, after, path)
            write_atomically(path, after)


def _changed_text(before: str, path: Path, change: Callable[[CommentedMap], None]) -> str:
    parse_document(before, str(path))
    yaml = _editor(before)
    buffer = io.StringIO()
    try:
        document: CommentedMap | None = yaml.load(before)
        # A file of remarks alone has no document that could carry them along.
        kept = before if document is None else ""
        changed = CommentedMap() if document is None else document
        change(changed)
        if changed or document is not None:
            yaml.dump(changed, buffer)
    except (YAMLError, NotImplementedError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be edited automatically: {str(error).splitlines()[0]}") from None
    return f"{kept}\n{buffer.getvalue()}" if kept and not kept.endswith("\n") else kept + buffer.getvalue()


def _editor(text: str) -> Any:
    """A round-trip parser that writes with the indentation the file already has."""
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 4096
    mapping = re.search(r"^[\w\"'-]+:[ ]*(?:#.*)?\n(?:[ ]*(?:#.*)?\n)*([ ]+)[\w\"']", text, re.MULTILINE)
    width = len(mapping[1]) if mapping else 2
    dash = re.search(r"^([ ]*)[\w\"'-]+:[ ]*(?:#.*)?\n(?:[ ]*(?:#.*)?\n)*([ ]*)-([ ]+)", text, re.MULTILINE)
    offset, gap = (len(dash[2]) - len(dash[1]), len(dash[3])) if dash else (width, 1)
    yaml.indent(mapping=width, sequence=offset + 1 + gap, offset=offset)
    return yaml


def _refuse_new_mistakes(before: str, after: str, path: Path) -> None:
    """Refuse new problems. Old ones may stay, so that several can be corrected one by one."""
    _, old = check(parse_document(before, str(path)))
    _, new = check(parse_document(after, str(path)))
    for problem in new.problems:
        if problem not in old.problems:
            raise ConfigError(f"{problem}. {path} is unchanged")
    for key, hint in new.unknown.items():
        if key not in old.unknown:
            raise ConfigError(f"{dotted(key)} is not a known setting; {hint or 'see: hermes config show'}")


def _parent(document: CommentedMap, path: KeyPath) -> Any:
    """The mapping or list that holds the last part of the path, made where it is missing."""
    node: Any = document
    for index, part in enumerate(path[:-1]):
        child = _child(node, part)
        if child is None:
            child = CommentedMap()
            node[part] = child
        elif path[: index + 1] == ("model",) and isinstance(child, str):
            child = CommentedMap(default=child)
            node[part] = child
        elif not isinstance(child, (dict, list)):
            here = path[: index + 1]
            raise ConfigError(f"{dotted(here)}: found {describe(child, here)}; it cannot hold {path[index + 1]!r}")
        node = cast("Any", child)
    return node


def _take_out(document: CommentedMap, path: KeyPath) -> bool:
    """Remove the value at a path; whether there was one."""
    node: Any = document
    for part in path[:-1]:
        node = _child(node, part)
    if not isinstance(node, (dict, list)):
        return False
    name = _existing_name(node, path)
    if _child(node, name) is None and not (isinstance(node, dict) and name in node):
        return False
    del node[name]
    return True


def _put(parent: Any, name: Any, value: Any) -> None:
    """Set a value. A new one goes above the blank lines and remarks that lead to the next section."""
    is_new_line = _is_line(parent, name, value)
    last: Any = next(reversed(parent), None) if is_new_line else None
    parent[name] = value
    remarks: dict[Any, list[Any]] = parent.ca.items
    token = (remarks.get(last) or _NO_REMARKS)[2]
    own, _, following = str(getattr(token, "value", "")).partition("\n")
    if is_new_line and following:
        remarks[name] = [None, None, CommentToken(f"\n{following}", token.start_mark, None), None]
        token.value = f"{own}\n"


def _is_line(parent: Any, name: Any, value: Any) -> bool:
    return isinstance(parent, dict) and name not in parent and not isinstance(value, (dict, list))


def _child(node: Any, part: str | int) -> Any:
    if isinstance(node, dict):
        return cast("dict[Any, Any]", node).get(part)
    if isinstance(node, list) and str(part).isdigit() and int(part) < len(cast("list[Any]", node)):
        return cast("list[Any]", node)[int(part)]
    return None


def _existing_name(parent: Any, path: KeyPath) -> Any:
    if isinstance(parent, list):
        if not str(path[-1]).isdigit() or int(path[-1]) >= len(cast("list[Any]", parent)):
            raise ConfigError(f"{dotted(path)}: the list has no item {path[-1]}")
        return int(path[-1])
    for spelling in _SPELLINGS.get(path, ()):
        if spelling in parent and path[-1] not in parent:
            return spelling
    return path[-1]


def _default_list(path: KeyPath) -> list[str]:
    node: Any = Config()
    for part in path:
        node = getattr(node, str(part), None)
    return cast("list[str]", node) if isinstance(node, list) else []
