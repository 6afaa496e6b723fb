"""Python code: decides whether it only computes, reads, prints, and writes ordinary files of the working folder."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hermes.policy.places import is_within
from hermes.policy.shell.words import names

if TYPE_CHECKING:
    from hermes.policy.paths import PathContext

#: The files that harmless code writes, with their text where it is known.
Writes = dict[str, str | None]

_MODULES = names(
    "json sys math cmath datetime re collections itertools functools statistics decimal fractions string textwrap "
    "random time base64 binascii hashlib hmac csv pprint typing platform unicodedata struct uuid calendar bisect heapq "
    "operator copy dataclasses enum ast tomllib html difflib colorsys numbers zlib secrets locale keyword timeit "
    "inspect dis tokenize importlib.metadata importlib.resources urllib.parse email.utils xml.etree.ElementTree yaml "
    "tomli configparser ipaddress os.path pathlib os array contextlib abc types zoneinfo gzip glob fnmatch shlex "
    "graphlib warnings"
)
_CALLS = names(
    "print len range sum min max sorted enumerate zip map filter int float str repr list dict set tuple bool abs round "
    "any all isinstance issubclass type format hex bin oct ord chr divmod pow reversed iter next open slice bytes "
    "bytearray frozenset complex hash id callable ascii dir help super object Exception ValueError KeyError SystemExit "
    "input memoryview"
)
_OS = names(
    "path getcwd listdir sep name cpu_count walk stat environ getenv getpid uname linesep scandir "
    "get_terminal_size curdir"
)
#: Methods that change something outside of the program.
_EFFECTS = names(
    "unlink rmdir write_text write_bytes rename replace_file mkdir touch chmod symlink_to hardlink_to link_to lchmod "
    "system popen write writelines truncate execute executescript executemany send sendall connect kill fork putenv "
    "unsetenv remove_tree rmtree makedirs removedirs exec_module load_module settrace setprofile _getframe modules "
    "meta_path path_hooks"
)
_DUNDERS = names(
    "__version__ __name__ __doc__ __file__ __path__ __len__ __all__ __annotations__ __class__ __dict__ __main__ __mro__"
)
#: What may be asked of any module.
_VERSION = names("__version__ VERSION version __file__ __name__")
_PLAIN_PATHS = (ast.Constant, ast.Name, ast.Subscript, ast.Attribute, ast.Call)
#: Modules that even a question for their version should not load.
_RISKY = names(
    "subprocess shutil socket ctypes multiprocessing signal pty pickle marshal importlib builtins code runpy tempfile "
    "sqlite3 asyncio webbrowser urllib http ftplib smtplib requests httpx aiohttp paramiko threading antigravity this "
    "fcntl termios select ssl telnetlib xmlrpc socketserver resource winreg msvcrt posix nt site sysconfig atexit gc "
    "faulthandler"
)


def python_writes(code: str, paths: PathContext) -> Writes | None:
    """The files that harmless code writes; None when it may do something else."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    reader = _PythonReader(tree, paths)
    return reader.writes if reader.harmless() else None


