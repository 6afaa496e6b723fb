"""Harmless code: decides whether inline code only computes, reads and prints."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from hermes.policy.shell.words import by_program, names

if TYPE_CHECKING:
    from hermes.policy.paths import PathContext

#: Longer code is not looked at: it is not one of the one-liners that this is for.
_LONGEST = 4_000


def is_harmless_call(language: str, args: list[str], code: str, paths: PathContext) -> bool:
    """Whether the options of an interpreter load nothing, and its code is harmless."""
    prefixes, harmless = _LOADERS.get(language, ((), frozenset[str]()))
    loaded = [word[2:].partition("=")[0] for word in args if word.startswith(prefixes)]
    return harmless.issuperset(loaded) and is_harmless(language, code, paths)


def is_harmless(language: str, code: str, paths: PathContext) -> bool:
    """Whether the code can only compute, read ordinary files and print. In doubt it is not."""
    if len(code) > _LONGEST or (not code.isprintable() and not code.replace("\n", "").replace("\t", "").isprintable()):
        return False
    if any(paths.secret_kind(first or second or third) for first, second, third in _LITERAL.findall(code)):
        return False
    match language:
        case "python" | "pypy" | "ipython":
            return _python(code)
        case "node" | "nodejs" | "bun":
            return _javascript(code)
        case "perl" | "ruby" | "php":
            return _script(language, code)
        case "gdb":
            return all(_GDB.match(line.strip()) for line in code.splitlines() if line.strip())
        case _:
            return False


_LITERAL = re.compile(r"\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'|`([^`]*)`")


# -- Python -----------------------------------------------------------------------------------------------------------

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


def _python(code: str) -> bool:
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return _PythonReader(tree).harmless()


class _PythonReader:
    """Looks at every import, name, attribute and call of a module."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
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
        parents = {child: node for node in nodes for child in ast.iter_child_nodes(node)}
        return all(self._node(node, parents) for node in nodes)

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
                return self._attribute(attribute, value)
            case ast.Call(func=function):
                return self._call(node, function)
            case ast.Global() | ast.Nonlocal() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                return False
            case _:
                return True

    def _attribute(self, attribute: str, value: ast.expr) -> bool:
        if attribute.startswith("__") and attribute not in _DUNDERS:
            return False
        if isinstance(value, ast.Name) and value.id == "os":
            return attribute in _OS
        if attribute == "write" and isinstance(value, ast.Attribute) and value.attr in ("stdout", "stderr"):
            return True
        if attribute == "replace" and "pathlib" in self._modules:
            return False  # of a path, it moves a file
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
        return all(
            isinstance(value, ast.Constant) and (not isinstance(value.value, str) or set(value.value) <= set("rbt"))
            for value in given[:1]
        )


#: Modules that even a question for their version should not load.
_RISKY = names(
    "subprocess shutil socket ctypes multiprocessing signal pty pickle marshal importlib builtins code runpy tempfile "
    "sqlite3 asyncio webbrowser urllib http ftplib smtplib requests httpx aiohttp paramiko threading antigravity this "
    "fcntl termios select ssl telnetlib xmlrpc socketserver resource winreg msvcrt posix nt site sysconfig atexit gc "
    "faulthandler"
)

# -- JavaScript -------------------------------------------------------------------------------------------------------

