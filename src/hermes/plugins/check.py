"""Static check of a plugin, without running it: every field of its manifest, and the names that its code uses."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct

from hermes.base.errors import PluginError, did_you_mean
from hermes.contract.gateway_events import GATEWAY_EVENTS, gateway_event
from hermes.contract.hooks import HOOKS
from hermes.contract.middleware import MIDDLEWARE
from hermes.contract.plugin import CAPABILITIES
from hermes.plugins.loading.discovery import manifest_in
from hermes.plugins.loading.manifest import (
    FILE_NAMES,
    HOOK_FILE,
    KINDS,
    PORTABLE_FILE,
    PluginManifest,
    read_fields,
    read_manifest,
)
from hermes.plugins.loading.portable import format_problem
from hermes.plugins.loading.registration import OFFERED_CLASSES
from hermes.plugins.loading.requirements import check_requirement, unmet_contract
from hermes.plugins.loading.settings_schema import TYPES, schema_fields

Severity = Literal["error", "warning"]

#: The newest form of manifest this version understands.
MANIFEST_VERSION = 2

#: What may be a plugin's name, and so its folder. No path can hide in it.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_TEXT_FIELDS = ("name", "version", "description", "author", "label", "license", "homepage", "url", "requires_hermes")
_LIST_FIELDS = (
    "requires_env",
    "provides_tools",
    "provides_hooks",
    "python_dependencies",
    "pip_dependencies",
    "capabilities",
)
#: Fields that published plugins have and that nothing here reads.
_OTHER_FIELDS = tuple(
    (
        "hooks provides provides_middleware provides_web_providers provides_browser_providers platforms "
        "optional_env external_dependencies kind manifest_version tags config_schema api_version requires_plugins"
    ).split()
)
_ENV_FIELDS = {"name": str, "description": str, "url": str, "secret": bool}

#: Call -> (the keyword its name may be given with, the valid names, what they are).
_REGISTRATIONS = {
    "register_hook": ("hook_name", HOOKS, "hook"),
    "register_middleware": ("kind", MIDDLEWARE, "middleware kind"),
}
#: Folders that hold no code of the plugin itself.
_SKIPPED = frozenset({"tests", "test", "node_modules", "venv", "__pycache__", "build", "dist"})
_MAX_FILES = 500
_MAX_BYTES = 2_000_000


class PluginFinding(Struct, frozen=True):
    """A problem of a plugin: an error, or a warning."""

    severity: Severity
    #: A short name for the kind of finding, for programs.
    rule: str
    text: str
    file: str = ""
    line: int = 0

    @property
    def location(self) -> str:
        """``file:line``, as far as known."""
        return f"{self.file}:{self.line}" if self.line else self.file


def check_plugin(manifest: PluginManifest) -> list[PluginFinding]:
    """All findings about a discovered plugin, errors first."""
    if manifest.path is None:
        return _errors_first([*check_entry_point(manifest.entry_point)])
    return check_folder(manifest.path)


def check_folder(folder: Path) -> list[PluginFinding]:
    """The same for a folder, which need not be one that is searched for plugins."""
    return _errors_first([*check_manifest(folder), *check_folder_code(folder)])


def _errors_first(findings: list[PluginFinding]) -> list[PluginFinding]:
    return sorted(findings, key=lambda finding: finding.severity)


# -- the manifest ----------------------------------------------------------------------------------------------------


def check_manifest_version(fields: dict[str, Any]) -> None:
    """Raise ``PluginError`` for a manifest that was written for a later version of the runtime."""
    version = fields.get("manifest_version", MANIFEST_VERSION)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise PluginError(f"manifest_version is {version!r}; a whole number from 1 to {MANIFEST_VERSION} is expected")
    if version > MANIFEST_VERSION:
        raise PluginError(
            f"manifest_version is {version} and this version of hermes knows {MANIFEST_VERSION}; update hermes first"
        )


def check_manifest(folder: Path) -> Iterator[PluginFinding]:
    """What is wrong with the manifest in a folder."""
    file = manifest_in(folder)
    if file is None:
        yield PluginFinding("error", "manifest-missing", f"there is no {FILE_NAMES[0]}", str(folder))
        return
    try:
        fields = read_fields(file)
    except (OSError, ValueError) as error:
        yield PluginFinding("error", "manifest-unreadable", str(error), str(file))
        return
    if file.name == PORTABLE_FILE:
        problem = format_problem(fields)
        if problem:
            yield PluginFinding("error", "manifest-format", problem, str(file))
        return
    if file.name == HOOK_FILE:
        yield from _check_gateway_hook(file)
        return
    text = file.read_text("utf-8", "replace")
    for severity, rule, field, problem in _problems(fields):
        yield PluginFinding(severity, rule, problem, str(file), _line_of(text, field))


def _check_gateway_hook(file: Path) -> Iterator[PluginFinding]:
    manifest = read_manifest(file, "user")
    if manifest.problem:
        yield PluginFinding("error", "manifest-field", manifest.problem.removeprefix(f"{file}: "), str(file))
    for name in manifest.events:
        if gateway_event(name) is None:
            hint = did_you_mean(name, GATEWAY_EVENTS)
            yield PluginFinding("warning", "hook-name", f"there is no gateway event {name!r}{hint}", str(file))


_HOOKS_LISTED = "'hermes hooks spec' lists them"
#: Severity, rule, field and text.
_Problem = tuple[Severity, str, str, str]


def _problems(fields: dict[str, Any]) -> Iterator[_Problem]:
    for name in fields:
        if name not in (*_TEXT_FIELDS, *_LIST_FIELDS, *_OTHER_FIELDS):
            hint = did_you_mean(str(name), (*_TEXT_FIELDS, *_LIST_FIELDS, *_OTHER_FIELDS))
            yield "warning", "manifest-field", str(name), f"there is no field {name!r}{hint}"
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
    yield from _contract_problems(fields)


def _contract_problems(fields: dict[str, Any]) -> Iterator[_Problem]:
    """Of the fields that ask something of the host."""
    requires = fields.get("requires_hermes")
    problem = unmet_contract(str(requires)) if requires is not None else ""
    if problem:
        yield "error", "manifest-requires", "requires_hermes", problem
    schema = fields.get("config_schema")
    if schema is not None and not isinstance(schema, dict):
        text = f"config_schema is a {type(schema).__name__}; a mapping is expected"
        yield "error", "manifest-type", "config_schema", text
        return
    for name, field in schema_fields(cast("dict[str, Any]", schema or {})).items():
        if field.get("type") not in (None, *TYPES):
            text = f"config_schema: the type of {name!r} is {field['type']!r}; allowed: {', '.join(TYPES)}"
            yield "error", "manifest-schema", "config_schema", text


def _item_problem(name: str, item: str) -> tuple[Severity, str, str] | None:
    """Severity, rule and text of what is wrong with an item of a list of names."""
    if name == "provides_hooks" and item not in HOOKS:
        hint = did_you_mean(item, HOOKS, otherwise=_HOOKS_LISTED)
        return "warning", "hook-name", f"provides_hooks: there is no hook {item!r}{hint}"
    if name == "capabilities" and item not in CAPABILITIES:
        hint = did_you_mean(item, CAPABILITIES)
        return "warning", "capability-name", f"capabilities: there is no capability {item!r}{hint}"
    if name.endswith("_dependencies"):
        try:
            check_requirement(item)
        except ValueError as error:
            return "error", "manifest-requirement", f"{name}: {error}"
    return None


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
            elif found := _item_problem(name, item):
                severity, rule, text = found
                yield severity, rule, name, text


def _env_problem(item: object) -> str:
    if isinstance(item, dict):
        entry = cast("dict[str, Any]", item)
        for field, kind in _ENV_FIELDS.items():
            if field in entry and not isinstance(entry[field], kind):
                expected = "text" if kind is str else "true or false"
                return f"requires_env: {field} is a {type(entry[field]).__name__}; {expected} is expected"
        item = entry.get("name")
    if not isinstance(item, str) or not _VARIABLE.fullmatch(item):
        return f"requires_env: {item!r} is not the name of a variable; allowed: letters, digits and _"
    return ""


def _line_of(text: str, field: str) -> int:
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(rf"[\"']?{re.escape(field)}[\"']?\s*:", line):
            return number
    return 0


# -- the code --------------------------------------------------------------------------------------------------------


def check_folder_code(folder: Path) -> Iterator[PluginFinding]:
    """What is wrong with the code of a plugin in a folder."""
    file = manifest_in(folder)
    if file is not None and file.name == PORTABLE_FILE:
        return  # a portable package has no code
    is_hook = file is not None and file.name == HOOK_FILE
    start = folder / ("handler.py" if is_hook else "__init__.py")
    if not start.is_file():
        yield PluginFinding("error", "register", f"there is no {start.name}, so there is nothing to load", str(folder))
    yield from _check_files(python_files(folder), start, "handle(event_type, context)" if is_hook else _REGISTER)


def check_entry_point(value: str) -> Iterator[PluginFinding]:
    """What is wrong with the code of a plugin that an installed package offers."""
    from importlib.util import find_spec

    module, _, attribute = value.partition("[")[0].strip().partition(":")
    package, *inner = module.strip().split(".")
    # Only the outermost package may be looked up: finding what is inside would import it.
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        yield PluginFinding("error", "register", f"{package} cannot be found, so there is nothing to load", value)
        return
    origin = Path(spec.origin)
    folder = origin.parent
    start = folder.joinpath(*inner) if inner else origin
    if inner:
        start = start / "__init__.py" if start.is_dir() else start.with_suffix(".py")
    files = python_files(folder) if spec.submodule_search_locations else [origin]
    yield from _check_files(files, None if attribute else start)


def asks_for_override(folder: Path) -> bool:
    """Whether the code in a folder registers a tool with ``override=True``."""
    for file in python_files(folder):
        tree = _parse(file)
        calls = ast.walk(tree) if isinstance(tree, ast.Module) else ()
        if any(isinstance(call, ast.Call) and _overrides(call) for call in calls):
            return True
    return False


def python_files(folder: Path) -> list[Path]:
    """The Python files of a plugin, without its tests."""
    found: list[Path] = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.startswith("."))
        found += [Path(root, name) for name in sorted(names) if name.endswith(".py")]
    return found[:_MAX_FILES]


#: How the function that a plugin must have is called.
_REGISTER = "register(ctx)"


def _check_files(files: list[Path], start: Path | None, call: str = _REGISTER) -> Iterator[PluginFinding]:
    for file in files:
        tree = _parse(file)
        if isinstance(tree, PluginFinding):
            yield tree
            continue
        yield from _check_names(tree, file)
        if file == start:
            yield from _check_register(tree, file, call)


def _parse(file: Path) -> ast.Module | PluginFinding:
    import warnings

    try:
        source = file.read_bytes()
        if len(source) > _MAX_BYTES:
            return PluginFinding("warning", "code-size", "is too large to be checked", str(file))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in a string is not the question here
            return ast.parse(source, str(file))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 0
        return PluginFinding("error", "syntax", f"is not valid Python: {getattr(error, 'msg', error)}", str(file), line)
    except OSError as error:
        return PluginFinding("error", "syntax", f"cannot be read: {error.strerror}", str(file))


def _check_register(tree: ast.Module, file: Path, call: str) -> Iterator[PluginFinding]:
    name, wanted = call.partition("(")[0], call.count(",") + 1
    if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in tree.body):
        return  # it may come from there
    for node in _top_level(tree.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            taken = len(node.args.posonlyargs) + len(node.args.args)
            if taken < wanted and not node.args.vararg:
                text = f"{name} takes {taken or 'no'} argument; it is called as {call}"
                yield PluginFinding("error", "register", text, str(file), node.lineno)
            return
        if name in _bound_names(node) or _is_provider(node):
            return
    yield PluginFinding("error", "register", f"it has no {call} function", str(file))


def _is_provider(node: ast.stmt) -> bool:
    """Whether it is a class that is registered without a ``register``."""
    bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases] if isinstance(node, ast.ClassDef) else []
    return not OFFERED_CLASSES.keys().isdisjoint(bases)


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run on import, those inside ``if`` and ``try`` too."""
    for node in body:
        yield node
        for name in ("body", "orelse", "finalbody"):
            if isinstance(node, ast.If | ast.Try | ast.With):
                yield from _top_level(getattr(node, name, []))


