"""Parses the text of ``config.yaml`` into plain data, and finds the line of a value."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import yaml

from hermes.base.config.messages import KeyPath
from hermes.base.errors import ConfigError

Document = dict[str, Any]

_DEEPEST = 50
_BaseLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BaseLoader):
    """Safe YAML with the scalars of version 1.2, as the editing library writes them, and no key twice.

    The 1.1 rules of the base class would turn ``mode: off`` into false and ``1:30`` into ninety.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}
    _depth = 0

    def descend_resolver(self, current_node: Any, current_index: Any) -> None:
        # The parser recurses on the C stack, which a file of brackets would overflow.
        self._depth += 1
        if self._depth > _DEEPEST:
            raise yaml.YAMLError(f"values are nested more than {_DEEPEST} levels deep")

    def ascend_resolver(self) -> None:
        self._depth -= 1

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        first_lines: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _tag("merge"):
                continue
            if key.value in first_lines:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value!r} is given twice, first on line {first_lines[key.value]}",
                    problem_mark=key.start_mark,
                )
            first_lines[key.value] = key.start_mark.line + 1
        return super().construct_mapping(node, deep)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _tag(name: str) -> str:
    return f"tag:yaml.org,2002:{name}"


def _resolve(tag: str, pattern: str, first: Iterable[str]) -> None:
    _Loader.add_implicit_resolver(_tag(tag), re.compile(f"(?:{pattern})$"), list(first))


def _construct_int(loader: Any, node: Any) -> int:
    text: str = loader.construct_scalar(node)
    return int(text, 0) if text[:2] in ("0x", "0o") else int(text)


_resolve("bool", "true|True|TRUE|false|False|FALSE", "tTfF")
_resolve("int", "[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789")
_resolve("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789")
_resolve("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+.")
_resolve("null", "~|null|Null|NULL|", ["~", "n", "N", ""])
_resolve("merge", "<<", "<")
_Loader.add_constructor(_tag("int"), _construct_int)


def parse_document(text: str, source: str) -> Document:
    """The mapping that the text holds; an empty text is an empty mapping. ``source`` names it in errors."""
    node, value = _load(text, source)
    if node is None or (isinstance(node, yaml.ScalarNode) and not node.value and value is None):
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{source}: found {_describe(value)} at the top; allowed: a mapping of key: value lines")
    return {str(key): item for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def parse_value(text: str) -> Any:
    """A single value as it would stand in the file: ``5`` is a number, ``[a, b]`` a list, ``off`` a text."""
    return _load(text, "the value")[1]


def line_of(text: str, path: KeyPath) -> int | None:
    """The line of a value in a text that parses, counted from one."""
    node, _ = _load(text, "")
    line: int | None = None
    for part in path:
        found = _child(node, part)
        if found is None:
            break
        line, node = found
    return line


def _load(text: str, source: str) -> tuple[Any, Any]:
    loader: Any = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        return node, None if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(f"{source}{where}: {error.problem or error.context}") from None
    except (yaml.YAMLError, UnicodeError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error)
        raise ConfigError(f"{source}: not readable as YAML: {reason}") from None
    except RecursionError:
        raise ConfigError(f"{source}: values are nested too deeply") from None
    finally:
        if loader is not None:
            loader.dispose()


def _child(node: Any, part: str | int) -> tuple[int, Any] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return key.start_mark.line + 1, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        item = node.value[part]
        return item.start_mark.line + 1, item
    return None


def _describe(value: object) -> str:
    if value is None:
        return "null"
    return "a list" if isinstance(value, list) else f"the single value {value!r:.40}"