_JS_CALLED = re.compile(r"([\w$]+)\s*(?:\?\.)?\(")
_JS_SAFE = names(
    "log error warn info dir table parse stringify readFileSync existsSync readdirSync statSync require keys values "
    "entries fromEntries map filter forEach reduce join split sort slice splice toString push pop shift unshift "
    "includes indexOf find findIndex some every flat flatMap concat replace replaceAll match matchAll test exec trim "
    "trimEnd trimStart padStart padEnd toUpperCase toLowerCase startsWith endsWith charAt charCodeAt codePointAt "
    "fromCharCode substring substr repeat localeCompare normalize at toFixed toISOString getTime getFullYear getMonth "
    "now max min floor ceil round abs pow sqrt random sum parseInt parseFloat Number String Boolean Array Object Date "
    "Map Set RegExp isArray isInteger isNaN from of has get set add assign freeze if for while switch catch function "
    "return typeof resolve basename dirname extname relative cwd memoryUsage hrtime uptime platform arch cpus inspect "
    "encodeURIComponent decodeURIComponent Buffer byteLength alloc write require.resolve then BigInt Symbol URL "
    "URLSearchParams Error TypeError satisfies"
)
_JS_MODULES = re.compile(
    r"^(?:(?:node:)?(?:fs|path|os|util|url|querystring|assert)|[.@\w/-]*\.json|[.@\w/-]+/package(?:\.json)?)$"
)
_JS_DENIED = re.compile(
    r"child_process|\beval\b|\bFunction\b|\bimport\b|\bfetch\b|\bglobalThis\b|\bprocess\s*\.\s*(?:binding|kill|exit\w+|dlopen|mainModule|chdir|setuid)|\]\s*\("
    r"|[\w$)]`|\bwith\b|__proto__|constructor|\bDeno\b|\bBun\b|process\s*\.\s*env(?!\s*\.\s*(?:PATH|HOME|USER|NODE_ENV|PWD|SHELL)\b)|\bprototype\b"
)
_JS_NEW = re.compile(r"\bnew\s+(?!Date|Map|Set|RegExp|Array|URL|Error|Intl)")
_JS_REQUIRE = re.compile(r"\brequire\s*\(\s*(?:['\"`]([^'\"`]*)['\"`]\s*\))?")


def _javascript(code: str) -> bool:
    if _JS_DENIED.search(code) or _JS_NEW.search(code):
        return False
    if not all(_JS_MODULES.match(module) for module in _JS_REQUIRE.findall(code)):
        return False
    bare = _LITERAL.sub("''", code)
    return all(name in _JS_SAFE for name in _JS_CALLED.findall(bare)) and "write" not in _JS_CALLED.findall(
        bare.replace("stdout.write(", "")
    )


# -- Perl, Ruby, PHP: words outside of strings and regular expressions ------------------------------------------------