def _bound_names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [node.target.id] if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else []


def _check_names(tree: ast.Module, file: Path) -> Iterator[PluginFinding]:
    constants = _constants(tree)
    contexts = _context_names(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        method = node.func.attr
        if method in _REGISTRATIONS:
            keyword, valid, noun = _REGISTRATIONS[method]
            name = _literal(node, keyword, constants)
            if name is not None and name not in valid:
                text = f"there is no {noun} {name!r}{did_you_mean(name, valid, otherwise=_HOOKS_LISTED)}"
                yield PluginFinding("error", f"{noun.split()[0]}-name", text, str(file), node.lineno)
        elif isinstance(node.func.value, ast.Name) and node.func.value.id in contexts:
            yield from _check_member(method, node, file)


def _check_member(method: str, call: ast.Call, file: Path) -> Iterator[PluginFinding]:
    from hermes.plugins.context import PluginContext

    if method.startswith("register_") and not hasattr(PluginContext, method):
        known = [name for name in dir(PluginContext) if name.startswith("register_")]
        text = f"ctx has no {method}{did_you_mean(method, known)}"
        yield PluginFinding("error", "ctx-member", text, str(file), call.lineno)


def _context_names(tree: ast.Module) -> set[str]:
    """What the code calls its ``ctx``."""
    names = {"ctx"}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "register" and node.args.args:
            names.add(node.args.args[0].arg)
    return names


def _constants(tree: ast.Module) -> dict[str, str]:
    """Names at the top of the module that are bound to a string."""
    found: dict[str, str] = {}
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            found.update(dict.fromkeys(_bound_names(node), value.value))
    return found


def _literal(call: ast.Call, keyword: str, constants: dict[str, str]) -> str | None:
    """The name a registration is made under, when the code spells it out."""
    given = [argument.value for argument in call.keywords if argument.arg == keyword]
    value = call.args[0] if call.args else (given[0] if given else None)
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    return constants.get(value.id) if isinstance(value, ast.Name) else None


def _overrides(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "register_tool":
        return False
    return any(
        keyword.arg == "override" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        for keyword in call.keywords
    )