class _PythonReader:
    """Looks at every import, name, attribute and call of a module."""

    def __init__(self, tree: ast.Module, paths: PathContext) -> None:
        self._tree = tree
        self._paths = paths
        self.writes: Writes = {}
        #: Names that stand for the same known files wherever they occur.
        self._files: dict[str, list[str]] = {}
        #: Modules that are only known by name: their version may be asked for, nothing else.
        self._strange: set[str] = set()
        self._defined: set[str] = set()
        self._modules: set[str] = set()

    def harmless(self) -> bool:
        nodes = list(ast.walk(self._tree))
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self._defined.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self._defined.add(node.id)
            elif isinstance(node, ast.arg):
                self._defined.add(node.arg)
        if not all(self._import(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)):
            return False
        self._name_files(nodes)
        parents = {child: node for node in nodes for child in ast.iter_child_nodes(node)}
        # Calls first: whether something may be written to depends on how it was opened.
        nodes.sort(key=lambda node: not isinstance(node, ast.Call))
        return all(self._node(node, parents) for node in nodes)

    # Files

    def _name_files(self, nodes: list[ast.AST]) -> None:
        """Names that are bound once, to a known path, to one of a list of them, or to what a pattern finds."""
        bound = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        bound += [node.arg for node in nodes if isinstance(node, ast.arg)]
        for node in nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if bound.count(name) == 1:
                    self._files[name] = self._named(value)
                case ast.For(target=ast.Name(id=name), iter=ast.List(elts=values) | ast.Tuple(elts=values)) if (
                    bound.count(name) == 1
                ):
                    found = [self._named(value) for value in values]
                    self._files[name] = [path for paths in found for path in paths] if all(found) else []
                case ast.For(target=ast.Name(id=name), iter=ast.Call() as found) if bound.count(name) == 1:
                    self._files[name] = self._found(found)
                case _:
                    pass

    def _named(self, value: ast.expr) -> list[str]:
        """The files that an expression names; none when they are not known."""
        match value:
            case ast.Constant(value=str(path)):
                return [path]
            case ast.Name(id=name):
                return self._files.get(name, [])
            case ast.Call(
                func=ast.Name(id="Path") | ast.Attribute(value=ast.Name(id="pathlib"), attr="Path"), args=[only]
            ):
                return self._named(only) if "pathlib" in self._modules else []
            case ast.BinOp(left=left, op=ast.Div(), right=ast.Constant(value=str(name))):
                return [f"{folder}/{name}" for folder in self._named(left)] if not name.startswith("/") else []
            case _:
                return []

    def _found(self, call: ast.Call) -> list[str]:
        """``Path("src").rglob("*.py")`` and ``glob.glob("src/*.py")``: patterns with an ending."""
        match call:
            case ast.Call(
                func=ast.Attribute(value=folder, attr="glob" | "rglob"), args=[ast.Constant(value=str(name))]
            ):
                if isinstance(folder, ast.Name) and folder.id == "glob":
                    found = [name]
                else:
                    found = [f"{path}/{name}" for path in self._named(folder)]
                return found if "." in name.rpartition("*")[2] else []
            case _:
                return []

    def _writes(self, value: ast.expr, text: str | None = None) -> bool:
        """Whether all files that an expression names are ordinary ones of the working folder; they are noted."""
        files, paths = self._named(value), self._paths
        for path in files:
            whole = paths.resolve(path)
            ordinary = not path.startswith("~") and paths.sensitive_kind(path) is None and not paths.is_outside(path)
            if not ordinary or not paths.workspace or not is_within(whole, paths.workspace):
                return False
            self.writes[path] = text if len(files) == 1 and path not in self.writes else None
        return bool(files)

    # Nodes

    def _import(self, node: ast.Import | ast.ImportFrom) -> bool:
        if isinstance(node, ast.ImportFrom):
            if node.level or node.module not in _MODULES:
                return False
            imported = {alias.name for alias in node.names}
            self._modules.add(node.module)
            self._defined |= {alias.asname or alias.name for alias in node.names}
            if node.module == "os":
                return imported <= _OS
            return imported.isdisjoint(_EFFECTS | names("* os sys modules import_module"))
        for alias in node.names:
            self._modules.add(alias.name)
            if alias.name in _MODULES:
                self._defined.add(alias.asname or alias.name.partition(".")[0])
            elif alias.name.partition(".")[0] in _RISKY:
                return False
            else:
                self._strange.add(alias.asname or alias.name.partition(".")[0])
        return True

    def _node(self, node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
        match node:
            case ast.Name(id=name) if name in self._strange:
                parent = parents.get(node)
                return isinstance(parent, ast.Attribute) and parent.attr in _VERSION
            case ast.Name(id=name):
                return not name.startswith("__") or name in _DUNDERS
            case ast.Attribute(attr=attribute, value=value):
                return self._attribute(attribute, value, parents.get(node))
            case ast.Call(func=function):
                return self._call(node, function)
            case ast.Global() | ast.Nonlocal() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                return False
            case _:
                return True

    def _attribute(self, attribute: str, value: ast.expr, parent: ast.AST | None) -> bool:
        if attribute.startswith("__") and attribute not in _DUNDERS:
            return False
        if isinstance(value, ast.Name) and value.id == "os":
            return attribute in _OS
        if attribute == "write" and isinstance(value, ast.Attribute) and value.attr in ("stdout", "stderr"):
            return True
        arguments = parent.args if isinstance(parent, ast.Call) else []
        if attribute == "replace" and "pathlib" in self._modules:
            return len(arguments) > 1  # of a path, it moves a file
        if attribute in ("write_text", "write_bytes"):
            return self._writes(value, _text(arguments))
        if attribute in ("write", "writelines") and self.writes:
            return True  # to a file that was looked at when it was opened
        return attribute not in _EFFECTS

    def _call(self, call: ast.Call, function: ast.expr) -> bool:
        match function:
            case ast.Name(id="open"):
                return self._only_reads(call)
            case ast.Name(id=name):
                return name in _CALLS or name in self._defined
            case ast.Attribute(attr="open"):
                return self._only_reads(call, first=0)
            case ast.Attribute() | ast.Lambda():
                return True
            case _:
                return False

    def _only_reads(self, call: ast.Call, first: int = 1) -> bool:
        given = [*call.args[first:], *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
        if any(keyword.arg in (None, "opener") for keyword in call.keywords):
            return False
        path = call.args[0] if call.args and first else None
        if path is not None and not isinstance(path, _PLAIN_PATHS):
            return False
        mode = given[0] if given else None
        if isinstance(mode, ast.Constant) and isinstance(mode.value, str) and set(mode.value) & set("wax+"):
            opened = path if first else call.func.value if isinstance(call.func, ast.Attribute) else None
            return opened is not None and set(mode.value) <= set("rbtwax+") and self._writes(opened)
        return all(
            isinstance(value, ast.Constant) and (not isinstance(value.value, str) or set(value.value) <= set("rbt"))
            for value in given[:1]
        )


def _text(arguments: list[ast.expr]) -> str | None:
    """The text among the arguments of a call that writes it."""
    match arguments:
        case [ast.Constant(value=str(text)), *_]:
            return text
        case _:
            return None
