"""Output of programs, as far as the command line alone determines it."""

from __future__ import annotations

import base64
import re
from binascii import Error as BadEncoding
from collections.abc import Callable

from hermes.policy.call import Call
from hermes.policy.programs.output.pieces import piece
from hermes.policy.shell.flow import DOWNLOAD, NOTHING, PROGRAM, Flow, text_flow
from hermes.policy.shell.marks import UNKNOWN, is_known
from hermes.policy.shell.words import by_program, escapes, names

_FORMAT = re.compile(r"%(?:(%)|([-+ #0]*\d*(?:\.\d+)?)([sbcdiqxXou]))")
_SET = re.compile(r"\[:(\w+):\]|(.)-(.)|(.)", re.DOTALL)
_CLASSES = {
    "lower": "abcdefghijklmnopqrstuvwxyz",
    "upper": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "digit": "0123456789",
    "space": " \t\n\r\v\f",
}
#: Programs whose output is meant to be evaluated, with arguments that say so.
_SHELL_SETUP = re.compile(
    r"ssh-agent\b|keychain\b|dircolors\b|brew shellenv|opam env|fnm env|luarocks path|register-python-argcomplete"
    r"|(?:pyenv|rbenv|nodenv|goenv|jenv|phpenv) (?:virtualenv-)?init\b|direnv (?:hook|export)\b"
    r"|(?:conda|mamba|micromamba) shell|(?:zoxide|starship|atuin|mcfly|thefuck|oh-my-posh) init|mise (?:activate|env)"
    r"|\S+ completions?\b|minikube .*docker-env"
)


def output(call: Call) -> Flow:
    """The output of a call, or at least its origin."""
    flow = piece(call)
    if flow is not None:
        return flow
    printer = _PRINTERS.get(call.program)
    if printer is not None:
        return printer(call)
    if call.program in _DOWNLOADERS:
        return DOWNLOAD
    silent = call.program in _SILENT or (call.program in _FILTERS and call.stdin.text == "")
    if silent or _SHELL_SETUP.match(" ".join([call.program, *call.args])):
        return NOTHING
    if call.stdin.origin in ("remote", "decoded"):
        return call.stdin.made_into(None, "program")
    return PROGRAM


_DOWNLOADERS = names("lynx links elinks w3m http https xh lwp-request get nc ncat netcat socat")
_SILENT = names("popd : true false mkdir sleep test [ export unset shopt rm touch wait umask")
_FILTERS = names("sed awk sort uniq head tail cut grep")


def _echo(call: Call) -> Flow:
    args = call.args
    decode, newline = False, True
    while args and re.fullmatch(r"-[neE]+", args[0]):
        decode = decode or "e" in args[0]
        newline = newline and "n" not in args[0]
        args = args[1:]
    text = " ".join(args)
    return text_flow((escapes(text, "\0") if decode else text) + ("\n" if newline else ""))


def _printf(call: Call) -> Flow:
    args = call.args[1:] if call.args[:1] == ["--"] else call.args
    return text_flow(formatted(args[0], args[1:])) if args else NOTHING


def formatted(form: str, values: list[str]) -> str:
    """The text ``printf`` makes; a form without places for values is used once, others until all are used."""
    waiting = list(values)

    def fill(match: re.Match[str]) -> str:
        if match.group(1):
            return "%"
        value = waiting.pop(0) if waiting else ""
        kind = match.group(3)
        if kind == "b":
            return escapes(value)
        if kind == "c":
            return value[:1]
        if kind in "xXo" and re.fullmatch(r"-?[0-9]{1,18}", value):
            return format(int(value), kind)
        return value

    parts = [_FORMAT.sub(fill, escapes(form, "\0"))]
    while waiting and len(parts) < 64 and len(waiting) < len(values):
        parts.append(_FORMAT.sub(fill, escapes(form, "\0")))
    return "".join(parts)


def _decoded(call: Call, decode: Callable[[str], str]) -> Flow:
    text = call.stdin.text
    if text is None or not is_known(text):
        return call.stdin.made_into(None, "decoded")
    try:
        return call.stdin.made_into(decode(text), "decoded")
    except (ValueError, BadEncoding):
        return call.stdin.made_into(None, "decoded")


