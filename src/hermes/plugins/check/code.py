"""Reads a plugin's code without importing it: does ``register`` exist, and are the names it uses real?"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

from hermes.contract.hooks import HOOKS
from hermes.contract.middleware import MIDDLEWARE
from hermes.errors import did_you_mean
from hermes.plugins.check.findings import Finding

#: Call -> (the keyword its name may be given with, the valid names, what they are).
_REGISTRATIONS = {
    "register_hook": ("hook_name", HOOKS, "hook"),
    "register_middleware": ("kind", MIDDLEWARE, "middleware kind"),
}
#: Folders that hold no code of the plugin itself.
_SKIPPED = frozenset({"tests", "test", "node_modules", "venv", "__pycache__", "build", "dist"})
_MAX_FILES = 500
_MAX_BYTES = 2_000_000


def check_folder_code(folder: Path) -> Iterator[Finding]:
    """What is wrong with the code of a plugin in a folder."""
    start = folder / "__init__.py"
    if not start.is_file():
        yield Finding("error", "register", "there is no __init__.py, so there is nothing to load", str(folder))
    yield from _check_files(python_files(folder), start)


def check_entry_point(value: str) -> Iterator[Finding]:
    """What is wrong with the code of a plugin that an installed package offers."""
    from importlib.util import find_spec

    module, _, attribute = value.partition("[")[0].strip().partition(":")
    package, *inner = module.strip().split(".")
    # Only the outermost package may be looked up: finding what is inside would import it.
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        yield Finding("error", "register", f"{package} cannot be found, so there is nothing to load", value)
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
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.startswith("."))
        found += [Path(place, name) for name in sorted(names) if name.endswith(".py")]
    return found[:_MAX_FILES]


def _check_files(files: list[Path], start: Path | None) -> Iterator[Finding]:
    for file in files:
        tree = _parse(file)
        if isinstance(tree, Finding):
            yield tree
            continue
        yield from _check_names(tree, file)
        if file == start:
            yield from _check_register(tree, file)


def _parse(file: Path) -> ast.Module | Finding:
    import warnings

    try:
        source = file.read_bytes()
        if len(source) > _MAX_BYTES:
            return Finding("warning", "code-size", "is too large to be checked", str(file))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in somebody's text is not what is asked about
            return ast.parse(source, str(file))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 0
        return Finding("error", "syntax", f"is no valid Python: {getattr(error, 'msg', error)}", str(file), line)
    except OSError as error:
        return Finding("error", "syntax", f"cannot be read: {error.strerror}", str(file))


def _check_register(tree: ast.Module, file: Path) -> Iterator[Finding]:
    if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in tree.body):
        return  # it may come from there
    for node in _top_level(tree.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "register":
            positional = [*node.args.posonlyargs, *node.args.args]
            if not positional and not node.args.vararg:
                text = "register takes no argument; it is called as register(ctx)"
                yield Finding("error", "register", text, str(file), node.lineno)
            return
        if "register" in _bound_names(node):
            return
    yield Finding("error", "register", "it has no register(ctx) function", str(file))


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


def _check_names(tree: ast.Module, file: Path) -> Iterator[Finding]:
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
                text = f"there is no {noun} {name!r}{did_you_mean(name, valid)}"
                yield Finding("error", f"{noun.split()[0]}-name", text, str(file), node.lineno)
        elif isinstance(node.func.value, ast.Name) and node.func.value.id in contexts:
            yield from _check_member(method, node, file)


def _check_member(method: str, call: ast.Call, file: Path) -> Iterator[Finding]:
    from hermes.plugins.context import PluginContext

    if method.startswith("register_") and not hasattr(PluginContext, method):
        known = [name for name in dir(PluginContext) if name.startswith("register_")]
        yield Finding(
            "error", "ctx-member", f"ctx has no {method}{did_you_mean(method, known)}", str(file), call.lineno
        )


def _context_names(tree: ast.Module) -> set[str]:
    """What the code calls its ``ctx``."""
    names = {"ctx"}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "register" and node.args.args:
            names.add(node.args.args[0].arg)
    return names


def _constants(tree: ast.Module) -> dict[str, str]:
    """Names at the top of the module that stand for one text."""
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
