"""Every setting as a table, made from the structs that read ``config.yaml``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import GenericAlias
from typing import Any, NamedTuple, get_args

import msgspec

from hermes.base.config.check import NAMED_ITEMS
from hermes.base.config.messages import allowed_values
from hermes.base.config.schema import gateway as gateway_sections
from hermes.base.config.schema import mcp as mcp_sections
from hermes.base.config.schema import sections
from hermes.base.config.schema.sections import Config

from .markdown import code, table
from .setting_exercise import recorded_reads


class Section(NamedTuple):
    """A struct, the key it is written under, and what it holds when the file does not mention it."""

    path: str
    kind: type[msgspec.Struct]
    defaults: msgspec.Struct | None


class Setting(NamedTuple):
    """One key of a section, in words."""

    section: Section
    name: str
    allowed: str
    default: str
    meaning: str

    @property
    def key(self) -> str:
        return _join(self.section.path, self.name)


_HEADINGS = ("key", "allowed", "default", "meaning")


def settings_in_effect() -> str:
    """A heading, a sentence and a table for every section that the runtime reads."""
    texts: list[str] = []
    for section in _sections(Section("", Config, Config())):
        used = [setting for setting in _settings(section) if setting.key in keys_in_effect()]
        if used:
            title = f"{code(section.path) or 'Top level'}\n\n{_summary(section)}".strip()
            rows = [(code(one.name), one.allowed, one.default, one.meaning) for one in used]
            texts.append(f"### {title}\n\n{table(_HEADINGS, rows)}")
    return "\n".join(texts)


def settings_not_in_effect() -> str:
    """One table of everything that is accepted and checked, and that nothing reads."""
    unread = (one for one in _every_setting() if one.key not in keys_in_effect())
    rows = [(code(one.key), one.allowed, one.default, one.meaning) for one in unread]
    return table(_HEADINGS, rows)


def _settings(section: Section) -> Iterator[Setting]:
    for name, hint in section.kind.__annotations__.items():
        if _struct_in(hint) is None and name != _collector(section):
            meaning = _comments(section.kind).get(name, "")
            yield Setting(section, name, _allowed(hint), _default(section, name), meaning)


def _sections(section: Section) -> Iterator[Section]:
    """The section and those inside it, in the order in which they are declared."""
    yield section
    for name, hint in section.kind.__annotations__.items():
        inner = _struct_in(hint)
        if inner is None:
            continue
        if inner is hint:
            defaults = inner() if section.defaults is None else getattr(section.defaults, name)
            yield from _sections(Section(_join(section.path, name), inner, defaults))
            continue
        path = section.path if name == _collector(section) else _join(section.path, name)
        named = ".<name>" if hint.__origin__ is dict else ""
        yield from _sections(Section(path + named + ("[]" if _ends_in_list(hint) else ""), inner, None))


def _collector(section: Section) -> str:
    """The field that takes the keys which are names chosen by the user."""
    return NAMED_ITEMS.get(section.kind, ("",))[0]


def _struct_in(hint: Any) -> type[msgspec.Struct] | None:
    """The struct that a type is, or holds as an item of a mapping or list."""
    if isinstance(hint, GenericAlias):
        return _struct_in(get_args(hint)[-1])
    return hint if isinstance(hint, type) and issubclass(hint, msgspec.Struct) else None


def _ends_in_list(hint: Any) -> bool:
    return isinstance(hint, GenericAlias) and (hint.__origin__ is list or _ends_in_list(get_args(hint)[-1]))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _summary(section: Section) -> str:
    return "" if section.kind is Config else (section.kind.__doc__ or "").replace("``", "`")


def _allowed(hint: Any) -> str:
    choices = [choice for choice in get_args(hint) if choice is not type(None)]
    optional = len(choices) < len(get_args(hint))
    return allowed_values(choices[0] if optional and len(choices) == 1 else hint)


def _default(section: Section, name: str) -> str:
    found = next(one for one in msgspec.structs.fields(section.kind) if one.name == name)
    if found.required:
        return "required"
    if section.defaults is not None:
        default = getattr(section.defaults, name)
    else:
        default = found.default if found.default is not msgspec.NODEFAULT else found.default_factory()
    if default is None:
        return "unset"
    return "empty" if default in ("", [], {}) else code(msgspec.json.encode(default).decode())


@cache
def _all_comments() -> Mapping[str, Mapping[str, str]]:
    """What ``#:`` says behind each field, by class."""
    source = "\n".join(Path(str(module.__file__)).read_text() for module in (sections, gateway_sections, mcp_sections))
    lines = source.splitlines()
    found: dict[str, dict[str, str]] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            fields = [field for field in node.body if isinstance(field, ast.AnnAssign)]
            comments = {ast.unparse(field.target): lines[(field.end_lineno or 1) - 1] for field in fields}
            found[node.name] = {name: line.partition("#: ")[2] for name, line in comments.items()}
    return found


def _comments(kind: type[msgspec.Struct]) -> Mapping[str, str]:
    return _all_comments()[kind.__name__]


# -- what is in effect ----------------------------------------------------------------------------------------------


def _every_setting() -> Iterator[Setting]:
    return (setting for section in _sections(Section("", Config, Config())) for setting in _settings(section))


def every_key() -> frozenset[str]:
    """Every setting by its key."""
    return frozenset(one.key for one in _every_setting())


@cache
def keys_in_effect() -> frozenset[str]:
    """The settings that the runtime reads, by the record of a run that uses them."""
    read = recorded_reads()
    return frozenset(one.key for one in _every_setting() if f"{one.section.kind.__name__}.{one.name}" in read)
