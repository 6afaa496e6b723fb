"""Reads a manifest as a strict reader would: every field that is wrong, with its line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from hermes.contract.hooks import HOOKS
from hermes.errors import PluginError, did_you_mean
from hermes.plugins.check.findings import Finding, Severity
from hermes.plugins.discovery import manifest_in
from hermes.plugins.manifest import FILE_NAMES, KINDS, read_fields

#: The newest form of manifest this version understands.
MANIFEST_VERSION = 1

#: What may be a plugin's name, and so its folder. No path can hide in it.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_TEXT_FIELDS = ("name", "version", "description", "author", "label", "license", "homepage", "url")
_LIST_FIELDS = ("requires_env", "provides_tools", "provides_hooks")
#: Fields that published plugins have and that nothing here reads.
_OTHER_FIELDS = (
    *("hooks", "provides", "provides_middleware", "provides_web_providers", "provides_browser_providers", "platforms"),
    *("optional_env", "pip_dependencies", "external_dependencies", "kind", "manifest_version", "tags"),
)
_ENV_FIELDS = {"name": str, "description": str, "url": str, "secret": bool}


def check_manifest_version(fields: dict[str, Any]) -> None:
    """Raise ``PluginError`` for a manifest that was written for a later version of the runtime."""
    version = fields.get("manifest_version", MANIFEST_VERSION)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise PluginError(f"manifest_version is {version!r}; a whole number from 1 to {MANIFEST_VERSION} is expected")
    if version > MANIFEST_VERSION:
        raise PluginError(
            f"manifest_version is {version} and this version of hermes knows {MANIFEST_VERSION}; update hermes first"
        )


def check_manifest(folder: Path) -> Iterator[Finding]:
    """What is wrong with the manifest in a folder."""
    file = manifest_in(folder)
    if file is None:
        yield Finding("error", "manifest-missing", f"there is no {FILE_NAMES[0]}", str(folder))
        return
    try:
        fields = read_fields(file)
    except (OSError, ValueError) as error:
        yield Finding("error", "manifest-unreadable", str(error), str(file))
        return
    text = file.read_text("utf-8", "replace")
    for severity, rule, field, problem in _problems(fields):
        yield Finding(severity, rule, problem, str(file), _line_of(text, field))


#: Severity, rule, field and text.
_Problem = tuple[Severity, str, str, str]


def _problems(fields: dict[str, Any]) -> Iterator[_Problem]:
    for name in fields:
        if name not in (*_TEXT_FIELDS, *_LIST_FIELDS, *_OTHER_FIELDS):
            hint = did_you_mean(str(name), (*_TEXT_FIELDS, *_LIST_FIELDS, *_OTHER_FIELDS))
            yield "warning", "manifest-field", str(name), f"{name} is no known field{hint}"
    for name in _TEXT_FIELDS:
        value = fields.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, str | int | float)):
            yield "error", "manifest-type", name, f"{name} is a {type(value).__name__}; text is expected"
    for name in ("name", "version", "description"):
        if fields.get(name) is None:
            yield "warning", "manifest-field", name, f"{name} is not given"
    own_name = fields.get("name")
    if isinstance(own_name, str) and not NAME.fullmatch(own_name):
        allowed = "letters, digits, '.', '_' and '-', the first a letter or digit"
        yield "error", "manifest-name", "name", f"name is {own_name!r}; allowed: {allowed}"
    kind = fields.get("kind")
    if kind is not None and kind not in KINDS:
        yield "error", "manifest-kind", "kind", f"kind is {kind!r}; allowed: {', '.join(KINDS)}"
    try:
        check_manifest_version(fields)
    except PluginError as error:
        yield "error", "manifest-version", "manifest_version", str(error)
    yield from _list_problems(fields)


def _list_problems(fields: dict[str, Any]) -> Iterator[_Problem]:
    for name in _LIST_FIELDS:
        value = fields.get(name)
        if value is not None and not isinstance(value, list):
            yield "error", "manifest-type", name, f"{name} is a {type(value).__name__}; a list is expected"
            continue
        for item in cast("list[Any]", value or []):
            if name == "requires_env":
                problem = _env_problem(item)
                if problem:
                    yield "error", "manifest-env", name, problem
            elif not isinstance(item, str):
                yield "error", "manifest-type", name, f"{name} has a {type(item).__name__}; names are expected"
            elif name == "provides_hooks" and item not in HOOKS:
                yield (
                    "warning",
                    "hook-name",
                    name,
                    f"provides_hooks: there is no hook {item!r}{did_you_mean(item, HOOKS)}",
                )


def _env_problem(item: object) -> str:
    if isinstance(item, dict):
        entry = cast("dict[str, Any]", item)
        for field, kind in _ENV_FIELDS.items():
            if field in entry and not isinstance(entry[field], kind):
                expected = "text" if kind is str else "true or false"
                return f"requires_env: {field} is a {type(entry[field]).__name__}; {expected} is expected"
        item = entry.get("name")
    if not isinstance(item, str) or not _VARIABLE.fullmatch(item):
        return f"requires_env: {item!r} is no name of a variable; allowed: letters, digits and _"
    return ""


def _line_of(text: str, field: str) -> int:
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(rf"[\"']?{re.escape(field)}[\"']?\s*:", line):
            return number
    return 0