def _decoder(letters: str, name: str, decode: Callable[[str], str]) -> Callable[[Call], Flow]:
    def decoded(call: Call) -> Flow:
        return _decoded(call, decode) if call.options.has(letters, name) else PROGRAM

    return decoded


def _from_base32(text: str) -> str:
    return base64.b32decode("".join(text.split())).decode("utf-8", "replace")


def _from_base64(text: str) -> str:
    compact = re.sub(r"[^A-Za-z0-9+/_-]", "", text).translate(str.maketrans("-_", "+/"))
    return base64.b64decode(compact + "=" * (-len(compact) % 4)).decode("utf-8", "replace")


def _from_hex(text: str) -> str:
    lines = [re.sub(r"^[0-9a-fA-F]+:", "", line).split("  ")[0] for line in text.splitlines()]
    return bytes.fromhex(re.sub(r"[^0-9a-fA-F]", "", "".join(lines))).decode("utf-8", "replace")


def _openssl(call: Call) -> Flow:
    if not {"-d", "-D"}.intersection(call.args):
        return PROGRAM
    named = {"base64", "-base64", "-a"}.intersection(call.args)
    ciphered = any(word.startswith(("-aes", "-des", "-chacha", "-camellia")) for word in call.args)
    return _decoded(call, _from_base64) if named and not ciphered else call.stdin.made_into(None, "decoded")


def _unpacked(call: Call) -> Flow:
    wanted = call.program not in ("gzip", "bzip2", "xz", "zstd", "lz4", "gpg", "uuencode") or call.options.has(
        "d", "decompress", "decrypt", "uncompress"
    )
    return call.stdin.made_into(None, "decoded") if wanted else PROGRAM


def _tr(call: Call) -> Flow:
    operands, options = call.options.operands, call.options
    if options.has("c", "complement") or not operands:
        return call.stdin.made_into(None, "decoded")
    first = _members(operands[0])
    if options.has("d", "delete"):
        return _decoded(call, lambda text: "".join(char for char in text if char not in first))
    second = _members(operands[1]) if len(operands) > 1 else ""
    if not second:
        return call.stdin.made_into(None, "decoded")
    table = str.maketrans(dict(zip(first, second.ljust(len(first), second[-1]), strict=False)))
    return _decoded(call, lambda text: text.translate(table))


def _members(text: str) -> str:
    return "".join(_expanded(match) for match in _SET.finditer(escapes(text)))


def _expanded(match: re.Match[str]) -> str:
    named, first, last, single = match.groups()
    if named:
        return _CLASSES.get(named, "")
    return single if first is None else "".join(map(chr, range(ord(first), min(ord(last), ord(first) + 256) + 1)))


_PRINTERS: dict[str, Callable[[Call], Flow]] = by_program(
    {
        "echo": _echo,
        "printf": _printf,
        "pv": lambda call: call.stdin,
        "base64 gbase64 basenc": _decoder("dD", "decode", _from_base64),
        "base32": _decoder("dD", "decode", _from_base32),
        "xxd": _decoder("r", "revert", _from_hex),
        "openssl": _openssl,
        "rev": lambda call: _decoded(call, lambda text: "\n".join(line[::-1] for line in text.split("\n"))),
        "tac": lambda call: _decoded(call, lambda text: "\n".join(text.rstrip("\n").split("\n")[::-1]) + "\n"),
        "tr": _tr,
        # Edited text is unknown.
        "sed": lambda call: call.stdin.made_into(None, "decoded" if call.stdin.origin == "text" else "program"),
        "pwd": lambda call: text_flow((call.paths.cwd or UNKNOWN) + "\n"),
        "seq": lambda _call: Flow(None, "text"),
        "yes": lambda call: text_flow((" ".join(call.args) or "y") + "\n"),
        "gunzip zcat gzip bzip2 bunzip2 bzcat xz unxz xzcat zstd zstdcat lz4": _unpacked,
        "uudecode gpg uncompress inflate": _unpacked,
    }
)