_REGEX = re.compile(
    r"(?:(?<![\w)\]}$@%])(?:m|qr)?/(?:[^/\\\n]|\\.)*/[a-z]*|\bs/(?:[^/\\\n]|\\.)*/(?:[^/\\\n]|\\.)*/[gimsxor]*"
    r"|\b(?:tr|y)/(?:[^/\\\n]|\\.)*/(?:[^/\\\n]|\\.)*/[cdsr]*|\bs([|#,!:])(?:(?!\1)[^\\\n]|\\.)*\1(?:(?!\1)[^\\\n]|\\.)*\1[gimsxor]*)"
)
_VARIABLE = re.compile(r"[$@%&]\w+|[$@]\{\w+\}|\$[.,;/\\0-9_&!@]|:\w+|\w+:(?!:)|#[^\n]*$", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_][\w:]*[?!]?")
_SAFE_WORDS: dict[str, frozenset[str]] = {
    "perl": names(
        "print printf say if unless elsif else while until for foreach my our local last next split join map grep sort "
        "reverse keys values each exists delete length substr index rindex lc uc lcfirst ucfirst sprintf push pop "
        "shift unshift splice scalar defined chomp chop BEGIN END and or not eq ne lt gt le ge cmp x int abs sqrt hex "
        "oct ord chr exit return sub use strict warnings List::Util sum max min first reduce uniq POSIX floor ceil "
        "strftime JSON::PP decode_json encode_json Data::Dumper Dumper STDIN STDOUT STDERR ARGV eof die warn time "
        "localtime gmtime wantarray qw q qq undef feature utf8 binmode pos quotemeta Time::HiRes MIME::Base64 "
        "encode_base64 decode_base64 Digest::SHA sha256_hex"
    ),
    "ruby": names(
        "puts print p pp printf format if unless elsif else end while until for in do each each_with_index map select "
        "reject sort sort_by reverse join split sum max min first last size length count to_i to_s to_f to_a to_h "
        "to_sym upcase downcase capitalize strip chomp gsub sub match match? scan include? start_with? end_with? nil? "
        "empty? any? all? inject reduce zip uniq flatten compact keys values key? fetch dig each_line lines chars "
        "bytes inspect class is_a? respond_to? then tap times upto step group_by JSON parse generate pretty_generate "
        "YAML load_file safe_load CSV File read readlines exist? basename dirname extname join Time now strftime Date "
        "today Math sqrt RUBY_VERSION RUBY_PLATFORM STDIN STDOUT ARGF ARGV gets read true false nil and or not require "
        "json yaml csv date time set pp Set new Integer Float String Array Hash Rational Complex rand srand puts "
        "return def Gem Version VERSION loaded_specs tally partition min_by max_by each_slice each_cons with_index "
        "rjust ljust center tr"
    ),
    "php": names(
        "echo print print_r var_dump var_export json_decode json_encode file_get_contents count implode explode join "
        "strtoupper strtolower trim ltrim rtrim strlen substr strpos str_replace sprintf printf number_format "
        "array_keys array_values array_sum in_array sort rsort ksort asort array_merge array_slice array_unique range "
        "max min round floor ceil abs date time strtotime mktime PHP_VERSION PHP_EOL PHP_OS PHP_INT_MAX phpversion "
        "php_sapi_name if else elseif foreach for while as function return true false null isset empty is_array "
        "is_string is_null intval floatval strval md5 sha1 hash base64_encode base64_decode urlencode urldecode "
        "extension_loaded get_loaded_extensions memory_get_usage microtime array STDIN stream_get_contents fgets php "
        "stdin ini_get"
    ),
}
_SCRIPT_DENIED = {
    "perl": re.compile(r"`|<\s*[*$/~.\w]*[*?][^>]*>|\bqx\b|/e\w*e|<\$?\w*>\s*;?\s*\||&\$|->\s*\("),
    "ruby": re.compile(r"`|%x|\bsend\b|\bFile\.(?!read|exist|basename|dirname|extname|join)|\bIO\b|\bopen\b"),
    "php": re.compile(r"`|\$\w+\s*\(|\$\$|https?://|file_get_contents\s*\(\s*(?!['\"](?!\w+://(?!stdin)))"),
}


def _script(language: str, code: str) -> bool:
    if _SCRIPT_DENIED[language].search(code):
        return False
    bare = _VARIABLE.sub(" ", _LITERAL.sub(" ", _REGEX.sub(" ", code)))
    safe = _SAFE_WORDS[language]
    return all(word in safe for word in _WORD.findall(bare))


_GDB = re.compile(
    r"(?:run|r|start|bt|backtrace|where|info|i|break|b|tbreak|thread|frame|f|up|down|list|l|next|n|step|s|continue"
    r"|c|finish|quit|q|set (?:pagination|confirm|"
    r"logging|print|args|disassembly|width|height)|print|p|x|x/\w+|disassemble|ptype|whatis|display|file|core|directory|show|help|delete|watch|until|starti|echo)\b[^|!]*$"
)
#: Options that load code, and what may be loaded.
_LOADERS: dict[str, tuple[tuple[str, ...], frozenset[str]]] = by_program(
    {
        "perl": (("-M", "-m"), _SAFE_WORDS["perl"]),
        "ruby": (("-r",), frozenset({"", "json", "yaml", "csv", "date", "time", "set", "pp"})),
        "node nodejs bun": (("-r", "--require", "--import", "--loader", "--inspect"), frozenset()),
        "gdb": (("-d", "--attach", "-p", "--pid"), frozenset()),
    }
)
