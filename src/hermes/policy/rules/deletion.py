"""Rules for recursive deletion."""

from __future__ import annotations

import re

from hermes.policy.call import Call, read_options
from hermes.policy.rules.rule import Rule
from hermes.policy.shell.marks import is_known
from hermes.policy.shell.words import by_program, names

_RM = "rm grm srm trash-rm rimraf del-cli"
_FIND = "find gfind fd fdfind"
_XARGS = "xargs gxargs parallel"
_XARGS_VALUES = "adEILlnPsR"
#: Tests of ``find`` that restrict the result.
_NARROWING = names(
    "-name -iname -path -ipath -regex -iregex -mtime -mmin -atime -amin -ctime -cmin -newer -size -empty -user -group "
    "-perm -inum -nouser"
)


def _is_recursive(call: Call) -> bool:
    if call.program in ("rimraf", "del-cli"):
        return bool(call.options.operands)
    return call.options.has("rR", "recursive")


def _removes_vital_tree(call: Call) -> bool:
    if "--no-preserve-root" in call.args or call.options.has("", "no-preserve-root"):
        return True
    return _is_recursive(call) and _names_vital(call)


def _removes_tree(call: Call) -> bool:
    if not _is_recursive(call):
        return _names_vital(call)
    operands = call.options.operands
    return not operands or not all(map(call.paths.is_disposable, operands))


def finds_disposable(call: Call) -> bool:
    """Whether ``find`` is limited to names of build output, in a place where that may be deleted."""
    start = next((at for at, word in enumerate(call.args) if word[:1] in ("-", "(", "!")), len(call.args))
    named = [call.args[at + 1] for at, word in enumerate(call.args[:-1]) if word in ("-name", "-iname")]
    if not named or not {"!", "-not", "-path", "-regex", "-wholename"}.isdisjoint(call.args):
        return False
    return all(call.paths.is_disposable(f"{root}/{name}") for root in call.args[:start] or ["."] for name in named)


def _rsync_deletes(call: Call) -> bool:
    given = call.options
    if "remove-source-files" in given.names:
        return True
    deletes = any(name.startswith("del") for name in given.names)
    return deletes and not all(map(call.paths.is_disposable, given.operands[-1:]))


def _names_vital(call: Call) -> bool:
    return any(map(call.paths.is_vital, call.options.operands))


def _find_removes(call: Call) -> bool:
    if "-delete" in call.args:
        return True
    return any(
        word in ("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch")
        and _names_rm(call.args[at + 1 : at + 4])
        for at, word in enumerate(call.args)
    )


def _names_rm(words: list[str]) -> bool:
    return any(word.rpartition("/")[2] in ("rm", "unlink", "shred", "rmdir", "grm", "srm") for word in words)


def _find_removes_vital(call: Call) -> bool:
    start = next((at for at, word in enumerate(call.args) if word[:1] in ("-", "(", "!")), len(call.args))
    roots = call.args[:start] or ["."]
    if not _find_removes(call) or not any(map(call.paths.is_vital, roots)):
        return False
    return not any(
        word in _NARROWING and call.args[at + 1 : at + 2] not in (["*"], [".*"], ["/"], ["*.*"])
        for at, word in enumerate(call.args)
    )


def _xargs_removes(call: Call) -> bool:
    operands = read_options(call.args, _XARGS_VALUES).operands
    inner = [word for word in operands if word not in ("sudo", "doas", "env", "command", "busybox")]
    return _names_rm(inner[:1])


def _xargs_removes_vital(call: Call) -> bool:
    """``ls -d /* | xargs rm -r``: what is deleted stands in the part of the pipeline before."""
    inner = read_options(call.args, _XARGS_VALUES)
    listed = call.around.partition("|")[0].split()[1:]
    if not _xargs_removes(call) or not inner.has("rR", "recursive") or not _NARROWING.isdisjoint(listed):
        return False
    return any(word[:1] in ("/", "~") and call.paths.is_vital(word) for word in listed)


