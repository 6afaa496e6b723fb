"""Files that a program writes, by its arguments."""

from __future__ import annotations

from collections.abc import Callable

from hermes.policy.call import Call, after_options, read_options
from hermes.policy.rules.git import GLOBAL_VALUES
from hermes.policy.shell.words import by_program

#: Where the command runs.
HERE = "."


def written_paths(call: Call) -> list[str]:
    """The files a call writes or replaces, apart from redirections; empty for programs that are not known to."""
    if call.written is None:
        find = _TARGETS.get(call.program)
        call.written = find(call) if find is not None else []
    return call.written


def written_kinds(call: Call) -> list[str]:
    """The rules for the files that a call writes, by redirections and arguments: sensitive ones, others elsewhere."""
    written = written_paths(call)
    if not written and not call.writes:
        return []
    sensitive_kind, is_outside = call.paths.sensitive_kind, call.paths.is_outside
    kinds = [
        sensitive_kind(path) or ("write-outside" if is_outside(path) else None)
        for path in dict.fromkeys([*call.writes, *written])
    ]
    return [kind for kind in dict.fromkeys(kinds) if kind is not None]


def _last_operand(call: Call) -> list[str]:
    """``cp A B``: B, and each file in it that a copy would replace."""
    named = call.values("t", "target-directory")
    operands = read_options(call.args, "tSmog").operands
    folder, sources = (
        (named[0], operands) if named else (operands[-1], operands[:-1]) if len(operands) > 1 else ("", [])
    )
    if not folder:
        return []
    return [folder, *(f"{folder.rstrip('/')}/{source.rstrip('/').rpartition('/')[2]}" for source in sources)]


def _in_place(call: Call) -> list[str]:
    if not (call.options.has("i", "in-place") or any(word.startswith("-i") for word in call.args)):
        return []
    scripted = call.options.has("ef", "expression", "file")
    operands = read_options(call.args, "efl").operands
    return operands if scripted else operands[1:]


def _download(call: Call) -> list[str]:
    folders = call.values("P", "output-dir", "directory-prefix")
    files = downloaded_files(call)
    named_by_server = call.program == "wget" or call.options.has("O", "remote-name", "remote-name-all")
    if not files and not folders and named_by_server and call.options.operands:
        return [HERE]
    return [path for path in (*files, *folders) if path != "-"]


def downloaded_files(call: Call) -> list[str]:
    """The target files of a download; ``-`` is the output."""
    return call.values("O" if call.program == "wget" else "o", "output", "output-document", "out")


def unpacked_into(call: Call) -> list[str]:
    """The folders that a call unpacks an archive into; none for other uses."""
    if call.program in ("7z", "7za", "unrar"):
        unpacks = call.args[:1] in (["x"], ["e"])
        return [word[2:] for word in call.args if word.startswith("-o")] or [HERE] if unpacks else []
    if call.program == "cpio":
        return (call.values("D", "directory") or [HERE]) if call.options.has("i", "extract") else []
    first = call.args[0] if call.args else ""
    unpacks = call.program == "unzip" or call.options.has("x", "extract", "get") or (first[:1] != "-" and "x" in first)
    return _archive(call) if unpacks else []


def _archive(call: Call) -> list[str]:
    """Where an archive is unpacked, or the one that is made."""
    if call.program == "unzip":
        lists = call.options.has("lptvz")
        return call.values("d") or ([] if lists else [HERE])
    first = call.args[0] if call.args else ""
    bundled = first if first[:1] != "-" else ""
    if call.options.has("x", "extract", "get") or "x" in bundled:
        return call.values("C", "directory") or [HERE]
    if "c" in bundled and "f" in bundled:
        return call.args[1:2]
    return [path for path in call.values("f", "file") if path != "-"] if call.options.has("c", "create") else []


def _cloned(call: Call) -> list[str]:
    """Where a repository is cloned to, files that git writes on request, and where it changes settings."""
    words = after_options(call.args, GLOBAL_VALUES.__contains__)
    operands = read_options(words).operands
    match operands[:2]:
        case ["clone", _]:
            return read_options(words, "bcjou").operands[2:3] or [HERE]
        case ["bundle", "create"]:
            return [path for path in operands[2:3] if path != "-"]
        case ["archive" | "format-patch" | "diff" | "log" | "show", *_]:
            return call.values("o", "output", "output-directory")
        case _:
            return call.values("C") if "config" in operands else []


def _after(call: Call, *options: str) -> list[str]:
    return [call.args[at + 1] for at, word in enumerate(call.args[:-1]) if word in options]


_TARGETS: dict[str, Callable[[Call], list[str]]] = by_program(
    {
        "tee gtee sponge rm grm unlink truncate fallocate shred ed ex chattr touch srm": lambda call: (
            call.options.operands
        ),
        "cp gcp install ln rsync scp ginstall": _last_operand,
        # A move deletes its source.
        "mv gmv": lambda call: [*_last_operand(call), *call.options.operands[:-1]],
        "sed gsed perl": _in_place,
        "dd gdd dcfldd dc3dd": lambda call: [word[3:] for word in call.args if word.startswith("of=")],
        "curl wget fetch aria2c": _download,
        "tar bsdtar unzip": _archive,
        "patch": lambda call: [*call.options.operands[:1], *call.values("do", "directory", "output")],
        "git": _cloned,
        "pg_dump pg_dumpall mysqldump mariadb-dump": lambda call: call.values("fr", "file", "result-file"),
        "zip": lambda call: call.options.operands[:1],
        "gpg": lambda call: call.values("o", "output"),
        "openssl": lambda call: [*call.values("", "out", "keyout"), *_after(call, "-out", "-keyout")],
        "sort tree pandoc gcc g++ cc clang clang++ rustc ld": lambda call: call.values("o", "output"),
        "7z 7za": lambda call: [word[2:] for word in call.args if word.startswith("-o")],
    }
)
