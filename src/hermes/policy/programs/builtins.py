"""Shell builtins, and programs that later parts of the command line depend on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hermes.policy.call import Call, read_options
from hermes.policy.programs.launchers import run_file, run_here, run_text
from hermes.policy.programs.output.outputs import formatted, output
from hermes.policy.rules.targets import downloaded_files
from hermes.policy.shell.expander import text_of
from hermes.policy.shell.flow import DOWNLOAD, NOTHING, SECRET_FILE, Flow, joined, text_flow
from hermes.policy.shell.marks import UNKNOWN, is_known
from hermes.policy.shell.words import by_program

if TYPE_CHECKING:
    from tree_sitter import Node

    from hermes.policy.shell.reader import Shell


def _cd(shell: Shell, call: Call) -> Flow:
    operands = [word for word in call.args if word not in ("-P", "-L", "-e", "-@", "--")]
    target = operands[0] if operands else "~"
    paths = shell.state.paths
    paths.cwd = paths.resolve(target) if is_known(target) and target != "-" else ""
    return NOTHING


def _eval(shell: Shell, call: Call) -> Flow:
    args = call.args[1:] if call.args[:1] == ["--"] else call.args
    return run_here(shell, call, " ".join(args)) if args else NOTHING


def _trap(shell: Shell, call: Call) -> Flow:
    operands = [word for word in call.args if word != "--"]
    if len(operands) > 1 and operands[0] not in ("-", "", "-l", "-p"):
        run_text(shell, call, operands[0])
    return NOTHING


def _source(shell: Shell, call: Call) -> Flow:
    args = call.args[1:] if call.args[:1] == ["--"] else call.args
    if not args:
        return NOTHING
    if args[0] in ("/dev/stdin", "/dev/fd/0"):
        shell.state.files["/dev/stdin"] = call.stdin
    return run_file(shell, call, args[0], args[1:], here=True)


def _alias(shell: Shell, call: Call) -> Flow:
    for word in call.args:
        name, equals, value = word.partition("=")
        if equals:
            shell.state.aliases[name] = value
    return NOTHING


def _hash(shell: Shell, call: Call) -> Flow:
    """``hash -p PATH NAME`` gives a program another name."""
    if call.args[:1] == ["-p"] and len(call.args) > 2:
        shell.state.aliases[call.args[2]] = call.args[1]
    return NOTHING


def _read(shell: Shell, call: Call) -> Flow:
    if call.program != "read":
        return _read_lines(shell, call)
    names = read_options(call.args, "adinNptu").operands or ["REPLY"]
    lines = (call.stdin.text or "").splitlines()
    value = lines[0] if len(lines) == 1 else UNKNOWN
    for name in names:
        shell.state.assign(name, value if len(names) == 1 else UNKNOWN)
    shell.evaluate((*names, value))
    return NOTHING


def _read_lines(shell: Shell, call: Call) -> Flow:
    """``mapfile -C COMMAND`` runs a command for its lines."""
    for callback in call.values("C"):
        run_text(shell, call, callback)
    for name in read_options(call.args, "CcdnOsu").operands or ["MAPFILE"]:
        shell.state.assign(name, UNKNOWN)
        shell.evaluate([name])
    return NOTHING


def _evaluate(shell: Shell, call: Call) -> Flow:
    """Builtins that evaluate names or arithmetic among their words."""
    shell.evaluate(call.args)
    return output(call)


def _set(shell: Shell, call: Call) -> Flow:
    if "--" in call.args:
        shell.state.positional = call.args[call.args.index("--") + 1 :]
    elif call.args and call.args[0][:1] not in ("-", "+"):
        shell.state.positional = call.args
    shell.evaluate(call.args)
    return NOTHING


def _printf(shell: Shell, call: Call) -> Flow:
    if call.args[:1] == ["-v"] and len(call.args) > 2:
        shell.evaluate([call.args[1]])
        shell.state.assign(call.args[1], formatted(call.args[2], call.args[3:]))
        return NOTHING
    return output(call)


def _cat(shell: Shell, call: Call) -> Flow:
    operands = call.options.operands
    if not operands:
        return call.stdin
    return joined([call.stdin if path in ("-", "/dev/stdin") else shell.content_of(path) for path in operands])


def _decoder(shell: Shell, call: Call) -> Flow:
    """``base64 -d FILE``: the file may have been written a moment ago."""
    path = next((path for path in call.options.operands if shell.state.paths.resolve(path) in shell.state.files), None)
    if path is None:
        return output(call)
    return output(Call(call.words, call.source, call.paths, shell.content_of(path)))


# Files that a later part of the line may run


def _tee(shell: Shell, call: Call) -> Flow:
    for path in call.options.operands:
        shell.state.files[shell.state.paths.resolve(path)] = call.stdin
    return call.stdin


def _mkdir(shell: Shell, call: Call) -> Flow:
    """Folders that this command line makes; only temporary ones matter."""
    shell.state.paths.made.update(map(shell.state.paths.resolve, filter(is_known, call.options.operands)))
    return NOTHING


def _mktemp(shell: Shell, _call: Call) -> Flow:
    """A temporary file or folder of a name that no one else has."""
    shell.state.paths.made.add(_TEMPORARY)
    return text_flow(f"{_TEMPORARY}\n")


#: Stands for the random name.
_TEMPORARY = "/tmp/tmp.XXXXXXXXXX"


def _copy(shell: Shell, call: Call) -> Flow:
    state, operands = shell.state, call.options.operands
    if call.program in ("mv", "ln"):
        state.paths.moved.update(state.paths.resolve(path) for path in operands[-1:])
    if call.program == "ln" and call.options.has("s", "symbolic") and len(operands) == 2:
        state.paths.links[state.paths.resolve(operands[1])] = state.paths.resolve(operands[0])
    if len(operands) >= 2:
        source, target = state.paths.resolve(operands[0]), state.paths.resolve(operands[-1])
        for copy in (target, f"{target}/{source.rpartition('/')[2]}"):
            if source in state.files:
                state.files[copy] = state.files[source]
            elif call.paths.secret_kind(source):
                state.files[copy] = SECRET_FILE
            if source in state.executable:
                state.executable.add(copy)
            if "/bin/" in source or "/sbin/" in source:
                state.copies[copy] = source
    return NOTHING


def _chmod(shell: Shell, call: Call) -> Flow:
    modes = [word for word in call.args if not word.startswith("--")]
    if modes and _makes_executable(modes[0]):
        shell.state.executable.update(map(shell.state.paths.resolve, modes[1:]))
    return NOTHING


def _makes_executable(mode: str) -> bool:
    if mode.isdecimal():
        return any(int(digit, 8) & 1 for digit in mode[-3:] if digit in "01234567")
    return "x" in mode and ("+" in mode or "=" in mode)


def _download(shell: Shell, call: Call) -> Flow:
    """Where a download goes: a file to remember, or the output."""
    targets = downloaded_files(call)
    named_by_server = call.program == "wget" or call.options.has("O", "remote-name")
    if not targets and named_by_server:
        targets = [word.partition("?")[0].rpartition("/")[2] for word in call.options.operands if "/" in word]
    for target in targets:
        if target != "-":
            shell.state.files[shell.state.paths.resolve(target)] = DOWNLOAD
    return DOWNLOAD if "-" in targets or not targets else NOTHING


BUILTINS: dict[str, Callable[[Shell, Call], Flow]] = by_program(
    {
        "cd pushd": _cd,
        "eval": _eval,
        "trap": _trap,
        "source .": _source,
        "alias": _alias,
        "hash": _hash,
        "read mapfile readarray": _read,
        "set": _set,
        "let test [ wait getopts unset local declare typeset readonly export": _evaluate,
        "printf": _printf,
        "cat": _cat,
        "base64 base32 xxd rev openssl": _decoder,
        "tee sponge": _tee,
        "cp mv ln install": _copy,
        "chmod": _chmod,
        "mkdir": _mkdir,
        "mktemp": _mktemp,
        "curl wget fetch aria2c": _download,
        "exit": lambda _shell, _call: NOTHING,
    }
)


def multiplies(body: Node, name: str) -> bool:
    """Whether a function starts itself more than once in a pipeline, or in the background."""
    waiting = [body]
    while waiting:
        node = waiting.pop()
        children = node.children
        if node.type == "pipeline" and sum(_calls(child, name) for child in children) > 1:
            return True
        if any(child.type == "&" and at and _calls(children[at - 1], name) for at, child in enumerate(children)):
            return True
        waiting += node.named_children
    return False


def _calls(node: Node, name: str) -> bool:
    if node.type == "command":
        called = node.child_by_field_name("name")
        return called is not None and text_of(called) == name
    return any(_calls(child, name) for child in node.named_children if child.type != "function_definition")
