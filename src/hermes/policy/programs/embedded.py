"""Command lines in the arguments of programs that are not shells."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hermes.policy.call import Call, read_options, without_version
from hermes.policy.programs.launchers import run_flow, run_text
from hermes.policy.programs.options import git_loads, git_settings, option_values, texts_among
from hermes.policy.programs.projects import run_project_files
from hermes.policy.shell.flow import PROGRAM, SECRET_FILE, text_flow
from hermes.policy.shell.words import by_program, names

if TYPE_CHECKING:
    from hermes.policy.shell.reader import Shell

#: Programs that run a command line on other machines: the words behind the options and the list of machines.
_REMOTE_RUNNERS = names(
    "pssh parallel-ssh pdsh clush dsh fab fabric mussh cssh salt salt-ssh orgalorg ansible rsh remsh rexec psexec "
    "winrs sshpass dcli bolt knife"
)
_EDITORS = names("vi vim nvim ex view gvim rvim vimdiff ed less more")

#: Programs with a language of their own in which a line may be a shell command.
_ESCAPES = re.compile(r"^\s*(?:\\!|!|\.(?:shell|system)\s|(?:shell|system|sh)\s)\s*(.+)", re.MULTILINE)
_HAVE_ESCAPES = names("psql mysql mariadb sqlite3 sqlite ftp sftp lftp ed ex gdb bc dc mail mailx cqlsh duckdb telnet")
#: A database that runs a program on its server: ``COPY … PROGRAM 'command'``.
_SQL_PROGRAM = re.compile(r"\b(?:from|to)\s+program\s+'((?:[^']|'')*)'", re.IGNORECASE)
_SED = names("sed gsed")
_SED_RUNS = re.compile(r"(?:^|[;{}\n\d$/])[ \t]*e\s+(.+)", re.DOTALL)
_SED_REPLACES = re.compile(r"s([^\w\s])")
_SED_FLAGS = re.compile(r"[gpiIm\d]*e")
#: Longer scripts for sed are not searched for commands.
_LONGEST_SED = 4_000


#: A helper for git's credentials gets them on its standard input.
_CREDENTIAL_HELPER = re.compile(r"credential\.(?:[^=]*\.)?helper=!(.*)", re.IGNORECASE | re.DOTALL)


def _escapes(call: Call) -> list[str]:
    """Shell commands in the script of another program."""
    scripts = [*call.args, call.stdin.text or ""]
    if call.program in _HAVE_ESCAPES:
        return [text for script in scripts for text in (*_ESCAPES.findall(script), *_SQL_PROGRAM.findall(script))]
    if call.program in _SED:
        return [text for script in scripts[:-1] for text in _sed_commands(script[:_LONGEST_SED])]
    return []


def _sed_commands(script: str) -> list[str]:
    """Shell commands in a script for sed: after ``e``, and replacements with the flag ``e``."""
    found = _SED_RUNS.findall(script)
    at = 0
    while match := _SED_REPLACES.search(script, at):
        middle = _unescaped(script, match.group(1), match.end())
        end = _unescaped(script, match.group(1), middle + 1)
        if middle < 0 or end < 0:
            at = match.end()
            if script.find(match.group(1), at) < 0:
                break
            continue
        if _SED_FLAGS.match(script, end + 1):
            found.append(script[middle + 1 : end])
        at = end
    return [re.sub(r"\\(.)", r"\1", text) for text in found]


def _unescaped(text: str, mark: str, start: int) -> int:
    """The position of the next ``mark`` without a backslash before it, or -1."""
    at = text.find(mark, start) if start else -1
    while at > 0 and text[at - 1] == "\\":
        at = text.find(mark, at + 1)
    return at


#: Options whose value is a file of commands for the program, or a file or folder that it loads code from.
_CODE_FILES = by_program(
    {
        "ssh scp sftp": "-F -I",
        "mutt": "-F",
        "gdb lldb": "-x --command",
        "vim nvim vi gvim": "-S -s -u --cmd",
        "tmux lftp": "-f",
        "screen less": "-c -k",
        "emacs": "-l --load",
        "node nodejs bun": "-r --require --import --loader --experimental-loader",
        "mocha jest eslint webpack rollup vite babel": "-r --require --config --rulesdir --plugins -c",
        "ruby": "-r -I",
        "perl": "-I",
        "php": "-c -d",
        "pytest": "-p -c --rootdir --confcutdir",
        "gcc g++ cc c++ clang clang++ gfortran ld": "-B -fplugin -plugin -specs --plugin",
        "nginx httpd apache2 sshd dnsmasq haproxy squid redis-server mysqld": "-c -f --conf-file --defaults-file",
        "openvpn wget wget2 logrotate supervisord": "--config -c",
        "curl": "-K --config --engine",
        "nmap": "--script --datadir",
        "ansible ansible-playbook": "-M --module-path",
        "git": "--exec-path --template",
        "gpg gpg2": "--agent-program --pinentry-program --dirmngr-program",
        "gpg-agent": "--pinentry-program",
        "ssh-keygen": "-D",
        "ssh-add": "-s",
        "java": "-jar -cp -classpath --class-path",
        "npm pnpm yarn": "--script-shell --prefix --userconfig --globalconfig",
        "make gmake just ninja": "-f --file --makefile --justfile -I",
        "docker podman": "--config",
        "openssl": "-engine -provider-path -config",
        "bash sh zsh": "--rcfile --init-file",
        "sqlite3 sqlite": "-init",
        "psql mysql": "--defaults-file --defaults-extra-file",
    }
)
#: Words that name such a file in a form of their own.
_CODE_WORD = re.compile(
    r"-(?:javaagent|agentpath|Xbootclasspath/[ap]):([^=]+)|auto_(?:ap|pre)pend_file=(.+)|(?:-o)?(?:pkcs11|securitykey)provider=(.+)"
    r"|\.load\s+(\S+).*",
    re.IGNORECASE,
)


def _check_code_files(shell: Shell, call: Call) -> None:
    """A file of commands or code in a folder that is no one's, or one that this command line wrote."""
    options = _CODE_FILES.get(without_version(call.program))
    named = option_values(call, options.split()) if options else []
    for word in call.args if options else ():
        if match := _CODE_WORD.fullmatch(word):
            named += filter(None, match.groups())
    known = shell.state.files
    for path in named:
        whole = call.paths.resolve(path)
        written = whole in known and call.program in _COMMANDED
        if written or whole.startswith("/dev/fd/") or ("/" in path and call.paths.is_foreign(path)):
            shell.report("load-code", call.source)