_LISTING = re.compile(
    r"\b(?:find|fd|fdfind|ls|locate|rg|grep|ag|git|du|stat|tree|comm|sort|kubectl|docker|aws|ps|jq|sqlite3|psql|freeze|scan)\b"
)
_WINDOWS_TREE = re.compile(r"/s|-r\w*", re.IGNORECASE)
_DELETING = names(
    "rm unlink delete del remove uninstall rmi destroy purge erase drop terminate prune -d -D rb shred trash"
)


def _deletes_listed(call: Call) -> bool:
    """``rm`` of whatever a listing finds, or of everything here."""
    operands = call.options.operands
    if any(word in ("*", "./*", ".*", "**", "*.*", "**/*") for word in operands):
        return True
    return any(not is_known(word) for word in operands) and _LISTING.search(call.around) is not None


def _xargs_deletes(call: Call) -> bool:
    inner = read_options(call.args, _XARGS_VALUES).operands
    if inner[:2] in (["git", "branch"], ["git", "tag"]) and not {"-d", "-D", "--delete"}.isdisjoint(call.args):
        return True
    deletes = any(word.lower() in _DELETING for word in inner[:4])
    return deletes and inner[0] not in ("echo", "grep", "printf", "rg", "git")


def _empties(call: Call) -> bool:
    """Copies nothing over a file, or fills one without end."""
    if call.program == "dd":
        endless = any(word in ("if=/dev/zero", "if=/dev/urandom", "if=/dev/random") for word in call.args)
        return endless and not any(word.startswith("count=") for word in call.args)
    return call.options.operands[:1] == ["/dev/null"] and len(call.options.operands) > 1


def _rsync_deletes_vital(call: Call) -> bool:
    deletes = any(name.startswith("del") for name in call.options.names)
    return deletes and any(map(call.paths.is_vital, call.options.operands[-1:]))


#: Archivers with the option by which they delete what they have packed.
_PACKS_AND_DELETES = by_program(
    {
        "tar gtar bsdtar": ("", "remove-files"),
        "zip": ("m", "move"),
        "7z 7za 7zr": ("", ""),
        "rar": ("", ""),
    }
)


def _archive_deletes(call: Call) -> bool:
    letters, name = _PACKS_AND_DELETES[call.program]
    if not name:
        return not {"-sdel", "-df", "-dw"}.isdisjoint(call.args)
    return call.options.has(letters, name)


def _moves_system(call: Call) -> bool:
    return any(map(call.paths.is_system, call.options.operands[:-1]))


def _moves_vital(call: Call) -> bool:
    return any(map(call.paths.is_vital, call.options.operands[:-1]))


RULES = (
    Rule(
        "delete-system-tree",
        "deletes the system, a system directory or a home directory",
        {
            _RM: _removes_vital_tree,
            _FIND: _find_removes_vital,
            "rsync": _rsync_deletes_vital,
            _XARGS: _xargs_removes_vital,
            " ".join(_PACKS_AND_DELETES): lambda call: _archive_deletes(call) and _names_vital(call),
        },
        hardline=True,
    ),
    Rule(
        "recursive-delete",
        "deletes a directory tree",
        {
            _RM: _removes_tree,
            _FIND: lambda call: _find_removes(call) and not finds_disposable(call),
            _XARGS: _xargs_removes,
            "rsync": _rsync_deletes,
            "del erase rd rmdir remove-item ri": lambda call: any(map(_WINDOWS_TREE.fullmatch, call.args)),
        },
    ),
    Rule(
        "bulk-delete",
        "deletes everything that a listing or pattern finds, or beyond recovery",
        {
            "rm grm unlink trash gio rmtrash": _deletes_listed,
            _XARGS: _xargs_deletes,
            " ".join(_PACKS_AND_DELETES): _archive_deletes,
            "shred srm wipe sfill bleachbit": lambda call: bool(call.options.operands),
        },
    ),
    Rule(
        "overwrite-file", "replaces the content of a file by nothing or noise", {"cp gcp mv install dd gdd": _empties}
    ),
    Rule(
        "move-system-tree",
        "moves the system or a system directory away",
        {"mv gmv": _moves_system},
        hardline=True,
    ),
    Rule("move-vital-tree", "moves a home directory or a directory of the system away", {"mv gmv": _moves_vital}),
)
