"""Harmless code: decides whether inline code only computes, reads and prints."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hermes.policy.programs.inline.python_code import Writes, python_writes
from hermes.policy.shell.words import by_program, names

if TYPE_CHECKING:
    from hermes.policy.paths import PathContext

#: Longer code is not looked at: it is not one of the one-liners that this is for.
_LONGEST = 4_000


def writes_of_call(language: str, args: list[str], code: str, paths: PathContext) -> Writes | None:
    """The same, when the options of an interpreter load nothing."""
    prefixes, harmless = _LOADERS.get(language, ((), frozenset[str]()))
    loaded = [word[2:].partition("=")[0] for word in args if word.startswith(prefixes)]
    return writes_of(language, code, paths) if harmless.issuperset(loaded) else None


def writes_of(language: str, code: str, paths: PathContext) -> Writes | None:
    """What code writes that else can only compute, read ordinary files and print; None when it may do more.

    In doubt it may. Only ordinary files of the working folder count, and only in Python.
    """
    if language in ("python", "pypy", "ipython"):
        return python_writes(code, paths) if _is_short(code, paths) else None
    return {} if _is_short(code, paths) and _only_reads(language, code) else None


def _is_short(code: str, paths: PathContext) -> bool:
    """Whether the code is plain text of a length that is looked at, and names no file with keys."""
    if len(code) > _LONGEST or (not code.isprintable() and not code.replace("\n", "").replace("\t", "").isprintable()):
        return False
    return not any(paths.secret_kind(first or second or third) for first, second, third in _LITERAL.findall(code))


def _only_reads(language: str, code: str) -> bool:
    match language:
        case "node" | "nodejs" | "bun":
            return _javascript(code)
        case "perl" | "ruby" | "php":
            return _script(language, code)
        case "gdb":
            return all(_GDB.match(line.strip()) for line in code.splitlines() if line.strip())
        case _:
            return False


_LITERAL = re.compile(r"\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'|`([^`]*)`")


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