#: Of these, files that this command line wrote are not judged in any other way.
_COMMANDED = names("ssh scp sftp mutt gdb lldb vim nvim vi gvim tmux lftp screen less emacs curl")


def _fed(shell: Shell, call: Call) -> Call:
    """The call with the input that the commands among its options get: a file's parts, or the members of an archive."""
    if call.program in ("split", "gsplit"):
        files = read_options(call.args, "nblCa").operands[:1]
        flow = shell.content_of(files[0]) if files and files[0] != "-" else call.stdin
    elif call.program in ("tar", "gtar") and any(word.startswith("--to-c") for word in call.args):
        flow = PROGRAM
    else:
        return call
    return Call(call.words, call.source, call.paths, flow, call.writes)


def run_options(shell: Shell, call: Call) -> None:
    """Judge every command line among the options."""
    texts = texts_among(call)
    fed = _fed(shell, call) if texts else call
    for text in texts:
        with shell.subshell(by_option=True):
            run_text(shell, fed, text)
    for text in _escapes(call):
        shell.report("inline-code", call.source)
        run_text(shell, call, text)
    if call.program == "git":
        _git(shell, call)
    run_project_files(shell, call)
    _check_code_files(shell, call)
    if call.program in _REMOTE_RUNNERS:
        _remote(shell, call)
    if call.stdin.text:
        _typed(shell, call, call.stdin.text)
    for word in call.args if call.program in _LINE_RUNNERS else ():
        if " " in word:
            run_text(shell, call, word)


_STATEMENT_FILES = names("psql cqlsh sqlcmd")


def read_statements(shell: Shell, call: Call) -> None:
    """Read the file of statements that a database client is given, so that the rules see them."""
    if call.program not in _STATEMENT_FILES:
        return
    for path in call.values("fi", "file", "input-file"):
        script = shell.script_at(path)
        text = shell.content_of(path).text if script is None else script.text if script.is_new else ""
        if text is not None:
            call.read_files |= {path}
            call.stdin = text_flow((call.stdin.text or "") + text)


def _git(shell: Shell, call: Call) -> None:
    """Settings that a call gives git."""
    if (
        any(git_loads(key, value) for key, value in git_settings(call.args))
        or call.values("", "template")
        or any(word.startswith("ext::") for word in call.args)
    ):
        shell.report("load-code", call.source)
    for word in call.args:
        if helper := _CREDENTIAL_HELPER.match(word):
            shell.read_apart(helper.group(1), SECRET_FILE)


#: Programs that run a whole command line given as one word.
_LINE_RUNNERS = names("tmux screen hyperfine concurrently entr xdotool")


def _typed(shell: Shell, call: Call, text: str) -> None:
    """Judge what is typed into an editor that can start a shell, or given to a queue of jobs."""
    if call.program in ("at", "batch"):
        run_flow(shell, call, call.stdin)
    for first, second in _TYPED_ESCAPE.findall(text) if call.program in _EDITORS else ():
        shell.report("inline-code", call.source)
        run_text(shell, call, first or second)


_TYPED_ESCAPE = re.compile(r"^(?:\x1b)?:?!(.+)|^(?:\x1b)?:\s*(?:!|r\s*!|w\s*!|term(?:inal)?\s)(.+)", re.MULTILINE)


def _remote(shell: Shell, call: Call) -> None:
    """Commands for other machines: every word or tail of words that reads like one."""
    for at, word in enumerate(call.args):
        if word.startswith("-"):
            continue
        rest = call.args[at:]
        if " " in word:
            run_text(shell, call, word)
        elif len(rest) > 1 or word in ("reboot", "poweroff", "halt", "shutdown"):
            with shell.subshell(contained=True):
                if shell.findings_of(rest, Call(rest, call.source, call.paths)).any:
                    shell.report("wrapped-command", call.source)
                    return
